// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// describeBucket is the bucket of every read, provided that the request has a filter or pages.
var describeBucket = Bucket{Capacity: 100, Refill: 20}

// DocumentedBuckets returns the default sizes of the buckets by action (EC2 developer guide, "Request throttling for
// the Amazon EC2 API"). Other reads have a capacity of 100 requests and a refill of 20 per second.
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
		"GetSubnetCidrReservations":       {Capacity: 5, Refill: 1},
		"DeleteTags":                      {Capacity: 100, Refill: 10},
		"CreateSubnetCidrReservation":     {Capacity: 5, Refill: 1},
		"DeleteSubnetCidrReservation":     {Capacity: 5, Refill: 1},
		"DescribeImages":                  describeBucket,
		"DescribeLaunchTemplates":         describeBucket,
		"DescribeFleets":                  describeBucket,
		"DescribeSpotFleetRequests":       describeBucket,
		"DescribeLaunchTemplateVersions":  describeBucket,
		"CreateLaunchTemplate":            mutating,
		"DeleteLaunchTemplate":            mutating,
		"DeleteLaunchTemplateVersions":    mutating,
		"CreateLaunchTemplateVersion":     {Capacity: 100, Refill: 5},
		"RunInstances":                    {Capacity: 5, Refill: 2},
	}
}

// pacing delays requests so that EC2 does not throttle them, and sends them in the order of their priority.
type pacing struct {
	spenders      map[string]*actionLimiter
	allowMutation func() error
	observe       Observer
}

func newPacing(o Options) *pacing {
	all := DocumentedBuckets()
	maps.Copy(all, o.Buckets)
	p := &pacing{spenders: map[string]*actionLimiter{}, allowMutation: o.AllowMutation, observe: o.Observe}
	for action, bucket := range all {
		p.spenders[action] = newSpender(action, bucket, cmp.Or(o.Share, ratelimit.InitialShare))
	}
	return p
}

// Buckets returns the states of the buckets, ordered by action.
func (c *Client) Buckets() []BucketState {
	var all []BucketState
	for _, action := range slices.Sorted(maps.Keys(c.pacing.spenders)) {
		all = append(all, c.pacing.spenders[action].state())
	}
	return all
}

const pacingID = "multieni:Pacing"

// middleware makes every attempt, retries included, wait for a token, and observes its result.
func (p *pacing) middleware() middleware.FinalizeMiddleware {
	return middleware.FinalizeMiddlewareFunc(pacingID, func(
		ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
	) (out middleware.FinalizeOutput, metadata middleware.Metadata, err error) {
		call := Call{Action: awsmiddleware.GetOperationName(ctx), Priority: ratelimit.FromContext(ctx).Rank.Class}
		begun := time.Now()
		spender := p.spenders[call.Action]
		if err := p.admit(ctx, spender); err != nil {
			return out, metadata, err
		}
		sentAt := time.Now()
		call.Waited = sentAt.Sub(begun)
		trace.SpanFromContext(ctx).SetAttributes(attribute.Float64("multieni.waited_seconds", call.Waited.Seconds()))
		spender.onRequest()
		out, metadata, err = next.HandleFinalize(ctx, in)
		call.Duration = time.Since(sentAt)
		call.Ahead, call.Dated = awsmiddleware.GetAttemptSkew(metadata)
		if err != nil {
			fault := asAPIError(err)
			call.Class, call.Code = fault.Class, fault.Code
		}
		spender.onResponse(sentAt, call.Class)
		if p.observe != nil {
			p.observe(call)
		}
		return out, metadata, err
	})
}

// admit returns when a request may be sent.
func (p *pacing) admit(ctx context.Context, s *actionLimiter) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	if p.allowMutation == nil || IsRead(s.action) {
		return nil
	}
	if err := p.allowMutation(); err != nil {
		return &eni.APIError{Class: eni.Transient, Operation: s.action, Err: fmt.Errorf("not sent: %w", err)}
	}
	return nil
}

// IsRead reports whether an action of EC2 changes nothing, by EC2's naming convention. Every other action needs the
// permission of the fence.
func IsRead(action string) bool {
	return strings.HasPrefix(action, "Describe") || strings.HasPrefix(action, "Get")
}
