// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

// zoned are subnets of two zones and two VPCs; the node is in zone a of vpc-1.
var zoned = []eni.Subnet{
	{ID: "s1", Zone: zone, VPCID: "vpc-1"}, {ID: "s2", Zone: zone, VPCID: "vpc-1"}, {ID: "s3", Zone: zone, VPCID: "vpc-1"},
	{ID: "other-zone", Zone: "us-east-1b", VPCID: "vpc-1"}, {ID: "other-vpc", Zone: zone, VPCID: "vpc-2"},
}

// listing returns the claim of a NodeENI with a list of subnets; EC2 may not know some of them.
func listing(ids ...string) render.Claim {
	c := claim("a")
	c.FirstSlot = device(1)
	found := selector.Found{
		Subnets: selector.MatchSubnets(selector.SubnetTerms{IDs: ids}, zoned),
		Groups:  selector.MatchGroups(selector.GroupTerms{IDs: []string{"sg-1"}}, []eni.SecurityGroup{{ID: "sg-1", VPCID: "vpc-1"}}),
	}
	c.Resolve(found, selector.Location{Zone: zone, VPCID: "vpc-1"}, func(_ selector.Placement, groups []string) eni.Spec { return spec(groups...) })
	return c
}

// TestAnEditOfSubnetsInPlaceTakesOnlyWhatALivingListDrops edits the subnets of a NodeENI with updatePolicy: InPlace.
// Its live interfaces are removed only if their subnet was dropped from a list that still serves the node.
func TestAnEditOfSubnetsInPlaceTakesOnlyWhatALivingListDrops(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		here := []string{"s1", "s2", "s3"}
		before := rapid.SliceOfNDistinct(rapid.SampledFrom(here), 1, 3, rapid.ID).Draw(rt, "before")
		all := append(here, "other-zone", "other-vpc", "unknown")
		after := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, 4, rapid.ID).Draw(rt, "after")
		w := newMinimalEC2(limits(8))
		_, ledger := w.drive(desired(listing(before...)), nil)
		live := w.ours()

		p := w.follow(desired(listing(after...)), ledger, 12, time.Minute)

		serves := slices.ContainsFunc(after, func(id string) bool { return slices.Contains(here, id) })
		for _, i := range live {
			kept := slices.ContainsFunc(w.ours(), func(o eni.Interface) bool { return o.ID == i.ID && o.Ready() })
			dropped := serves && !slices.Contains(after, i.SubnetID) && !slices.Contains(after, "unknown")
			if !kept && !dropped {
				rt.Errorf("%s in %s is gone after an edit from %v to %v\n%s", i.ID, i.SubnetID, before, after, p.Explain())
			}
		}
	})
}

func TestAnInterfaceWithoutASubnetForItsNodeSaysHowItGoes(t *testing.T) {
	w := newMinimalEC2(limits(8))
	_, ledger := w.drive(desired(listing("s1")), nil)
	p := w.follow(desired(listing("other-zone")), ledger, 3, time.Minute)
	if len(p.Members) != 1 {
		t.Fatalf("want one member, the interface that is there:\n%s", p.Explain())
	}
	m := p.Members[0]
	for _, part := range []string{"eni-0002 in s1 stays as it is", "node's zone us-east-1a", "other-zone (us-east-1b)", "add a subnet of that zone", "narrow its nodeSelector, or change the NodeENI back"} {
		if !strings.Contains(m.Why.Message, part) {
			t.Errorf("%q does not say %q", m.Why.Message, part)
		}
	}
	if !m.Ready() || m.Why.Reason != plan.Drifted || m.Drift[0].Have != "s1" {
		t.Errorf("want a drifted interface in use, got %+v", m)
	}
}

// TestAnInterfaceInUseSaysWhyItKeepsItsGroups requests a group that the node's VPC does not have for an attached
// interface, which keeps its groups and gets the same reason as a new one.
func TestAnInterfaceInUseSaysWhyItKeepsItsGroups(t *testing.T) {
	none := &plan.Problem{Reason: plan.SecurityGroupNotFound, Message: "there is no security group with ID sg-9 in VPC vpc-1, where the node is; create it there"}
	lacking := claim("a", desiredInterface(0, 1, "s1"))
	lacking.SecurityGroupProblem, lacking.Interfaces[0].Spec.Groups = none, nil
	t.Run("made for the NodeENI", func(t *testing.T) {
		w := newMinimalEC2(limits(8))
		_, ledger := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
		keepsItsGroups(t, w, w.follow(desired(lacking), ledger, 3, time.Minute), w.ours()[0].ID)
	})
	t.Run("launched with the instance", func(t *testing.T) {
		w := newMinimalEC2(limits(8))
		born := w.launchedAt(device(1), "s1")
		keepsItsGroups(t, w, w.follow(desired(lacking), nil, 3, time.Minute), born.ID)
	})
}

func keepsItsGroups(t *testing.T, w *minimalEC2, p plan.Plan, id string) {
	t.Helper()
	m := p.Members[0]
	if m.Phase != plan.Attached || m.Ready() || m.Why.Reason != plan.SecurityGroupNotFound || !strings.Contains(m.Why.Message, id+" keeps the security groups that it has (sg-1)") {
		t.Errorf("want an interface in use that is not as declared:\n%s", p.Explain())
	}
	if got := w.interfaces[id].Groups; !slices.Equal(got, []string{"sg-1"}) {
		t.Errorf("the groups are %v", got)
	}
}
