// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/smithy-go"

	"github.com/multieni/multieni/internal/lifecyclehook"
	"github.com/multieni/multieni/lifecycle"
)

// answering completes lifecycle actions with an error.
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
