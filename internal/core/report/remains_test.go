// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/report"
)

func TestRemains(t *testing.T) {
	r := report.Remains{NodeENIs: 1, Interfaces: 2, Nodes: 1, Reservations: 1, NodeTemplates: 2, Held: []report.Held{
		{Object: "SubnetReservation pods", Reason: "Deleting"},
		{Object: "NodeENI n3: interface eni-1 on node node-a1", Reason: "InUseByPods", Message: "pods have addresses of it: upf/upf-a; delete or move the pods"},
		{Object: "NodeENI n4: interface eni-2 on node node-a1", Reason: "InUseByPods"},
	}}
	want := `left: 1 NodeENI, 1 SubnetReservation, 2 AWSNodeTemplates, 2 interfaces of 1 node
◐ NodeENI n3: interface eni-1 on node node-a1: InUseByPods: pods have addresses of it: upf/upf-a; delete or move the pods
◐ NodeENI n4: interface eni-2 on node node-a1: InUseByPods: Delete or move the pods. If the message names them, pods.onRemoval: Evict does it.
◐ SubnetReservation pods: Deleting
`
	if diff := cmp.Diff(want, r.Text(report.Page{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.Empty() || !(report.Remains{}).Empty() {
		t.Error("what is left is something, or nothing is")
	}
}

// A fleet of any size has a text of bounded size, which says what it omits.
func TestRemainsAreBounded(t *testing.T) {
	r := report.Remains{Nodes: 300, Interfaces: 300}
	for i := range 300 {
		r.Held = append(r.Held, report.Held{Object: fmt.Sprintf("NodeENI n3: interface eni-%03d on node n", i), Reason: "InUseByPods"})
	}
	text := r.Text(report.Page{})
	if lines := strings.Count(text, "\n"); lines != 22 || !strings.Contains(text, "and 280 more") {
		t.Errorf("%d lines:\n%s", lines, text)
	}
}
