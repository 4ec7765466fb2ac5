// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

// TestAnotherOwnersInterfaceDoesNotCount has an interface without an owner at the slot of the network, which serves it
// unless the network has an interface of its own on this instance.
func TestAnotherOwnersInterfaceDoesNotCount(t *testing.T) {
	unowned := at("eni-1", "subnet-a1", self, 1, map[string]string{identity.TagNoManage: "true"})
	malformed := owned("uid-1", self)
	malformed[identity.TagGeneration] = "seven"
	own := identity.NetworkOwner("n3")
	for name, tc := range map[string]struct {
		other  eni.Interface
		served []string
	}{
		"the network's own":                    {at("eni-2", "subnet-a1", self, 2, owned(own, self)), nil},
		"the network's own, in another subnet": {at("eni-2", "subnet-a2", self, 2, owned(own, self)), []string{"eni-1"}},
		"the network's, of another instance":   {at("eni-2", "subnet-a1", self, 2, owned(own, another)), []string{"eni-1"}},
		"another network's": {
			at("eni-2", "subnet-a1", self, 2, owned(identity.NetworkOwner("n6"), self)), []string{"eni-1"},
		},
		"a NodeENI's, whose tags are malformed": {at("eni-2", "subnet-a1", self, 2, malformed), []string{"eni-1"}},
		"one without an owner at another slot":  {at("eni-2", "subnet-a1", self, 2, unowned.Tags), []string{"eni-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, interfaces := range [][]eni.Interface{{unowned, tc.other}, {tc.other, unowned}} {
				var served []string
				for _, i := range desired(parsed(t, n3), instance("a", interfaces...)).Served {
					served = append(served, i.ID)
				}
				if diff := cmp.Diff(tc.served, served); diff != "" {
					t.Errorf("served (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestTheSubnetIsInTheInstancesVPC checks that a name of subnets in two VPCs selects the one in the VPC of the
// instance.
func TestTheSubnetIsInTheInstancesVPC(t *testing.T) {
	c := parsed(t, `{"name": "n3", "subnetNames": ["n3"], "securityGroupIDs": ["sg-1"]}`)
	found := selector.Found{
		Subnets: selector.MatchSubnets(c.Networks[0].SubnetTerms(), []eni.Subnet{
			{ID: "subnet-1", Name: "n3", VPCID: "vpc-2", Zone: "a"}, {ID: "subnet-2", Name: "n3", VPCID: "vpc-1", Zone: "a"},
		}),
		Groups: selector.MatchGroups(c.Networks[0].GroupTerms(), []eni.SecurityGroup{{ID: "sg-1", VPCID: "vpc-1"}}),
	}
	claim := c.Desired(instance("a"), []selector.Found{found}).Claims[0]
	var subnets []string
	for _, w := range claim.Interfaces {
		subnets = append(subnets, w.Subnets...)
	}
	if diff := cmp.Diff([]string{"subnet-2"}, subnets); diff != "" {
		t.Errorf("subnets (-want +got):\n%s", diff)
	}
}

// TestNetworksKeepTheirOrderAndFound checks that each network gets the matches of its own selectors, and an IPv6
// address only if it declares one; without the lowest free IPv4 address, EC2 chooses that of IPv6.
func TestNetworksKeepTheirOrderAndFound(t *testing.T) {
	c := parsed(t, `{"name": "n6", "subnetNames": ["n6"], "securityGroupNames": ["n6"], "ipv6": true},
	  {"name": "n3", "subnetNames": ["n3"], "securityGroupNames": ["n3"], "deviceIndex": 2,
	   "ipv4Allocation": "LowestFree"}`)
	d := desired(c, instance("a"))
	spec := eni.Spec{Groups: []string{"sg-2"}, Tags: map[string]string{}, SourceDestCheck: true, DeleteOnTermination: true}
	six, three := spec, spec
	six.IPv6 = 1
	three.Groups, three.LowestFree = []string{"sg-1"}, true
	claim := func(name, subnet string, device int, spec eni.Spec) render.Claim {
		slot := eni.Slot{Device: device}
		return render.Claim{
			NodeENI: name, Owner: identity.NetworkOwner(name), Mode: render.Ensure, FirstSlot: slot,
			Interfaces: []plan.DesiredInterface{{Subnets: []string{subnet}, Slot: slot, Spec: spec}},
		}
	}
	want := []render.Claim{claim("n6", "subnet-a2", 1, six), claim("n3", "subnet-a1", 2, three)}
	if diff := cmp.Diff(want, d.Claims, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestActionsOfManyInterfaces compares the whole calls for the interfaces of one instance, in their order. The member
// of a call is that of its interface.
func TestActionsOfManyInterfaces(t *testing.T) {
	network, other := identity.NetworkOwner("n3"), identity.NetworkOwner("n6")
	attached, detached := record(network, eni.AttachmentAttached, self, false), record(other, "", "", false)
	detached.ID, detached.Member.NodeENI, detached.Member.Ordinal = "eni-2", "n6", 1
	nodeENI := record("uid-1", "", "", false)
	nodeENI.ID = "eni-3"
	all := []inventory.Record{detached, nodeENI, attached}

	terminating := []plan.Action{
		plan.Delete{Member: detached.Member, InterfaceID: "eni-2", Why: "its instance is being terminated"},
		plan.Change{
			Member: attached.Member, InterfaceID: "eni-1",
			To: plan.DeleteOnTermination{AttachmentID: "attach-1", Enabled: true},
		},
	}
	if diff := cmp.Diff(terminating, lifecycle.TerminationActions(all)); diff != "" {
		t.Errorf("at termination (-want +got):\n%s", diff)
	}
	var asked []string
	rollback := lifecycle.RollbackActions(all, func(r inventory.Record) bool {
		asked = append(asked, r.ID)
		return r.Member.NodeENI == "n6"
	}, "n3 is missing")
	want := []plan.Action{plan.Delete{Member: detached.Member, InterfaceID: "eni-2", Why: "n3 is missing"}}
	if diff := cmp.Diff(want, rollback); diff != "" {
		t.Errorf("at rollback (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"eni-2", "eni-1"}, asked); diff != "" {
		t.Errorf("the rollback asks about (-want +got):\n%s", diff)
	}
}

// TestTerminationActionsLeaveNothing applies the actions for a terminating instance, and expects no further one: each
// interface is deleted by an action, or together with its instance.
func TestTerminationActionsLeaveNothing(t *testing.T) {
	network := identity.NetworkOwner("n3")
	for _, status := range []eni.AttachmentStatus{
		"", eni.AttachmentAttaching, eni.AttachmentAttached, eni.AttachmentDetaching,
	} {
		r := record(network, status, self, false)
		actions := lifecycle.TerminationActions([]inventory.Record{r})
		if len(actions) != 1 {
			t.Fatalf("%q: the actions are %v, want one", status, actions)
		}
		if change, is := actions[0].(plan.Change); is {
			r.Interface = change.To.Apply(r.Interface)
			if rest := lifecycle.TerminationActions([]inventory.Record{r}); len(rest) > 0 {
				t.Errorf("%q: %v is left", status, rest)
			}
		} else if status != "" {
			t.Errorf("%q: the action is %s, although workloads may use the interface", status, actions[0])
		}
	}
}
