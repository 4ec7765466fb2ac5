// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"
)

// Compute decides about the interfaces of one instance. It knows objects and EC2, and nothing of NodeENIs, Nodes or
// agents. Once the effects of all calls are visible, it returns a plan without calls.
func Compute(want []Interface, have Facts, now time.Time) Plan {
	p := newPlanner(want, have, now)
	p.takeOver()
	for _, m := range p.items {
		p.resolveENA(m)
	}
	p.slots = ObservedSlots(p.cluster, p.instanceID, p.Facts, now)
	p.allocateSlots()
	for _, m := range p.items {
		p.apply(p.next(m))
	}
	for _, update := range p.Repairs {
		p.apply(p.repair(update))
	}
	return p.finish()
}

// finish completes the plan. It proposes all calls if the plan has no fresh read of the instance.
func (p *planner) finish() Plan {
	needsRead := false
	for _, s := range p.steps {
		needsRead = needsRead || s.needsRead
		if s.m.isRepair() {
			continue
		}
		if s.Interface != nil {
			s.Requested = s.Interface.Common(s.m.Requested.With(s.m.record.Requested))
		}
		s.Granted, s.ENA = p.granted(s.m), p.recordENA(s)
		p.plan.Interfaces = append(p.plan.Interfaces, s.State)
	}
	p.plan.Calls = slices.DeleteFunc(p.plan.Calls, p.waitsForAnswer)
	if p.Snapshot == nil {
		p.plan.NeedsRead = needsRead || len(p.plan.Calls) > 0
		p.plan.Proposed, p.plan.Calls = p.plan.Calls, nil
	}
	return p.plan
}
