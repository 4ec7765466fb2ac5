// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go/middleware"

	"github.com/multieni/multieni/eni"
)

const (
	// window is how long a read waits for others that it can share a call with.
	window = 100 * time.Millisecond
	// readAttempts is how often the SDK tries a read before it gives up.
	readAttempts = 3
)

// Options are the settings of a Client.
type Options struct {
	// Cluster is the cluster's name in ownership tags.
	Cluster string
	// Buckets replace the sizes of [DocumentedBuckets], action by action, for accounts whose limits differ.
	Buckets map[string]Bucket
	// Share is the part of every bucket to use; 0 means [DefaultShare].
	Share float64
	// Permit is asked before every mutating request, after its turn has come; an error keeps it from being sent. It may
	// be nil.
	Permit func() error
	// Observe is told of every request; it may be nil.
	Observe Observer
}

// Client reads and changes EC2. It is safe for concurrent use.
type Client struct {
	api      API
	launches LaunchAPI
	cluster  string
	looks    *coalescer[eni.Look]
	types    *typeCache
}

// New returns a Client that works with the configuration's region, credentials and HTTP client.
func New(cfg aws.Config, options Options) *Client {
	pace := newPacing(options.Buckets, options.Share)
	if options.Permit != nil {
		pace.permit = options.Permit
	}
	observe := options.Observe
	if observe == nil {
		observe = func(Call) {}
	}
	api := ec2.NewFromConfig(cfg, func(o *ec2.Options) {
		o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) { s.MaxAttempts = readAttempts })
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error { return perAttempt(stack, pace, observe) })
	})
	c := &Client{api: api, launches: api, cluster: options.Cluster}
	c.looks = newCoalescer(lookBatch, c.lookAt)
	c.types = newTypeCache(c.describeTypes)
	return c
}

// perAttempt makes every attempt at a request, retries included, wait for its turn and be reported.
func perAttempt(stack *middleware.Stack, pace *pacing, observe Observer) error {
	if err := stack.Finalize.Insert(pace.middleware(), "Retry", middleware.After); err != nil {
		return err
	}
	return stack.Finalize.Insert(observe.middleware(), pacingID, middleware.After)
}

// once makes a call a single attempt.
func once(o *ec2.Options) { o.Retryer = aws.NopRetryer{} }
