// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/smithy-go"

	"github.com/multieni/multieni/internal/core/lifecycle"
)

// ScalingAPI is the part of the Auto Scaling API that a Handler calls. Each method is one IAM action of the same name.
type ScalingAPI interface {
	CompleteLifecycleAction(context.Context, *autoscaling.CompleteLifecycleActionInput,
		...func(*autoscaling.Options)) (*autoscaling.CompleteLifecycleActionOutput, error)
	RecordLifecycleActionHeartbeat(context.Context, *autoscaling.RecordLifecycleActionHeartbeatInput,
		...func(*autoscaling.Options)) (*autoscaling.RecordLifecycleActionHeartbeatOutput, error)
	DescribeAutoScalingInstances(context.Context, *autoscaling.DescribeAutoScalingInstancesInput,
		...func(*autoscaling.Options)) (*autoscaling.DescribeAutoScalingInstancesOutput, error)
	DescribeLifecycleHooks(context.Context, *autoscaling.DescribeLifecycleHooksInput,
		...func(*autoscaling.Options)) (*autoscaling.DescribeLifecycleHooksOutput, error)
}

var _ ScalingAPI = (*autoscaling.Client)(nil)

// Scaling implements [AutoScaling] with the Auto Scaling API.
type Scaling struct{ API ScalingAPI }

var _ AutoScaling = Scaling{}

// stage is the state in Auto Scaling of an instance that waits in a hook.
type stage struct {
	// states are prefixes of the instance's lifecycle state.
	states []string
	// transition is the lifecycle transition of the hook.
	transition string
}

// stages are by the kind of the event (Auto Scaling user guide, "Amazon EC2 Auto Scaling instance lifecycle" and
// "Lifecycle state transitions for instances in a warm pool"). Every Terminating state counts, because a terminating
// instance never returns to service.
var stages = map[lifecycle.Kind]stage{
	lifecycle.Launching:   {[]string{"Pending:Wait", "Warmed:Pending:Wait"}, "autoscaling:EC2_INSTANCE_LAUNCHING"},
	lifecycle.Terminating: {[]string{"Terminating", "Warmed:Terminating"}, "autoscaling:EC2_INSTANCE_TERMINATING"},
}

func (s stage) has(state string) bool {
	return slices.ContainsFunc(s.states, func(beginning string) bool { return strings.HasPrefix(state, beginning) })
}

// Complete implements [AutoScaling].
func (s Scaling) Complete(
	ctx context.Context, hook lifecycle.HookRef, instanceID string, result lifecycle.Policy,
) error {
	_, err := s.API.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: &hook.Group, LifecycleHookName: &hook.Name, InstanceId: &instanceID,
		LifecycleActionResult: aws.String(string(result)),
		LifecycleActionToken:  unlessEmpty(hook.Token),
	})
	if err != nil && !isOver(err) {
		return fmt.Errorf("complete hook %s of group %s for instance %s: %w", hook.Name, hook.Group, instanceID, err)
	}
	return nil
}

// Heartbeat implements [AutoScaling].
func (s Scaling) Heartbeat(ctx context.Context, hook lifecycle.HookRef, instanceID string) error {
	_, err := s.API.RecordLifecycleActionHeartbeat(ctx, &autoscaling.RecordLifecycleActionHeartbeatInput{
		AutoScalingGroupName: &hook.Group, LifecycleHookName: &hook.Name, InstanceId: &instanceID,
		LifecycleActionToken: unlessEmpty(hook.Token),
	})
	if err != nil && !isOver(err) {
		return fmt.Errorf("extend hook %s of group %s for instance %s: %w", hook.Name, hook.Group, instanceID, err)
	}
	return nil
}

// Waiting implements [AutoScaling].
func (s Scaling) Waiting(ctx context.Context, instanceID string, kind lifecycle.Kind) ([]lifecycle.HookRef, error) {
	instances, err := s.API.DescribeAutoScalingInstances(ctx,
		&autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: []string{instanceID}})
	if err != nil {
		return nil, fmt.Errorf("read instance %s from Auto Scaling: %w", instanceID, err)
	}
	var waiting []lifecycle.HookRef
	for _, i := range instances.AutoScalingInstances {
		if !stages[kind].has(aws.ToString(i.LifecycleState)) {
			continue
		}
		hooks, err := s.API.DescribeLifecycleHooks(ctx,
			&autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: i.AutoScalingGroupName})
		if err != nil {
			return nil, fmt.Errorf("list the hooks of group %s: %w", aws.ToString(i.AutoScalingGroupName), err)
		}
		for _, hook := range hooks.LifecycleHooks {
			if aws.ToString(hook.LifecycleTransition) == stages[kind].transition {
				waiting = append(waiting, lifecycle.HookRef{Group: aws.ToString(i.AutoScalingGroupName),
					Name: aws.ToString(hook.LifecycleHookName)})
			}
		}
	}
	return waiting, nil
}

// isOver reports whether an error means that a lifecycle action was completed or has timed out. Auto Scaling has no
// error code for that, only this message.
func isOver(err error) bool {
	answer := smithy.APIError(nil)
	return errors.As(err, &answer) && answer.ErrorCode() == "ValidationError" &&
		strings.Contains(strings.ToLower(answer.ErrorMessage()), "no active lifecycle action")
}

func unlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
