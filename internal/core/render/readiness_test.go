// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/render"
)

// up is the report of an attached interface with a usable link.
func up() render.InterfaceReport {
	return render.InterfaceReport{Phase: "Attached", MAC: "02:00:00:00:00:01", Link: &render.LinkReport{Usable: true, State: "Ready", Reason: "Ready", Name: "ens6"}}
}

// readinessOf is a node with all objects of NodeENIs, attached and up.
func readinessOf(t *testing.T, nodeENIs ...render.NodeENI) render.ReadinessIn {
	t.Helper()
	r := render.ReadinessIn{In: attach(converge(t, in(nodeENIs...))), Node: "node-1", Tainted: true, Listed: true, Reports: map[string]render.InterfaceReport{}}
	for _, o := range r.Objects {
		r.Reports[o.Name] = up()
	}
	return r
}

func TestReadiness(t *testing.T) {
	first := name("n", 0)
	report := func(change func(*render.InterfaceReport)) func(*render.ReadinessIn) {
		return func(r *render.ReadinessIn) {
			one := up()
			change(&one)
			r.Reports[first] = one
		}
	}
	optional := func(r *render.ReadinessIn) {
		r.Objects = slices.Clone(r.Objects)
		r.Objects[0].Spec.Required = false
	}
	for title, tc := range map[string]struct {
		change  func(*render.ReadinessIn)
		status  render.Truth
		reason  string
		message string
	}{
		"all is well":                    {nil, render.True, render.ReasonReady, "2 required interfaces"},
		"before the first list":          {func(r *render.ReadinessIn) { r.Listed = false }, render.False, render.ReasonPending, "not listed"},
		"an object is missing":           {func(r *render.ReadinessIn) { r.Objects = r.Objects[:1] }, render.False, render.ReasonPending, "NodeENI n"},
		"an object of an older NodeENI":  {func(r *render.ReadinessIn) { r.NodeENIs[0].UID = "again" }, render.False, render.ReasonPending, "NodeENI n"},
		"a second NodeENI without any":   {func(r *render.ReadinessIn) { r.NodeENIs = append(r.NodeENIs, alsoSelecting("subnet-c")) }, render.False, render.ReasonPending, "NodeENI m"},
		"a second one is being deleted":  {func(r *render.ReadinessIn) { r.NodeENIs = append(r.NodeENIs, deleted(alsoSelecting("subnet-c"))) }, render.True, render.ReasonReady, ""},
		"the selectors are not resolved": {func(r *render.ReadinessIn) { r.NodeENIs[0].Found = nil }, render.True, render.ReasonReady, ""},
		"one is being created":           {report(func(i *render.InterfaceReport) { i.Phase, i.Message = "Creating", "" }), render.False, "InterfaceCreating", "is Creating"},
		"one is blocked":                 {report(func(i *render.InterfaceReport) { i.Phase, i.Message = "Blocked", "the subnet is full" }), render.False, "InterfaceBlocked", "the subnet is full"},
		"one has no link yet":            {report(func(i *render.InterfaceReport) { i.Link = nil }), render.False, "LinkNotFound", "not been observed"},
		"the link of one is down":        {report(func(i *render.InterfaceReport) { i.Link.Usable, i.Link.Reason = false, "NoCarrier" }), render.False, "NoCarrier", ""},
		"pods cannot attach":             {report(func(i *render.InterfaceReport) { i.Pods = &render.PodsReport{Reason: "NoPrefixes"} }), render.False, "NoPrefixes", "pod network n of NodeENI n"},
		"pods leave":                     {report(func(i *render.InterfaceReport) { i.Pods = &render.PodsReport{Draining: true} }), render.True, render.ReasonReady, ""},
		"no Multus yet":                  {report(func(i *render.InterfaceReport) { i.CNI = &render.CNIReport{Message: "no file"} }), render.False, render.ReasonNoMultus, "no file"},
		"no Multus, without the taint": {func(r *render.ReadinessIn) {
			report(func(i *render.InterfaceReport) { i.CNI = &render.CNIReport{} })(r)
			r.Tainted = false
		}, render.True, render.ReasonReady, ""},
		"one that is not required": {func(r *render.ReadinessIn) {
			optional(r)
			delete(r.Reports, first)
		}, render.True, render.ReasonReady, "1 required interfaces are attached, up and configured; 1 that are not required are not"},
		"no NodeENI selects the node": {func(r *render.ReadinessIn) { r.Nodes[0].Labels, r.Objects = nil, nil }, render.Unknown, render.ReasonNotDeclared, "no NodeENI declares"},
		"all are being removed": {func(r *render.ReadinessIn) {
			r.Nodes[0].Labels = nil
			for n := range r.Objects {
				r.Objects[n].Deleting = true
			}
		}, render.Unknown, render.ReasonNotDeclared, "removing every interface"},
		"one is being replaced, and still there": {func(r *render.ReadinessIn) { r.Objects[0].Deleting = true }, render.True, render.ReasonReady, "2 required"},
		"one is being replaced, and detached": {func(r *render.ReadinessIn) {
			r.Objects[0].Deleting = true
			report(func(i *render.InterfaceReport) { i.Phase = "Deleting" })(r)
		}, render.False, "InterfaceDeleting", ""},
		"another Node has the instance": {func(r *render.ReadinessIn) { r.Node = "node-2" }, render.Unknown, render.ReasonNotDeclared, ""},
		"the Node is no instance":       {func(r *render.ReadinessIn) { r.Nodes = nil }, render.Unknown, render.ReasonNotDeclared, ""},
		"the NodeENI is paused and has changed": {func(r *render.ReadinessIn) {
			r.NodeENIs[0] = found(r.NodeENIs[0], "subnet-d")
			r.NodeENIs[0].Paused = true
		}, render.True, render.ReasonReady, ""},
	} {
		t.Run(title, func(t *testing.T) {
			r := readinessOf(t, nodeENI("n", "subnet-a", "subnet-b"))
			if tc.change != nil {
				tc.change(&r)
			}
			got := render.Readiness(r)
			if got.Status != tc.status || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("got %s, %s: %s; want %s, %s: %s", got.Status, got.Reason, got.Message, tc.status, tc.reason, tc.message)
			}
		})
	}
}

// alsoSelecting is a second NodeENI that selects the same nodes.
func alsoSelecting(ids ...string) render.NodeENI {
	m := nodeENI("m", ids...)
	m.Selector = map[string]string{"nodeeni": "n"}
	return m
}

func deleted(n render.NodeENI) render.NodeENI {
	n.Deleting = true
	return n
}

// TestUsable names the interfaces with a usable link.
func TestUsable(t *testing.T) {
	r := readinessOf(t, nodeENI("n", "subnet-a", "subnet-b"))
	down := up()
	down.Link.Usable = false
	r.Reports[name("n", 1)] = down
	want := map[string]render.Usable{"net-n": {NodeENI: "n", ENIID: "eni-" + name("n", 0), MAC: "02:00:00:00:00:01", Name: "ens6", SubnetID: "subnet-a"}}
	if diff := cmp.Diff(want, render.Readiness(r).Usable); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
