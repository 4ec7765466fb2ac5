// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"github.com/multieni/multieni/internal/core/inventory"
)

// keepClosed keeps the network of an interface closed to pods while a call to detach the interface may take effect: a
// user can want the interface back after the call began. A network that drains goes on to drain, and one that the agent
// reports does not get the record that it is open.
func (p *planner) keepClosed(s step) step {
	if s.Interface == nil || s.m.Record == nil || !p.isClosed(s.m) {
		return s
	}
	until := p.detachesEndAt(s.m.Record)
	isRead := !p.readAt(s.m).Before(until)
	if isRead && phaseOf(s.m.Record.Interface) != Detaching {
		return s
	}
	stored, removed := p.Stored[s.Interface.ID], s.DrainPods
	drains := stored.Listed != nil && stored.Listed.Draining
	s.KeepClosed, s.DrainPods = true, removed || drains
	switch opens := drains || stored.Report != nil && !stored.Report.Drained; {
	case removed, isRead, !opens:
	case p.now.Before(until):
		s = s.requeue(until)
	default:
		s.needsFreshRead = true
	}
	return s
}

// isClosed reports whether a member's interface is a network for pods that no pod uses, and that the state of the node
// does not list as open. No leader begins to detach an interface whose network it does not close first.
func (p *planner) isClosed(m *Interface) bool {
	stored := p.Stored[m.Record.ID]
	switch {
	case stored.Report != nil && stored.Report.Used > 0:
		return false
	case stored.Listed == nil:
		return m.IsPodNetwork
	default:
		return stored.Listed.Draining || !stored.Listed.Opened
	}
}

// detachesEndAt returns the time from which a read shows the effects of all calls to detach an interface that EC2 did
// not answer to this process: those of earlier leaders, if they can know the interface, and the last one of its own.
func (p *planner) detachesEndAt(r *inventory.Record) (at time.Time) {
	if !r.Made {
		at = p.Era.SettledAt()
	}
	if own := r.UnansweredDetach; !own.IsZero() {
		at = later(at, own.Add(inventory.StaleReadWindow))
	}
	return at
}
