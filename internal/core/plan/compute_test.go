// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// placed is the final state of an interface.
type placed struct {
	Subnet string
	Slot   eni.Slot
}

func placements(cloud interface{ ours() []eni.Interface }) []placed {
	var all []placed
	for _, i := range cloud.ours() {
		if i.Ready() {
			all = append(all, placed{i.SubnetID, i.Attachment.Slot})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return eni.CompareSlots(a.Slot, b.Slot) })
	return all
}

func reasons(p plan.Plan) []plan.Reason {
	var all []plan.Reason
	for _, m := range p.Members {
		all = append(all, m.Why.Reason)
	}
	return all
}

func device(n int) eni.Slot { return eni.Slot{Device: n} }

func TestComputeReachesWhatIsWanted(t *testing.T) {
	exact := func(c render.Claim) render.Claim { c.ExactSlot = true; return c }
	cases := map[string]struct {
		limits  eni.Limits
		foreign []eni.Slot
		claims  []render.Claim
		want    []placed
		reasons []plan.Reason
	}{
		"one subnet": {
			limits: limits(4), claims: []render.Claim{claim("a", desiredInterface(0, 2, "s1"))},
			want: []placed{{"s1", device(2)}}, reasons: []plan.Reason{""},
		},
		"subnets in listed order at rising indices": {
			limits: limits(4), claims: []render.Claim{claim("a", desiredInterface(0, 1, "s1"), desiredInterface(1, 2, "s2"))},
			want: []placed{{"s1", device(1)}, {"s2", device(2)}}, reasons: []plan.Reason{"", ""},
		},
		"a preferred index that is taken moves up": {
			limits: limits(4), foreign: []eni.Slot{device(1)}, claims: []render.Claim{claim("a", desiredInterface(0, 1, "s1"))},
			want: []placed{{"s1", device(2)}}, reasons: []plan.Reason{""},
		},
		"an exact index that is taken blocks": {
			limits: limits(4), foreign: []eni.Slot{device(1)}, claims: []render.Claim{exact(claim("a", desiredInterface(0, 1, "s1")))},
			reasons: []plan.Reason{plan.SlotTaken},
		},
		"an exact claim is seated before a preferring one": {
			limits: limits(4), claims: []render.Claim{claim("a", desiredInterface(0, 1, "s1")), exact(claim("b", desiredInterface(0, 1, "s2")))},
			want: []placed{{"s2", device(1)}, {"s1", device(2)}}, reasons: []plan.Reason{"", ""},
		},
		"a full instance blocks what does not fit": {
			limits: limits(3), foreign: []eni.Slot{device(1)}, claims: []render.Claim{claim("a", desiredInterface(0, 2, "s1"), desiredInterface(1, 3, "s2"))},
			want: []placed{{"s1", device(2)}}, reasons: []plan.Reason{"", plan.InstanceFull},
		},
		"a card the type does not have blocks": {
			limits: limits(4), claims: []render.Claim{claim("a", plan.DesiredInterface{Subnets: []string{"s1"}, Slot: eni.Slot{Card: 1, Device: 1}, Spec: spec()})},
			reasons: []plan.Reason{plan.NoSuchNetworkCard},
		},
		"cards have slots of their own": {
			limits: eni.Limits{Cards: []int{2, 2}, Interfaces: 4, IPv4: 10}, foreign: []eni.Slot{{Device: 1}},
			claims: []render.Claim{claim("a", plan.DesiredInterface{Subnets: []string{"s1"}, Slot: eni.Slot{Card: 1, Device: 1}, Spec: spec()})},
			want:   []placed{{"s1", eni.Slot{Card: 1, Device: 1}}}, reasons: []plan.Reason{""},
		},
		"a full card blocks while the instance has room on another": {
			limits: eni.Limits{Cards: []int{2, 2}, Interfaces: 4, IPv4: 10}, foreign: []eni.Slot{{Device: 1}},
			claims:  []render.Claim{claim("a", desiredInterface(0, 1, "s1")), claim("b", plan.DesiredInterface{Subnets: []string{"s2"}, Slot: eni.Slot{Card: 1, Device: 1}, Spec: spec()})},
			want:    []placed{{"s2", eni.Slot{Card: 1, Device: 1}}},
			reasons: []plan.Reason{plan.InstanceFull, ""},
		},
		"more addresses than an interface takes block": {
			limits: eni.Limits{Cards: []int{4}, Interfaces: 4, IPv4: 4},
			claims: []render.Claim{claim("a", func() plan.DesiredInterface {
				w := desiredInterface(0, 1, "s1")
				w.Spec.IPv4Prefixes = 4
				return w
			}())},
			reasons: []plan.Reason{plan.AddressLimit},
		},
		"what cannot be wished for is seen as blocked": {
			limits: limits(4), claims: []render.Claim{{
				NodeENI: "a", Owner: "uid-a", Mode: render.Ensure, AllResolved: true,
				Unresolvable: []plan.Problem{{Reason: plan.NoSubnetInZone}},
			}},
			reasons: []plan.Reason{plan.NoSubnetInZone},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(tc.limits, tc.foreign...)
			p := w.follow(desired(tc.claims...), nil, 5, 5*time.Second)
			if diff := cmp.Diff(tc.want, placements(w)); diff != "" {
				t.Errorf("placements (-want +got):\n%s\n%s", diff, p.Explain())
			}
			if diff := cmp.Diff(tc.reasons, reasons(p)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			if len(p.Actions) > 0 {
				t.Errorf("still wants to act:\n%s", p.Explain())
			}
		})
	}
}

func TestThreeCallsAttachAnInterface(t *testing.T) {
	w := newMinimalEC2(limits(4))
	w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
	if w.calls != 3 {
		t.Errorf("%d mutating calls for one interface, want create, attach and delete-on-termination", w.calls)
	}
}

func TestSourceDestCheckIsOffBeforeTheAttach(t *testing.T) {
	w := newMinimalEC2(limits(4))
	off := desiredInterface(0, 1, "s1")
	off.Spec.SourceDestCheck = false
	var seen []string
	var ledger identity.Generations
	for range 4 {
		p := compute(desired(claim("a", off)), w.observe(ledger), w.now)
		ledger = p.Ledger
		for _, a := range p.Actions {
			switch a := a.(type) {
			case plan.Create:
				seen = append(seen, "create")
			case plan.Attach:
				seen = append(seen, "attach")
			case plan.Change:
				seen = append(seen, a.To.String())
			}
			w.apply(a)
		}
	}
	want := []string{"create", "source/dest check false", "attach", "delete on termination true"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// TestChange starts from two attached interfaces of NodeENI a and changes the desired state.
func TestChange(t *testing.T) {
	before := claim("a", desiredInterface(0, 1, "s1"), desiredInterface(1, 2, "s2"))
	elsewhere := []plan.Problem{{Reason: plan.NoSubnetInZone, Message: "none is in the node's zone; add one"}}
	cases := map[string]struct {
		change func(*minimalEC2, *render.Claim)
		want   []placed
		reason plan.Reason
		drift  bool
	}{
		"nothing": {change: func(*minimalEC2, *render.Claim) {}, want: []placed{{"s1", device(1)}, {"s2", device(2)}}},
		"the first subnet is dropped": {change: func(_ *minimalEC2, c *render.Claim) {
			c.Interfaces = []plan.DesiredInterface{desiredInterface(0, 1, "s2")}
		}, want: []placed{{"s2", device(2)}}},
		"the last subnet is dropped": {change: func(_ *minimalEC2, c *render.Claim) {
			c.Interfaces = []plan.DesiredInterface{desiredInterface(0, 1, "s1")}
		}, want: []placed{{"s1", device(1)}}},
		"a subnet is added": {
			change: func(_ *minimalEC2, c *render.Claim) {
				c.Interfaces = append(c.Interfaces, desiredInterface(2, 3, "s3"))
			},
			want: []placed{{"s1", device(1)}, {"s2", device(2)}, {"s3", device(3)}},
		},
		"a subnet is put in front": {
			change: func(_ *minimalEC2, c *render.Claim) {
				c.Interfaces = []plan.DesiredInterface{desiredInterface(0, 1, "s0"), desiredInterface(1, 2, "s1"), desiredInterface(2, 3, "s2")}
			},
			want: []placed{{"s1", device(1)}, {"s2", device(2)}, {"s0", device(3)}},
		},
		"subnets are not all resolved": {
			change: func(_ *minimalEC2, c *render.Claim) {
				c.Interfaces, c.AllResolved = []plan.DesiredInterface{desiredInterface(0, 1, "s1")}, false
			},
			want: []placed{{"s1", device(1)}, {"s2", device(2)}}, reason: plan.Retained,
		},
		"a subnet is exchanged": {
			change: func(_ *minimalEC2, c *render.Claim) {
				c.Interfaces = []plan.DesiredInterface{desiredInterface(0, 1, "s1"), desiredInterface(1, 2, "s9")}
			},
			want: []placed{{"s1", device(1)}, {"s2", device(2)}}, drift: true,
		},
		"only a subnet of another zone is left": {
			change: func(_ *minimalEC2, c *render.Claim) { c.Interfaces, c.Unresolvable = nil, elsewhere },
			want:   []placed{{"s1", device(1)}, {"s2", device(2)}}, reason: plan.Drifted, drift: true,
		},
		"only a subnet of another zone is left, and interfaces may be replaced": {
			change: func(_ *minimalEC2, c *render.Claim) {
				c.Interfaces, c.Unresolvable, c.ReplaceAllowed = nil, elsewhere, true
			},
			want: []placed{{"s1", device(1)}, {"s2", device(2)}}, reason: plan.Drifted, drift: true,
		},
		"only a subnet of another zone is left, and the claim is released": {
			change: func(_ *minimalEC2, c *render.Claim) {
				c.Interfaces, c.Unresolvable, c.Mode = nil, elsewhere, render.Release
			},
		},
		"a subnet is exchanged and may be replaced": {
			change: func(_ *minimalEC2, c *render.Claim) {
				c.ReplaceAllowed, c.Interfaces = true, []plan.DesiredInterface{desiredInterface(0, 1, "s1"), desiredInterface(1, 2, "s9")}
			},
			want: []placed{{"s1", device(1)}, {"s9", device(2)}},
		},
		"a subnet is exchanged, may be replaced, and all is paused": {
			change: func(_ *minimalEC2, c *render.Claim) {
				c.ReplaceAllowed, c.Mode, c.Interfaces = true, render.Paused, []plan.DesiredInterface{desiredInterface(0, 1, "s1"), desiredInterface(1, 2, "s9"), desiredInterface(2, 3, "s3")}
			},
			want: []placed{{"s1", device(1)}, {"s2", device(2)}}, reason: plan.Retained, drift: true,
		},
		"the claim is released": {change: func(_ *minimalEC2, c *render.Claim) { c.Mode = render.Release }, want: nil},
		"the claim is held": {
			change: func(_ *minimalEC2, c *render.Claim) { c.Mode, c.Interfaces = render.Retain, nil },
			want:   []placed{{"s1", device(1)}, {"s2", device(2)}}, reason: plan.Retained,
		},
		"the instance ends": {change: func(w *minimalEC2, _ *render.Claim) { w.end() }, want: nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(8))
			_, ledger := w.drive(desired(before), nil)
			after := before
			after.Interfaces = slices.Clone(before.Interfaces)
			tc.change(w, &after)

			p := w.follow(desired(after), ledger, 12, time.Minute)
			if diff := cmp.Diff(tc.want, placements(w)); diff != "" {
				t.Errorf("placements (-want +got):\n%s\n%s", diff, p.Explain())
			}
			if len(w.ours()) != len(tc.want) {
				t.Errorf("%d interfaces exist, want %d", len(w.ours()), len(tc.want))
			}
			if tc.reason != "" && !slices.Contains(reasons(p), tc.reason) {
				t.Errorf("reasons are %v, want %s among them", reasons(p), tc.reason)
			}
			if drifted := slices.ContainsFunc(p.Members, func(m plan.Member) bool { return len(m.Drift) > 0 }); drifted != tc.drift {
				t.Errorf("drift reported: %t, want %t\n%s", drifted, tc.drift, p.Explain())
			}
		})
	}
}

func TestAttributesAreMendedInPlace(t *testing.T) {
	w := newMinimalEC2(limits(4))
	c := claim("a", desiredInterface(0, 1, "s1"))
	_, ledger := w.drive(desired(c), nil)
	calls := w.calls

	s := &c.Interfaces[0].Spec
	s.Description, s.Groups, s.SourceDestCheck, s.DeleteOnTermination = "other", []string{"sg-2", "sg-1"}, false, false
	s.Tags = map[string]string{"team": "ran"}
	s.AddressCounts = eni.AddressCounts{SecondaryIPv4: 2, IPv6: 1}
	w.drive(desired(c), ledger)

	i := w.ours()[0]
	if i.Description != "other" || len(i.Groups) != 2 || i.SourceDestCheck || i.Attachment.DeleteOnTermination ||
		i.Tags["team"] != "ran" || i.Counts() != s.AddressCounts {
		t.Errorf("not mended: %+v", i)
	}
	if got := w.calls - calls; got != 7 {
		t.Errorf("%d calls, want one for each of seven attributes", got)
	}

	s.AddressCounts = eni.AddressCounts{IPv4Prefixes: 1}
	w.drive(desired(c), ledger)
	if got := w.ours()[0].Counts(); got != s.AddressCounts {
		t.Errorf("addresses are %+v, want %+v", got, s.AddressCounts)
	}
}

func TestNoCallWithoutALook(t *testing.T) {
	w := newMinimalEC2(limits(4))
	o := w.observe(nil)
	o.Snapshot = nil
	p := compute(desired(claim("a", desiredInterface(0, 1, "s1"))), o, w.now)
	if len(p.Actions) > 0 || !p.NeedsDescribe {
		t.Errorf("a plan without a look must only ask for one:\n%s", p.Explain())
	}
	if len(p.Ledger) > 0 {
		t.Errorf("a plan without a look must leave the ledger alone, has %v", p.Ledger)
	}
}

func TestAnInterfaceMissingFromOneReadingIsWaitedFor(t *testing.T) {
	w := newMinimalEC2(limits(4))
	c := claim("a", desiredInterface(0, 1, "s1"))
	_, ledger := w.drive(desired(c), nil)
	o := w.observe(ledger)
	o.Owned[0].Missing = true
	p := compute(desired(c), o, w.now)
	if len(p.Actions) > 0 || reasons(p)[0] != plan.NotVisible || p.RequeueAt.IsZero() {
		t.Errorf("want no action and another look:\n%s", p.Explain())
	}
}

func TestForceComesOnlyAfterALongWait(t *testing.T) {
	w := newMinimalEC2(limits(4))
	c := claim("a", desiredInterface(0, 1, "s1"))
	_, ledger := w.drive(desired(c), nil)
	c.Mode = render.Release
	for _, a := range compute(desired(c), w.observe(ledger), w.now).Actions {
		w.apply(a)
	}
	o := w.observe(ledger)
	o.Owned[0].DetachingSince = w.now
	o.Owned[0].LastRead = w.now.Add(plan.ForcedDetachAfter - time.Second)
	p := compute(desired(c), o, w.now.Add(plan.ForcedDetachAfter))
	if len(p.Actions) > 0 {
		t.Errorf("acts too early, by what was seen:\n%s", p.Explain())
	}
	if !strings.Contains(p.Members[0].Why.Message, plan.ForcedDetachAfter.String()) {
		t.Errorf("%q does not announce force", p.Members[0].Why.Message)
	}
	o.Owned[0].LastRead = w.now.Add(plan.ForcedDetachAfter)
	p = compute(desired(c), o, w.now.Add(plan.ForcedDetachAfter))
	if len(p.Actions) != 1 || !p.Actions[0].(plan.Detach).Force {
		t.Errorf("want one forced detach:\n%s", p.Explain())
	}
}

// An agent binds a device to the network driver once it reads that the interface is being removed. A plan without a
// fresh read does not know the holder of the target slot, so it must not report a removal.
func TestADeviceIsAskedForOnlyAfterALook(t *testing.T) {
	w := newMinimalEC2(limits(4))
	_, ledger := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
	moved := claim("a", desiredInterface(0, 2, "s1"))
	moved.ExactSlot, moved.ReplaceAllowed = true, true
	o := w.observe(ledger)
	o.Snapshot = nil
	store(&o, o.Owned[0].ID, func(s *plan.Stored) { s.DeviceInUse, s.DeviceMessage = true, "a program drives it" })
	if p := computeWith(desired(moved), o, granted, w.now); !p.NeedsDescribe {
		t.Errorf("want a look before the node is asked to let go:\n%s", p.Explain())
	}
}

// No event reports that the target slot of an interface in use has become free.
func TestASlotThatAReplacementWaitsForIsLookedAtAgain(t *testing.T) {
	w := newMinimalEC2(limits(4), device(2))
	_, ledger := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
	moved := claim("a", desiredInterface(0, 2, "s1"))
	moved.ExactSlot, moved.ReplaceAllowed = true, true
	p := compute(desired(moved), w.observe(ledger), w.now)
	if reasons(p)[0] != plan.SlotTaken || p.RequeueAt.Sub(w.now) != 5*time.Minute {
		t.Errorf("looked at again after %s, want SlotTaken and 5m:\n%s", p.RequeueAt.Sub(w.now), p.Explain())
	}
}

// A device that a program in user space uses is never detached, unless the instance ends.
func TestADeviceThatTheNodeHoldsIsNotDetached(t *testing.T) {
	w := newMinimalEC2(limits(4))
	c := claim("a", desiredInterface(0, 1, "s1"))
	_, ledger := w.drive(desired(c), nil)
	c.Mode = render.Release
	o := w.observe(ledger)
	store(&o, o.Owned[0].ID, func(s *plan.Stored) { s.DeviceInUse = true }) // a device that is as declared needs no reason
	p := compute(desired(c), o, w.now)
	if len(p.Actions) > 0 || p.Members[0].Phase != plan.Detaching || reasons(p)[0] != plan.WaitingForDeviceRelease || p.RequeueAt.IsZero() {
		t.Errorf("want no action, and a member on its way out:\n%s", p.Explain())
	}
	store(&o, o.Owned[0].ID, func(s *plan.Stored) { s.DeviceInUse = false })
	if p := compute(desired(c), o, w.now); len(p.Actions) != 1 {
		t.Errorf("want a detach once the node has let go:\n%s", p.Explain())
	}
	c.Mode = render.Ensure
	store(&o, o.Owned[0].ID, func(s *plan.Stored) { s.DeviceInUse, s.DeviceMessage = true, "a program has it open" })
	if p := compute(desired(c), o, w.now); len(p.Actions) > 0 || p.Members[0].Phase != plan.Attached {
		t.Errorf("want no action as long as the interface is wanted:\n%s", p.Explain())
	}
}

func TestAUsedUpGenerationIsNeverUsedAgain(t *testing.T) {
	key := identity.Key{Owner: "uid-a"}
	w := newMinimalEC2(limits(4))
	o := w.observe(identity.Generations{key: identity.GenerationAt(start) + 5})
	o.UsedGenerations = identity.Generations{key: identity.GenerationAt(start) + 5}
	p := compute(desired(claim("a", desiredInterface(0, 1, "s1"))), o, start)
	if got := p.Ledger[key]; got <= identity.GenerationAt(start)+5 {
		t.Errorf("generation %d was used before", got)
	}
}

func TestALostCreationKeepsItsLedgerEntryUntilItWouldShow(t *testing.T) {
	key := identity.Key{Owner: "uid-a"}
	ledger := identity.Generations{key: identity.GenerationAt(start)}
	w := newMinimalEC2(limits(4))
	released := claim("a")
	released.Mode = render.Release
	p := compute(desired(released), w.observe(ledger), start.Add(time.Minute))
	if _, kept := p.Ledger[key]; !kept || p.RequeueAt.IsZero() {
		t.Errorf("the entry is gone after a minute")
	}
	p = compute(desired(released), w.observe(ledger), start.Add(3*time.Minute))
	if len(p.Ledger) > 0 {
		t.Errorf("the entry is still there after three minutes")
	}
}

func TestAnAttachIsOverdueOnlyByWhatWasShown(t *testing.T) {
	w := newMinimalEC2(limits(4))
	c := claim("a", desiredInterface(0, 1, "s1"))
	var ledger identity.Generations
	for range 2 { // create, attach
		p := compute(desired(c), w.observe(ledger), w.now)
		ledger = p.Ledger
		for _, a := range p.Actions {
			w.apply(a)
		}
	}
	late := w.now.Add(plan.AttachTimeout)
	for name, tc := range map[string]struct {
		shown time.Time
		stuck bool
	}{
		"EC2 still shows it as attaching":    {shown: late, stuck: true},
		"the look shows it as it was before": {shown: w.now},
		"nothing was shown since the attach": {},
	} {
		t.Run(name, func(t *testing.T) {
			o := w.observe(ledger)
			o.Snapshot.At = late
			o.Owned[0].AttachingSince, o.Owned[0].LastRead = w.now, tc.shown
			p := compute(desired(c), o, late)
			detaches := slices.ContainsFunc(p.Actions, func(a plan.Action) bool { _, is := a.(plan.Detach); return is })
			if detaches != tc.stuck {
				t.Errorf("detaches: %t, want %t\n%s", detaches, tc.stuck, p.Explain())
			}
		})
	}
}

// TestNamesInTagsAreMended has an interface in use whose tags with the node and the NodeENI a user changed.
func TestNamesInTagsAreMended(t *testing.T) {
	r := preJoin("eni-1", "spoilt", "s1", 1)
	r.Member.Key, r.Member.Node = identity.Key{Owner: "uid-upf"}, "spoilt"
	r.Interface.Tags = r.Member.Tags(start, nil)
	now := start.Add(time.Hour)
	look := &eni.InstanceSnapshot{At: now, Instance: eni.Instance{ID: instance, Type: "m5.xlarge", State: eni.InstanceRunning}}
	d := render.Declared{Cluster: cluster, Node: nodeName, InstanceID: instance, Claims: []render.Claim{asks("upf", "s1")}}
	p := compute(d, plan.Observed{Owned: []inventory.Record{r}, Snapshot: look, Limits: eni.Limits{Cards: []int{4}, Interfaces: 4}}, now)
	if len(p.Actions) != 1 {
		t.Fatalf("the actions are %v", p.Actions)
	}
	change, _ := p.Actions[0].(plan.Change)
	if tags, _ := change.To.(plan.Tags); change.InterfaceID != "eni-1" || tags[identity.TagNode] != nodeName || tags[identity.TagNodeENI] != "upf" {
		t.Errorf("the action is %v", change)
	}
}
