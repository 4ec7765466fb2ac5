// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/report"
)

// A Ready condition of an earlier generation says nothing about what is declared now.
func TestStatusShowsNoConditionThatTheControllerDidNotRenew(t *testing.T) {
	cases := map[string]struct {
		change func(*report.NodeENI)
		want   []string // the sign, READY and REASON
	}{
		"reconciled":                   {func(*report.NodeENI) {}, []string{"●", "True", "Attached"}},
		"being deleted":                {func(n *report.NodeENI) { n.Deleting, n.Ready.Status = true, "False" }, []string{"✗", "False", "Deleting"}},
		"deleted without a controller": {func(n *report.NodeENI) { n.Deleting, n.NotObserved = true, true }, []string{"◐", "Unknown", "NotReconciled"}},
		"deleted, paused and without a controller": {
			func(n *report.NodeENI) { n.Deleting, n.Paused, n.NotObserved = true, true, true },
			[]string{"◐", "Unknown", "NotReconciled"},
		},
		"edited without a controller": {func(n *report.NodeENI) { n.NotObserved = true }, []string{"◐", "Unknown", "NotReconciled"}},
		"made without a controller":   {func(n *report.NodeENI) { n.Accepted = false }, []string{"◐", "Unknown", "NotReconciled"}},
		"paused without a controller": {func(n *report.NodeENI) { n.Paused, n.NotObserved = true, true }, []string{"◐", "Unknown", "Paused"}},
		"paused":                      {func(n *report.NodeENI) { n.Paused = true }, []string{"●", "True", "Paused"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := nodeENI("multus", "True", 2, 2, 0)
			tc.change(&n)
			text := report.NewStatus(report.Fleet{NodeENIs: []report.NodeENI{n}}, now).Text(report.Page{Width: 100})
			row := strings.Fields(strings.Split(text, "\n")[1])
			if diff := cmp.Diff(tc.want, append(row[1:3:3], row[len(row)-1])); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, text)
			}
		})
	}
}
