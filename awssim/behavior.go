// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"time"

	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/sqs"
)

// ServiceBehavior has the durations of the services around EC2, and their behavior where AWS documents none.
type ServiceBehavior struct {
	AutoScaling autoscaling.Behavior
	SQS         sqs.Behavior
	// Delivery is the time from an event until EventBridge has delivered it to a target.
	Delivery ec2.Latency
}

// DefaultServiceBehavior takes about the time that AWS takes (estimates: EventBridge promises nothing, and Auto Scaling
// documents only that it checks "periodically").
func DefaultServiceBehavior() ServiceBehavior {
	return ServiceBehavior{
		AutoScaling: autoscaling.Behavior{Hook: 2 * time.Second, Replace: 15 * time.Second},
		Delivery:    ec2.Latency{Min: 200 * time.Millisecond, Max: time.Second, Tail: 30 * time.Second, TailShare: 0.01},
	}
}
