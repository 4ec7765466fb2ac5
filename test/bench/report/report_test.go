// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/multieni/multieni/test/bench/report"
	"github.com/multieni/multieni/test/bench/scenario"
)

// of returns the report of one scenario with its measurements.
func of(t *testing.T, id string, o *scenario.Outcome, err error) report.Report {
	t.Helper()
	chosen, chooseErr := scenario.Choose(id)
	if chooseErr != nil {
		t.Fatal(chooseErr)
	}
	return report.Report{Commit: "c0ffee", Results: []report.Result{report.New(chosen[0], o, time.Minute, err)}}
}

func TestVerdicts(t *testing.T) {
	cases := map[string]struct {
		measured map[string]float64
		want     scenario.Verdict
	}{
		"all as promised":      {map[string]float64{scenario.Mutating: 0, scenario.ReadsPerHour: 40, scenario.APIWrites: 0, scenario.Strays: 0}, scenario.Pass},
		"one beyond a target":  {map[string]float64{scenario.Mutating: 0, scenario.ReadsPerHour: 140, scenario.APIWrites: 0, scenario.Strays: 0}, scenario.Miss},
		"one that is a defect": {map[string]float64{scenario.Mutating: 0, scenario.ReadsPerHour: 40, scenario.APIWrites: 0, scenario.Strays: 1}, scenario.Failed},
		"one not measured":     {map[string]float64{scenario.Mutating: 0, scenario.ReadsPerHour: 40, scenario.APIWrites: 0}, scenario.Failed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := of(t, "b", &scenario.Outcome{Measured: tc.measured}, nil)
			if got := r.Worst(); got != tc.want {
				t.Errorf("%s\n%s", got, r.Table())
			}
		})
	}
}

func TestARunThatFailedHasFailed(t *testing.T) {
	r := of(t, "b", nil, errors.New("the controller ended"))
	if r.Worst() != scenario.Failed || !strings.Contains(r.Table(), "the controller ended") {
		t.Error(r.Table())
	}
}

func TestTheTableHoldsAgainstTheLimit(t *testing.T) {
	r := of(t, "a1", &scenario.Outcome{Measured: map[string]float64{scenario.Makespan: 429}}, nil)
	for _, word := range []string{"390 s", "429 s", "1.100", "≤ 1.05 x", string(scenario.Miss)} {
		if !strings.Contains(r.Table(), word) || !strings.Contains(r.Markdown(), word) {
			t.Errorf("without %q:\n%s", word, r.Table())
		}
	}
}

// The picture has both curves, and is well-formed.
func TestPlot(t *testing.T) {
	picture, err := of(t, "a1", &scenario.Outcome{Ready: []scenario.Point{{}, {Seconds: 200, Nodes: 500}, {Seconds: 400, Nodes: 1000}}}, nil).Plot()
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if element, is := token.(xml.StartElement); is && element.Name.Local == "polyline" {
			lines[element.Attr[0].Value] = true
		}
	}
	if !lines["ready"] || !lines["limit"] {
		t.Errorf("the picture has %v", lines)
	}
}

func TestNothingToPlot(t *testing.T) {
	if picture, err := of(t, "b", &scenario.Outcome{}, nil).Plot(); err != nil || picture != "" {
		t.Errorf("%v: %s", err, picture)
	}
}

// TestTablesInADocument writes the tables of both worlds into a document, twice.
func TestTablesInADocument(t *testing.T) {
	const empty = "before\n<!-- bench: timed calls -->\nold\n<!-- end of bench: timed calls -->\nbetween\n" +
		"<!-- bench: instant calls -->\n<!-- end of bench: instant calls -->\nafter\n"
	document := empty
	for _, makespan := range []float64{400, 429} {
		for _, instant := range []bool{false, true} {
			r := of(t, "a1", &scenario.Outcome{Measured: map[string]float64{scenario.Makespan: makespan}}, nil)
			r.InstantCalls = instant
			var err error
			if document, err = r.Into(document); err != nil {
				t.Fatal(err)
			}
		}
	}
	for text, want := range map[string]int{"429 s": 2, "400 s": 0, "old": 0, "c0ffee": 2, "before": 1, "between": 1, "after": 1} {
		if got := strings.Count(document, text); got != want {
			t.Errorf("%q is there %d times, want %d:\n%s", text, got, want, document)
		}
	}
	if _, err := of(t, "a1", nil, nil).Into("a document without marks"); err == nil {
		t.Error("a document without marks is taken")
	}
}
