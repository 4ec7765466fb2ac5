// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"time"

	"github.com/multieni/multieni/awssim"
)

// Buckets are EC2's token buckets by action.
type Buckets map[string]awssim.Bucket

// Documented returns the buckets of an account without raised limits (EC2 developer guide, "Request throttling").
func Documented() Buckets { return awssim.DocumentedLimits() }

// Left returns the rest of the buckets while others use a part of each refill. A bucket is full at the start if they
// use less than its refill.
func (b Buckets) Left(taken float64) Buckets {
	left := Buckets{}
	for action, bucket := range b {
		left[action] = awssim.Bucket{Capacity: bucket.Capacity, Refill: bucket.Refill * (1 - taken)}
	}
	return left
}

// Takes is the least time for n calls of an action: the bucket is full at first, and then each call waits for a token.
func (b Buckets) Takes(action string, n int) time.Duration {
	bucket := b[action]
	if n <= bucket.Capacity {
		return 0
	}
	return time.Duration(float64(n-bucket.Capacity) / bucket.Refill * float64(time.Second))
}

// Attaching is the least time to give nodes n interfaces. Each action has a bucket of its own, so the calls overlap and
// the slowest action decides.
func (b Buckets) Attaching(n int) time.Duration {
	return max(b.Takes("CreateNetworkInterface", n), b.Takes("AttachNetworkInterface", n),
		b.Takes("ModifyNetworkInterfaceAttribute", n))
}

// Removing is the least time to remove n interfaces from nodes that continue to run.
func (b Buckets) Removing(n int) time.Duration {
	return max(b.Takes("DetachNetworkInterface", n), b.Takes("DeleteNetworkInterface", n))
}
