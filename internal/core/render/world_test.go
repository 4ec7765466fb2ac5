// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

const (
	instance = "i-00000000000000001"
	zone     = "us-east-1a"
	vpc      = "vpc-1"
)

// subnets are those of EC2: four in the zone of the instance, one in another zone, one of another VPC.
var subnets = []eni.Subnet{
	subnet("subnet-a", zone, vpc, 0), subnet("subnet-b", zone, vpc, 1), subnet("subnet-c", zone, vpc, 2), subnet("subnet-d", zone, vpc, 3),
	subnet("subnet-far", "us-east-1b", vpc, 4), subnet("subnet-foreign", zone, "vpc-2", 5),
}

func subnet(id, zone, vpc string, n byte) eni.Subnet {
	return eni.Subnet{ID: id, Zone: zone, VPCID: vpc, CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, n, 0}), 24), FreeIPv4: 100}
}

var groups = []eni.SecurityGroup{{ID: "sg-1", Name: "one", VPCID: vpc}, {ID: "sg-2", Name: "two", VPCID: vpc}}

// nodeENI is a NodeENI that selects nodes with the label nodeeni: NAME, with its subnets.
func nodeENI(name string, ids ...string) render.NodeENI {
	n := render.NodeENI{
		Name: name, UID: "uid-" + name, Generation: 1, Selector: map[string]string{"nodeeni": name}, FirstSlot: eni.Slot{Device: 1},
		Template: render.Template{Required: true, EC2: eni.Spec{Description: "VRF{deviceIndex}", SourceDestCheck: true}, Link: &render.Link{AddressMode: "None"}},
	}
	return found(n, ids...)
}

func found(n render.NodeENI, ids ...string) render.NodeENI {
	n.Found = &selector.Found{
		Subnets: selector.MatchSubnets(selector.SubnetTerms{IDs: ids}, subnets),
		Groups:  selector.MatchGroups(selector.GroupTerms{IDs: []string{"sg-1"}}, groups),
	}
	return n
}

// withPods makes a NodeENI a network for pods.
func withPods(n render.NodeENI) render.NodeENI {
	n.Template.Pods = &render.Pods{Attachment: "IPVLAN", OnRemoval: "Wait", IPv4: &render.PodPrefixes{Min: 1, Max: 4, Spare: 8}}
	return n
}

// node is a Node with labels of the NodeENIs.
func node(name string, nodeENIs ...string) render.Registration {
	r := render.Registration{Name: name, Labels: map[string]string{}}
	for _, n := range nodeENIs {
		r.Labels["nodeeni"] = n
	}
	return r
}

// in is an instance with one Node, node-1, that the first NodeENI selects.
func in(nodeENIs ...render.NodeENI) render.In {
	i := render.In{Instance: eni.InstanceRef{ID: instance, Zone: zone}, VPCID: vpc, NodeENIs: nodeENIs}
	i.Nodes = []render.Registration{node("node-1")}
	if len(nodeENIs) > 0 {
		i.Nodes = []render.Registration{node("node-1", nodeENIs[0].Name)}
	}
	return i
}

// failer is a test or a property.
type failer interface {
	Helper()
	Errorf(format string, arguments ...any)
	Fatalf(format string, arguments ...any)
}

// converge applies the writes of renderings until there are none. An object that is deleted disappears at once.
func converge(tb failer, i render.In) render.In {
	tb.Helper()
	for range 10 {
		writes := render.Node(i)
		if len(writes) == 0 {
			return i
		}
		for _, w := range writes {
			i.Objects = apply(tb, i.Objects, w)
		}
	}
	tb.Fatalf("renderings do not end: %+v", render.Node(i))
	return i
}

// apply applies one write as the API server does.
func apply(tb failer, objects []render.Object, w render.Write) []render.Object {
	tb.Helper()
	objects = slices.Clone(objects)
	at := slices.IndexFunc(objects, func(o render.Object) bool { return o.Name == w.Name })
	if (at < 0) != (w.Verb == render.Create) {
		tb.Fatalf("%s of object %s, which exists: %t", w.Verb, w.Name, at >= 0)
	}
	switch w.Verb {
	case render.Create:
		if want := identity.ObjectName(w.Spec.NodeENI.Name, w.Spec.InstanceID, w.Spec.Ordinal); w.Name != want {
			tb.Errorf("the name is %s, want %s", w.Name, want)
		}
		return append(objects, render.Object{Name: w.Name, UID: fmt.Sprintf("uid-%s-%d", w.Name, len(objects)), Spec: w.Spec})
	case render.Update:
		refuse(tb, objects[at], w.Spec)
		objects[at].Spec = w.Spec
	case render.Report:
		objects[at].Drift = w.Drift
	case render.Delete, render.LetGo:
		return slices.Delete(objects, at, at+1)
	}
	return objects
}

// refuse fails for a spec that the API server refuses.
func refuse(tb failer, was render.Object, now render.Spec) {
	tb.Helper()
	before := was.Spec
	if now.InstanceID != before.InstanceID || now.Zone != before.Zone || now.Ordinal != before.Ordinal || now.NodeENI.Name != before.NodeENI.Name {
		tb.Errorf("an immutable field of %s changes: %+v to %+v", was.Name, before, now)
	}
	others := func(all []render.Subnet) []render.Subnet {
		return slices.DeleteFunc(slices.Clone(all), func(s render.Subnet) bool { return s.ID == was.SubnetID })
	}
	if was.ENIID != "" && !cmp.Equal(others(now.Subnets), others(before.Subnets)) {
		tb.Errorf("the subnets of %s change with an interface: %v to %v", was.Name, before.Subnets, now.Subnets)
	}
	if was.Slot != nil && now.Slot != before.Slot {
		tb.Errorf("the slot of %s changes with an attachment: %v to %v", was.Name, before.Slot, now.Slot)
	}
	if now.NodeENI.UID == before.NodeENI.UID && now.NodeENI.Generation < before.NodeENI.Generation {
		tb.Errorf("the generation of %s decreases", was.Name)
	}
}

// attach gives the objects of an instance interfaces in their first subnets and their slots.
func attach(i render.In) render.In {
	i.Objects = slices.Clone(i.Objects)
	for n := range i.Objects {
		o := &i.Objects[n]
		if o.Spec.Problem == nil && o.ENIID == "" {
			slot := o.Spec.Slot
			o.ENIID, o.SubnetID, o.Slot = "eni-"+o.Name, o.Spec.Subnets[0].ID, &slot
		}
	}
	return i
}

// verbs returns the writes in words.
func verbs(writes []render.Write) (words []string) {
	for _, w := range writes {
		words = append(words, string(w.Verb)+" "+w.Name)
	}
	return words
}

// name is the name of an object of the instance.
func name(nodeENI string, ordinal int) string {
	return identity.ObjectName(nodeENI, instance, ordinal)
}
