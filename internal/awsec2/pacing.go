// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"fmt"
	"maps"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	"golang.org/x/time/rate"

	"github.com/multieni/multieni/eni"
)

// Bucket is a token bucket of EC2, which has one per account, region and action.
type Bucket struct {
	// Capacity is how many requests can be made at once.
	Capacity int
	// Refill is how many requests a second are given back.
	Refill float64
}

// DefaultShare is the part of every bucket that is used unless told otherwise. The rest is for whoever else works in
// the account, above all the VPC CNI, which spends the same buckets.
const DefaultShare = 0.7

// describeBucket is the bucket of every action that only reads, provided that the request has a filter or pages.
var describeBucket = Bucket{Capacity: 100, Refill: 20}

// DocumentedBuckets returns the default sizes of the buckets by action (EC2 developer guide, "Request throttling for the
// Amazon EC2 API"). All actions that only read and are not listed have 100 requests and 20 more per second.
func DocumentedBuckets() map[string]Bucket {
	interfaces := Bucket{Capacity: 100, Refill: 5}
	mutating := Bucket{Capacity: 50, Refill: 5}
	return map[string]Bucket{
		"CreateNetworkInterface":          interfaces,
		"DeleteNetworkInterface":          interfaces,
		"ModifyNetworkInterfaceAttribute": interfaces,
		"AssignPrivateIpAddresses":        interfaces,
		"UnassignPrivateIpAddresses":      interfaces,
		"AssignIpv6Addresses":             interfaces,
		"UnassignIpv6Addresses":           mutating,
		"AttachNetworkInterface":          mutating,
		"DetachNetworkInterface":          mutating,
		"CreateTags":                      {Capacity: 100, Refill: 10},
		"DescribeInstances":               describeBucket,
		"DescribeInstanceTypes":           describeBucket,
		"DescribeNetworkInterfaces":       describeBucket,
		"DescribeSecurityGroups":          describeBucket,
		"DescribeSubnets":                 describeBucket,
		"DescribeImages":                  describeBucket,
		"DescribeLaunchTemplates":         describeBucket,
		"DescribeLaunchTemplateVersions":  describeBucket,
		"CreateLaunchTemplate":            mutating,
		"DeleteLaunchTemplate":            mutating,
		"DeleteLaunchTemplateVersions":    mutating,
		"CreateLaunchTemplateVersion":     {Capacity: 100, Refill: 5},
		"RunInstances":                    {Capacity: 5, Refill: 2},
	}
}

// pacing holds requests back so that EC2 need not refuse them.
type pacing struct {
	limiters map[string]*rate.Limiter
	permit   func() error
}

func newPacing(buckets map[string]Bucket, share float64) *pacing {
	if share == 0 {
		share = DefaultShare
	}
	all := DocumentedBuckets()
	maps.Copy(all, buckets)
	p := &pacing{limiters: map[string]*rate.Limiter{}, permit: func() error { return nil }}
	for action, bucket := range all {
		p.limiters[action] = rate.NewLimiter(rate.Limit(bucket.Refill*share), max(1, int(float64(bucket.Capacity)*share)))
	}
	return p
}

// wait returns when the action may be requested, or the error of a context that ends before.
func (p *pacing) wait(ctx context.Context, action string) error {
	limiter, known := p.limiters[action]
	if !known {
		return nil
	}
	err := limiter.Wait(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("wait for the request rate of %s: %w", action, context.Cause(ctx))
	default:
		return &eni.Fault{
			Class: eni.Throttled, Operation: action,
			Err: fmt.Errorf("not sent, since its turn comes after the deadline: %w", err),
		}
	}
}

const pacingID = "multieni:Pacing"

func (p *pacing) middleware() middleware.FinalizeMiddleware {
	return middleware.FinalizeMiddlewareFunc(pacingID, func(
		ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
	) (middleware.FinalizeOutput, middleware.Metadata, error) {
		action := awsmiddleware.GetOperationName(ctx)
		if err := p.wait(ctx, action); err != nil {
			return middleware.FinalizeOutput{}, middleware.Metadata{}, err
		}
		if !strings.HasPrefix(action, "Describe") {
			if err := p.permit(); err != nil {
				return middleware.FinalizeOutput{}, middleware.Metadata{}, &eni.Fault{
					Class: eni.Transient, Operation: action, Err: fmt.Errorf("not sent: %w", err),
				}
			}
		}
		return next.HandleFinalize(ctx, in)
	})
}
