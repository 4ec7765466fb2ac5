// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"testing"

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
