// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

const zone = "us-east-1a"

var now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// nodeENI is a NodeENI with subnets of the zone.
func nodeENI(ids ...string) fleet.NodeENI {
	n := fleet.NodeENI{NodeENI: render.NodeENI{Name: "n", UID: "uid-n", Generation: 1, FirstSlot: eni.Slot{Device: 1}}, Replace: true, MaxUnavailable: 1}
	return resolved(n, ids...)
}

func resolved(n fleet.NodeENI, ids ...string) fleet.NodeENI {
	all := []eni.Subnet{{ID: "subnet-far", Zone: "us-east-1b", VPCID: "vpc-1"}}
	for b, id := range []string{"subnet-a", "subnet-b", "subnet-c"} {
		all = append(all, eni.Subnet{ID: id, Zone: zone, VPCID: "vpc-1", CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(b), 0}), 24)})
	}
	n.Found = &selector.Found{
		Subnets: selector.MatchSubnets(selector.SubnetTerms{IDs: ids}, all),
		Groups:  selector.MatchGroups(selector.GroupTerms{IDs: []string{"sg-1"}}, []eni.SecurityGroup{{ID: "sg-1", VPCID: "vpc-1"}}),
	}
	return n
}

func instanceID(n int) string { return fmt.Sprintf("i-%017x", n) }

// fleetOf returns instances with all objects of a NodeENI, attached and ready.
func fleetOf(n fleet.NodeENI, count int) (objects []fleet.Object, instances []fleet.Instance) {
	for i := 1; i <= count; i++ {
		instances = append(instances, fleet.Instance{ID: instanceID(i), Zone: zone})
		for _, w := range n.At(selector.Location{Zone: zone, VPCID: "vpc-1"}).Interfaces {
			objects = append(objects, ready(n, instanceID(i), w))
		}
	}
	return objects, instances
}

// ready is an object of a declared interface, attached and ready.
func ready(n fleet.NodeENI, instance string, w render.Wanted) fleet.Object {
	slot, subnet := w.Slot, w.Candidates[0]
	name := identity.ObjectName(n.Name, instance, w.Ordinal)
	return fleet.Object{
		Object: render.Object{
			Name: name, UID: "uid-" + name, ENIID: "eni-" + name, SubnetID: subnet.ID, Slot: &slot,
			Spec: render.Spec{
				InstanceID: instance, Zone: zone, Ordinal: w.Ordinal, Origin: render.OriginDeclared, NodeENI: render.Reference{Name: n.Name, UID: n.UID, Generation: 1},
				Subnets: []render.Subnet{{ID: subnet.ID}}, Slot: slot, Revision: n.Revision(zone),
			},
		},
		Version: "1", Phase: "Attached", Attached: true, Ready: true, Settled: true,
	}
}

// rendered writes the revision of a NodeENI into objects.
func rendered(n fleet.NodeENI, objects []fleet.Object) []fleet.Object {
	objects = slices.Clone(objects)
	for i := range objects {
		objects[i].Spec.Revision = n.Revision(objects[i].Spec.Zone)
	}
	return objects
}

// deleted marks objects as deleted, the first one first.
func deleted(objects []fleet.Object, at ...int) []fleet.Object {
	objects = slices.Clone(objects)
	for n, i := range at {
		objects[i].Deleting, objects[i].DeletedAt, objects[i].Ready = true, now.Add(time.Duration(n)*time.Second), false
	}
	return objects
}

// held lets pods use objects that evict them.
func held(objects []fleet.Object, at ...int) []fleet.Object {
	objects = slices.Clone(objects)
	for _, i := range at {
		objects[i].Held, objects[i].Spec.Pods = true, &render.Pods{OnRemoval: "Evict", Closed: true}
	}
	return objects
}

// blocked is an object without an interface, for a reason.
func blocked(n fleet.NodeENI, instance string, ordinal int, reason plan.Reason) fleet.Object {
	name := identity.ObjectName(n.Name, instance, ordinal)
	return fleet.Object{
		Object: render.Object{Name: name, UID: "uid-" + name, Spec: render.Spec{
			InstanceID: instance, Zone: zone, Ordinal: ordinal, Origin: render.OriginDeclared, NodeENI: render.Reference{Name: n.Name, UID: n.UID},
			Problem: &plan.Problem{Reason: reason, Message: "why"}, Revision: n.Revision(zone),
		}},
		Phase: "Blocked", Settled: true,
	}
}

// names returns the instance and the ordinal of objects to delete, for example 2/0.
func names(all []fleet.Deletion) (short []string) {
	for _, d := range all {
		short = append(short, shorten(d.Name))
	}
	return short
}

func shorten(name string) string {
	var instance, ordinal int
	if _, err := fmt.Sscanf(name, "n-i-%x-%d", &instance, &ordinal); err != nil {
		return name
	}
	return fmt.Sprintf("%d/%d", instance, ordinal)
}
