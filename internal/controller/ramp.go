// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

const (
	// RampStart is how many nodes a change of a selector may always reach at once.
	RampStart = 50
	// RampPerMinute is how many more nodes are let in per minute while a change ramps up.
	RampPerMinute = 50
)

// Ramp says whether a change from before to after selected nodes is so wide that it ramps up, and from how many.
func Ramp(before, after int32) (from int32, wide bool) {
	from = max(RampStart, 2*before)
	return from, after > from
}

// NextRamp returns the ramp at which a NodeENI goes on whose selector was changed so that it selects some number of nodes; nil when
// that is not far more than it has reached. What an earlier change selects and has not reached yet does not count, so that one
// mistake after the other lets no more nodes in than the first: a ramp that is under way goes on unless it has let in more.
func NextRamp(before v1alpha1.NodeENIStatus, after int32, now time.Time) *v1alpha1.Ramp {
	if before.Ramp == nil {
		return begin(before.Nodes, after, now)
	}
	admitted := int32(Admitted(*before.Ramp, now))
	ramp := begin(min(before.Nodes, admitted), after, now)
	if ramp != nil && admitted <= ramp.Nodes {
		return before.Ramp
	}
	return ramp
}

func begin(before, after int32, now time.Time) *v1alpha1.Ramp {
	from, wide := Ramp(before, after)
	if !wide {
		return nil
	}
	return &v1alpha1.Ramp{Since: metav1.NewTime(now.Truncate(time.Second)), Nodes: from}
}

// Admitted returns how many nodes may have interfaces at a time.
func Admitted(ramp v1alpha1.Ramp, now time.Time) int {
	minutes := now.Sub(ramp.Since.Time).Minutes()
	return int(ramp.Nodes) + int(max(0, minutes)*RampPerMinute)
}
