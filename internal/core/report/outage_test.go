// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/report"
)

// TestStatusTellsWhyTheControllerChangesNothing has EC2 not answer: no state of a node can say so.
func TestStatusTellsWhyTheControllerChangesNothing(t *testing.T) {
	t.Parallel()
	silent, well, other := nodeENI("a", "False", 0, 0, 0), nodeENI("b", "True", 1, 1, 1), nodeENI("c", "False", 0, 0, 0)
	silent.Ready, other.Ready = outage, outage
	got := report.NewStatus(report.Fleet{NodeENIs: []report.NodeENI{silent, well, other}}, now).Text(report.Page{})
	want := "\n✗ Unreadable — a, c\n  EC2 does not answer\n  → " + report.Remediation("Unreadable") + "\n"
	if !strings.Contains(strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(want), " ")) {
		t.Errorf("the status is\n%s\nand should contain\n%s", got, want)
	}
	well.Ready.Reason = "Unreadable"
	if s := report.NewStatus(report.Fleet{NodeENIs: []report.NodeENI{well}}, now); len(s.Outages) > 0 {
		t.Errorf("a NodeENI that is ready has the outages %v", s.Outages)
	}
}
