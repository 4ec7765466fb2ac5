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
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// block returns the nth /28 of a subnet.
func block(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(n / 16), byte(n % 16 * 16)}), 28)
}

func blocks(numbers ...int) (all []netip.Prefix) {
	for _, n := range numbers {
		all = append(all, block(n))
	}
	return all
}

// network returns a report about prefixes with the given numbers of addresses that pods use.
func network(used ...int) plan.PodNetwork {
	n := plan.PodNetwork{Prefixes: map[netip.Prefix]plan.PodPrefix{}, Pods: []string{"upf/a"}}
	for i, u := range used {
		n.Prefixes[block(i)] = plan.PodPrefix{Used: u}
		n.Used, n.Free = n.Used+u, n.Free+plan.PodPrefixSize-u
	}
	return n
}

// drained marks the nth prefix of a report as drained.
func drained(report plan.PodNetwork, n int) plan.PodNetwork {
	report.Free -= plan.PodPrefixSize - report.Prefixes[block(n)].Used
	report.Prefixes[block(n)] = plan.PodPrefix{Draining: true, Drained: true}
	return report
}

func TestPrefixesFollowPods(t *testing.T) {
	t.Parallel()
	silence := plan.PodNetwork{}
	for name, tc := range map[string]struct {
		demand     plan.PrefixDemand
		min        int
		have       []netip.Prefix
		report     *plan.PodNetwork
		assigned   int
		unassigned []netip.Prefix
		reason     plan.Reason
	}{
		"enough addresses are free":                      {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0), report: new(network(8))},
		"fewer than spare are free":                      {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0), report: new(network(9)), assigned: 1},
		"many are missing, and one call assigns them":    {demand: plan.PrefixDemand{Max: 8, Spare: 40}, have: blocks(0), report: new(network(16)), assigned: 3},
		"the report does not list the new prefix yet":    {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0, 1), report: new(network(16))},
		"the largest number is reached":                  {demand: plan.PrefixDemand{Max: 1, Spare: 8}, have: blocks(0), report: new(network(16))},
		"the instance type takes no more":                {demand: plan.PrefixDemand{Max: 40, Spare: 400}, have: blocks(0), report: new(network(16)), assigned: 13, reason: plan.PrefixesLimited},
		"the instance type takes no more, and no report": {demand: plan.PrefixDemand{Max: 40, Spare: 8}, have: blocks(0), reason: plan.PrefixesLimited},
		"no report":                                     {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0, 1)},
		"an agent that knows no prefix":                 {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0, 1), report: &silence},
		"an idle prefix is not drained":                 {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0, 1), report: new(network(1, 0))},
		"a drained prefix goes":                         {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0, 1), report: new(drained(network(1, 0), 1)), unassigned: blocks(1)},
		"a drained prefix of the least number goes":     {demand: plan.PrefixDemand{Max: 4, Spare: 8}, min: 2, have: blocks(0, 1), report: new(drained(network(1, 0), 1)), unassigned: blocks(1)},
		"a drained prefix goes before pods get another": {demand: plan.PrefixDemand{Max: 4, Spare: 20}, have: blocks(0, 1), report: new(drained(network(1, 0), 1)), unassigned: blocks(1)},
		"another takes its place":                       {demand: plan.PrefixDemand{Max: 4, Spare: 8}, min: 2, have: blocks(0), report: new(network(1)), assigned: 1},
		"not before the agent noticed its end":          {demand: plan.PrefixDemand{Max: 4, Spare: 8}, min: 2, have: blocks(0), report: new(drained(network(1, 0), 1))},
		"more than the largest number, used":            {demand: plan.PrefixDemand{Max: 1, Spare: 8}, have: blocks(0, 1), report: new(network(9, 9)), reason: plan.AddressesInUse},
		"the NodeENI has no pods any more, and a used":  {have: blocks(0), min: -1, report: new(network(1)), reason: plan.AddressesInUse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			settled, ledger := w.drive(d, nil)
			i := *settled.Members[0].Interface
			i.IPv4Prefixes = tc.have
			w.interfaces[i.ID], w.requested[i.ID] = i, i.Addresses

			tc.demand.Pods = tc.min >= 0
			d.Claims[0].PodPrefixes, d.Claims[0].Interfaces[0].Spec.IPv4Prefixes = tc.demand, max(tc.min, 0)
			if tc.min == 0 {
				d.Claims[0].Interfaces[0].Spec.IPv4Prefixes = 1
			}
			o := w.observe(ledger)
			store(&o, i.ID, func(s *plan.Stored) { s.Report = tc.report })
			p := compute(d, o, w.now)
			assigned, unassigned := prefixChanges(p)
			if diff := cmp.Diff(texts(tc.unassigned), texts(unassigned)); diff != "" {
				t.Errorf("unassigned prefixes differ (-want +got):\n%s", diff)
			}
			if assigned != tc.assigned || len(p.Actions) > 1 {
				t.Errorf("%d prefixes are assigned by %d calls, want %d by one", assigned, len(p.Actions), tc.assigned)
			}
			if m := p.Members[0]; m.Why.Reason != tc.reason || !m.Ready() {
				t.Errorf("the reason is %q and ready is %t, want %q and true", m.Why.Reason, m.Ready(), tc.reason)
			}
		})
	}
}

// TestAddressesOfAPodThatHasTheInterfaceStay lowers the numbers of addresses of an interface that a pod can have itself: its
// report has no prefixes, and a pod that uses the interface uses all of its addresses.
func TestAddressesOfAPodThatHasTheInterfaceStay(t *testing.T) {
	t.Parallel()
	own := eni.Addresses{SecondaryIPv4: addresses(200, 201), IPv6: []netip.Addr{netip.MustParseAddr("fd00::1")}}
	for used, released := range []int{2, 0} {
		w := newMinimalEC2(limits(4))
		d := desired(claim("n3", desiredInterface(0, 1, "s1")))
		settled, ledger := w.drive(d, nil)
		i := *settled.Members[0].Interface
		i.SecondaryIPv4, i.IPv6 = own.SecondaryIPv4, own.IPv6
		w.interfaces[i.ID], w.requested[i.ID] = i, i.Addresses
		o := w.observe(ledger)
		store(&o, i.ID, func(s *plan.Stored) { s.Report = &plan.PodNetwork{Used: used} })
		p := compute(d, o, w.now)
		unassigns := 0
		for _, action := range p.Actions {
			if _, is := action.(plan.Change).To.(plan.UnassignAddresses); is {
				unassigns++
			}
		}
		if unassigns != released {
			t.Errorf("with %d pods %d calls unassign addresses, want %d:\n%s", used, unassigns, released, p.Explain())
		}
	}
}

// TestAReplacementThatWaitsIsToldBeforePrefixesInUse gives drift to an interface that keeps a prefix that its NodeENI
// does not ask for. The prefix goes with the interface, so the wait for the rollout is what a user can act on.
func TestAReplacementThatWaitsIsToldBeforePrefixesInUse(t *testing.T) {
	t.Parallel()
	w := newMinimalEC2(limits(4))
	d := desired(claim("n3", desiredInterface(0, 1, "s1")))
	settled, ledger := w.drive(d, nil)
	i := *settled.Members[0].Interface
	i.IPv4Prefixes = blocks(0)
	w.interfaces[i.ID], w.requested[i.ID] = i, i.Addresses
	o := w.observe(ledger)
	store(&o, i.ID, func(s *plan.Stored) { s.Report = new(network(1)) })

	d.Claims[0] = replacing(claim("n3", desiredInterface(0, 1, "s2")))
	p := computeWith(d, o, fleet.Permission{Denied: "another node has its turn"}, w.now)
	if why := p.Members[0].Why; why.Reason != plan.Replacing || !strings.Contains(why.Message, "another node has its turn") {
		t.Errorf("want the reason %s that names the other node:\n%s", plan.Replacing, p.Explain())
	}
}

// TestAStaleReadAfterAnUnassignmentAssignsNothing has EC2 return the unassigned prefix for a while: EC2 could assign it
// again before the agent noticed that the interface had lost it.
func TestAStaleReadAfterAnUnassignmentAssignsNothing(t *testing.T) {
	t.Parallel()
	w := newMinimalEC2(limits(4))
	d := desired(claim("n3", desiredInterface(0, 1, "s1")))
	settled, ledger := w.drive(d, nil)
	i := *settled.Members[0].Interface
	i.IPv4Prefixes = blocks(0, 1)
	w.interfaces[i.ID], w.requested[i.ID] = i, eni.Addresses{IPv4Prefixes: blocks(0)}
	d.Claims[0].PodPrefixes, d.Claims[0].Interfaces[0].Spec.IPv4Prefixes = plan.PrefixDemand{Pods: true, Max: 4, Spare: 20}, 1
	prefixes, address := eni.Addresses{IPv4Prefixes: blocks(1)}, eni.Addresses{SecondaryIPv4: addresses(200)}
	for _, tc := range []struct {
		last     eni.Addresses
		after    time.Duration
		assigned int
	}{{prefixes, 0, 0}, {prefixes, inventory.StaleReadWindow - 1, 0}, {prefixes, inventory.StaleReadWindow, 1}, {address, 0, 1}} {
		unassigned := plan.RepeatedUpdate{To: plan.UnassignAddresses{Family: plan.IPv4, Surplus: tc.last}, At: w.now, Count: 1}
		o := w.observe(ledger)
		store(&o, i.ID, func(s *plan.Stored) { s.Report = new(drained(network(1, 0), 1)) })
		o.RepeatedUpdates = plan.RepeatedUpdates{i.ID: {plan.FieldOf(unassigned.To): unassigned}}
		p := compute(d, o, w.now.Add(tc.after))
		if assigned, _ := prefixChanges(p); assigned != tc.assigned || p.RequeueAt.IsZero() != (assigned > 0) {
			t.Errorf("%s after %v was unassigned %d prefixes are assigned, want %d; the next plan is at %s", tc.after, tc.last,
				assigned, tc.assigned, p.RequeueAt)
		}
	}
}

func prefixChanges(p plan.Plan) (assigned int, unassigned []netip.Prefix) {
	for _, action := range p.Actions {
		switch to := action.(plan.Change).To.(type) {
		case plan.UnassignAddresses:
			unassigned = append(unassigned, to.Surplus.IPv4Prefixes...)
		case plan.AssignAddresses:
			assigned += to.Prefixes
		}
	}
	return assigned, unassigned
}

func texts(all []netip.Prefix) (texts []string) {
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return texts
}

// A user deleted the state of a node with the report and the list of networks for pods. Its successor has neither for
// an interface whose NodeENI is no longer a network for pods. It names the interfaces that are older than itself.
func TestAddressesAndInterfacesStayWhileAReportMayBeLost(t *testing.T) {
	t.Parallel()
	const isNew, isOld, isFirst = time.Minute, 0, -1
	for name, tc := range map[string]struct {
		left    time.Duration
		removed bool
		listed  bool
		want    []string
	}{
		"prefixes of a new state":                {isNew, false, false, nil},
		"prefixes of an old state":               {isOld, false, false, []string{"set 1 fewer IPv4 prefix of eni-0002"}},
		"prefixes of a network that drains":      {isOld, false, true, nil},
		"an interface of a new state":            {isNew, true, false, nil},
		"an interface of an old state":           {isOld, true, false, []string{"detach eni-0002: it is no longer wanted"}},
		"the interface of a network that drains": {isOld, true, true, nil},
		"prefixes of the first state":            {isFirst, false, false, []string{"set 1 fewer IPv4 prefix of eni-0002"}},
		"an interface of the first state":        {isFirst, true, false, []string{"detach eni-0002: it is no longer wanted"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			settled, ledger := w.drive(d, nil)
			i := *settled.Members[0].Interface
			i.IPv4Prefixes = blocks(0)
			w.interfaces[i.ID], w.requested[i.ID] = i, i.Addresses
			w.now = w.now.Add(time.Hour)
			o := w.observe(ledger)
			until := w.now.Add(tc.left)
			if tc.left != isFirst {
				store(&o, i.ID, func(s *plan.Stored) { s.MayLackReport, s.ReportDue = true, until })
			}
			if tc.listed {
				store(&o, i.ID, func(s *plan.Stored) { s.Listed = &plan.ListedNetwork{Draining: true} })
			}
			if tc.removed {
				d.Claims[0].Mode, d.Claims[0].Interfaces = render.Release, nil
			}
			p := compute(d, o, w.now)
			if diff := cmp.Diff(tc.want, kinds(p)); diff != "" {
				t.Errorf("actions differ (-want +got):\n%s", diff)
			}
			if tc.left == isNew && !p.RequeueAt.Equal(until) {
				t.Errorf("the next plan is due at %v, want %v", p.RequeueAt, until)
			}
			if m := p.Members[0]; tc.removed && strings.Contains(m.Why.Message, "pods") && !tc.listed {
				t.Errorf("the message names pods, and the NodeENI has none: %s", m.Why.Message)
			}
		})
	}
}

// TestPrefixesInUseStay plans for any report and any edit of the demand. A plan unassigns only requested prefixes that
// are reported as drained and unused, keeps the minimum if that is not for pods, and never exceeds the maximum.
func TestPrefixesInUseStay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newMinimalEC2(limits(4))
		d := desired(claim("n3", desiredInterface(0, 1, "s1")))
		settled, ledger := w.drive(d, nil)
		i := *settled.Members[0].Interface
		n := rapid.IntRange(0, 6).Draw(rt, "prefixes")
		report := plan.PodNetwork{Prefixes: map[netip.Prefix]plan.PodPrefix{}}
		var requested eni.Addresses
		for at := range n {
			i.IPv4Prefixes = append(i.IPv4Prefixes, block(at))
			if rapid.Bool().Draw(rt, "requested") {
				requested.IPv4Prefixes = append(requested.IPv4Prefixes, block(at))
			}
			if rapid.IntRange(0, 4).Draw(rt, "reported") > 0 {
				use := plan.PodPrefix{Used: rapid.IntRange(0, 2).Draw(rt, "used"), Draining: rapid.Bool().Draw(rt, "draining")}
				use.Drained = use.Draining && rapid.Bool().Draw(rt, "drained")
				report.Prefixes[block(at)] = use
				report.Used += use.Used
			}
		}
		report.Free = rapid.IntRange(0, 40).Draw(rt, "free")
		w.interfaces[i.ID], w.requested[i.ID] = i, requested
		least := rapid.IntRange(0, 4).Draw(rt, "min")
		demand := plan.PrefixDemand{Pods: rapid.Bool().Draw(rt, "pods"), Max: rapid.IntRange(0, 8).Draw(rt, "max"), Spare: rapid.IntRange(0, 40).Draw(rt, "spare")}
		d.Claims[0].PodPrefixes, d.Claims[0].Interfaces[0].Spec.IPv4Prefixes = demand, least
		o := w.observe(ledger)
		store(&o, i.ID, func(s *plan.Stored) { s.Report = &report })

		assigned, unassigned := prefixChanges(compute(d, o, w.now))
		for _, prefix := range unassigned {
			if use := report.Prefixes[prefix]; !use.Drained || use.Used > 0 || !slices.Contains(requested.IPv4Prefixes, prefix) {
				rt.Fatalf("%s is unassigned, which is reported as %+v, of the requested %v", prefix, use, requested.IPv4Prefixes)
			}
		}
		if left := n - len(unassigned); len(unassigned) > 0 && left < least && !demand.Pods {
			rt.Fatalf("%d prefixes are left, fewer than %d", left, least)
		}
		if assigned > 0 && n+assigned > max(least, demand.Max) {
			rt.Fatalf("%d prefixes are assigned to %d, more than %d", assigned, n, demand.Max)
		}
	})
}

// TestAnInterfaceOfPodsIsNotDetached removes a NodeENI with pods. The interface is removed once the agent reports that
// no pod has an address or can get one, or if no agent has let pods use it.
func TestAnInterfaceOfPodsIsNotDetached(t *testing.T) {
	t.Parallel()
	published, draining := new(false), new(true)
	drained := network(0)
	drained.Drained = true
	outdated := network(1)
	outdated.Outdated = true
	for name, tc := range map[string]struct {
		spec      bool
		published *bool
		report    *plan.PodNetwork
		reason    plan.Reason
		message   string
		detach    bool
		opened    bool
		absent    bool // no Node names the instance
	}{
		"pods use it":                                      {true, published, new(network(1)), plan.InUseByPods, "upf/a", false, false, false},
		"pods use it while the network drains":             {true, draining, new(network(1)), plan.InUseByPods, "upf/a", false, false, false},
		"the last report has no pods":                      {true, published, new(network(0)), plan.Removing, "no pod can get an address", false, false, false},
		"the network drains":                               {true, draining, new(network(0)), plan.Removing, "no pod can get an address", false, false, false},
		"the network was drained before":                   {true, published, &drained, plan.Removing, "no pod can get an address", false, false, false},
		"the network is drained":                           {true, draining, &drained, plan.Removing, "", true, false, false},
		"no agent has reported yet":                        {true, published, nil, plan.Removing, "no pod can get an address", false, false, false},
		"no agent has let pods in":                         {true, draining, nil, plan.Removing, "", true, false, false},
		"the interface is no network for pods":             {false, nil, nil, plan.Removing, "", true, false, false},
		"it is no network, and pods still use it":          {false, nil, new(network(1)), plan.InUseByPods, "upf/a", false, false, false},
		"the state does not list the network yet":          {true, nil, nil, plan.Removing, "no pod can get an address", false, false, false},
		"it is no network, and the agent has not ended it": {false, nil, new(network(0)), plan.Removing, "no pod can get an address", false, false, false},
		"it is no network, and the agent ended it":         {false, nil, &drained, plan.Removing, "", true, false, false},
		"its report is gone":                               {true, draining, nil, plan.Removing, "pods.enabled=true", false, true, false},
		"its report is gone, and it is to drain":           {true, published, nil, plan.Removing, "pods.enabled=true", false, true, false},
		"its agent was open, and is drained":               {true, draining, &drained, plan.Removing, "", true, true, false},
		"its agent runs without pod networks":              {true, draining, &outdated, plan.InUseByPods, "pods.enabled=true", false, true, false},
		"pods use it, and no Node names the instance":      {true, draining, new(network(1)), plan.InUseByPods, "terminate the instance", false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			settled, ledger := w.drive(d, nil)
			id := settled.Members[0].Interface.ID
			d.Claims[0].Mode, d.Claims[0].Interfaces = render.Release, nil
			d.Claims[0].PodPrefixes.Pods, d.NodeAbsent = tc.spec, tc.absent
			o := w.observe(ledger)
			store(&o, id, func(s *plan.Stored) {
				s.Report = tc.report
				if tc.published != nil {
					s.Listed = &plan.ListedNetwork{Draining: *tc.published, Opened: tc.opened}
				}
			})
			p := compute(d, o, w.now)
			m := p.Members[0]
			if len(p.Actions) > 0 != tc.detach || m.Why.Reason != tc.reason || !strings.Contains(m.Why.Message, tc.message) {
				t.Errorf("actions %v, %+v; want a detach: %t, and %s with %q", p.Actions, m.Why, tc.detach, tc.reason, tc.message)
			}
			if m.DrainPods != (tc.spec || tc.published != nil) {
				t.Errorf("the node is to drain the network: %t", m.DrainPods)
			}
		})
	}
}

// An agent without pod networks, or one of another release, removes the report of a network that pods use, and a user
// removes pods from the NodeENI.
func TestPrefixesOfAnOpenNetworkWithoutAReportStay(t *testing.T) {
	t.Parallel()
	for _, opened := range []bool{true, false} {
		w := newMinimalEC2(limits(4))
		d := desired(claim("n3", desiredInterface(0, 1, "s1")))
		settled, ledger := w.drive(d, nil)
		i := *settled.Members[0].Interface
		i.IPv4Prefixes = blocks(0)
		w.interfaces[i.ID], w.requested[i.ID] = i, i.Addresses
		o := w.observe(ledger)
		store(&o, i.ID, func(s *plan.Stored) { s.Listed = &plan.ListedNetwork{Draining: true, Opened: opened} })
		if p := compute(d, o, w.now); len(p.Actions) > 0 == opened {
			t.Errorf("actions %v of a network that is open: %t", p.Actions, opened)
		}
	}
}

// The pods in the report of an agent without pod networks may be others by now, so none is evicted.
func TestAnOutdatedReportEvictsNoPod(t *testing.T) {
	t.Parallel()
	for _, outdated := range []bool{true, false} {
		w := newMinimalEC2(limits(4))
		d := desired(claim("n3", desiredInterface(0, 1, "s1")))
		settled, ledger := w.drive(d, nil)
		id := settled.Members[0].Interface.ID
		d.Claims[0].Mode, d.Claims[0].Interfaces, d.Claims[0].EvictPods = render.Release, nil, true
		report := network(1)
		report.Outdated = outdated
		o := w.observe(ledger)
		store(&o, id, func(s *plan.Stored) { s.Listed, s.Report = &plan.ListedNetwork{Draining: true}, &report })
		if p := compute(d, o, w.now); (len(p.Evictions) == 0) != outdated {
			t.Errorf("evictions %v with an outdated report: %t", p.Evictions, outdated)
		}
	}
}

// TestAddressesBeyondTheTypeNameTheirField declares, with each of the fields, more addresses than an interface of the
// type supports.
func TestAddressesBeyondTheTypeNameTheirField(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		counts eni.AddressCounts
		demand plan.PrefixDemand
		field  string
	}{
		"addresses":        {eni.AddressCounts{SecondaryIPv4: 15}, plan.PrefixDemand{}, "lower secondaryPrivateIPAddressCount or ipv4PrefixCount"},
		"prefixes of pods": {eni.AddressCounts{IPv4Prefixes: 15}, plan.PrefixDemand{Pods: true, Max: 15}, "takes 14; lower pods.ipv4.prefixes.min"},
		"IPv6 prefixes":    {eni.AddressCounts{IPv6Prefixes: 16}, plan.PrefixDemand{Pods: true}, "takes 15; lower ipv6AddressCount, ipv6PrefixCount or pods.ipv6.prefixes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			d.Claims[0].PodPrefixes, d.Claims[0].Interfaces[0].Spec.AddressCounts = tc.demand, tc.counts
			w := newMinimalEC2(limits(4))
			o := w.observe(nil)
			p := compute(d, o, w.now)
			if m := p.Members[0]; len(p.Actions) > 0 || m.Why.Reason != plan.AddressLimit || !strings.Contains(m.Why.Message, tc.field) {
				t.Errorf("actions %v, %+v; want none, AddressLimit and %q", p.Actions, m.Why, tc.field)
			}
		})
	}
}
