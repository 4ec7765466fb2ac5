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
	// requestTimeout is the most one request may take. The slowest answers of EC2 are pages of a thousand interfaces.
	requestTimeout = 30 * time.Second
	// metadataTimeout is the most that instance metadata may take, which nothing answers outside of EC2, or in a pod when
	// the hop limit of the instance forbids it.
	metadataTimeout = time.Second
	// metadataTotalTimeout is the same when nothing else can tell, such as while an instance boots.
	metadataTotalTimeout = 5 * time.Second
)

// DefaultRegion is where a cluster is taken to be when nothing says otherwise.
const DefaultRegion = "us-west-2"

// RegionSource says what a region was taken from.
type RegionSource string

// The sources of a region, in the order in which they are asked.
const (
	RegionFromFlag RegionSource = "flag"
	// RegionFromConfig is the SDK's configuration: AWS_REGION, AWS_DEFAULT_REGION, or the profile.
	RegionFromConfig   RegionSource = "configuration"
	RegionFromMetadata RegionSource = "instance metadata"
	RegionFromNodes    RegionSource = "node labels"
	// RegionByDefault means that nothing said which region is meant: warn.
	RegionByDefault RegionSource = "default"
)

// ErrNoRegion says that nothing tells which region is meant.
var ErrNoRegion = errors.New("nothing says which AWS region is meant: set --region or AWS_REGION, or a region in the AWS profile; " +
	"instance metadata did not tell either, which it does on EC2 unless it is disabled or AWS_EC2_METADATA_DISABLED is set")

// Region finds out the region to work in. Its error is [ErrNoRegion] when nothing tells it. Instance metadata is not asked
// when AWS_EC2_METADATA_DISABLED is set.
func Region(ctx context.Context, flag string) (string, error) {
	region, _, err := toldRegion(ctx, flag, metadataTotalTimeout)
	if err == nil && region == "" {
		err = ErrNoRegion
	}
	return region, err
}

// ClusterRegion finds out the region of a cluster. The nodes are asked last, since that takes an API server; fromNodes
// returns "" when they do not say. Then it is [DefaultRegion].
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

// toldRegion returns the region that the flag, the configuration or the instance tells, "" if none does.
func toldRegion(ctx context.Context, flag string, metadata time.Duration) (string, RegionSource, error) {
	if flag != "" {
		return flag, RegionFromFlag, nil
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{})) // whether metadata answers is the answer
	if err != nil {
		return "", "", fmt.Errorf("load the AWS configuration from the environment and the profile: %w", err)
	}
	if cfg.Region != "" {
		return cfg.Region, RegionFromConfig, nil
	}
	return metadataRegion(ctx, cfg, metadata), RegionFromMetadata, nil
}

// metadataRegion returns "" when instance metadata, version 2, does not answer in time, for whatever reason.
func metadataRegion(ctx context.Context, cfg aws.Config, within time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	out, err := imds.NewFromConfig(cfg, func(o *imds.Options) { o.EnableFallback = aws.FalseTernary }).GetRegion(ctx, &imds.GetRegionInput{})
	if err != nil {
		return ""
	}
	return out.Region
}

// Load returns the AWS configuration for the region: credentials by the SDK's whole chain (environment, profile, web
// identity, Pod Identity, instance profile), the endpoint of AWS_ENDPOINT_URL or AWS_ENDPOINT_URL_EC2 if set, and a user
// agent that names the program and its version. The clients of all services that are made of it refuse an answer that is
// none of the service's, and what the SDK has to remark goes to the log. Nothing is requested yet.
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
