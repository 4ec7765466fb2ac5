// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/core/text"
)

// PlanDiff has the effects of a change of the declarations.
type PlanDiff struct {
	Create int `json:"create"`
	Change int `json:"change"`
	Remove int `json:"remove"`
	// Move is the number of live interfaces that would be detached and attached in another slot of their node.
	Move    int `json:"move"`
	Blocked int `json:"blocked"`
	// Drifted is the number of interfaces that would stay as they are although they differ.
	Drifted int `json:"drifted"`
	// Nodes are those with an action, a blocked interface or a retained one; nodes that lose interfaces come first,
	// then those whose interfaces move.
	Nodes []NodeDiff `json:"nodes"`
	// Unchanged is the number of nodes that a NodeENI selects and that would stay as they are.
	Unchanged int `json:"unchanged"`
	// Calls counts the calls to EC2 by operation.
	Calls map[string]int `json:"calls"`
	// Seconds is the minimum time for them with EC2's request limits, and Slowest the operation that needs it.
	Seconds float64 `json:"seconds"`
	Slowest string  `json:"slowest,omitempty"`
	// Shortages are the subnets without enough addresses for all interfaces that would be created.
	Shortages []Shortage `json:"shortages,omitempty"`
	// Crowded are the nodes on which the new interfaces take attachments that the EBS CSI driver offers to volumes.
	Crowded []Crowding `json:"crowded,omitempty"`
	// PodSizings are those of the pod networks that would be declared.
	PodSizings []PodSizing `json:"podSizings,omitempty"`
	// VPCCNI has what is left to the VPC CNI on the nodes that gain or lose interfaces, by instance type.
	VPCCNI []CNIRoom `json:"vpcCNI,omitempty"`
	// Skipped names the nodes that were skipped, and why.
	Skipped []string `json:"skipped,omitempty"`
}

// NodeDiff has the effects on one node.
type NodeDiff struct {
	Name string `json:"name"`
	// Steps are the calls, one sentence each.
	Steps []string `json:"steps,omitempty"`
	// Blocked are the interfaces that the node would not get.
	Blocked []string `json:"blocked,omitempty"`
	// Drifted are the interfaces that would stay as they are although they differ.
	Drifted []string `json:"drifted,omitempty"`
	removes int
	moves   int
	signs   []terminal.Style
	shape   string
}

// SimulatedNode is the outcome of a plan for one node.
type SimulatedNode struct {
	Node    string
	Outcome forecast.Outcome
	// Look is the instance before the plan, and Limits are those of its type.
	Look   eni.InstanceSnapshot
	Limits eni.Limits
}

// NewPlanDiff sums up the outcomes for nodes. Rates are the request rates of the calls to EC2.
func NewPlanDiff(drafts []SimulatedNode, rates map[string]forecast.Rate) PlanDiff {
	v := PlanDiff{Nodes: []NodeDiff{}, Calls: map[string]int{}}
	slices.SortFunc(drafts, func(a, b SimulatedNode) int { return cmp.Compare(a.Node, b.Node) })
	for _, d := range drafts {
		node := v.node(d)
		if len(node.Steps) == 0 && len(node.Blocked) == 0 && len(node.Drifted) == 0 {
			v.Unchanged++
			continue
		}
		v.Nodes = append(v.Nodes, node)
		for operation, n := range forecast.Calls(d.Outcome.Actions) {
			v.Calls[operation] += n
		}
	}
	slices.SortStableFunc(v.Nodes, func(a, b NodeDiff) int {
		return cmp.Or(cmp.Compare(min(b.removes, 1), min(a.removes, 1)), cmp.Compare(min(b.moves, 1), min(a.moves, 1)))
	})
	least, slowest := forecast.MinDuration(v.Calls, rates)
	v.Seconds, v.Slowest = least.Seconds(), slowest
	return v
}

// node sums up one node: what is removed, created and changed, not each call.
func (v *PlanDiff) node(d SimulatedNode) NodeDiff {
	node := NodeDiff{Name: d.Node}
	for _, e := range d.Outcome.Evictions {
		line := fmt.Sprintf("! %s: %s", e.Member.NodeENI, e)
		node.step(terminal.Bad, line, line) // nodes with different pods are not alike
	}
	v.removals(&node, d.Outcome.Actions)
	placed := v.moves(&node, d.Outcome.Actions) // the existing interfaces with a step about their attachment
	fresh := map[string]bool{}
	for _, action := range d.Outcome.Actions {
		owner := action.Of().NodeENI
		switch a := action.(type) {
		case plan.Create:
			v.Create++
			fresh[memberName(a.Member.NodeENI, a.Member.Ordinal)] = true
			node.step(terminal.Good, fmt.Sprintf("+ %s: %s", owner, a),
				fmt.Sprintf("+ %s: create in %s at %s", owner, a.SubnetID, a.Slot))
		case plan.Attach:
			if placed[a.InterfaceID] || fresh[memberName(owner, a.Member.Ordinal)] {
				continue // part of the move or the creation
			}
			placed[a.InterfaceID] = true
			v.Change++
			node.step(terminal.Busy, fmt.Sprintf("~ %s: %s", owner, a), fmt.Sprintf("~ %s: attach at %s", owner, a.Slot))
		case plan.Change:
			_, trailing := a.To.(plan.DeleteOnTermination)
			if trailing && (placed[a.InterfaceID] || fresh[memberName(owner, a.Member.Ordinal)]) {
				continue // part of the attachment
			}
			v.Change++
			node.step(terminal.Busy, fmt.Sprintf("~ %s: %s", owner, a), fmt.Sprintf("~ %s: %s", owner, a.To))
		}
	}
	v.standing(&node, d.Outcome.Members)
	return node
}

// removals lists the interfaces that a node would lose, first of all, because they can be in use.
func (v *PlanDiff) removals(node *NodeDiff, actions []plan.Action) {
	attached := map[string]bool{}
	for _, action := range actions {
		switch a := action.(type) {
		case plan.Detach:
			attached[a.InterfaceID] = true
		case plan.Delete:
			v.Remove++
			node.removes++
			how := "delete"
			if attached[a.InterfaceID] {
				how = "detach and delete"
			}
			owner := a.Member.NodeENI
			node.step(terminal.Bad, fmt.Sprintf("- %s: %s %s: %s", owner, how, a.InterfaceID, a.Why),
				fmt.Sprintf("- %s: %s, since %s", owner, how, a.Why))
		}
	}
}

// moves lists the live interfaces that a node would keep in another slot, which interrupts the pods that use them. It
// returns the IDs of these interfaces.
func (v *PlanDiff) moves(node *NodeDiff, actions []plan.Action) map[string]bool {
	destination, deleted := map[string]string{}, map[string]bool{}
	for _, action := range actions {
		switch a := action.(type) {
		case plan.Attach:
			// the last one counts: a swap needs a third slot
			destination[a.InterfaceID] = " and attach it at " + a.Slot.String()
		case plan.Delete:
			deleted[a.InterfaceID] = true
		}
	}
	moved := map[string]bool{}
	for _, action := range actions {
		a, detaches := action.(plan.Detach)
		if !detaches || deleted[a.InterfaceID] || moved[a.InterfaceID] {
			continue
		}
		moved[a.InterfaceID] = true
		v.Move++
		node.moves++
		owner, where := a.Member.NodeENI, destination[a.InterfaceID]
		node.step(terminal.Bad, fmt.Sprintf("~ %s: detach %s%s: %s", owner, a.InterfaceID, where, a.Why),
			fmt.Sprintf("~ %s: detach%s", owner, where))
	}
	return moved
}

// standing lists the interfaces that a node would not get, and those that would stay as they are although they differ.
func (v *PlanDiff) standing(node *NodeDiff, members []plan.Member) {
	for _, m := range members {
		text := fmt.Sprintf("%s: %s: %s", m.NodeENI, m.Why.Reason, m.Why.Message)
		switch {
		case m.Phase == plan.Blocked:
			v.Blocked++
			if !slices.Contains(node.Blocked, text) { // several subnets of one NodeENI can lack the same
				node.Blocked = append(node.Blocked, text)
			}
			node.shape += string(m.Why.Reason) + m.NodeENI
		case m.Why.Reason == plan.InUseByPods:
			node.step(terminal.Busy, "! "+text, "! "+text)
		case len(m.Drift) > 0 && m.Why.Reason != plan.Removing:
			v.Drifted++
			if m.Why.Reason != plan.Drifted {
				text += fmt.Sprintf(", and it differs in %s", m.Drift[0])
			}
			node.Drifted = append(node.Drifted, text)
			node.shape += fmt.Sprintf("%s%s%d%s", m.Why.Reason, m.NodeENI, m.Ordinal, m.Drift)
		}
	}
}

func memberName(nodeENI string, ordinal int) string { return fmt.Sprintf("%s[%d]", nodeENI, ordinal) }

func (n *NodeDiff) step(m terminal.Style, text, shape string) {
	n.Steps, n.signs = append(n.Steps, text), append(n.signs, m)
	n.shape += shape + "\n"
}

// Text prints the plan, with equal nodes together.
func (v PlanDiff) Text(p Page) string {
	var b strings.Builder
	b.WriteString(v.warning(p))
	for _, group := range groupEqual(v.Nodes) {
		first := group[0]
		names := make([]string, len(group))
		for i, n := range group {
			names[i] = n.Name
		}
		b.WriteString(p.paint(terminal.Strong, p.paragraph("", p.Names(names))))
		for i, step := range first.Steps {
			b.WriteString(p.paint(first.signs[i], p.paragraph("  ", step)))
		}
		for _, blocked := range first.Blocked {
			b.WriteString(p.withNext(terminal.Bad, "  ✗ ", blocked))
		}
		for _, drifted := range first.Drifted {
			b.WriteString(p.withNext(terminal.Busy, "  ≠ ", drifted))
		}
		if len(group) > 1 && len(first.Steps) > 0 {
			b.WriteString(p.paint(terminal.Idle, p.paragraph("  ",
				fmt.Sprintf("and the same on %s", text.Count(len(group)-1, "other node")))))
		}
		b.WriteString("\n")
	}
	for _, shortage := range v.Shortages {
		b.WriteString(p.paint(terminal.Bad, p.paragraph("! ", shortage.String())))
	}
	for _, c := range v.Crowded {
		b.WriteString(p.paint(terminal.Bad, p.paragraph("! ", c.String()+". "+MoreAttachments)))
	}
	for _, sizing := range v.PodSizings {
		b.WriteString(p.paragraph("· ", sizing.String()))
	}
	for _, room := range v.VPCCNI {
		if found, next := room.Warning(); found != "" {
			b.WriteString(p.paint(terminal.Bad, p.paragraph("! ", found+". "+next)))
			continue
		}
		b.WriteString(p.paragraph("· ", room.String()))
	}
	for _, skipped := range v.Skipped {
		b.WriteString(p.paragraph("· ", skipped))
	}
	b.WriteString(p.paragraph("", fmt.Sprintf(
		"%d to create, %d to change, %d to move, %d to remove, %d blocked, %d drifted; %s unchanged.",
		v.Create, v.Change, v.Move, v.Remove, v.Blocked, v.Drifted, text.Count(v.Unchanged, "node"))))
	b.WriteString(v.cost(p))
	return b.String()
}

// warning returns what would be lost or interrupted, for the beginning of the text.
func (v PlanDiff) warning(p Page) string {
	removing, moving := 0, 0
	for _, n := range v.Nodes {
		removing += min(n.removes, 1)
		moving += min(n.moves, 1)
	}
	var lost []string
	if v.Remove > 0 {
		lost = append(lost, fmt.Sprintf("%s would be removed from %s", text.Count(v.Remove, "interface"),
			text.Count(removing, "node")))
	}
	if v.Move > 0 {
		lost = append(lost, fmt.Sprintf("%s would be detached and moved on %s", text.Count(v.Move, "interface"),
			text.Count(moving, "node")))
	}
	if len(lost) == 0 {
		return ""
	}
	loss := strings.Join(lost, ", and ") + ", where pods can use what is attached:"
	return p.paint(terminal.Bad, p.paragraph("! ", loss)) + "\n"
}

// withNext prints a message in two parts: the state, and below it the next step.
func (p Page) withNext(m terminal.Style, sign, message string) string {
	cause, next := split(message)
	text := p.paint(m, p.paragraph(sign, cause))
	if next != "" {
		text += p.paragraph("    → ", next)
	}
	return text
}

func (v PlanDiff) cost(p Page) string {
	calls := 0
	var parts []string
	for _, operation := range slices.Sorted(maps.Keys(v.Calls)) {
		calls += v.Calls[operation]
		parts = append(parts, fmt.Sprintf("%s %d", operation, v.Calls[operation]))
	}
	if calls == 0 {
		return p.paragraph("", "No call to EC2.")
	}
	text := fmt.Sprintf("%s to EC2: %s.", text.Count(calls, "call"), strings.Join(parts, ", "))
	if least := time.Duration(v.Seconds * float64(time.Second)).Round(time.Second); least > 0 {
		text += fmt.Sprintf(" EC2's request limits make that at least %s, because of %s.", least, v.Slowest)
	} else {
		text += " EC2's request limits allow them at once."
	}
	return p.paragraph("", text)
}

// groupEqual groups nodes for which the same would be done, in the order of their first.
func groupEqual(nodes []NodeDiff) [][]NodeDiff {
	at := map[string]int{}
	var groups [][]NodeDiff
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
