// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/forecast"
	"github.com/multieni/multieni/plan"
)

// Planned is what a change of the declarations would come to.
type Planned struct {
	Create  int `json:"create"`
	Change  int `json:"change"`
	Remove  int `json:"remove"`
	Blocked int `json:"blocked"`
	// Nodes are those for which something would be done, or would be blocked.
	Nodes []PlannedNode `json:"nodes"`
	// Unchanged is how many nodes that a NodeENI selects would stay as they are.
	Unchanged int `json:"unchanged"`
	// Calls counts the calls to EC2 by operation.
	Calls map[string]int `json:"calls"`
	// Seconds is the least time in which EC2's request limits allow them, and Slowest the operation that takes it.
	Seconds float64 `json:"seconds"`
	Slowest string  `json:"slowest,omitempty"`
	// Skipped says which nodes were left out, and why.
	Skipped []string `json:"skipped,omitempty"`
}

// PlannedNode is what would be done for one node.
type PlannedNode struct {
	Name string `json:"name"`
	// Steps are the calls, one sentence each.
	Steps []string `json:"steps,omitempty"`
	// Blocked are the interfaces that it would not get.
	Blocked []string `json:"blocked,omitempty"`
	signs   []mood
	shape   string
}

// Drafted is the outcome of a plan for one node.
type Drafted struct {
	Node    string
	Outcome forecast.Outcome
	// Blocked are the members, as NodeENI and ordinal, that are blocked today: they are no news.
	Blocked map[string]bool
}

// NewPlanned sums the outcomes for nodes up. Rates are those at which EC2 is asked.
func NewPlanned(drafts []Drafted, rates map[string]forecast.Rate) Planned {
	v := Planned{Nodes: []PlannedNode{}, Calls: map[string]int{}}
	slices.SortFunc(drafts, func(a, b Drafted) int { return cmp.Compare(a.Node, b.Node) })
	for _, d := range drafts {
		node := v.node(d)
		if len(node.Steps) == 0 && len(node.Blocked) == 0 {
			v.Unchanged++
			continue
		}
		v.Nodes = append(v.Nodes, node)
		for operation, n := range forecast.Calls(d.Outcome.Actions) {
			v.Calls[operation] += n
		}
	}
	least, slowest := forecast.LeastTime(v.Calls, rates)
	v.Seconds, v.Slowest = least.Seconds(), slowest
	return v
}

// node sums one node up: what is made, removed and changed, not each call that it takes.
func (v *Planned) node(d Drafted) PlannedNode {
	node := PlannedNode{Name: d.Node}
	fresh := map[string]bool{}
	for _, action := range d.Outcome.Actions {
		owner := action.Of().NodeENI
		switch a := action.(type) {
		case plan.Create:
			v.Create++
			fresh[memberName(a.Member.NodeENI, a.Member.Ordinal)] = true
			node.step(good, fmt.Sprintf("+ %s: %s", owner, a), fmt.Sprintf("+ %s: create in %s at %s", owner, a.SubnetID, a.Slot))
		case plan.Delete:
			v.Remove++
			node.step(bad, fmt.Sprintf("- %s: %s", owner, a), fmt.Sprintf("- %s: delete, since %s", owner, a.Why))
		case plan.Change:
			if _, trailing := a.To.(plan.DeleteOnTermination); trailing && fresh[memberName(owner, a.Member.Ordinal)] {
				continue // part of making it
			}
			v.Change++
			node.step(busy, fmt.Sprintf("~ %s: %s", owner, a), fmt.Sprintf("~ %s: %s", owner, a.To))
		}
	}
	for _, m := range d.Outcome.Members {
		if m.Phase != plan.Blocked {
			continue
		}
		v.Blocked++
		text := fmt.Sprintf("%s: %s: %s", m.NodeENI, m.Why.Reason, m.Why.Message)
		if !slices.Contains(node.Blocked, text) { // several subnets of one NodeENI can lack the same
			node.Blocked = append(node.Blocked, text)
		}
		node.shape += string(m.Why.Reason) + m.NodeENI
	}
	return node
}

func memberName(nodeENI string, ordinal int) string { return fmt.Sprintf("%s[%d]", nodeENI, ordinal) }

func (n *PlannedNode) step(m mood, text, shape string) {
	n.Steps, n.signs = append(n.Steps, text), append(n.signs, m)
	n.shape += shape + "\n"
}

// Text prints the plan, like nodes together.
func (v Planned) Text(p Page) string {
	var b strings.Builder
	for _, group := range alike(v.Nodes) {
		first := group[0]
		names := make([]string, len(group))
		for i, n := range group {
			names[i] = n.Name
		}
		b.WriteString(p.paint(strong, p.paragraph("", p.names(names))))
		for i, step := range first.Steps {
			b.WriteString(p.paint(first.signs[i], p.paragraph("  ", step)))
		}
		for _, blocked := range first.Blocked {
			cause, next := split(blocked)
			b.WriteString(p.paint(bad, p.paragraph("  ✗ ", cause)))
			if next != "" {
				b.WriteString(p.paragraph("    → ", next))
			}
		}
		if len(group) > 1 && len(first.Steps) > 0 {
			b.WriteString(p.paint(idle, p.paragraph("  ", fmt.Sprintf("and the same on %s", count(len(group)-1, "other node")))))
		}
		b.WriteString("\n")
	}
	for _, skipped := range v.Skipped {
		b.WriteString(p.paragraph("· ", skipped))
	}
	b.WriteString(p.paragraph("", fmt.Sprintf("%d to create, %d to change, %d to remove, %d blocked; %s unchanged.",
		v.Create, v.Change, v.Remove, v.Blocked, count(v.Unchanged, "node"))))
	b.WriteString(v.cost(p))
	return b.String()
}

func (v Planned) cost(p Page) string {
	calls := 0
	var parts []string
	for _, operation := range slices.Sorted(maps.Keys(v.Calls)) {
		calls += v.Calls[operation]
		parts = append(parts, fmt.Sprintf("%s %d", operation, v.Calls[operation]))
	}
	if calls == 0 {
		return p.paragraph("", "No call to EC2.")
	}
	text := fmt.Sprintf("%s to EC2: %s.", count(calls, "call"), strings.Join(parts, ", "))
	if v.Seconds > 0 {
		least := time.Duration(v.Seconds * float64(time.Second)).Round(time.Second)
		text += fmt.Sprintf(" EC2's request limits make that at least %s, because of %s.", least, v.Slowest)
	} else {
		text += " EC2's request limits allow them at once."
	}
	return p.paragraph("", text)
}

// alike groups nodes for which the same would be done, in the order of their first.
func alike(nodes []PlannedNode) [][]PlannedNode {
	at := map[string]int{}
	var groups [][]PlannedNode
	for _, n := range nodes {
		i, known := at[n.shape]
		if !known {
			i = len(groups)
			at[n.shape], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], n)
	}
	return groups
}
