// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

// TestAnotherOwnersInterfaceDoesNotCount has an interface without an owner at the slot of the network, which serves it
// unless the network has an interface of its own on this instance.
func TestAnotherOwnersInterfaceDoesNotCount(t *testing.T) {
	unowned := at("eni-1", "subnet-a1", self, 1, map[string]string{identity.TagNoManage: "true"})
	malformed := nodeENITags(self)
	malformed[identity.TagInterface] = "seven"
	for name, tc := range map[string]struct {
		other  eni.Interface
		served []string
	}{
		"the network's own":                    {at("eni-2", "subnet-a1", self, 2, networkTags("n3", self)), nil},
		"the network's own, in another subnet": {at("eni-2", "subnet-a2", self, 2, networkTags("n3", self)), []string{"eni-1"}},
		"the network's, of another instance":   {at("eni-2", "subnet-a1", self, 2, networkTags("n3", another)), []string{"eni-1"}},
		"another network's": {
			at("eni-2", "subnet-a1", self, 2, networkTags("n6", self)), []string{"eni-1"},
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
	var subnets []string
	for _, i := range c.Desired(instance("a"), []selector.Found{found}, nil, nil).Interfaces {
		subnets = append(subnets, i.Settings.Subnets...)
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
	want := map[string]eni.Settings{
		"n6": {Subnets: []string{"subnet-a2"}, Slot: eni.Slot{Device: 1}, Spec: six},
		"n3": {Subnets: []string{"subnet-a1"}, Slot: eni.Slot{Device: 2}, Spec: three},
	}
	got, order := map[string]eni.Settings{}, []string(nil)
	for _, i := range d.Interfaces {
		got[i.Key.NodeENI], order = i.Settings, append(order, i.Key.NodeENI)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"n6", "n3"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestCallsForManyInterfaces compares the whole calls for the interfaces of one instance, in their order.
func TestCallsForManyInterfaces(t *testing.T) {
	attached, detached := record(ofNetwork, eni.AttachmentAttached, self, false), record(identity.NetworkUID("n6", 1, launched), "", "", false)
	detached.ID, detached.Tagged.NodeENI, detached.Tagged.Ordinal = "eni-2", "n6", 1
	nodeENI := record(ofNodeENI, "", "", false)
	nodeENI.ID = "eni-3"
	all := []inventory.Record{detached, nodeENI, attached}

	terminating := []plan.Call{
		plan.Delete{Key: detached.Tagged, InterfaceID: "eni-2", Why: "its instance is being terminated"},
		plan.Change{
			Key: attached.Tagged, InterfaceID: "eni-1",
			To: plan.DeleteOnTermination{AttachmentID: "attach-1", Enabled: true},
		},
	}
	if diff := cmp.Diff(terminating, lifecycle.TerminationCalls(all)); diff != "" {
		t.Errorf("at termination (-want +got):\n%s", diff)
	}
	var asked []string
	rollback := lifecycle.RollbackCalls(all, func(r inventory.Record) bool {
		asked = append(asked, r.ID)
		return r.Tagged.NodeENI == "n6"
	}, "n3 is missing")
	want := []plan.Call{plan.Delete{Key: detached.Tagged, InterfaceID: "eni-2", Why: "n3 is missing"}}
	if diff := cmp.Diff(want, rollback); diff != "" {
		t.Errorf("at rollback (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"eni-2", "eni-1"}, asked); diff != "" {
		t.Errorf("the rollback asks about (-want +got):\n%s", diff)
	}
}

// TestTerminationCallsLeaveNothing applies the calls for a terminating instance, and expects no further one: each
// interface is deleted by a call, or together with its instance.
func TestTerminationCallsLeaveNothing(t *testing.T) {
	for _, status := range []eni.AttachmentStatus{
		"", eni.AttachmentAttaching, eni.AttachmentAttached, eni.AttachmentDetaching,
	} {
		r := record(ofNetwork, status, self, false)
		calls := lifecycle.TerminationCalls([]inventory.Record{r})
		if len(calls) != 1 {
			t.Fatalf("%q: the calls are %v, want one", status, calls)
		}
		if change, is := calls[0].(plan.Change); is {
			r.Interface = change.To.Apply(r.Interface)
			if rest := lifecycle.TerminationCalls([]inventory.Record{r}); len(rest) > 0 {
				t.Errorf("%q: %v is left", status, rest)
			}
		} else if status != "" {
			t.Errorf("%q: the call is %s, although workloads may use the interface", status, calls[0])
		}
	}
}
