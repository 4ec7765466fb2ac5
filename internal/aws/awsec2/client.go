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
	// batchDelay is how long a read waits for others that can share its call. window is the least time between two calls
	// that could be shared: a single read waits only briefly, and many reads make few calls.
	batchDelay = 5 * time.Millisecond
	window     = 100 * time.Millisecond
	// readAttempts is the SDK's number of attempts for a read.
	readAttempts = 3
	// throttledAttempts is the number of attempts for a change that EC2 throttles.
	throttledAttempts = 5
)

// Options are the settings of a Client.
type Options struct {
	// Cluster is the name of the cluster in ownership tags.
	Cluster string
	// Buckets override [DocumentedBuckets], action by action, for accounts with other limits.
	Buckets map[string]Bucket
	// Share is the share of every bucket at the start, before throttling shows whether others use it; 0 means
	// [ratelimit.InitialShare].
	Share float64
	// AllowMutation is called before every mutating request, after its wait for a token; its error prevents the
	// request. It may be nil.
	AllowMutation func() error
	// Observe receives every request; it may be nil.
	Observe Observer
}

// Client reads and changes EC2. It is safe for concurrent use.
type Client struct {
	api      API
	launches LaunchAPI
	reserves ReservationAPI
	operates OperatorAPI
	cluster  string
	looks    *batcher[eni.InstanceSnapshot]
	types    *typeCache
	pacing   *pacing
}

// New returns a Client that uses the configuration's region, credentials and HTTP client.
func New(cfg aws.Config, options Options) *Client {
	pacing := newPacing(options)
	if cfg.Credentials != nil {
		cfg.Credentials = credentials{cfg.Credentials}
	}
	api := ec2.NewFromConfig(cfg, func(o *ec2.Options) {
		o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) { s.MaxAttempts = readAttempts })
		o.APIOptions = append(o.APIOptions, checkAnswers, func(stack *middleware.Stack) error {
			if err := stack.Finalize.Insert(pacing.middleware(), "Retry", middleware.After); err != nil {
				return err
			}
			return stack.Finalize.Insert(tracing(), pacingID, middleware.Before)
		})
	})
	c := &Client{api: api, launches: api, reserves: api, operates: api, cluster: options.Cluster, pacing: pacing}
	c.looks = newCoalescer(describeBatchSize, c.describeInstances)
	c.types = newTypeCache(c.describeTypes)
	return c
}

// noRetry makes a call a single attempt for its caller and EC2's state: it repeats only a throttled attempt, which had
// no effect.
func noRetry(o *ec2.Options) {
	o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) {
		s.MaxAttempts = throttledAttempts
		s.Retryables = []retry.IsErrorRetryable{retry.RetryableErrorCode{Codes: retry.DefaultThrottleErrorCodes}}
		// The pacing determines the delay.
		s.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		s.RateLimiter = ratelimit.None
	})
}
