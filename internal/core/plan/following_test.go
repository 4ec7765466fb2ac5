// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// floating is the range in which addresses follow pods in these tests.
var floating = netip.MustParsePrefix("10.0.4.192/26")

// claims returns the claims of pods of one node, in the order of their sequence.
func claims(addresses []netip.Addr) (all []plan.AddressClaim) {
	for n, address := range addresses {
		all = append(all, plan.AddressClaim{Address: address, Node: "node-1", Sequence: int64(n + 1)})
	}
	return all
}

func held(addresses []netip.Addr) (all []plan.HeldAddress) {
	for n, address := range addresses {
		all = append(all, plan.HeldAddress{Address: address, Sequence: int64(n + 1)})
	}
	return all
}

func TestAddressesFollowPods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		count int
		// have are the addresses of the interface, recorded those that multieni requested.
		have, recorded []netip.Addr
		prefixes       []netip.Prefix
		// claimed are the addresses of pods, and held those that the interface must have.
		claimed, held []netip.Addr
		contended     []plan.ContendedAddress
		unreported    bool
		omitted       int

		reassigned, unassigned []netip.Addr
		assigned               int
		reason                 plan.Reason
	}{
		"a pod brings up an address": {claimed: addresses(200), held: addresses(200), reassigned: addresses(200)},
		"several addresses need one call": {
			claimed: addresses(200, 201, 202), held: addresses(200, 201, 202), have: addresses(201), reassigned: addresses(200, 202),
		},
		"EC2 has it already":                                                  {claimed: addresses(200), held: addresses(200), have: addresses(200), recorded: addresses(200)},
		"a prefix of the interface has it":                                    {claimed: addresses(200), held: addresses(200), prefixes: []netip.Prefix{netip.PrefixFrom(addresses(192)[0], 28)}},
		"another node has a newer claim":                                      {claimed: addresses(200)},
		"a newer claim of another node, not seen yet":                         {claimed: addresses(200), have: addresses(200), recorded: addresses(200)},
		"the pod is gone":                                                     {have: addresses(200), recorded: addresses(200), unassigned: addresses(200)},
		"the pod is gone, and another program assigned the address":           {have: addresses(200)},
		"the agent lists not all claims":                                      {omitted: 1, have: addresses(200), recorded: addresses(200)},
		"the agent reports nothing":                                           {unreported: true, have: addresses(200, 5), recorded: addresses(200, 5), reason: plan.AddressesInUse},
		"a pod has an address of a range that is declared no more":            {claimed: addresses(20), have: addresses(20), recorded: addresses(20)},
		"an address of a range that is declared no more, and the pod is gone": {have: addresses(20), recorded: addresses(20), unassigned: addresses(20)},
		"a count is of other addresses":                                       {count: 1, claimed: addresses(200), held: addresses(200), have: addresses(200), recorded: addresses(200), assigned: 1},
		"an address of the count stays when a pod goes":                       {count: 1, have: addresses(200, 5), recorded: addresses(200, 5), unassigned: addresses(200)},
		"pods have more addresses than the instance type takes, the oldest win": {
			claimed: many(20), held: many(20), reassigned: many(14), reason: plan.AddressesLimited,
		},
		"two pods have one address": {
			claimed: addresses(200), held: addresses(200), have: addresses(200), recorded: addresses(200),
			contended: []plan.ContendedAddress{{Address: addresses(200)[0], Holder: claims(addresses(200))[0], Others: claims(addresses(200))}},
			reason:    plan.Contended,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			last, ledger := w.drive(d, nil)
			i := *last.Members[0].Interface
			i.SecondaryIPv4, i.IPv4Prefixes = tc.have, tc.prefixes
			w.interfaces[i.ID], w.requested[i.ID] = i, eni.Addresses{SecondaryIPv4: tc.recorded}
			d.Claims[0].PodPrefixes.Pods, d.Claims[0].Interfaces[0].Spec.SecondaryIPv4 = true, tc.count
			o := w.observe(ledger)
			if !tc.unreported {
				o.PodNetworks = map[string]plan.PodNetwork{i.ID: {Claims: claims(tc.claimed), ClaimsOmitted: tc.omitted}}
			}
			o.Following = map[string]plan.Following{i.ID: {Ranges: []netip.Prefix{floating}, Held: held(tc.held), Contended: tc.contended}}

			p := compute(d, o, w.now)
			got := changesOf(p)
			if diff := cmp.Diff(addressChanges{tc.reassigned, tc.unassigned, tc.assigned}, got, sameAddress, cmp.AllowUnexported(addressChanges{})); diff != "" {
				t.Errorf("changes differ (-want +got):\n%s", diff)
			}
			if m := p.Members[0]; m.Why.Reason != tc.reason || !m.Ready() {
				t.Errorf("the reason is %q and ready is %t, want %q and true", m.Why.Reason, m.Ready(), tc.reason)
			}
		})
	}
}

var sameAddress = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// many returns addresses of the floating range.
func many(n byte) []netip.Addr {
	var last []byte
	for at := range n {
		last = append(last, 192+at)
	}
	return addresses(last...)
}

// addressChanges has the changes of addresses in a plan.
type addressChanges struct {
	reassigned, unassigned []netip.Addr
	assigned               int
}

func changesOf(p plan.Plan) (changes addressChanges) {
	for _, action := range p.Actions {
		switch to := action.(plan.Change).To.(type) {
		case plan.ReassignAddresses:
			changes.reassigned = append(changes.reassigned, to.Addresses()...)
		case plan.UnassignAddresses:
			changes.unassigned = append(changes.unassigned, to.Surplus.SecondaryIPv4...)
		case plan.AssignAddresses:
			changes.assigned += to.Addresses
		}
	}
	return changes
}

// A second claim on the same address is a separate change: an address that moves away and returns must not count as
// reverted by another program.
func TestAnAddressThatComesBackIsNotReverted(t *testing.T) {
	t.Parallel()
	w := newMinimalEC2(limits(4))
	d := desired(claim("n3", desiredInterface(0, 1, "s1")))
	last, ledger := w.drive(d, nil)
	id := last.Members[0].Interface.ID
	d.Claims[0].PodPrefixes.Pods = true
	updates := plan.RepeatedUpdates{}
	for sequence := range int64(5) {
		o := w.observe(ledger)
		o.RepeatedUpdates = updates
		claim := plan.AddressClaim{Address: addresses(200)[0], Sequence: sequence + 1}
		o.PodNetworks = map[string]plan.PodNetwork{id: {Claims: []plan.AddressClaim{claim}}}
		o.Following = map[string]plan.Following{id: {Ranges: []netip.Prefix{floating}, Held: []plan.HeldAddress{{Address: claim.Address, Sequence: claim.Sequence}}}}
		p := compute(d, o, w.now)
		if len(p.Actions) != 1 {
			t.Fatalf("claim %d: the plan has %v", sequence+1, p.Actions)
		}
		updates = updates.Accepted(p.Actions[0], w.now)
	}
}

// TestAddressesOfPodsStay plans for any report of claims. A plan unassigns no address that a pod has and none that
// multieni did not request, and moves none that the interface does not hold.
func TestAddressesOfPodsStay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newMinimalEC2(limits(4))
		d := desired(claim("n3", desiredInterface(0, 1, "s1")))
		last, ledger := w.drive(d, nil)
		i := *last.Members[0].Interface
		pick := func(what string) (some []netip.Addr) {
			for _, address := range addresses(5, 6, 200, 201, 202, 203) {
				if rapid.Bool().Draw(rt, what+" "+address.String()) {
					some = append(some, address)
				}
			}
			return some
		}
		have, recorded, claimed, holds := pick("have"), pick("recorded"), pick("claimed"), pick("held")
		i.SecondaryIPv4 = have
		w.interfaces[i.ID], w.requested[i.ID] = i, eni.Addresses{SecondaryIPv4: recorded}
		d.Claims[0].PodPrefixes.Pods, d.Claims[0].Interfaces[0].Spec.SecondaryIPv4 = true, rapid.IntRange(0, 4).Draw(rt, "count")
		o := w.observe(ledger)
		if rapid.Bool().Draw(rt, "reported") {
			o.PodNetworks = map[string]plan.PodNetwork{i.ID: {Claims: claims(claimed)}}
		}
		holds = slices.DeleteFunc(holds, func(a netip.Addr) bool { return !slices.Contains(claimed, a) })
		o.Following = map[string]plan.Following{i.ID: {Ranges: []netip.Prefix{floating}, Held: held(holds)}}
		got := changesOf(compute(d, o, w.now))
		for _, address := range got.unassigned {
			if slices.Contains(claimed, address) && o.PodNetworks != nil || !slices.Contains(recorded, address) || o.PodNetworks == nil {
				rt.Errorf("%s is unassigned", address)
			}
		}
		for _, address := range got.reassigned {
			if !slices.Contains(holds, address) || slices.Contains(have, address) {
				rt.Errorf("%s is reassigned", address)
			}
		}
	})
}

// While others changed shortly before, no address is moved or unassigned, no read is needed, and the plan is made again
// at the end of the wait. An interface with nothing to change causes no plan.
func TestAddressesWaitForEarlierMoves(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		have, claimed []netip.Addr
		waits         bool
	}{
		"a pod brings up an address": {nil, addresses(200), true},
		"the pod is gone":            {addresses(200), nil, true},
		"EC2 has it already":         {addresses(200), addresses(200), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			last, ledger := w.drive(d, nil)
			i := *last.Members[0].Interface
			i.SecondaryIPv4 = tc.have
			w.interfaces[i.ID], w.requested[i.ID] = i, eni.Addresses{SecondaryIPv4: tc.have}
			d.Claims[0].PodPrefixes.Pods = true
			o := w.observe(ledger)
			o.PodNetworks = map[string]plan.PodNetwork{i.ID: {Claims: claims(tc.claimed)}}
			o.Following = map[string]plan.Following{i.ID: {Ranges: []netip.Prefix{floating}, Held: held(tc.claimed)}}
			from := w.now.Add(time.Second)
			for _, look := range []*eni.InstanceSnapshot{o.Snapshot, nil} {
				o.MovesFrom, o.Snapshot = from, look
				p := compute(d, o, w.now)
				if len(p.Actions) > 0 || p.NeedsDescribe || p.RequeueAt.Equal(from) != tc.waits {
					t.Errorf("the plan has %v, needs a read: %t, and waits until %s", p.Actions, p.NeedsDescribe, p.RequeueAt)
				}
				o.MovesFrom = time.Time{}
				p = compute(d, o, w.now)
				if changes := append(p.Actions, p.Proposed...); plan.MovesAddresses(changes) != tc.waits {
					t.Errorf("after the wait the plan has %v", changes)
				}
			}
		})
	}
}

// A message about an address that very many pods have lists some of them.
func TestAMessageListsFewContenders(t *testing.T) {
	t.Parallel()
	w := newMinimalEC2(limits(4))
	d := desired(claim("n3", desiredInterface(0, 1, "s1")))
	last, ledger := w.drive(d, nil)
	id := last.Members[0].Interface.ID
	o := w.observe(ledger)
	contended := plan.ContendedAddress{Address: addresses(200)[0], Holder: claims(addresses(200))[0]}
	for range 500 {
		contended.Others = append(contended.Others, plan.AddressClaim{Node: "node-2"})
	}
	o.Following = map[string]plan.Following{id: {Ranges: []netip.Prefix{floating}, Contended: []plan.ContendedAddress{contended}}}
	why := compute(d, o, w.now).Members[0].Why
	if why.Reason != plan.Contended || !strings.Contains(why.Message, "497 further pods") || strings.Count(why.Message, "node-2") != plan.MaxContenders {
		t.Errorf("%s: %s", why.Reason, why.Message)
	}
}

// EC2 refuses an address that a pod brought up. The interface stays ready, and its reason names the pod. Other refusals
// still need a person.
func TestARefusedAddressOfAPodLeavesTheInterfaceReady(t *testing.T) {
	t.Parallel()
	for class, reason := range map[eni.Class]plan.Reason{eni.Invalid: plan.AddressRefused, eni.Unauthorized: plan.Unauthorized} {
		w := newMinimalEC2(limits(4))
		d := desired(claim("n3", desiredInterface(0, 1, "s1")))
		last, ledger := w.drive(d, nil)
		m := last.Members[0]
		id := m.Interface.ID
		d.Claims[0].PodPrefixes.Pods = true
		o := w.observe(ledger)
		claimed := claims(addresses(200))
		claimed[0].Pod = "10.1.0.1"
		o.PodNetworks = map[string]plan.PodNetwork{id: {Claims: claimed}}
		o.Following = map[string]plan.Following{id: {Ranges: []netip.Prefix{floating}, Held: held(addresses(200))}}
		move := plan.ReassignAddresses{Held: held(addresses(200))}
		failure := plan.Backoff{}.Next(class, "the request was refused", w.now)
		failure.Action = plan.Change{Member: m.Member, InterfaceID: id, To: move}
		o.Backoffs = map[identity.Key]plan.Backoff{m.Key: {Updates: map[string]plan.Backoff{plan.FieldOf(move): failure}}}
		p := compute(d, o, w.now)
		why := p.Members[0].Why
		if why.Reason != reason || p.Members[0].Ready() != (class == eni.Invalid) || len(p.Actions) > 0 || p.RequeueAt.IsZero() {
			t.Errorf("%s: ready %t, %s: %s; actions %v", class, p.Members[0].Ready(), why.Reason, why.Message, p.Actions)
		}
		if class == eni.Invalid && !strings.Contains(why.Message, "pod with IP address 10.1.0.1 on node node-1") {
			t.Errorf("the message does not name the pod: %s", why.Message)
		}
	}
}
