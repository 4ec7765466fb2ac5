// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/core/text"
)

// mostHeld is the number of objects that the text about an uninstallation lists.
const mostHeld = 20

// Remains is what an uninstallation has not removed yet.
type Remains struct {
	NodeENIs, Interfaces, Nodes, Reservations int
	// NodeTemplates is the number of AWSNodeTemplates that still have a finalizer.
	NodeTemplates int
	// Held are the objects that wait for something.
	Held []Held
}

// Held is an object that an uninstallation cannot remove yet.
type Held struct {
	// Object names it, for example "NodeENI n3: interface eni-1 on node node-a1".
	Object string
	// Reason and Message say why, with the next step.
	Reason, Message string
}

// Empty reports whether nothing is left.
func (r Remains) Empty() bool {
	return r.NodeENIs+r.Interfaces+r.Nodes+r.Reservations+r.NodeTemplates == 0
}

// Summary counts what is left, in one line.
func (r Remains) Summary() string {
	var parts []string
	for _, p := range []struct {
		count int
		noun  string
	}{{r.NodeENIs, "NodeENI"}, {r.Reservations, "SubnetReservation"}, {r.NodeTemplates, "AWSNodeTemplate"}} {
		if p.count > 0 {
			parts = append(parts, text.Count(p.count, p.noun))
		}
	}
	if r.Nodes > 0 {
		parts = append(parts, text.Count(r.Interfaces, "interface")+" of "+text.Count(r.Nodes, "node"))
	}
	return "left: " + strings.Join(parts, ", ")
}

// Text is the summary, and a paragraph for each object that waits for something.
func (r Remains) Text(p Page) string {
	var b strings.Builder
	b.WriteString(r.Summary() + "\n")
	held := slices.Clone(r.Held)
	slices.SortFunc(held, func(a, b Held) int { return cmp.Compare(a.Object, b.Object) })
	for _, h := range held[:min(len(held), mostHeld)] {
		b.WriteString(p.paragraph(p.paint(terminal.Busy, terminal.Busy.Sign())+" ", h.Object+": "+h.why()))
	}
	if more := len(held) - mostHeld; more > 0 {
		fmt.Fprintf(&b, "  and %d more: kubectl get eni -o wide has them\n", more)
	}
	return b.String()
}

// why is the reason with its message, or with the advice for the reason.
func (h Held) why() string {
	message := cmp.Or(h.Message, Remediation(h.Reason))
	if h.Reason == "" || message == "" {
		return h.Reason + message
	}
	return h.Reason + ": " + message
}
