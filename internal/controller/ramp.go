// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

const (
	// RampStart is how many nodes a change of a selector may always add at once.
	RampStart = 50
	// RampPerMinute is how many more nodes a ramp-up admits per minute.
	RampPerMinute = 50
)

// Ramp reports whether a change from before to after selected nodes is large enough to ramp up, and from how many
// nodes.
func Ramp(before, after int32) (from int32, wide bool) {
	from = max(RampStart, 2*before)
	return from, after > from
}

// NextRamp returns the ramp-up of a NodeENI after its selector changed to select a number of nodes, nil if that number
// is not far above the number reached so far. Nodes that an earlier change selected but did not reach do not count, so
// that a series of mistakes admits no more nodes than the first one. A ramp-up in progress continues unless it has
// admitted more.
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
