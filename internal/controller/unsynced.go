// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/identity"
)

// Unsynced returns the outcome of an object while the controller changes nothing because of an error: the cluster's
// interfaces are not known, or the cluster has another name in tags of EC2.
func Unsynced(err error) status.Outcome {
	if other := (*identity.OtherNameError)(nil); errors.As(err, &other) {
		return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonOtherClusterName, Message: other.Error()}
	}
	return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonUnreadable, Message: fmt.Sprintf(
		"the controller cannot read the cluster's interfaces, so it changes nothing: %v; see docs/troubleshooting.md#"+
			"ec2-does-not-answer. The controller tries again within a minute", err)}
}

// UnsyncedConditions returns the conditions for the outcome, with the previous conditions that it says nothing about.
func UnsyncedConditions(previous []metav1.Condition, generation int64, o status.Outcome) []metav1.Condition {
	others := slices.DeleteFunc(slices.Clone(previous), func(c metav1.Condition) bool {
		return slices.Contains([]string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled},
			c.Type)
	})
	return status.Summarize(previous, generation, o, others...)
}
