// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/core/text"
)

// Status is the summary of a fleet.
type Status struct {
	NodeENIs []NodeENI  `json:"nodeENIs"`
	Nodes    NodeCounts `json:"nodes"`
	Outages  []Outage   `json:"outages,omitempty"`
	Troubles []Issue    `json:"troubles"`
	// WaitingPods are pods that no node has an address for.
	WaitingPods []WaitingPods `json:"waitingPods,omitempty"`
	Concerned   []Node        `json:"-"`
	now         time.Time
	attaching   int
	interfaces  int
}

// NodeCounts counts the nodes of a fleet.
type NodeCounts struct {
	// All is the number of all nodes, Concerned that of nodes that a NodeENI selects or selected.
	All       int `json:"all"`
	Concerned int `json:"concerned"`
	Ready     int `json:"ready"`
}

// NewStatus sums up a fleet.
func NewStatus(f Fleet, now time.Time) Status {
	f = f.sorted()
	s := Status{NodeENIs: f.NodeENIs, now: now, Outages: outages(f.NodeENIs), Troubles: issues(f.Nodes),
		WaitingPods: f.WaitingPods}
	for _, n := range f.Nodes {
		if !n.Absent {
			s.Nodes.All++
		}
		if !n.Concerned {
			continue
		}
		s.Nodes.Concerned++
		s.interfaces += n.Desired
		s.attaching += n.Desired - n.Attached
		if n.ready() {
			s.Nodes.Ready++
		}
		s.Concerned = append(s.Concerned, n)
	}
	return s
}

// Text prints the status.
func (s Status) Text(p Page) string {
	if len(s.NodeENIs) == 0 && s.Nodes.Concerned == 0 {
		return p.paragraph("", fmt.Sprintf("No NodeENI is declared, and none of %s has interfaces of one.",
			text.Count(s.Nodes.All, "node"))) +
			p.paragraph("→ ", "Declare one: kubectl apply -f examples/single-subnet.yaml; see what it would do "+
				"first: kubectl eni plan -f FILE.")
	}
	var b strings.Builder
	if len(s.NodeENIs) > 0 {
		b.WriteString(s.nodeENITable(p) + "\n")
	}
	b.WriteString(p.paragraph("", s.summary()))
	if p.Wide && len(s.Concerned) > 0 {
		b.WriteString("\n" + s.nodeTable(p))
	}
	for _, o := range s.Outages {
		b.WriteString("\n" + o.text(p))
	}
	for _, t := range s.Troubles {
		b.WriteString("\n" + t.text(p))
	}
	for _, w := range s.WaitingPods {
		b.WriteString("\n" + w.text(p))
	}
	return b.String()
}

func (s Status) summary() string {
	line := fmt.Sprintf("%s, %d with interfaces declared, %d of these ready.", text.Count(s.Nodes.All, "node"),
		s.Nodes.Concerned, s.Nodes.Ready)
	if s.attaching > 0 {
		line += fmt.Sprintf(" %d of %s not attached.", s.attaching, text.Count(s.interfaces, "interface"))
	}
	return line
}

func (s Status) nodeENITable(p Page) string {
	columns := []terminal.Column{
		{Title: "NODEENI"}, {Title: "READY"}, {Title: "NODES", Right: true, Dispensable: 3}, {Title: "ATTACHED", Right: true},
		{Title: "BLOCKED", Right: true, Dispensable: 1}, {Title: "DRIFTED", Right: true, Dispensable: 4},
		{Title: "AGE", Right: true, Dispensable: 5}, {Title: "REASON", Dispensable: 2},
	}
	var rows [][]terminal.Cell
	for _, n := range s.NodeENIs {
		rows = append(rows, []terminal.Cell{
			{Text: n.Name}, n.readyCell(), number(n.Nodes, terminal.Plain), {Text: fmt.Sprintf("%d/%d", n.Attached, n.Desired)},
			number(n.Blocked, terminal.Bad), number(n.Drifted, terminal.Bad),
			{Text: age(n.Created, s.now), Style: terminal.Idle}, {Text: n.state()},
		})
	}
	return p.table(columns, rows)
}

func (s Status) nodeTable(p Page) string {
	columns := []terminal.Column{
		{Title: "NODE"}, {Title: "READY"}, {Title: "ATTACHED", Right: true}, {Title: "INSTANCE", Dispensable: 2},
		{Title: "TYPE", Dispensable: 3},
		{Title: "ZONE", Dispensable: 4}, {Title: "REASON", Dispensable: 1},
	}
	var rows [][]terminal.Cell
	for _, n := range s.Concerned {
		rows = append(rows, []terminal.Cell{
			{Text: n.Name}, readiness(n.Ready), {Text: fmt.Sprintf("%d/%d", n.Attached, n.Desired)},
			{Text: n.InstanceID}, {Text: n.Type}, {Text: n.Zone}, {Text: n.Ready.Reason},
		})
	}
	return p.table(columns, rows)
}

// state is the NodeENI in one word.
func (n NodeENI) state() string {
	switch {
	case n.Deleting && n.Accepted && !n.NotObserved:
		return reasonDeleting
	case n.Paused && !n.Deleting:
		return reasonPaused
	case !n.reconciled():
		return "NotReconciled"
	default:
		return n.Ready.Reason
	}
}

// reconciled reports whether the conditions are those of the present spec.
func (n NodeENI) reconciled() bool { return n.unable() || n.Accepted && !n.NotObserved }

func (n NodeENI) readyCell() terminal.Cell {
	if !n.reconciled() {
		return terminal.Cell{Text: terminal.Busy.Sign() + " Unknown", Style: terminal.Busy}
	}
	return readiness(n.Ready)
}

// readiness writes a condition with its sign.
func readiness(c Condition) terminal.Cell {
	m := map[string]terminal.Style{"True": terminal.Good, "False": terminal.Bad}[c.Status]
	passes := passing(c.Reason) || c.Reason == "Progressing" || c.Reason == reasonDeleting
	if m == terminal.Plain || m == terminal.Bad && passes {
		m = terminal.Busy
	}
	return terminal.Cell{Text: m.Sign() + " " + cmp.Or(c.Status, "Unknown"), Style: m}
}

// number writes a count, and marks one that is not zero.
func number(n int, m terminal.Style) terminal.Cell {
	if n == 0 && m == terminal.Bad {
		return terminal.Cell{Text: "0", Style: terminal.Idle}
	}
	return terminal.Cell{Text: fmt.Sprint(n), Style: m}
}
