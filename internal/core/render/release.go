// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// rareRecheck is the requeue for an interface that waits for a person, or for a change that takes minutes.
const rareRecheck = 5 * time.Minute

// ReleaseInstance returns the ledger of a node that does not have the instance any more, or not yet: another Node owns
// the instance and its interfaces. It keeps the members that no other ledger names: existing interfaces until another
// ledger names them, and others until they would have become visible. That includes an interface that EC2 returns as
// unattached, because a call whose answer was lost may attach it. ReleaseInstance also returns when to compute the
// ledger again; zero for never.
func ReleaseInstance(e Evidence, o plan.Observed, now time.Time) (ledger identity.Generations, recheck time.Time) {
	r := &renderer{Evidence: e, Observed: o, now: now}
	ledger = maps.Clone(o.Ledger)
	alone := identity.Generations{}
	for _, record := range o.Owned {
		generation, stored := o.Ledger[record.Member.Key]
		if !stored || record.Member.Generation < generation {
			continue
		}
		switch other := e.OtherLedgers[record.Member.Key]; {
		case other < generation:
			alone[record.Member.Key] = generation
			recheck = sooner(recheck, now.Add(r.takeoverRecheck(record)))
		case other > generation && record.Member.Generation == generation:
			// The other ledger names a later interface, so this entry is the only evidence. It stays until the other
			// ledger forgets the later one, because its creation failed, or until this one is gone.
			alone[record.Member.Key] = generation
			recheck = sooner(recheck, now.Add(rareRecheck))
		}
		delete(ledger, record.Member.Key)
	}
	recheck = sooner(recheck, o.PruneLedger(ledger, nil, now))
	maps.Copy(ledger, alone)
	return ledger, recheck
}

// takeoverRecheck is the requeue until the ledger of the node that owns the instance names an interface. That node
// adopts interfaces with evidence at once, and leaves the rest for a person, including interfaces that a user or
// another program attached to another instance.
func (r *renderer) takeoverRecheck(record inventory.Record) time.Duration {
	if (record.Attachment == nil || record.AttachedTo(record.Member.InstanceID)) && r.hasEvidence(record) &&
		r.whyCopy(record) == "" {
		return uncertainRecheck
	}
	return rareRecheck
}

// sooner returns the earlier of two times. Zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
