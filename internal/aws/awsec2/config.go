// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
)

const (
	// requestTimeout bounds one request. The slowest answers of EC2 are pages of a thousand interfaces.
	requestTimeout = 30 * time.Second
	// metadataTimeout bounds a request to instance metadata, which does not answer outside of EC2, or in a pod if the hop
	// limit of the instance is too low.
	metadataTimeout = time.Second
	// metadataTotalTimeout is the bound for a retried read if there is no other source, for example while an instance
	// boots.
	metadataTotalTimeout = 5 * time.Second
)

// DefaultRegion is the assumed region of a cluster without any other source.
const DefaultRegion = "us-west-2"

// RegionSource is the source of a region.
type RegionSource string

// The sources of a region, in their order.
const (
	RegionFromFlag RegionSource = "flag"
	// RegionFromConfig is the SDK's configuration: AWS_REGION, AWS_DEFAULT_REGION, or the profile.
	RegionFromConfig   RegionSource = "configuration"
	RegionFromMetadata RegionSource = "instance metadata"
	RegionFromNodes    RegionSource = "node labels"
	// RegionByDefault means that no source has the region; callers warn about it.
	RegionByDefault RegionSource = "default"
)

// ErrNoRegion means that no source has the region.
var ErrNoRegion = errors.New("the AWS region is unknown: set --region or AWS_REGION, or a region in the " +
	"AWS profile; " +
	"instance metadata did not return it either, which it does on EC2 unless it is disabled or " +
	"AWS_EC2_METADATA_DISABLED is set")

// Region finds the region. Its error is [ErrNoRegion] if no source has it. Instance metadata is not used if
// AWS_EC2_METADATA_DISABLED is set.
func Region(ctx context.Context, flag string) (string, error) {
	region, _, err := toldRegion(ctx, flag, metadataTotalTimeout)
	if err == nil && region == "" {
		err = ErrNoRegion
	}
	return region, err
}

// ClusterRegion finds the region of a cluster. The nodes are the last source, because they need an API server;
// fromNodes returns "" if they do not have it. Without any source it is [DefaultRegion].
func ClusterRegion(ctx context.Context, flag string, fromNodes func() string) (string, RegionSource, error) {
	region, source, err := toldRegion(ctx, flag, metadataTimeout)
	if err != nil || region != "" {
		return region, source, err
	}
	if region := fromNodes(); region != "" {
		return region, RegionFromNodes, nil
	}
	return DefaultRegion, RegionByDefault, nil
}

// toldRegion returns the region of the flag, the configuration or the instance; "" if none has it.
func toldRegion(ctx context.Context, flag string, metadata time.Duration) (string, RegionSource, error) {
	if flag != "" {
		return flag, RegionFromFlag, nil
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{})) // the result tells if metadata answers
	if err != nil {
		return "", "", fmt.Errorf("load the AWS configuration from the environment and the profile: %w", err)
	}
	if cfg.Region != "" {
		return cfg.Region, RegionFromConfig, nil
	}
	return metadataRegion(ctx, cfg, metadata), RegionFromMetadata, nil
}

// metadataRegion returns "" if instance metadata, version 2, does not answer in time.
func metadataRegion(ctx context.Context, cfg aws.Config, within time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	out, err := imds.NewFromConfig(cfg, func(o *imds.Options) {
		o.EnableFallback = aws.FalseTernary
	}).GetRegion(ctx, &imds.GetRegionInput{})
	if err != nil {
		return ""
	}
	return out.Region
}

// Load returns the AWS configuration for the region: credentials by the SDK's whole chain (environment, profile, web
// identity, Pod Identity, instance profile), the endpoint of AWS_ENDPOINT_URL or AWS_ENDPOINT_URL_EC2 if set, and a
// user agent with the name and version of the program. Clients with this configuration refuse a response that is not
// the service's answer, and the SDK's log goes to the given one. Load sends no request.
func Load(ctx context.Context, region, version string, log *slog.Logger) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithRegion(region),
		config.WithLogger(sdkLog(log)),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(requestTimeout)),
		config.WithAPIOptions([]func(*middleware.Stack) error{
			awsmiddleware.AddUserAgentKeyValue("multieni", version), checkAnswers,
		}))
	if err != nil {
		return aws.Config{}, fmt.Errorf("load the AWS configuration for region %s: %w", region, err)
	}
	return cfg, nil
}
