// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report formats measurements as a table, a JSON document and a picture. It turns values into text.
package report

import (
	"time"

	"github.com/multieni/multieni/test/bench/scenario"
)

// Report has the results of one run of the bench, and all that is needed to repeat it.
type Report struct {
	// Commit is the revision of the checkout, with "-dirty" if files differ from it.
	Commit string    `json:"commit"`
	Time   time.Time `json:"time"`
	Seed   uint64    `json:"seed"`
	// InstantCalls is set if calls took no virtual time. In live runs they take the machine's time.
	InstantCalls bool `json:"instantCalls,omitempty"`
	// Rig is the machine.
	Rig     Rig      `json:"rig"`
	Results []Result `json:"results"`
}

// Rig describes the machine of the measurements.
type Rig struct {
	OS         string `json:"os"`
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Go         string `json:"go"`
	Kubernetes string `json:"kubernetes,omitempty"` // version of the API server of the live scenarios
}

// Result is the result of one scenario.
type Result struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Nodes int    `json:"nodes"`
	Live  bool   `json:"live"`
	// Agents is set if agents ran against a real API server.
	Agents bool `json:"agents,omitempty"`
	// Speed is how many times faster than EC2 the simulated one ran, in a live scenario.
	Speed float64 `json:"speed,omitempty"`
	// Controller is the command that was measured, in a live scenario.
	Controller string `json:"controller,omitempty"`
	// Seconds is how long the run took on the machine.
	Seconds float64 `json:"seconds"`
	Figures []Row   `json:"figures"`
	// Ready is the number of ready nodes over time, Limit the number that EC2 allows.
	Ready []scenario.Point `json:"ready,omitempty"`
	Limit []scenario.Point `json:"limit,omitempty"`
	// Error is why all or some figures are missing.
	Error string `json:"error,omitempty"`
}

// Row is a figure with its verdict.
type Row struct {
	scenario.Figure
	Ratio   *float64         `json:"ratio,omitempty"`
	Verdict scenario.Verdict `json:"verdict"`
}

// New returns the result of a scenario. After an error the outcome is nil, or has the measurements until then.
func New(s scenario.Scenario, o *scenario.Outcome, took time.Duration, err error) Result {
	r := Result{
		ID: s.ID, Title: s.Title, Nodes: s.Nodes, Live: s.Live, Agents: s.Agents, Speed: s.Speed, Seconds: took.Seconds(),
	}
	if err != nil {
		r.Error = err.Error()
	}
	if o == nil {
		o = &scenario.Outcome{}
	}
	for _, f := range s.Judge(o.Measured) {
		row := Row{Figure: f, Verdict: f.Verdict()}
		if ratio, ok := f.Ratio(); ok {
			row.Ratio = &ratio
		}
		r.Figures = append(r.Figures, row)
	}
	r.Ready = o.Ready
	if s.Curve != nil && len(o.Ready) > 0 {
		r.Limit = line(s)
	}
	return r
}

// line returns points of the curve of ready nodes that EC2 allows.
func line(s scenario.Scenario) []scenario.Point {
	const points = 100
	all := []scenario.Point{{}}
	for n := 1; n <= points; n++ {
		nodes := s.Nodes * n / points
		all = append(all, scenario.Point{Seconds: s.Curve(nodes).Seconds(), Nodes: nodes})
	}
	return all
}

// Worst returns the worst verdict of a report, for the exit code of a program.
func (r Report) Worst() scenario.Verdict {
	rank := map[scenario.Verdict]int{scenario.Shown: 0, scenario.Pass: 1, scenario.Miss: 2, scenario.Failed: 3}
	worst := scenario.Shown
	for _, result := range r.Results {
		for _, row := range result.Figures {
			if rank[row.Verdict] > rank[worst] {
				worst = row.Verdict
			}
		}
	}
	return worst
}
