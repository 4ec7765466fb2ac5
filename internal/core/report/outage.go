// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"

	"github.com/multieni/multieni/internal/core/terminal"
)

// Outage is one reason for which the controller changes nothing for NodeENIs. It is in no state of a node.
type Outage struct {
	Reason   string   `json:"reason"`
	NodeENIs []string `json:"nodeENIs"`
	Message  string   `json:"message"`
	Advice   string   `json:"advice,omitempty"`
}

// outages groups the NodeENIs for which the controller changes nothing by reason and message.
func outages(nodeENIs []NodeENI) (all []Outage) {
	for _, e := range nodeENIs {
		ready := e.Ready
		if ready.Status != "False" || ready.Reason != reasonUnreadable && ready.Reason != reasonOtherName {
			continue
		}
		n := slices.IndexFunc(all, func(o Outage) bool { return o.Reason == ready.Reason && o.Message == ready.Message })
		if n < 0 {
			n = len(all)
			all = append(all, Outage{Reason: ready.Reason, Message: ready.Message, Advice: Remediation(ready.Reason)})
		}
		all[n].NodeENIs = append(all[n].NodeENIs, e.Name)
	}
	return all
}

// text prints an outage as a paragraph.
func (o Outage) text(p Page) string {
	cause, next := split(o.Message)
	return p.paragraph(p.sign(terminal.Bad)+" ", o.Reason+" — "+p.Names(o.NodeENIs)) +
		p.paragraph("  ", cause) + p.paragraph("  → ", cmp.Or(next, o.Advice))
}
