// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
)

// Explain returns the plan in words: the state of each member, then the calls to make, one line each.
func (p Plan) Explain() string {
	var b strings.Builder
	for _, m := range p.Members {
		id := "-"
		if m.Interface != nil {
			id = m.Interface.ID
		}
		fmt.Fprintf(&b, "%s[%d] %s %s %s", m.NodeENI, m.Ordinal, m.Phase, id, m.Slot)
		if m.Desired && m.Slot != m.RequestedSlot {
			fmt.Fprintf(&b, " (asked for %s)", m.RequestedSlot)
		}
		if m.Why.Reason != "" {
			fmt.Fprintf(&b, " %s: %s", m.Why.Reason, m.Why.Message)
		}
		for _, d := range m.Drift {
			fmt.Fprintf(&b, "; differs in %s", d)
		}
		b.WriteByte('\n')
	}
	for _, a := range p.Actions {
		fmt.Fprintf(&b, "-> %s\n", a)
	}
	for _, e := range p.Evictions {
		fmt.Fprintf(&b, "-> %s\n", e)
	}
	if p.NeedsDescribe {
		b.WriteString("-> look at the instance first\n")
	}
	return b.String()
}
