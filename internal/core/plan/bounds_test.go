// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

var spoilt = identity.Key{Owner: "uid-a"}

// TestGenerationsThatSomebodyWrote has generations in tags that another program wrote. The next one is one more, and
// the same in each plan; after the last possible one there is none.
func TestGenerationsThatSomebodyWrote(t *testing.T) {
	const future = 95617584000 // in the year 5000
	cases := map[string]struct {
		spent, next identity.Generation
		blocked     bool
	}{
		"a time of the past":  {spent: identity.GenerationAt(start) - 1, next: identity.GenerationAt(start)},
		"a time of next year": {spent: future, next: future + 1},
		"the last":            {spent: identity.MaxGeneration, blocked: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			o := w.observe(identity.Generations{})
			o.UsedGenerations[spoilt] = tc.spent
			for second := range 3 {
				now := start.Add(time.Duration(second) * time.Second)
				p := compute(desired(claim("a", desiredInterface(0, 1, "subnet-a"))), o, now)
				if blocked := p.Members[0].Phase == plan.Blocked; blocked != tc.blocked || len(p.Actions) == 0 != tc.blocked {
					t.Fatalf("blocked %t, actions %v", blocked, p.Actions)
				}
				if p.Ledger[spoilt] != tc.next {
					t.Fatalf("generation %d after %d s, want %d", p.Ledger[spoilt], second, tc.next)
				}
				o.Ledger = p.Ledger
			}
		})
	}
}

// TestAGenerationOfTheFutureIsNoTime checks that no ledger is kept and no new interface waits for a generation in the
// future.
func TestAGenerationOfTheFutureIsNoTime(t *testing.T) {
	const future = 95617584000
	w := newMinimalEC2(limits(4))
	o := w.observe(identity.Generations{spoilt: future})
	o.Era = era.Era{Since: start.Add(-inventory.VisibilityWindow)}
	if p := compute(desired(), o, start); len(p.Ledger) != 0 {
		t.Errorf("the ledger keeps %v until %s", p.Ledger, p.RequeueAt)
	}
	o.UsedGenerations, o.RemovedExternally = identity.Generations{spoilt: future}, map[identity.Key]time.Time{spoilt: start}
	p := compute(desired(claim("a", desiredInterface(0, 1, "subnet-a"))), o, start.Add(plan.RecreateAfter))
	if len(p.Actions) != 1 {
		t.Errorf("nothing is made before %s", p.RequeueAt)
	}
}

// TestALedgerHasRoomForAllThatMatters has too many entries: the plan drops those that tags name as well.
func TestALedgerHasRoomForAllThatMatters(t *testing.T) {
	w := newMinimalEC2(limits(4))
	promised := identity.Key{Owner: "uid-b"}
	ledger := identity.Generations{promised: identity.GenerationAt(start)}
	for ordinal := range plan.MaxLedger {
		m := identity.Member{
			Cluster: cluster, NodeENI: "a", Node: nodeName, InstanceID: instance,
			Key: identity.Key{Owner: "uid-a", Ordinal: ordinal}, Generation: identity.GenerationAt(start),
		}
		i := w.make("subnet-a", m.Tags(start, nil))
		w.interfaces[i.ID] = i
		ledger[m.Key] = m.Generation
	}
	kept := claim("a")
	kept.Mode = render.Retain
	o := w.observe(ledger)
	p := compute(desired(kept), o, start)
	if _, is := p.Ledger[promised]; !is || len(p.Ledger) != plan.MaxLedger {
		t.Errorf("%d entries; the one that nothing else tells of is kept: %t", len(p.Ledger), is)
	}
	o.Ledger = p.Ledger
	if again := compute(desired(kept), o, start); len(again.Ledger) != plan.MaxLedger {
		t.Errorf("%d entries the second time", len(again.Ledger))
	}
}
