// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// TestThrottling empties the smallest bucket, that of RunInstances with 5 requests and 2 more a second, with dry runs.
func TestThrottling(t *testing.T) {
	ec := openWith(t, simulator{speed: 1})
	oneAttempt := func(o *ec2.Options) { o.Retryer = aws.NopRetryer{} }
	verify(t, ec, []check{
		{name: "a burst beyond the bucket is RequestLimitExceeded, with status 503", strict: true, run: func(t *testing.T, ec *endpoint) {
			const burst = 20
			results := make(chan error, burst)
			for range burst {
				go func() {
					_, err := ec.RunInstances(t.Context(), ec.request(func(in *runInput) { in.DryRun = aws.Bool(true) }), oneAttempt)
					results <- err
				}()
			}
			throttled := 0
			for range burst {
				switch err := <-results; codeOf(err) {
				case "DryRunOperation":
				case "RequestLimitExceeded":
					throttled++
					if statusOf(err) != http.StatusServiceUnavailable {
						t.Errorf("status %d, want 503", statusOf(err))
					}
				default:
					t.Errorf("got %v", err)
				}
			}
			if throttled == 0 || ec.simulated && throttled < 10 {
				t.Errorf("%d of %d requests throttled", throttled, burst)
			}
		}},
		{name: "every action has a bucket of its own", strict: true, run: func(t *testing.T, ec *endpoint) {
			_, err := ec.CreateNetworkInterface(t.Context(), &createInput{
				SubnetId: ec.subnet.SubnetId, DryRun: aws.Bool(true),
			}, oneAttempt)
			expectRefusal(t, "DryRunOperation", err)
		}},
	})
}
