// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/lifecyclehook"
)

// answering is an Auto Scaling that answers completions of lifecycle actions with an error.
type answering struct {
	lifecyclehook.ScalingAPI
	err error
}

func (a answering) CompleteLifecycleAction(context.Context, *autoscaling.CompleteLifecycleActionInput, ...func(*autoscaling.Options)) (*autoscaling.CompleteLifecycleActionOutput, error) {
	return nil, a.err
}

func TestWhatIsCompletedAlreadyIsSuccess(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		done bool
	}{
		"completed before": {&smithy.GenericAPIError{Code: "ValidationError", Message: "No active Lifecycle Action found with instance ID i-1"}, true},
		"no such group":    {&smithy.GenericAPIError{Code: "ValidationError", Message: "AutoScalingGroup name not found"}, false},
		"throttled":        {&smithy.GenericAPIError{Code: "Throttling", Message: "Rate exceeded"}, false},
		"no answer":        {errors.New("connection reset"), false},
	} {
		t.Run(name, func(t *testing.T) {
			err := lifecyclehook.Scaling{API: answering{err: tc.err}}.Complete(t.Context(), lifecycle.HookRef{Group: "g", Name: "h"}, "i-1", lifecycle.Continue)
			if (err == nil) != tc.done {
				t.Error(err)
			}
		})
	}
}

// showing is an Auto Scaling with one instance in a state, in a group with a launch hook and a termination hook.
type showing struct {
	lifecyclehook.ScalingAPI
	state string
}

func (s showing) DescribeAutoScalingInstances(context.Context, *autoscaling.DescribeAutoScalingInstancesInput, ...func(*autoscaling.Options)) (*autoscaling.DescribeAutoScalingInstancesOutput, error) {
	return &autoscaling.DescribeAutoScalingInstancesOutput{AutoScalingInstances: []types.AutoScalingInstanceDetails{
		{AutoScalingGroupName: aws.String("g"), LifecycleState: &s.state},
	}}, nil
}

func (s showing) DescribeLifecycleHooks(context.Context, *autoscaling.DescribeLifecycleHooksInput, ...func(*autoscaling.Options)) (*autoscaling.DescribeLifecycleHooksOutput, error) {
	return &autoscaling.DescribeLifecycleHooksOutput{LifecycleHooks: []types.LifecycleHook{
		{LifecycleHookName: aws.String("launch"), LifecycleTransition: aws.String("autoscaling:EC2_INSTANCE_LAUNCHING")},
		{LifecycleHookName: aws.String("end"), LifecycleTransition: aws.String("autoscaling:EC2_INSTANCE_TERMINATING")},
	}}, nil
}

func TestAnInstanceWaitsInTheHooksOfItsGroup(t *testing.T) {
	launch, end := []lifecycle.HookRef{{Group: "g", Name: "launch"}}, []lifecycle.HookRef{{Group: "g", Name: "end"}}
	for state, want := range map[string]struct{ launching, terminating []lifecycle.HookRef }{
		"Pending:Wait": {launch, nil}, "Warmed:Pending:Wait": {launch, nil}, "Pending:Proceed": {}, "InService": {}, "Warmed:Stopped": {},
		"Terminating": {nil, end}, "Terminating:Wait": {nil, end}, "Warmed:Terminating:Wait": {nil, end},
	} {
		t.Run(state, func(t *testing.T) {
			scaling := lifecyclehook.Scaling{API: showing{state: state}}
			for kind, want := range map[lifecycle.Kind][]lifecycle.HookRef{lifecycle.Launching: want.launching, lifecycle.Terminating: want.terminating} {
				got, err := scaling.Waiting(t.Context(), "i-1", kind)
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%s: %v (-want +got):\n%s", kind, err, diff)
				}
			}
		})
	}
}
