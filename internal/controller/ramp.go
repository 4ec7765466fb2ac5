// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
)

const (
	// RampFrom is how many nodes a change of a selector may always reach at once.
	RampFrom = 50
	// RampPerMinute is how many more nodes are let in per minute while a change ramps up.
	RampPerMinute = 50
)

// Ramp says whether a change from before to after selected nodes is so wide that it ramps up, and from how many.
func Ramp(before, after int32) (from int32, wide bool) {
	from = max(RampFrom, 2*before)
	return from, after > from
}

// Admitted returns how many nodes may have interfaces at a time.
func Admitted(ramp v1alpha1.Ramp, now time.Time) int {
	minutes := now.Sub(ramp.Since.Time).Minutes()
	return int(ramp.Nodes) + int(max(0, minutes)*RampPerMinute)
}
