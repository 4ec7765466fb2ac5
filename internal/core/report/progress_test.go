// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/report"
)

func TestTheLineOfProgress(t *testing.T) {
	cases := map[string]struct {
		nodeENIs []report.NodeENI
		width    int
		want     string
	}{
		"nothing is wanted": {nil, 0, "nothing is wanted: no node carries the labels of a nodeSelector"},
		"all is attached":   {[]report.NodeENI{nodeENI("a", "True", 4, 4, 4)}, 0, "████████████████████  4/4 attached, 1/1 NodeENIs ready"},
		"half, of two": {
			[]report.NodeENI{nodeENI("a", "True", 5, 5, 5), nodeENI("b", "False", 5, 5, 0)}, 0,
			"██████████░░░░░░░░░░  5/10 attached, 5 blocked, 1/2 NodeENIs ready",
		},
		"no room for the bar": {[]report.NodeENI{nodeENI("a", "True", 4, 4, 4)}, 40, "4/4 attached, 1/1 NodeENIs ready"},
		"no room for all":     {[]report.NodeENI{nodeENI("a", "True", 4, 4, 4)}, 12, "4/4 attache…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := report.NewProgress(tc.nodeENIs).Line(report.Page{Width: tc.width}); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// A sign in colour takes one column, as one without.
func TestWrappedLinesAreIndentedBelowTheirFirstWord(t *testing.T) {
	checks := report.Checks{{Check: "quota", Grade: report.OK, Found: "many words that do not fit a narrow page"}}
	const want = "\x1b[32m●\x1b[0m quota: many words\n  that do not fit a\n  narrow page\n\n1 in order, 0 warnings, 0 failed\n"
	if got := checks.Text(report.Page{Width: 20, Colours: true}); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// stalled is a NodeENI that waits for a user.
func stalled(name string) report.NodeENI {
	n := nodeENI(name, "False", 1, 3, 1)
	n.Conditions = []report.Condition{{Type: "Ready", Status: "False"}, {Type: "Stalled", Status: "True"}}
	return n
}

func TestProgressSumsNodeENIs(t *testing.T) {
	with := func(n report.NodeENI, change func(*report.NodeENI)) report.NodeENI { change(&n); return n }
	ready := nodeENI("ready", "True", 2, 4, 4)
	for name, tc := range map[string]struct {
		nodeENIs []report.NodeENI
		want     report.Progress
	}{
		"two are ready, one waits": {
			[]report.NodeENI{ready, nodeENI("waits", "False", 1, 5, 2), ready},
			report.Progress{
				Ready: 2, Attached: 10, Desired: 13, Blocked: 3, NodeENIs: 3, Waiting: []string{"waits (Blocked)"},
			},
		},
		"two wait for a user": {
			[]report.NodeENI{stalled("b"), ready, stalled("a")},
			report.Progress{
				Ready: 1, Attached: 6, Desired: 10, Blocked: 4, NodeENIs: 3, Stuck: true,
				Waiting: []string{"b (Blocked)", "a (Blocked)"},
			},
		},
		"its controller has not looked at the new spec": {
			[]report.NodeENI{with(ready, func(n *report.NodeENI) { n.NotObserved = true })},
			report.Progress{Attached: 4, Desired: 4, NodeENIs: 1, Waiting: []string{"ready (NotReconciled)"}},
		},
		"it was stalled before the new spec": {
			[]report.NodeENI{with(stalled("x"), func(n *report.NodeENI) { n.NotObserved = true })},
			report.Progress{Attached: 1, Desired: 3, Blocked: 2, NodeENIs: 1, Waiting: []string{"x (NotReconciled)"}},
		},
		"no controller has taken it up": {
			[]report.NodeENI{with(ready, func(n *report.NodeENI) { n.Accepted = false })},
			report.Progress{Attached: 4, Desired: 4, NodeENIs: 1, Waiting: []string{"ready (NotReconciled)"}},
		},
		"not stalled any more": {
			[]report.NodeENI{with(stalled("x"), func(n *report.NodeENI) { n.Conditions[1].Status = "False" })},
			report.Progress{Attached: 1, Desired: 3, Blocked: 2, NodeENIs: 1, Waiting: []string{"x (Blocked)"}},
		},
		"ready, and stalled by drift": {
			[]report.NodeENI{with(stalled("x"), func(n *report.NodeENI) { n.Ready.Status = "True" })},
			report.Progress{Ready: 1, Attached: 1, Desired: 3, Blocked: 2, NodeENIs: 1, Done: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, report.NewProgress(tc.nodeENIs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestProgressNamesWhatIsLeft(t *testing.T) {
	var nodeENIs []report.NodeENI
	for _, name := range []string{"f", "e", "d", "c", "b", "a"} {
		nodeENIs = append(nodeENIs, stalled(name))
	}
	for n, want := range map[int]string{
		1: "f (Blocked); kubectl eni status says why",
		5: "f (Blocked), e (Blocked), d (Blocked), c (Blocked), b (Blocked); kubectl eni status says why",
		6: "f (Blocked), e (Blocked), d (Blocked), c (Blocked) and 2 more; kubectl eni status says why",
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if got := report.NewProgress(nodeENIs[:n]).Left(); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestTheBarOfProgressIsFullOnlyAtTheEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		of   report.Progress
		full int
	}{
		"nothing is attached":                     {report.Progress{Desired: 100}, 0},
		"nothing is desired yet":                  {report.Progress{}, 0},
		"a twentieth":                             {report.Progress{Attached: 5, Desired: 100}, 1},
		"less than a twentieth is missing":        {report.Progress{Attached: 99, Desired: 100}, 19},
		"all are attached":                        {report.Progress{Attached: 100, Desired: 100}, 20},
		"more than desired, during a replacement": {report.Progress{Attached: 101, Desired: 100}, 20},
		"ready without each interface":            {report.Progress{Attached: 50, Desired: 100, Done: true}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			line := tc.of.Line(report.Page{})
			if bar, _, _ := strings.Cut(line, "  "); bar != strings.Repeat("█", tc.full)+strings.Repeat("░", 20-tc.full) {
				t.Errorf("got %q, want %d full columns", bar, tc.full)
			}
		})
	}
}

func TestTheBarOfProgressIsGreenAndFaint(t *testing.T) {
	half := report.Progress{Attached: 1, Desired: 2, NodeENIs: 1}
	const want = "\x1b[32m██████████\x1b[0m\x1b[2m░░░░░░░░░░\x1b[0m  1/2 attached, 0/1 NodeENIs ready"
	if got := half.Line(report.Page{Colours: true}); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The line has its bar exactly if the page has room for both.
func TestTheLineOfProgressFitsThePage(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		of := report.Progress{
			Attached: rapid.IntRange(0, 2000).Draw(rt, "attached"), Desired: rapid.IntRange(1, 2000).Draw(rt, "desired"),
			Blocked: rapid.IntRange(0, 99).Draw(rt, "blocked"), NodeENIs: 9,
		}
		_, alone, _ := strings.Cut(of.Line(report.Page{}), "  ")
		edge := rapid.SampledFrom([]int{len(alone), len(alone) + 22}).Draw(rt, "edge")
		width := edge + rapid.SampledFrom([]int{-1, 0, 1, 50, -edge / 2}).Draw(rt, "beyond")
		line := of.Line(report.Page{Width: width})
		if n := utf8.RuneCountInString(line); n > width {
			rt.Fatalf("%d columns on a page of %d: %q", n, width, line)
		}
		if hasBar, hasRoom := strings.ContainsAny(line, "█░"), len(alone)+22 <= width; hasBar != hasRoom {
			rt.Fatalf("bar %t, room %t on a page of %d: %q", hasBar, hasRoom, width, line)
		}
		if len(alone) <= width && !strings.HasSuffix(line, alone) {
			rt.Fatalf("%q was cut on a page of %d: %q", alone, width, line)
		}
	})
}
