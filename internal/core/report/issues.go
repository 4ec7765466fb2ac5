// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/floating"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/terminal"
)

// Issue is one reason for which interfaces of one NodeENI are not as desired, on all nodes with this reason.
type Issue struct {
	Reason  string `json:"reason"`
	NodeENI string `json:"nodeENI"`
	// Passing is set when the issue resolves without a user.
	Passing bool     `json:"passing"`
	Nodes   []string `json:"nodes"`
	// Message is that of the first node.
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
}

// issues groups the interfaces that are not ready. Issues that need a user come first, then those of the most nodes.
func issues(nodes []Node) []Issue {
	type key struct{ nodeENI, reason string }
	groups := map[key]*Issue{}
	var order []key
	note := func(node string, k key, message string) {
		group, known := groups[k]
		if !known {
			group = &Issue{Reason: k.reason, NodeENI: k.nodeENI, Passing: passing(k.reason), Message: message,
				Advice: Remediation(k.reason)}
			groups[k] = group
			order = append(order, k)
		}
		if !slices.Contains(group.Nodes[max(0, len(group.Nodes)-1):], node) {
			group.Nodes = append(group.Nodes, node)
		}
	}
	for _, n := range nodes {
		for _, i := range n.Interfaces {
			if reason, message := i.trouble(); reason != "" {
				note(n.Name, key{i.NodeENI, reason}, message)
			}
		}
	}
	all := make([]Issue, 0, len(order))
	for _, k := range order {
		all = append(all, *groups[k])
	}
	slices.SortStableFunc(all, func(a, b Issue) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(b.Nodes), len(a.Nodes)),
			cmp.Compare(a.NodeENI, b.NodeENI), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

func rank(t Issue) int {
	if t.Passing {
		return 1
	}
	return 0
}

// ofAddresses are the reasons of addresses that pods brought up. The interface works.
var ofAddresses = []string{floating.ReasonContended, floating.ReasonAddressRefused, floating.ReasonAddressesLimited,
	floating.ReasonNotDeclared}

// passing reports whether the interface works, or its reason resolves without a user.
func passing(reason string) bool {
	return plan.Reason(reason).Transient() || slices.Contains(ofAddresses, reason) ||
		strings.HasPrefix(reason, linkPrefix) && reason != linkPrefix+"Refused"
}

// works reports whether the interface can be used as declared in spite of the reason.
func works(reason string) bool {
	return slices.Contains(ofAddresses, reason) || slices.Contains([]plan.Reason{plan.AddressesKept, plan.AddressesInUse,
		plan.PrefixesLimited, plan.UnsupportedByType}, plan.Reason(reason))
}

// linkPrefix is the prefix of reasons from the agent on the node.
const linkPrefix = "Link"

// trouble returns why the interface is not as desired; "" if it is.
func (i Interface) trouble() (reason, message string) {
	differs := "differs in " + strings.Join(i.Drift, ", and in ")
	switch {
	case i.Reason != "":
		return i.Reason, i.Message
	case i.Closed && i.Held:
		return string(plan.InUseByPods), "it will be removed once no pod uses it, and no further pod can attach"
	case len(i.Drift) > 0:
		return reasonDrifted, differs
	case i.Phase != plan.Attached:
		return string(plan.InProgress), "EC2 is at work on " + cmp.Or(i.ENIID, "it")
	case i.Link != nil && !hostnet.State(i.Link.State).Usable():
		return linkPrefix + i.Link.State, cmp.Or(i.Link.Message, i.Link.Reason)
	default:
		return "", ""
	}
}

// style returns the style of the state of an interface.
func (i Interface) style() terminal.Style {
	switch reason, _ := i.trouble(); {
	case reason == "":
		return terminal.Good
	case passing(reason):
		return terminal.Busy
	default:
		return terminal.Bad
	}
}

// text prints a trouble as a paragraph.
func (t Issue) text(p Page) string {
	m := terminal.Bad
	if t.Passing {
		m = terminal.Busy
	}
	text := p.paragraph(p.sign(m)+" ", t.Reason+" — "+t.NodeENI+" on "+p.Names(t.Nodes))
	cause, next := split(t.Message)
	text += p.paragraph("  ", cause)
	if next = cmp.Or(next, t.Advice); next != "" {
		text += p.paragraph("  → ", next)
	}
	return text
}

// split splits a message before its next step: messages name the object and the cause, and after a semicolon the next
// step.
func split(message string) (cause, next string) {
	cause, next, _ = strings.Cut(message, "; ")
	return cause, next
}

// mostNames is the maximum number of names that are listed; the others are counted.
const mostNames = 4

func (p Page) sign(m terminal.Style) string { return p.paint(m, m.Sign()) }
