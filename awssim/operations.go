// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"fmt"
	"time"

	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/sqs"
	"github.com/multieni/multieni/awssim/ssm"
)

// operation is an action of a service.
type operation struct {
	name       string
	isMutating bool
	newInput   func() any
	do         func(*account, time.Time, any) (any, error)
	// longPoll returns how long a request may wait for data; nil for most actions. Such a request is retried until it is
	// done.
	longPoll func(*account, any) time.Duration
	isDone   func(output any) bool
}

// ec2Operations are those of EC2.
func ec2Operations() []operation {
	var all []operation
	for _, o := range ec2.Operations() {
		all = append(all, operation{
			name: o.Name, isMutating: o.IsMutating, newInput: o.NewInput,
			do: func(a *account, now time.Time, input any) (any, error) { return o.Do(a.ec2, ec2.Call{Now: now}, input) },
		})
	}
	return all
}

func autoScalingOperations() []operation {
	model := func(a *account) *autoscaling.Model { return a.autoScaling }
	return []operation{
		of(model, "CompleteLifecycleAction", (*autoscaling.Model).CompleteLifecycleAction),
		of(model, "CreateAutoScalingGroup", (*autoscaling.Model).CreateAutoScalingGroup),
		of(model, "CreateOrUpdateTags", (*autoscaling.Model).CreateOrUpdateTags),
		of(model, "DeleteAutoScalingGroup", (*autoscaling.Model).DeleteAutoScalingGroup),
		of(model, "DeleteLifecycleHook", (*autoscaling.Model).DeleteLifecycleHook),
		of(model, "DescribeAutoScalingGroups", (*autoscaling.Model).DescribeAutoScalingGroups),
		of(model, "DescribeAutoScalingInstances", (*autoscaling.Model).DescribeAutoScalingInstances),
		of(model, "DescribeLifecycleHooks", (*autoscaling.Model).DescribeLifecycleHooks),
		of(model, "DescribeScalingActivities", (*autoscaling.Model).DescribeScalingActivities),
		of(model, "PutLifecycleHook", (*autoscaling.Model).PutLifecycleHook),
		of(model, "RecordLifecycleActionHeartbeat", (*autoscaling.Model).RecordLifecycleActionHeartbeat),
		of(model, "SetDesiredCapacity", (*autoscaling.Model).SetDesiredCapacity),
		of(model, "TerminateInstanceInAutoScalingGroup", (*autoscaling.Model).TerminateInstanceInAutoScalingGroup),
		of(model, "UpdateAutoScalingGroup", (*autoscaling.Model).UpdateAutoScalingGroup),
	}
}

func sqsOperations() []operation {
	model := func(a *account) *sqs.Model { return a.sqs }
	return []operation{
		of(model, "ChangeMessageVisibility", (*sqs.Model).ChangeMessageVisibility),
		of(model, "ChangeMessageVisibilityBatch", (*sqs.Model).ChangeMessageVisibilityBatch),
		of(model, "CreateQueue", (*sqs.Model).CreateQueue),
		of(model, "DeleteMessage", (*sqs.Model).DeleteMessage),
		of(model, "DeleteMessageBatch", (*sqs.Model).DeleteMessageBatch),
		of(model, "DeleteQueue", (*sqs.Model).DeleteQueue),
		of(model, "GetQueueAttributes", (*sqs.Model).GetQueueAttributes),
		of(model, "GetQueueUrl", (*sqs.Model).GetQueueURL),
		of(model, "ListQueues", (*sqs.Model).ListQueues),
		of(model, "PurgeQueue", (*sqs.Model).PurgeQueue),
		polled(of(model, actionReceiveMessage, (*sqs.Model).ReceiveMessage)),
		of(model, "SendMessage", (*sqs.Model).SendMessage),
		of(model, "SendMessageBatch", (*sqs.Model).SendMessageBatch),
		of(model, "SetQueueAttributes", (*sqs.Model).SetQueueAttributes),
	}
}

const actionReceiveMessage = "ReceiveMessage"

// polled makes ReceiveMessage wait for a message.
func polled(o operation) operation {
	o.longPoll = func(a *account, input any) time.Duration {
		in, _ := input.(*sqs.ReceiveMessageInput)
		return a.sqs.Wait(in)
	}
	o.isDone = func(output any) bool {
		out, _ := output.(*sqs.ReceiveMessageOutput)
		return len(out.Messages) > 0
	}
	return o
}

func eventOperations() []operation {
	model := func(a *account) *events.Bus { return a.bus }
	return []operation{
		of(model, "DeleteRule", (*events.Bus).DeleteRule),
		of(model, "DescribeRule", (*events.Bus).DescribeRule),
		of(model, "DisableRule", (*events.Bus).DisableRule),
		of(model, "EnableRule", (*events.Bus).EnableRule),
		of(model, "ListRules", (*events.Bus).ListRules),
		of(model, "ListTargetsByRule", (*events.Bus).ListTargetsByRule),
		of(model, "PutEvents", (*events.Bus).PutEvents),
		of(model, "PutRule", (*events.Bus).PutRule),
		of(model, "PutTargets", (*events.Bus).PutTargets),
		of(model, "RemoveTargets", (*events.Bus).RemoveTargets),
	}
}

func parameterOperations() []operation {
	model := func(a *account) *ssm.Model { return a.ssm }
	return []operation{
		of(model, "GetParameter", (*ssm.Model).GetParameter),
		of(model, "GetParameters", (*ssm.Model).GetParameters),
		of(model, "PutParameter", (*ssm.Model).PutParameter),
	}
}

// of returns a method of a service's model as an operation.
func of[M, I, O any](model func(*account) M, name string, do func(M, *I) (*O, error)) operation {
	return operation{
		name:     name,
		newInput: func() any { return new(I) },
		do: func(a *account, now time.Time, input any) (any, error) {
			in, ok := input.(*I)
			if !ok {
				return nil, fmt.Errorf("%s: the input is a %T", name, input)
			}
			a.advance(now)
			out, err := do(model(a), in)
			if err != nil {
				return nil, err
			}
			// Events that the call planned for now happen now, and not only at the next call.
			a.advance(now)
			return out, nil
		},
	}
}
