// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/core/text"
)

// FleetWhy explains what is not as desired in a fleet, and the next steps.
type FleetWhy struct {
	Nodes NodeCounts `json:"nodes"`
	// Interfaces is the number of desired interfaces, and Attached that of the attached ones.
	Interfaces int      `json:"interfaces"`
	Attached   int      `json:"attached"`
	Outages    []Outage `json:"outages,omitempty"`
	// NodeENIs explains those NodeENIs that are not as declared for a reason that no interface has.
	NodeENIs []Why   `json:"nodeENIs,omitempty"`
	Troubles []Issue `json:"troubles"`
	// WaitingPods are pods that no node has an address for.
	WaitingPods []WaitingPods `json:"waitingPods,omitempty"`
	declared    int
}

// NodeCounts counts the nodes of a fleet.
type NodeCounts struct {
	// All is the number of all nodes, Concerned that of nodes with NetworkInterfaces.
	All       int `json:"all"`
	Concerned int `json:"concerned"`
	Ready     int `json:"ready"`
}

// WhyFleet explains a whole fleet.
func WhyFleet(f Fleet) FleetWhy {
	f = f.sorted()
	w := FleetWhy{Outages: outages(f.NodeENIs), Troubles: issues(f.Nodes), WaitingPods: f.WaitingPods,
		declared: len(f.NodeENIs)}
	for _, e := range f.NodeENIs {
		inOutage := slices.ContainsFunc(w.Outages, func(o Outage) bool { return slices.Contains(o.NodeENIs, e.Name) })
		if one := WhyNodeENI(f, e); !one.Fine && len(one.Troubles) == 0 && !inOutage {
			w.NodeENIs = append(w.NodeENIs, one)
		}
	}
	for _, n := range f.Nodes {
		if !n.Absent {
			w.Nodes.All++
		}
		if !n.concerned() {
			continue
		}
		w.Nodes.Concerned++
		w.Interfaces += n.Desired
		w.Attached += n.Attached
		if n.ready() {
			w.Nodes.Ready++
		}
	}
	return w
}

// Text prints the explanation.
func (w FleetWhy) Text(p Page) string {
	if w.declared == 0 && w.Nodes.Concerned == 0 {
		return p.paragraph("", fmt.Sprintf("No NodeENI is declared, and none of %s has interfaces of one.",
			text.Count(w.Nodes.All, "node"))) +
			p.paragraph("→ ", "Declare one: kubectl apply -f examples/single-subnet.yaml; see what it would do "+
				"first: kubectl eni plan -f FILE.")
	}
	var b strings.Builder
	b.WriteString(p.paragraph(p.sign(w.style())+" ", w.summary()))
	for _, o := range w.Outages {
		b.WriteString("\n" + o.text(p))
	}
	for _, one := range w.NodeENIs {
		b.WriteString("\n" + one.Text(p))
	}
	for _, t := range w.Troubles {
		b.WriteString("\n" + t.text(p))
	}
	for _, pods := range w.WaitingPods {
		b.WriteString("\n" + pods.text(p))
	}
	return b.String()
}

func (w FleetWhy) style() terminal.Style {
	needsUser := slices.ContainsFunc(w.Troubles, func(t Issue) bool { return !t.Passing })
	switch {
	case needsUser || len(w.Outages)+len(w.WaitingPods) > 0:
		return terminal.Bad
	case len(w.Troubles)+len(w.NodeENIs) > 0:
		return terminal.Busy
	default:
		return terminal.Good
	}
}

func (w FleetWhy) summary() string {
	line := fmt.Sprintf("%s, %d with interfaces, %d of these ready.", text.Count(w.Nodes.All, "node"), w.Nodes.Concerned,
		w.Nodes.Ready)
	if missing := w.Interfaces - w.Attached; missing > 0 {
		line += fmt.Sprintf(" %d of %s not attached.", missing, text.Count(w.Interfaces, "interface"))
	}
	return line
}
