// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go/middleware"

	"github.com/multieni/multieni/internal/core/eni"
)

const (
	// batchDelay is how long a read waits for others that it can share a call with, and window the least time between two calls
	// that could be shared: one read waits for nothing, and many make few calls.
	batchDelay = 5 * time.Millisecond
	window     = 100 * time.Millisecond
	// readAttempts is how often the SDK tries a read before it gives up.
	readAttempts = 3
	// throttledAttempts is how often a change is tried that EC2 refuses for its rate.
	throttledAttempts = 5
)

// Options are the settings of a Client.
type Options struct {
	// Cluster is the cluster's name in ownership tags.
	Cluster string
	// Buckets replace the sizes of [DocumentedBuckets], action by action, for accounts whose limits differ.
	Buckets map[string]Bucket
	// Share is the part of every bucket to use at first, before it shows whether others use it; 0 means [pace.Begin].
	Share float64
	// AllowMutation is asked before every mutating request, after its turn has come; an error keeps it from being sent. It may
	// be nil.
	AllowMutation func() error
	// Observe is told of every request; it may be nil.
	Observe Observer
}

// Client reads and changes EC2. It is safe for concurrent use.
type Client struct {
	api      API
	launches LaunchAPI
	cluster  string
	looks    *batcher[eni.InstanceSnapshot]
	types    *typeCache
	pacing   *pacing
}

// New returns a Client that works with the configuration's region, credentials and HTTP client.
func New(cfg aws.Config, options Options) *Client {
	pacing := newPacing(options)
	api := ec2.NewFromConfig(cfg, func(o *ec2.Options) {
		o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) { s.MaxAttempts = readAttempts })
		o.APIOptions = append(o.APIOptions, checkAnswers, func(stack *middleware.Stack) error {
			if err := stack.Finalize.Insert(pacing.middleware(), "Retry", middleware.After); err != nil {
				return err
			}
			return stack.Finalize.Insert(tracing(), pacingID, middleware.Before)
		})
	})
	c := &Client{api: api, launches: api, cluster: options.Cluster, pacing: pacing}
	c.looks = newCoalescer(describeBatchSize, c.describeInstances)
	c.types = newTypeCache(c.describeTypes)
	return c
}

// noRetry makes a call a single attempt, as far as anybody can tell: only one that EC2 refused for its rate, which has done
// nothing, is made again.
func noRetry(o *ec2.Options) {
	o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) {
		s.MaxAttempts = throttledAttempts
		s.Retryables = []retry.IsErrorRetryable{retry.RetryableErrorCode{Codes: retry.DefaultThrottleErrorCodes}}
		// The pacing says when.
		s.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		s.RateLimiter = ratelimit.None
	})
}
