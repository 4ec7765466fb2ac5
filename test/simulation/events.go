// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// The sizes of a cluster. They are small, so that events collide.
const (
	mostNodes    = 4
	mostNodeENIs = 3
)

// act performs one action of an actor other than the product.
func (r *run) act() {
	c := r.clusters[r.pick(len(r.clusters))]
	for _, actor := range []struct {
		fault faultName
		act   func()
	}{
		{userEdits, c.edit}, {instanceChanges, c.changeInstance}, {nodeFlaps, c.flap}, {twoNodes, c.registerAgain},
		{humanHands, c.handle}, {watchTrouble, c.troubleWatch}, {crashes, c.kill},
		{lostObjects, c.restoreEtcd}, {versionSwap, func() { c.release(!c.earlier) }},
		{deletedKind, c.deleteKind}, {strippedObjects, c.stripInterface},
	} {
		// Each step offers one chance in about ten; the rates are per chance.
		if rate := r.faults.rate[actor.fault]; rate > 0 && r.chance(min(1, rate*4)) {
			r.faults.struck[actor.fault]++
			actor.act()
			return
		}
	}
}

// edit makes one change as a user does.
func (c *cluster) edit() {
	switch c.run.pick(16) {
	case 0, 1:
		c.join()
	case 2:
		c.leave()
	case 3, 4:
		c.relabel()
	case 5, 6:
		c.declare()
	case 7:
		if e := c.any(nodeENIs); e != nil {
			c.run.note(nil, "%s: a user deletes NodeENI %s", c.name, e.GetName())
			_ = c.api.delete(nodeENIs, e.GetName(), "")
		}
	case 12:
		c.stripFinalizer()
	case 13:
		c.rollOut()
	case 14, 15:
		c.pause()
	case 8:
		c.deleteInterfaces()
	default:
		c.editNodeENI()
	}
}

// stripFinalizer removes the finalizer of a NodeENI, as an impatient user does: its remaining interfaces leak.
func (c *cluster) stripFinalizer() {
	for _, object := range c.api.all(nodeENIs) {
		if !object.GetDeletionTimestamp().IsZero() && len(object.GetFinalizers()) > 0 {
			c.run.note(nil, "%s: a user strips NodeENI %s of its finalizer", c.name, object.GetName())
			c.stripped[string(object.GetUID())] = c.run.now
			if c.run.faults.has(humanHands) {
				c.spoilAge(object.GetName())
			}
			_, _ = c.api.update(nodeENIs, object.GetName(), "", func(o client.Object) (client.Object, error) {
				o.SetFinalizers(nil)
				return o, nil
			})
			return
		}
	}
}

// spoilAge makes the age of a NodeENI's interfaces unreadable.
func (c *cluster) spoilAge(nodeENI string) {
	value := "spoilt"
	for _, i := range c.run.truth().owned[c.name] {
		if c.run.spotOf(i).nodeENI != nodeENI {
			continue
		}
		c.run.watch.handled(c.run, i)
		c.run.watch.remember(i)
		c.run.note(nil, "a person spoils the age of %s", i.ID)
		_, _ = c.run.model.CreateTags(c.run.call(), &ec2.TagsInput{
			ResourceIDs: []string{i.ID}, Tags: []ec2.Tag{{Key: identity.TagCreatedAt, Value: &value}},
		})
	}
	c.run.touched()
}

func (c *cluster) any(k kind) client.Object {
	all := c.api.all(k)
	if len(all) == 0 {
		return nil
	}
	return all[c.run.pick(len(all))]
}

// freeName returns a name that no object of the kind has.
func (c *cluster) freeName(k kind, prefix string, most int) string {
	var free []string
	for n := range most {
		if name := fmt.Sprintf("%s%d", prefix, n); c.api.get(k, name) == nil {
			free = append(free, name)
		}
	}
	if len(free) == 0 {
		return ""
	}
	return free[c.run.pick(len(free))]
}

// join starts an instance and adds its Node, with or without a providerID at first.
func (c *cluster) join() {
	if c.boots() {
		return
	}
	name := c.freeName(nodes, "node-", mostNodes)
	if name == "" {
		return
	}
	r := c.run
	zone := zones[r.pick(len(zones))]
	wanted := ec2.WorldInstance{InstanceType: instanceTypes[r.pick(len(instanceTypes))],
		AvailabilityZone: zone, Name: name}
	if r.faults.has(cniTakesSlots) && r.chance(0.7) {
		wanted.CNI = &ec2.CNI{WarmENIs: 1 + r.pick(2)}
		r.faults.struck[cniTakesSlots]++
	}
	if c.originate(name, wanted.InstanceType, zone) {
		return
	}
	launched, err := r.model.Launch(r.call(), wanted)
	if err != nil {
		return
	}
	r.touched()
	c.addNode(name, "aws:///"+zone+"/"+launched[0].InstanceID)
}

func (c *cluster) addNode(name, providerID string) {
	labels := map[string]string{}
	for _, role := range roles {
		if c.run.chance(0.7) {
			labels[role] = "yes"
		}
	}
	c.run.note(nil, "%s: node %s joins as %s", c.name, name, providerID)
	_, _ = c.api.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.NodeSpec{ProviderID: providerID}})
}

// leave removes a Node and its instance, in any order and with any time between.
func (c *cluster) leave() {
	node := c.any(nodes)
	if node == nil {
		return
	}
	c.run.note(nil, "%s: node %s leaves", c.name, node.GetName())
	if c.run.chance(0.7) {
		c.run.terminate(node.(*corev1.Node))
	}
	_ = c.api.delete(nodes, node.GetName(), "")
}

func (r *run) terminate(node *corev1.Node) {
	if ref, err := eni.ParseProviderID(node.Spec.ProviderID); err == nil {
		r.note(nil, "instance %s terminates", ref.ID)
		_, _ = r.model.TerminateInstances(r.call(), &ec2.InstancesInput{InstanceIDs: []string{ref.ID}})
		r.touched()
	}
}

var roles = []string{"multus", "storage"}

func (c *cluster) relabel() {
	node := c.any(nodes)
	if node == nil {
		return
	}
	role := roles[c.run.pick(len(roles))]
	c.run.note(nil, "%s: label %s of node %s is toggled", c.name, role, node.GetName())
	_, _ = c.api.update(nodes, node.GetName(), "", func(o client.Object) (client.Object, error) {
		labels := maps.Clone(o.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		if _, there := labels[role]; there {
			delete(labels, role)
		} else {
			labels[role] = "yes"
		}
		o.SetLabels(labels)
		return o, nil
	})
}

// declare adds a NodeENI.
func (c *cluster) declare() {
	name := c.freeName(nodeENIs, "net-", mostNodeENIs)
	if name == "" {
		return
	}
	object := &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeENISpec{
		NodeSelector:     map[string]v1alpha1.LabelValue{roles[c.run.pick(len(roles))]: "yes"},
		SecurityGroupIDs: []string{groups[0]}, DeviceIndex: int32(1 + c.run.pick(2)),
		DeviceIndexPolicy: v1alpha1.DeviceIndexPrefer, InterfaceType: v1alpha1.InterfaceTypeInterface,
		IPv4Allocation: v1alpha1.IPv4AllocationAuto, UpdatePolicy: v1alpha1.UpdateInPlace,
	}}
	c.chooseSubnets(&object.Spec)
	for range c.run.pick(4) {
		c.editSpec(&object.Spec)
	}
	if c.run.chance(0.3) {
		object.Spec.UpdatePolicy = v1alpha1.UpdateReplace
	}
	if c.run.chance(0.3) {
		object.Spec.IPv4Allocation = v1alpha1.IPv4AllocationLowestFree
	}
	object.Spec.EnableDPDK = c.run.chance(0.3)
	c.run.declarePods(&object.Spec)
	c.declareFollowing(object.Spec.Pods)
	c.grantFixed(object.Spec.Pods)
	c.run.declareEviction(object.Spec.Pods)
	c.run.note(nil, "%s: a user creates NodeENI %s: %s", c.name, name, digest(object.Spec))
	_, _ = c.api.create(object)
}

func (c *cluster) editNodeENI() {
	e := c.any(nodeENIs)
	if e == nil {
		return
	}
	_, _ = c.api.update(nodeENIs, e.GetName(), "", func(o client.Object) (client.Object, error) {
		spec := &o.(*v1alpha1.NodeENI).Spec
		c.editSpec(spec)
		c.run.note(nil, "%s: a user edits NodeENI %s: %s", c.name, e.GetName(), digest(*spec))
		return o, nil
	})
}

// rollOut lets a user of each cluster roll out a NodeENI.
func (r *run) rollOut() {
	for _, c := range r.clusters {
		c.rollOut()
	}
}

// rollOut declares other slots for all interfaces of a NodeENI.
func (c *cluster) rollOut() {
	e := c.any(nodeENIs)
	if e == nil {
		return
	}
	_, _ = c.api.update(nodeENIs, e.GetName(), "", func(o client.Object) (client.Object, error) {
		spec := &o.(*v1alpha1.NodeENI).Spec
		spec.UpdatePolicy, spec.MaxUnavailable = v1alpha1.UpdateReplace, int32(1+c.run.pick(2))
		spec.DeviceIndex, spec.DeviceIndexPolicy = 1+spec.DeviceIndex%3, v1alpha1.DeviceIndexExact
		c.run.note(nil, "%s: a user rolls out NodeENI %s: %s", c.name, e.GetName(), digest(*spec))
		return o, nil
	})
}

func (c *cluster) chooseSubnets(spec *v1alpha1.NodeENISpec) {
	spec.SubnetIDs, spec.SubnetNames = nil, nil
	order := c.run.random.Perm(len(subnets))[:1+c.run.pick(3)]
	for _, n := range order {
		spec.SubnetIDs = append(spec.SubnetIDs, subnets[n].id)
	}
	if c.run.chance(0.3) {
		spec.SubnetIDs = nil
		for _, n := range order {
			if !slices.Contains(spec.SubnetNames, subnets[n].name) {
				spec.SubnetNames = append(spec.SubnetNames, subnets[n].name)
			}
		}
	}
}

// mendedInPlace are the fields that are updated in place. The weights favor fields whose calls few processes would
// crash at otherwise.
var mendedInPlace = []int{6, 7, 8, 8, 9, 9, 9, 11, 11}

// editSpec changes one field. Where processes crash it prefers a field that is updated in place, by a call of its own:
// few processes would ever crash there otherwise.
func (c *cluster) editSpec(spec *v1alpha1.NodeENISpec) {
	r := c.run
	field := r.pick(16)
	if r.faults.has(crashes) && r.chance(0.8) {
		field = mendedInPlace[r.pick(len(mendedInPlace))]
	}
	switch field {
	case 0, 1:
		c.chooseSubnets(spec)
	case 2:
		spec.NodeSelector = map[string]v1alpha1.LabelValue{roles[r.pick(len(roles))]: "yes"}
	case 3:
		spec.DeleteOnTermination = ptr.To(r.chance(0.5))
	case 4:
		spec.UpdatePolicy = []v1alpha1.UpdatePolicy{v1alpha1.UpdateInPlace, v1alpha1.UpdateReplace}[r.pick(2)]
		spec.MaxUnavailable = int32(1 + r.pick(2))
	case 5:
		spec.DeviceIndex = int32(1 + r.pick(3))
		spec.DeviceIndexPolicy = []v1alpha1.DeviceIndexPolicy{v1alpha1.DeviceIndexPrefer,
			v1alpha1.DeviceIndexExact}[r.pick(2)]
	case 6:
		spec.SourceDestCheck = ptr.To(!ptr.Deref(spec.SourceDestCheck, true))
	case 7:
		spec.Tags = map[string]v1alpha1.TagValue{"team": v1alpha1.TagValue(fmt.Sprint(r.pick(3)))}
	case 8:
		spec.Description = fmt.Sprintf("description %d", r.pick(3))
	case 9:
		spec.SecurityGroupIDs = slices.Clone(groups[:1+r.pick(len(groups))])
	case 10:
		spec.NetworkCardIndex = 1 - spec.NetworkCardIndex
	default:
		c.editAddresses(spec)
	}
}

// editAddresses changes how many addresses an interface has in addition to its primary one. EC2 gives an interface
// either secondary addresses or prefixes, as the API says.
func (c *cluster) editAddresses(spec *v1alpha1.NodeENISpec) {
	ofPods, ofPods6 := spec.Pods != nil && spec.Pods.IPv4 != nil, spec.Pods != nil && spec.Pods.IPv6 != nil
	switch kind := c.run.pick(5); {
	case ofPods && kind != 1, ofPods6 && kind == 1: // the schema excludes other counts of the family
		return
	case kind == 0:
		spec.IPv4PrefixCount = 1 - spec.IPv4PrefixCount
		spec.SecondaryPrivateIPAddressCount = 0
	case kind == 1:
		spec.IPv6AddressCount = (spec.IPv6AddressCount + 1 + int32(c.run.pick(2))) % 3
	default:
		spec.SecondaryPrivateIPAddressCount = (spec.SecondaryPrivateIPAddressCount + 1 + int32(c.run.pick(2))) % 3
		spec.IPv4PrefixCount = 0
	}
}

// digest summarizes a spec for the trace.
func digest(s v1alpha1.NodeENISpec) string {
	return fmt.Sprintf("nodes %v subnets %v%v groups %d card %d index %d %s dot %v sdc %v ips %d/%d/%d %s tags %v %q %s "+
		"dpdk %t pods %s", s.NodeSelector, s.SubnetIDs, s.SubnetNames,
		len(s.SecurityGroupIDs), s.NetworkCardIndex, s.DeviceIndex, s.DeviceIndexPolicy,
		ptr.Deref(s.DeleteOnTermination, true), ptr.Deref(s.SourceDestCheck, true),
		s.SecondaryPrivateIPAddressCount, s.IPv4PrefixCount, s.IPv6AddressCount, s.IPv4Allocation,
		s.Tags, s.Description, s.UpdatePolicy, s.EnableDPDK, prefixesDigest(s.Pods))
}
