// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

func TestBackoffsAreWaitedOut(t *testing.T) {
	key := identity.Key{Owner: "uid-a"}
	cases := map[string]struct {
		failure plan.Backoff
		subnets []string
		acts    bool
		phase   plan.Phase
		subnet  string
	}{
		"throttled":              {failure: plan.Backoff{Class: eni.Throttled, Count: 1}, subnets: []string{"s1"}, phase: plan.Pending},
		"subnet full":            {failure: plan.Backoff{Class: eni.NoAddresses, Count: 1}, subnets: []string{"s1"}, phase: plan.Blocked},
		"next candidate subnet":  {failure: plan.Backoff{Class: eni.NoAddresses, Count: 1}, subnets: []string{"s1", "s2"}, acts: true, phase: plan.Creating, subnet: "s2"},
		"all candidates full":    {failure: plan.Backoff{Class: eni.NoAddresses, Count: 2}, subnets: []string{"s1", "s2"}, phase: plan.Blocked},
		"not allowed":            {failure: plan.Backoff{Class: eni.Unauthorized, Count: 1}, subnets: []string{"s1"}, phase: plan.Blocked},
		"long enough ago":        {failure: plan.Backoff{Class: eni.Unauthorized, Count: 1, At: start.Add(-time.Hour)}, subnets: []string{"s1"}, acts: true, phase: plan.Creating, subnet: "s1"},
		"token spent: new token": {failure: plan.Backoff{Class: eni.IdempotencyMismatch, Count: 1, At: start.Add(-inventory.VisibilityWindow)}, subnets: []string{"s1"}, acts: true, phase: plan.Creating, subnet: "s1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			o := w.observe(identity.Generations{key: 7})
			if tc.failure.At.IsZero() {
				tc.failure.At = start
			}
			o.Backoffs = map[identity.Key]plan.Backoff{key: tc.failure}
			p := compute(desired(claim("a", desiredInterface(0, 1, tc.subnets...))), o, start)
			if acts := len(p.Actions) > 0; acts != tc.acts || p.Members[0].Phase != tc.phase {
				t.Fatalf("acts %t, want %t:\n%s", acts, tc.acts, p.Explain())
			}
			if tc.acts && p.Actions[0].(plan.Create).SubnetID != tc.subnet {
				t.Errorf("creates in %s, want %s", p.Actions[0].(plan.Create).SubnetID, tc.subnet)
			}
			if !tc.acts && p.RequeueAt != tc.failure.Retry() {
				t.Errorf("looks again at %s, want %s", p.RequeueAt, tc.failure.Retry())
			}
			if spent := tc.failure.Class == eni.IdempotencyMismatch; spent != (p.Ledger[key] > 7) {
				t.Errorf("generation is %d", p.Ledger[key])
			}
		})
	}
}

// TestASpentTokenIsWaitedForBeforeAnother has EC2 report the token of an interface as spent that it does not return
// yet. A controller that ended may have attached the interface, and a ledger with the next generation would leave it
// for a person.
func TestASpentTokenIsWaitedForBeforeAnother(t *testing.T) {
	w := newMinimalEC2(limits(4))
	key := identity.Key{Owner: "uid-a"}
	d := desired(claim("a", desiredInterface(0, 1, "s1")))
	made := compute(d, w.observe(nil), w.now)
	spent := w.now.Add(time.Second)
	o := w.observe(made.Ledger)
	o.Backoffs = map[identity.Key]plan.Backoff{key: {Class: eni.IdempotencyMismatch, Count: 1, At: spent}}
	later := spent.Add(time.Minute)
	if p := compute(d, o, later); len(p.Actions) > 0 || p.Ledger[key] != made.Ledger[key] || reasons(p)[0] != plan.NotVisible {
		t.Errorf("generation %d after %d, want it waited for:\n%s", p.Ledger[key], made.Ledger[key], p.Explain())
	}
	o.Snapshot = nil
	if p := compute(d, o, later); !p.NeedsDescribe || p.RequeueAt.IsZero() {
		t.Errorf("it is not looked for:\n%s", p.Explain())
	}
	for _, action := range made.Actions { // a controller that ended created and attached it
		w.apply(action)
	}
	w.apply(plan.Attach{Member: made.Members[0].Member, InterfaceID: w.ours()[0].ID, Slot: device(1)})
	w.verified, w.now = map[string]bool{}, later
	if p := compute(d, w.observe(made.Ledger), later); len(p.Members) == 0 || p.Members[0].Interface == nil {
		t.Errorf("it is left for a person:\n%s", p.Explain())
	}
}

// TestARecordedInterfaceThatIsGoneKeepsItsGeneration has a state name the interface of the ledger's generation, and EC2
// return none: a repeated call could give its identity to another interface, which would look like a copy.
func TestARecordedInterfaceThatIsGoneKeepsItsGeneration(t *testing.T) {
	w := newMinimalEC2(limits(4))
	key := identity.Key{Owner: "uid-a"}
	d := desired(claim("a", desiredInterface(0, 1, "s1")))
	made := compute(d, w.observe(nil), w.now)
	recorded := render.Evidence{Recorded: []render.Recorded{{ID: "eni-gone", Key: key, Generation: made.Ledger[key], Attached: true}}}
	w.now = w.now.Add(time.Hour)
	for name, tc := range map[string]struct {
		evidence render.Evidence
		leads    time.Duration
		repeats  bool
	}{
		"no state names it":         {render.Evidence{}, time.Hour, true},
		"a state names it":          {recorded, time.Hour, false},
		"reads may not show it yet": {recorded, inventory.VisibilityWindow - time.Second, true},
		"reads would show it":       {recorded, inventory.VisibilityWindow, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := w.observe(made.Ledger)
			o.Era = era.Era{Since: w.now.Add(-tc.leads)}
			p := plan.Compute(render.Interfaces(d, tc.evidence, o, w.now).Desired, o, w.now)
			if repeats := p.Ledger[key] == made.Ledger[key]; repeats != tc.repeats || len(p.Actions) != 1 {
				t.Errorf("the generation of %v is %d after %d", p.Actions, p.Ledger[key], made.Ledger[key])
			}
		})
	}
}

// refused returns the backoff after EC2 reported slots as taken.
func refused(at time.Time, slots ...eni.Slot) plan.Backoff {
	failure := plan.Backoff{}
	for _, slot := range slots {
		failure = failure.Next(eni.SlotTaken, "taken", at).Refused(slot, at)
	}
	return failure
}

func TestASlotThatOnlyEC2CallsTakenIsNotTriedForEver(t *testing.T) {
	key := identity.Key{Owner: "uid-a"}
	for name, tc := range map[string]struct {
		exact   bool
		failure plan.Backoff
		// after is the time from the last refusal to the plan; the snapshot is as old as the refusal.
		after time.Duration
		slot  eni.Slot
		why   plan.Reason
	}{
		"Prefer takes the next index":          {failure: refused(start, device(1)), after: 2 * time.Second, slot: device(2)},
		"Prefer remembers every refusal":       {failure: refused(start, device(1), device(2)), after: 2 * time.Second, slot: device(3)},
		"Prefer runs out of indexes":           {failure: refused(start, device(1), device(2), device(3)), after: 2 * time.Second, slot: device(1), why: plan.InstanceFull},
		"Exact is blocked":                     {exact: true, failure: refused(start, device(1)), after: 2 * time.Second, slot: device(1), why: plan.SlotTaken},
		"Exact tries again":                    {exact: true, failure: refused(start, device(1)), after: 6 * time.Minute, slot: device(1)},
		"Exact waits longer each time":         {exact: true, failure: refused(start, device(1), device(1)), after: 6 * time.Minute, slot: device(1), why: plan.SlotTaken},
		"Exact never waits longer than 30 min": {exact: true, failure: refused(start, slices.Repeat([]eni.Slot{device(1)}, 9)...), after: 30 * time.Minute, slot: device(1)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			w.now = start.Add(tc.after)
			c := claim("a", desiredInterface(0, 1, "s1"))
			c.ExactSlot = tc.exact
			o := w.observe(nil)
			o.Backoffs = map[identity.Key]plan.Backoff{key: tc.failure}
			m := compute(desired(c), o, w.now).Members[0]
			if m.Slot != tc.slot || m.Why.Reason != tc.why {
				t.Errorf("%s at %s, want %s at %s", m.Why.Reason, m.Slot, tc.why, tc.slot)
			}
			if blocked := m.Phase == plan.Blocked; blocked != (tc.why != "") {
				t.Errorf("the phase is %s", m.Phase)
			}
		})
	}
}

func TestWhatEC2RefusedOneMemberHoldsForTheOthers(t *testing.T) {
	w := newMinimalEC2(limits(4))
	c := claim("a", desiredInterface(0, 1, "s1"), desiredInterface(1, 2, "s2"))
	c.ExactSlot = true
	p := compute(desired(c), w.observe(nil), w.now)
	o := w.observe(p.Ledger)
	o.Backoffs = map[identity.Key]plan.Backoff{
		{Owner: "uid-a", Ordinal: 1}: refused(w.now.Add(-time.Hour), device(1)),
		{Owner: "uid-a"}:             refused(w.now, device(1)),
	}
	m := compute(desired(c), o, w.now).Members[0]
	if m.Phase != plan.Blocked || m.Why.Reason != plan.SlotTaken {
		t.Fatalf("%s %s: the slot is refused for the second time", m.Phase, m.Why)
	}
	tenMinutes := w.now.Add(10 * time.Minute)
	if o.Snapshot.At = tenMinutes; compute(desired(c), o, tenMinutes.Add(-time.Second)).Members[0].Phase != plan.Blocked {
		t.Error("a slot that was refused twice is asked for again within 10 minutes")
	}
	if m := compute(desired(c), o, tenMinutes).Members[0]; m.Phase != plan.Creating {
		t.Errorf("%s %s: the slot is not asked for again after 10 minutes", m.Phase, m.Why)
	}
}

// TestAskingAgainInVainIsNoNews retries the slots that EC2 refused for an interface, one after another if it accepts
// any slot.
func TestAskingAgainInVainIsNoNews(t *testing.T) {
	for name, tc := range map[string]struct {
		exact    bool
		refused  []eni.Slot
		occupied []eni.Slot
		why      plan.Reason
	}{
		"any slot, and all are refused":                   {refused: []eni.Slot{device(1), device(2)}, why: plan.InstanceFull},
		"one slot, and others are free":                   {exact: true, refused: []eni.Slot{device(1)}, why: plan.SlotTaken},
		"one slot, and others hold interfaces of anybody": {exact: true, refused: []eni.Slot{device(1)}, occupied: []eni.Slot{device(2)}, why: plan.SlotTaken},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(3))
			c := claim("a", desiredInterface(0, 1, "s1"))
			c.ExactSlot = tc.exact
			d, key := desired(c), identity.Key{Owner: "uid-a"}
			w.apply(compute(d, w.observe(nil), w.now).Actions[0])
			for _, slot := range tc.occupied {
				w.occupy(slot)
			}
			failure := refused(w.now, tc.refused...)
			says := func() plan.Member {
				o := w.observe(nil)
				o.Backoffs = map[identity.Key]plan.Backoff{key: failure}
				return compute(d, o, w.now).Members[0]
			}
			w.now = w.now.Add(time.Second)
			first := says()
			if first.Phase != plan.Blocked || first.Why.Reason != tc.why {
				t.Fatalf("%s %s", first.Phase, first.Why)
			}
			w.now = w.now.Add(time.Hour)
			if m := says(); m.Phase != plan.Attaching || m.Slot != device(1) {
				t.Fatalf("%s at %s: the first slot is not asked for again", m.Phase, m.Slot)
			}
			failure = failure.Next(eni.SlotTaken, "taken", w.now).Refused(device(1), w.now)
			if m := says(); m.Phase != first.Phase || m.Why != first.Why {
				t.Errorf("after another refusal it says %s %s, and not %s", m.Phase, m.Why, first.Why)
			}
			blind := w.observe(nil)
			blind.Backoffs, blind.Snapshot = map[identity.Key]plan.Backoff{key: failure}, nil
			p := compute(d, blind, w.now)
			if m := p.Members[0]; !p.NeedsDescribe && (m.Phase != first.Phase || m.Why != first.Why) {
				t.Errorf("without a look it says %s %s, and not %s", m.Phase, m.Why, first.Why)
			}
		})
	}
}

func TestASlotThatIsTakenAgainIsReportedAtOnce(t *testing.T) {
	w := newMinimalEC2(limits(4))
	c := claim("a", desiredInterface(0, 1, "s1"))
	c.ExactSlot = true
	p := compute(desired(c), w.observe(nil), w.now)
	w.apply(p.Actions[0])
	o := w.observe(p.Ledger)
	o.Backoffs = map[identity.Key]plan.Backoff{{Owner: "uid-a"}: refused(w.now, device(1), device(1))}
	first := compute(desired(c), o, w.now).Members[0].Why
	later := compute(desired(c), o, w.now.Add(time.Second)).Members[0].Why
	o.Snapshot = nil
	unseen := compute(desired(c), o, w.now.Add(time.Second))
	if first.Reason != plan.SlotTaken || first != later || unseen.NeedsDescribe || unseen.Members[0].Why != first {
		t.Errorf("it is not said once for all refusals:\n%s\n%s\n%s", first.Message, later.Message, unseen.Members[0].Why.Message)
	}
}

// TestWhatAPersonHasToMendSaysHow has EC2 refuse calls for reasons that need a person.
func TestWhatAPersonHasToMendSaysHow(t *testing.T) {
	key := identity.Key{Owner: "uid-a"}
	for class, says := range map[eni.Class]string{
		eni.Unauthorized:  "deploy/iam/controller.json",
		eni.LimitExceeded: "Service Quotas",
		eni.NoAddresses:   "free some",
		eni.NoPrefixes:    "declare a prefix reservation",
		eni.Invalid:       "correct the NodeENI",
		eni.WrongZone:     "correct the NodeENI",
	} {
		t.Run(string(class), func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			o := w.observe(nil)
			o.Backoffs = map[identity.Key]plan.Backoff{key: plan.Backoff{}.Next(class, "refused", w.now)}
			c := claim("a", desiredInterface(0, 1, "s1"))
			c.Interfaces[0].Spec.IPv4Prefixes = 1
			m := compute(desired(c), o, w.now).Members[0]
			if !strings.Contains(m.Why.Message, says) || !strings.Contains(m.Why.Message, "tried") {
				t.Errorf("%q does not say %q, or not that it is tried again", m.Why, says)
			}
		})
	}
}

// TestTheVPCCNIIsNamedWhereItIsInTheWay checks the next step for full instances.
func TestTheVPCCNIIsNamedWhereItIsInTheWay(t *testing.T) {
	const cni = "VPC CNI keep fewer"
	for name, tc := range map[string]struct {
		tags map[string]string
		want bool
	}{
		"it holds a slot":       {tags: map[string]string{"node.k8s.amazonaws.com/instance_id": "i-1"}, want: true},
		"somebody else does so": {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(2), device(1))
			o := w.observe(nil)
			for i := range o.Snapshot.Interfaces {
				if at := o.Snapshot.Interfaces[i].Attachment; at != nil && at.Slot == device(1) {
					o.Snapshot.Interfaces[i].Tags = tc.tags
				}
			}
			m := compute(desired(claim("a", desiredInterface(0, 1, "s1"))), o, w.now).Members[0]
			if m.Why.Reason != plan.InstanceFull || strings.Contains(m.Why.Message, cni) != tc.want {
				t.Errorf("%s: %s", m.Why.Reason, m.Why.Message)
			}
		})
	}
}

// TestARefusedChangeKeepsItsReasonUntilEC2AcceptsIt plans when the repetition of a refused change is due, which can wait
// for a worker: the status must not lose the reason meanwhile.
func TestARefusedChangeKeepsItsReasonUntilEC2AcceptsIt(t *testing.T) {
	w := newMinimalEC2(limits(4))
	_, ledger := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
	asked := desiredInterface(0, 1, "s1")
	asked.Spec.Groups = []string{"sg-2"}
	d := desired(claim("a", asked))
	first := compute(d, w.observe(ledger), w.now)
	refusal := &eni.APIError{Class: eni.Unauthorized, Operation: "ModifyNetworkInterfaceAttribute"}
	o := w.observe(ledger)
	o.Backoffs = map[identity.Key]plan.Backoff{{Owner: "uid-a"}: plan.Backoff{}.WithFailure(first.Actions[0], refusal, w.now)}
	for name, snapshot := range map[string]*eni.InstanceSnapshot{"it waits for a read": nil, "it has a read": o.Snapshot} {
		o.Snapshot = snapshot
		if p := compute(d, o, w.now.Add(time.Hour)); reasons(p)[0] != plan.Unauthorized || len(p.Actions) == 0 && !p.NeedsDescribe {
			t.Errorf("%s: the due change is\n%s", name, p.Explain())
		}
	}
}
