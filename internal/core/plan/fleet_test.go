// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// intent is one NodeENI as users change it.
type intent struct {
	name, uid              string
	subnets                []string
	base                   int
	selected, deleting     bool
	paused                 bool
	exact, replace         bool
	unresolved, nodeAbsent bool
	spec                   eni.Spec
}

func (n intent) claim() render.Claim {
	c := render.Claim{
		NodeENI: n.name, Owner: identity.Owner(n.uid), AllResolved: !n.unresolved, ExactSlot: n.exact, ReplaceAllowed: n.replace,
		Selects: n.selected && !n.nodeAbsent, FirstSlot: device(n.base),
	}
	c.Mode, c.Why = render.ModeFor(render.SelectionFacts{
		NodeENIKnown: true, NodeENIDeleting: n.deleting, NodeENIPaused: n.paused, NodePresent: !n.nodeAbsent, Selected: n.selected,
	})
	if c.Mode == render.Ensure {
		for ordinal, subnet := range n.subnets {
			c.Interfaces = append(c.Interfaces, plan.DesiredInterface{Ordinal: ordinal, Subnets: []string{subnet}, Slot: device(n.base + ordinal), Spec: n.spec})
		}
		if len(n.subnets) == 0 {
			c.Unresolvable = []plan.Problem{{Reason: plan.NoSubnetInZone, Message: "none is in the node's zone; add one"}}
		}
	}
	return c
}

// intents are the NodeENIs for one node, and their changes.
type intents struct {
	rt     *rapid.T
	all    []*intent
	uids   int
	absent bool
}

func newIntents(rt *rapid.T) *intents {
	f := &intents{rt: rt}
	for range rapid.IntRange(1, 3).Draw(rt, "NodeENIs") {
		f.declare()
	}
	return f
}

// declare creates a NodeENI, possibly with the name of an earlier one.
func (f *intents) declare() {
	f.uids++
	n := &intent{
		name: fmt.Sprintf("n%d", f.uids%4), uid: fmt.Sprintf("uid-%d", f.uids), selected: true,
		base: rapid.IntRange(1, 4).Draw(f.rt, "deviceIndex"), spec: f.spec(),
		exact: rapid.Bool().Draw(f.rt, "exact"), replace: rapid.Bool().Draw(f.rt, "replace"), subnets: f.subnets(),
	}
	f.all = append(f.all, n)
}

func (f *intents) subnets() []string {
	all := rapid.Permutation([]string{"s1", "s2", "s3", "s4"}).Draw(f.rt, "subnets")
	return all[:rapid.IntRange(0, 3).Draw(f.rt, "number of subnets in the node's zone")]
}

func (f *intents) spec() eni.Spec {
	return eni.Spec{
		Description:         rapid.SampledFrom([]string{"", "a", "b"}).Draw(f.rt, "description"),
		Groups:              rapid.SampledFrom([][]string{{"sg-1"}, {"sg-1", "sg-2"}, {"sg-3"}}).Draw(f.rt, "groups"),
		SourceDestCheck:     rapid.Bool().Draw(f.rt, "sourceDestCheck"),
		DeleteOnTermination: rapid.Bool().Draw(f.rt, "deleteOnTermination"),
		AddressCounts: rapid.SampledFrom([]eni.AddressCounts{
			{}, {SecondaryIPv4: 2}, {IPv4Prefixes: 1}, {SecondaryIPv4: 1, IPv6: 2}, {IPv6Prefixes: 1},
		}).Draw(f.rt, "counts"),
	}
}

// desired is the desired state of all of them.
func (f *intents) desired() render.Declared {
	d := render.Declared{Cluster: cluster, Node: nodeName, InstanceID: instance, NodeAbsent: f.absent}
	for _, n := range f.all {
		n.nodeAbsent = f.absent
		d.Claims = append(d.Claims, n.claim())
	}
	return d
}

func (f *intents) find(uid string) *intent {
	for _, n := range f.all {
		if n.uid == uid {
			return n
		}
	}
	return nil
}

// change makes one possible change of a user.
func (f *intents) change() string {
	if len(f.all) == 0 {
		f.declare()
		return "declared"
	}
	n := rapid.SampledFrom(f.all).Draw(f.rt, "NodeENI")
	kinds := []string{
		"label", "delete", "declare", "subnets", "reorder", "exact", "replace", "spec", "deviceIndex", "resolution", "pause", "node", "nothing",
	}
	kind := rapid.SampledFrom(kinds).Draw(f.rt, "change")
	switch kind {
	case "label":
		n.selected = !n.selected
	case "delete":
		n.deleting = true
	case "declare":
		if len(f.all) < 4 {
			f.declare()
		}
	case "subnets":
		n.subnets = f.subnets()
	case "reorder":
		n.subnets = rapid.Permutation(n.subnets).Draw(f.rt, "order")
	case "exact":
		n.exact = !n.exact
	case "replace":
		n.replace = !n.replace
	case "spec":
		n.spec = f.spec()
	case "deviceIndex":
		n.base = rapid.IntRange(1, 4).Draw(f.rt, "deviceIndex")
	case "resolution":
		n.unresolved = !n.unresolved
	case "pause":
		n.paused = !n.paused
	case "node":
		f.absent = !f.absent
	}
	return kind + " of " + n.uid
}

// letGo removes the NodeENIs whose deletion the controller considers complete.
func (f *intents) letGo(c *restartable) {
	f.all = slices.DeleteFunc(f.all, func(n *intent) bool {
		if !n.deleting || c.known.Holds(identity.Owner(n.uid)) {
			return false
		}
		for key := range c.ledger {
			if string(key.Owner) == n.uid {
				return false
			}
		}
		left := c.cloud.list()
		return !slices.ContainsFunc(left, func(i eni.Interface) bool { return ownerOf(i) == n.uid })
	})
}
