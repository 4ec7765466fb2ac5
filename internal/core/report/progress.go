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

// Progress is the progress of some NodeENIs.
type Progress struct {
	Ready, Attached, Desired, Blocked int
	NodeENIs                          int
	// Waiting are the NodeENIs that are not ready, each with the reason for it.
	Waiting []string
	// Done is set if all are ready. Stuck is set if all others wait for a user.
	Done, Stuck bool
}

// NewProgress sums up the NodeENIs. A NodeENI is done when it is Ready for its newest generation.
func NewProgress(nodeENIs []NodeENI) Progress {
	p := Progress{NodeENIs: len(nodeENIs), Done: true}
	stalled := 0
	for _, n := range nodeENIs {
		p.Attached, p.Desired, p.Blocked = p.Attached+n.Attached, p.Desired+n.Desired, p.Blocked+n.Blocked
		if n.reconciled() && n.Ready.Status == "True" {
			p.Ready++
			continue
		}
		p.Done = false
		p.Waiting = append(p.Waiting, fmt.Sprintf("%s (%s)", n.Name, n.state()))
		if n.reconciled() && slices.ContainsFunc(n.Conditions, func(c Condition) bool {
			return c.Type == "Stalled" && c.Status == "True"
		}) {
			stalled++
		}
	}
	p.Stuck = len(p.Waiting) > 0 && stalled == len(p.Waiting)
	return p
}

// Left names the NodeENIs that are not ready, and the command that explains why.
func (p Progress) Left() string {
	return Page{}.names(p.Waiting) + "; kubectl eni status says why"
}

// Line is the progress in one line, with a bar if it fits.
func (p Progress) Line(page Page) string {
	const bar = 20
	if p.Done && p.Desired == 0 {
		return "nothing is wanted: no node carries the labels of a nodeSelector"
	}
	line := fmt.Sprintf("%d/%d attached", p.Attached, p.Desired)
	if p.Blocked > 0 {
		line += fmt.Sprintf(", %d blocked", p.Blocked)
	}
	line += fmt.Sprintf(", %d/%d NodeENIs ready", p.Ready, p.NodeENIs)
	if page.Width > 0 && page.Width < len(line)+bar+2 {
		return text.Fit(line, page.Width)
	}
	full := 0
	if p.Desired > 0 {
		full = bar * min(p.Attached, p.Desired) / p.Desired
	}
	if p.Done {
		full = bar
	}
	return page.paint(terminal.Good, strings.Repeat("█", full)) +
		page.paint(terminal.Idle, strings.Repeat("░", bar-full)) + "  " + line
}
