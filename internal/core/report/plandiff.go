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
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/core/text"
)

// PlanDiff has the effects of a change of the declarations.
type PlanDiff struct {
	Create int `json:"create"`
	Change int `json:"change"`
	Remove int `json:"remove"`
	// Blocked is the number of interfaces that nodes would not get.
	Blocked int `json:"blocked"`
	// Drifted is the number of interfaces that would stay as they are although they differ.
	Drifted int `json:"drifted"`
	// Nodes are those with a call, and those with an interface that is blocked or stays as it is; nodes that lose
	// interfaces come first.
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
		for operation, n := range forecast.Calls(d.Outcome.Calls) {
			v.Calls[operation] += n
		}
	}
	slices.SortStableFunc(v.Nodes, func(a, b NodeDiff) int {
		return cmp.Compare(min(b.removes, 1), min(a.removes, 1))
	})
	least, slowest := forecast.MinDuration(v.Calls, rates)
	v.Seconds, v.Slowest = least.Seconds(), slowest
	return v
}

// node sums up one node: what is removed, created and changed, not each call.
func (v *PlanDiff) node(d SimulatedNode) NodeDiff {
	node := NodeDiff{Name: d.Node}
	for _, e := range d.Outcome.Evictions {
		line := fmt.Sprintf("! %s: %s", e.Key.NodeENI, e)
		node.step(terminal.Bad, line, line) // nodes with different pods are not alike
	}
	v.removals(&node, d.Outcome.Calls)
	fresh, placed := map[string]bool{}, map[string]bool{} // interfaces with a step about their creation or attachment
	for _, call := range d.Outcome.Calls {
		owner, name := call.Of().NodeENI, interfaceName(call.Of())
		switch a := call.(type) {
		case plan.Create:
			v.Create++
			fresh[name] = true
			node.step(terminal.Good, fmt.Sprintf("+ %s: %s", owner, a),
				fmt.Sprintf("+ %s: create in %s at %s", owner, a.SubnetID, a.Slot))
		case plan.Attach:
			if placed[a.InterfaceID] || fresh[name] {
				continue // part of the creation
			}
			placed[a.InterfaceID] = true
			v.Change++
			node.step(terminal.Busy, fmt.Sprintf("~ %s: %s", owner, a), fmt.Sprintf("~ %s: attach at %s", owner, a.Slot))
		case plan.Change:
			_, trailing := a.To.(plan.DeleteOnTermination)
			if trailing && (placed[a.InterfaceID] || fresh[name]) {
				continue // part of the attachment
			}
			v.Change++
			node.step(terminal.Busy, fmt.Sprintf("~ %s: %s", owner, a), fmt.Sprintf("~ %s: %s", owner, a.To))
		}
	}
	v.standing(&node, d.Outcome.Interfaces)
	return node
}

// removals lists the interfaces that a node would lose, first of all, because they can be in use.
func (v *PlanDiff) removals(node *NodeDiff, calls []plan.Call) {
	attached := map[string]bool{}
	for _, call := range calls {
		switch a := call.(type) {
		case plan.Detach:
			attached[a.InterfaceID] = true
		case plan.Delete:
			v.Remove++
			node.removes++
			how := "delete"
			if attached[a.InterfaceID] {
				how = "detach and delete"
			}
			owner := a.Key.NodeENI
			node.step(terminal.Bad, fmt.Sprintf("- %s: %s %s: %s", owner, how, a.InterfaceID, a.Why),
				fmt.Sprintf("- %s: %s, since %s", owner, how, a.Why))
		}
	}
}

// standing lists the interfaces that a node would not get, and those that would stay as they are although they differ.
func (v *PlanDiff) standing(node *NodeDiff, interfaces []forecast.Interface) {
	for _, i := range interfaces {
		owner, why := i.Key.NodeENI, i.Problem
		text := fmt.Sprintf("%s: %s: %s", owner, why.Reason, why.Message)
		switch {
		case i.Phase == plan.Blocked:
			v.Blocked++
			if !slices.Contains(node.Blocked, text) { // several subnets of one NodeENI can lack the same
				node.Blocked = append(node.Blocked, text)
			}
			node.shape += string(why.Reason) + owner
		case why.Reason == plan.InUseByPods:
			node.step(terminal.Busy, "! "+text, "! "+text)
		case len(i.Drift) > 0 && i.Goal != plan.Release:
			v.Drifted++
			kept := whyKept(i)
			node.Drifted = append(node.Drifted, fmt.Sprintf("%s: %s: %s", owner, kept.Reason, kept.Message))
			node.shape += fmt.Sprintf("%s%d%s", owner, i.Key.Ordinal, i.Drift)
		}
	}
}

func interfaceID(i forecast.Interface) string {
	if i.Interface == nil {
		return ""
	}
	return i.Interface.ID
}

// whyKept says why an interface stays as it is although it differs from what is declared.
func whyKept(i forecast.Interface) plan.Problem {
	return cmp.Or(i.Kept, plan.Problem{Reason: plan.Drifted, Message: fmt.Sprintf("%s differs in %s; %s",
		cmp.Or(interfaceID(i), "it"), differences(i.Drift), Remediation(string(plan.Drifted)))})
}

// differences lists what only a replacement can correct.
func differences(drift []plan.Drift) string {
	var all []string
	for _, d := range drift {
		all = append(all, fmt.Sprintf("%s: want %s, have %s", d.Field, d.Want, d.Have))
	}
	return strings.Join(all, ", and in ")
}

func interfaceName(i identity.Interface) string { return fmt.Sprintf("%s[%d]", i.NodeENI, i.Ordinal) }

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
		"%d to create, %d to change, %d to remove, %d blocked, %d drifted; %s unchanged.",
		v.Create, v.Change, v.Remove, v.Blocked, v.Drifted, text.Count(v.Unchanged, "node"))))
	b.WriteString(v.cost(p))
	return b.String()
}

// warning returns what would be lost, for the beginning of the text.
func (v PlanDiff) warning(p Page) string {
	removing := 0
	for _, n := range v.Nodes {
		removing += min(n.removes, 1)
	}
	if v.Remove == 0 {
		return ""
	}
	loss := fmt.Sprintf("%s would be removed from %s, where pods can use what is attached:",
		text.Count(v.Remove, "interface"), text.Count(removing, "node"))
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
