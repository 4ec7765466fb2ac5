// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

// Progress is the progress of a run.
type Progress struct {
	// Phase is the present step.
	Phase string `json:"phase"`
	// Seconds is how much of the cluster's time has passed in the run.
	Seconds float64 `json:"seconds"`
	// Ready is how many nodes are ready.
	Ready int `json:"ready"`
	// Done is the part of the work that is done, from 0 to 1, as far as it is known.
	Done float64 `json:"done"`
}

// Outcome is the result of a run.
type Outcome struct {
	// Measured has a value for each key of the scenario's figures.
	Measured map[string]float64 `json:"measured"`
	// Ready is the number of ready nodes over time.
	Ready []Point `json:"ready,omitempty"`
}

// Point is a number of nodes at a time, in seconds since the nodes joined.
type Point struct {
	Seconds float64 `json:"seconds"`
	Nodes   int     `json:"nodes"`
}

// Thin returns at most that number of points, evenly spread, including the first and the last.
func Thin(points []Point, most int) []Point {
	if len(points) <= most {
		return points
	}
	thin := make([]Point, most)
	for n := range thin {
		thin[n] = points[n*(len(points)-1)/(most-1)]
	}
	return thin
}
