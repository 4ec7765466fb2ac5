// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
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

// network is a report about prefixes that pods use, with the given numbers of used addresses.
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
		"enough addresses are free":                    {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0), report: new(network(8))},
		"fewer than spare are free":                    {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0), report: new(network(9)), assigned: 1},
		"many are missing, and one call assigns them":  {demand: plan.PrefixDemand{Max: 8, Spare: 40}, have: blocks(0), report: new(network(16)), assigned: 3},
		"the report does not list the new prefix yet":  {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0, 1), report: new(network(16))},
		"the largest number is reached":                {demand: plan.PrefixDemand{Max: 1, Spare: 8}, have: blocks(0), report: new(network(16))},
		"the instance type takes no more":              {demand: plan.PrefixDemand{Max: 40, Spare: 400}, have: blocks(0), report: new(network(16)), assigned: 13},
		"no report":                                    {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0, 1)},
		"an agent that knows no prefix":                {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0, 1), report: &silence},
		"an idle prefix is not drained":                {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0, 1), report: new(network(1, 0))},
		"a drained prefix goes":                        {demand: plan.PrefixDemand{Max: 4, Spare: 8}, have: blocks(0, 1), report: new(drained(network(1, 0), 1)), unassigned: blocks(1)},
		"a drained prefix of the least number stays":   {demand: plan.PrefixDemand{Max: 4, Spare: 8}, min: 2, have: blocks(0, 1), report: new(drained(network(1, 0), 1))},
		"more than the largest number, used":           {demand: plan.PrefixDemand{Max: 1, Spare: 8}, have: blocks(0, 1), report: new(network(9, 9)), reason: plan.AddressesInUse},
		"the NodeENI has no pods any more, and a used": {have: blocks(0), min: -1, report: new(network(1)), reason: plan.AddressesInUse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(limits(4))
			d := desired(claim("n3", wish(0, 1, "s1")))
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
			if tc.report != nil {
				o.PodNetworks = map[string]plan.PodNetwork{i.ID: *tc.report}
			}
			p := plan.Compute(d, o, w.now)
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

// TestPrefixesInUseStay plans for any report and any edit of the demand: a plan unassigns only requested prefixes that are
// reported as drained and unused, leaves the least number, and never exceeds the largest one.
func TestPrefixesInUseStay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(limits(4))
		d := desired(claim("n3", wish(0, 1, "s1")))
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
		o.PodNetworks = map[string]plan.PodNetwork{i.ID: report}

		assigned, unassigned := prefixChanges(plan.Compute(d, o, w.now))
		for _, prefix := range unassigned {
			if use := report.Prefixes[prefix]; !use.Drained || use.Used > 0 || !slices.Contains(requested.IPv4Prefixes, prefix) {
				rt.Fatalf("%s is unassigned, which is reported as %+v, of the requested %v", prefix, use, requested.IPv4Prefixes)
			}
		}
		if left := n - len(unassigned); len(unassigned) > 0 && left < least {
			rt.Fatalf("%d prefixes are left, fewer than %d", left, least)
		}
		if assigned > 0 && n+assigned > max(least, demand.Max) {
			rt.Fatalf("%d prefixes are assigned to %d, more than %d", assigned, n, demand.Max)
		}
	})
}

// TestAnInterfaceOfPodsIsNotDetached removes a NodeENI whose interface pods use: it waits, and goes when the pods have gone
// or the instance has.
func TestAnInterfaceOfPodsIsNotDetached(t *testing.T) {
	t.Parallel()
	w := newWorld(limits(4))
	d := desired(claim("n3", wish(0, 1, "s1")))
	settled, ledger := w.drive(d, nil)
	id := settled.Members[0].Interface.ID
	d.Claims[0].Mode, d.Claims[0].Interfaces = plan.Release, nil
	o := w.observe(ledger)
	o.PodNetworks = map[string]plan.PodNetwork{id: network(1)}

	p := plan.Compute(d, o, w.now)
	if m := p.Members[0]; len(p.Actions) > 0 || m.Why.Reason != plan.InUseByPods || !strings.Contains(m.Why.Message, "upf/a") {
		t.Errorf("actions %v, %+v; want none, InUseByPods and the pod's name", p.Actions, m.Why)
	}
	o.PodNetworks = map[string]plan.PodNetwork{id: network(0)}
	if p := plan.Compute(d, o, w.now); len(p.Actions) != 1 {
		t.Errorf("actions %v, want a detach", p.Actions)
	}
}
