// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Interfaces that an instance has before it joins: launch interfaces from an AWSNodeTemplate, and pre-join interfaces
// of networks.

// preJoinShare is the share of the seeds in which instances have interfaces before they join.
const preJoinShare = 0.3

// origins draws how instances start. It has a random stream of its own: without interfaces before the join, a seed has
// the draws that it would have without this file.
type origins struct {
	random *rand.Rand
	on     bool
}

func newOrigins(seed uint64) origins {
	random := rand.New(rand.NewPCG(seed, 0x52))
	return origins{random: random, on: random.Float64() < preJoinShare}
}

func (o *origins) pick(n int) int { return o.random.IntN(n) }

// originate starts an instance that has interfaces before it joins, and reports whether it did.
func (c *cluster) originate(name, instanceType, zone string) bool {
	o := &c.run.origins
	if !o.on {
		return false
	}
	way := o.pick(3)
	if way == 0 || way == 1 && c.booting != nil {
		return false
	}
	if way == 2 {
		id := c.launchFromTemplate(instanceType, zone)
		if id != "" {
			c.run.touched()
			c.addNode(name, "aws:///"+zone+"/"+id)
		}
		return id != ""
	}
	launched, err := c.run.model.Launch(c.run.call(),
		ec2.WorldInstance{InstanceType: instanceType, AvailabilityZone: zone, Name: name})
	if err != nil {
		return false
	}
	c.run.touched()
	c.booting = &boot{instanceID: launched[0].InstanceID, zone: zone}
	return true
}

// launchFromTemplate starts an instance from a launch template of multieni, with one or two interfaces in addition to
// the primary one.
func (c *cluster) launchFromTemplate(instanceType, zone string) (instanceID string) {
	r := c.run
	in := &ec2.RunInstancesInput{
		LaunchTemplateData: ec2.LaunchTemplateData{
			ImageID: "ami-0123456789abcdef0", InstanceType: instanceType,
			TagSpecifications: []ec2.TagSpecification{{ResourceType: "network-interface", Tags: tagList(map[string]string{
				identity.TagCluster: c.name, identity.TagNodeTemplate: "template", identity.TagNodeTemplateUID: "template-uid",
				identity.TagTemplateHash: "1",
			})}},
		},
		MinCount: ptr.To(1), MaxCount: ptr.To(1),
	}
	for device := range 2 + r.origins.pick(2) {
		in.NetworkInterfaces = append(in.NetworkInterfaces, ec2.InterfaceSpecification{
			InterfaceSettings: ec2.InterfaceSettings{SubnetID: r.anySubnet(zone), Groups: groups[:1]}, DeviceIndex: &device,
			DeleteOnTermination: ptr.To(true),
		})
	}
	made, err := r.model.LaunchFor(r.call(), in, nil)
	if err != nil {
		return ""
	}
	r.note(nil, "%s: instance %s is launched with %d interfaces", c.name, made[0].InstanceID, len(in.NetworkInterfaces))
	r.covers.Actors[launchesInterface]++
	return made[0].InstanceID
}

// anySubnet returns a subnet in which instances of a zone can have interfaces.
func (r *run) anySubnet(zone string) string {
	var serving []string
	for _, s := range subnets {
		if s.serves(zone) {
			serving = append(serving, s.id)
		}
	}
	return serving[r.origins.pick(len(serving))]
}

// boot is an instance that gets interfaces for networks before it joins.
type boot struct {
	instanceID, zone string
	// prepared is set once the interfaces were requested; interfaces are those that EC2 created and attaches.
	prepared   bool
	interfaces []string
}

// boots makes the next step of an instance that boots, and reports whether there was one.
func (c *cluster) boots() bool {
	b, t := c.booting, c.run.truth()
	switch {
	case b == nil:
		return false
	case t.ended(b.instanceID):
		c.booting = nil
		return false
	case t.instances[b.instanceID].State.Name != ec2.Running:
		return false
	case !b.prepared:
		b.prepared = true
		for ordinal := range 1 + c.run.origins.pick(2) {
			c.prepare(b, ordinal)
		}
		return true
	}
	if slices.ContainsFunc(b.interfaces, func(id string) bool { return !t.interfaces[id].Ready() }) {
		return false // an instance does not join before EC2 has attached its interfaces
	}
	name := c.freeName(nodes, "node-", mostNodes)
	if name == "" {
		return false
	}
	c.booting = nil
	c.addNode(name, "aws:///"+b.zone+"/"+b.instanceID)
	return true
}

// prepare gives an instance an interface for a network, which may have a NodeENI's name.
func (c *cluster) prepare(b *boot, ordinal int) {
	r := c.run
	name := "net-" + strconv.Itoa(r.origins.pick(mostNodeENIs+1))
	m := identity.Interface{
		Cluster: c.name, UID: identity.NetworkUID(name, ordinal, r.now),
		Name:    identity.ObjectName(name, b.instanceID, ordinal),
		NodeENI: name, Node: b.instanceID, InstanceID: b.instanceID, Ordinal: ordinal,
	}
	made, err := r.model.CreateNetworkInterface(r.call(), &ec2.CreateNetworkInterfaceInput{
		InterfaceSettings: ec2.InterfaceSettings{SubnetID: r.anySubnet(b.zone), Groups: groups[:1]},
		TagSpecifications: []ec2.TagSpecification{{ResourceType: "network-interface", Tags: tagList(m.Tags(r.now, nil))}},
	})
	if err != nil {
		return
	}
	id := made.NetworkInterface.NetworkInterfaceID
	card, device := 0, 1+ordinal
	attached, err := r.model.AttachNetworkInterface(r.call(), &ec2.AttachNetworkInterfaceInput{
		NetworkInterfaceID: id, InstanceID: b.instanceID, NetworkCardIndex: &card, DeviceIndex: &device,
	})
	if err != nil {
		_, _ = r.model.DeleteNetworkInterface(r.call(), &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceID: id})
		r.touched()
		return
	}
	_, _ = r.model.ModifyNetworkInterfaceAttribute(r.call(), &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceID: id, Attachment: &ec2.AttachmentChanges{AttachmentID: attached.AttachmentID,
			DeleteOnTermination: ptr.To(true)},
	})
	r.note(nil, "%s: instance %s gets %s for network %s before it joins", c.name, b.instanceID, id, name)
	b.interfaces = append(b.interfaces, id)
	r.covers.Actors[joinsInterface]++
	r.watch.spent.needed += shapes
	r.touched()
}

// shapes is how many calls give an interface the attributes that a NodeENI declares: one for each.
const shapes = 7

// isLaunched reports whether an interface was launched with its instance from a launch template of ours.
func isLaunched(i eni.Interface) bool {
	_, verdict := identity.Read(i.Tags[identity.TagCluster], i.Tags)
	return verdict == identity.Launched
}

// isJoined reports whether an interface was created for a network while its instance booted, and its tags name no
// NodeENI.
func isJoined(i eni.Interface) bool {
	return identity.UID(i.Tags[identity.TagUID]).IsNetwork()
}

// sits reports whether an interface is attached in a slot and a subnet in which a NodeENI desires one.
func sits(nodeENI *v1alpha1.NodeENI, in []string, i eni.Interface) bool {
	for at, id := range in {
		if i.Ready() && i.Attachment.Slot == slotOf(nodeENI, at) && i.SubnetID == id {
			return true
		}
	}
	return false
}

// noteAdoptable counts the calls that another change of an API server explains: another NodeENI may adopt each launch
// interface.
func (r *run) noteAdoptable() {
	for _, launched := range r.truth().launched {
		r.watch.spent.needed += shapes * len(launched)
	}
}

// noteLaunches records since when launch interfaces exist.
func (r *run) noteLaunches() {
	for _, i := range r.truth().ordered {
		if isLaunched(i) && r.watch.made[i.ID].IsZero() {
			r.watch.made[i.ID] = r.now
		}
	}
}

// keepingLaunched checks that a launch interface stays with its instance and keeps its tags: no call attaches,
// detaches, deletes or tags it.
func (r *run) keepingLaunched(p *process, q request, i eni.Interface) {
	if !isLaunched(i) {
		return
	}
	r.judged("I1")
	if !strings.HasPrefix(q.action, "Modify") && !strings.Contains(q.action, "Address") {
		r.violate("I1", "%s %s %s, which its instance was launched with: %s", p.name, q.action, i.ID, r.describe(i))
	}
}

// passingOver checks I3 for the interfaces that an instance has from the beginning: none is created next to a launch
// interface where only one NodeENI desires one, nor next to a pre-join interface for a network of the NodeENI's name. A
// repeated call makes none: EC2 answers it with the interface that the first one made.
func (r *run) passingOver(p *process, m identity.Interface, subnetID string) {
	c, t := p.cluster, r.truth()
	nodeENI := c.nodeENINamed(m.NodeENI)
	object := c.api.get(netInterfaces, m.Name)
	if nodeENI == nil || p.expired || p.earlier || !p.saw(nodeENI) || object != nil && !p.saw(object) || c.repeats(m) {
		return
	}
	for _, i := range slices.Concat(t.owned[c.name], t.launched[m.InstanceID]) {
		its := c.nodesOf(m.InstanceID)
		isFree := i.SubnetID == subnetID && c.isKnown(i, m.InstanceID) && c.api.interfaceOf(i.ID) == nil
		if len(its) == 0 || !p.saw(its[0]) || !isFree {
			continue
		}
		r.judged("I3")
		if p.isFor(i, nodeENI, its[0], m, subnetID) {
			r.violate("I3", "%s makes another interface for %s in %s next to %s, which the instance had before it joined: %s",
				p.name, m.Name, subnetID, i.ID, r.describe(i))
		}
	}
}

// isFor reports whether the interface that an object asks for is there: one that its NodeENI's network has in the
// subnet, or a launch interface in its slot.
func (p *process) isFor(i eni.Interface, nodeENI *v1alpha1.NodeENI, node *corev1.Node, m identity.Interface,
	subnetID string) bool {
	in := subnetsIn(zoneOf(node), nodeENI.Spec.SubnetIDs, nodeENI.Spec.SubnetNames)
	joined := isJoined(i) && i.Tags[identity.TagNodeENI] == m.NodeENI && slices.Contains(in, subnetID)
	return joined || p.isPlaceOf(nodeENI, in, i) && p.cluster.asksFor(m, i.Attachment.Slot)
}

// repeats reports whether the creation of an interface repeats an earlier call.
func (c *cluster) repeats(m identity.Interface) bool {
	return slices.ContainsFunc(c.run.truth().owned[c.name], func(i eni.Interface) bool {
		return i.Tags[identity.TagUID] == string(m.UID) && !c.run.watch.copies[i.ID]
	})
}

// asksFor reports whether the object of an interface asks for a slot. It can be rendered from an earlier NodeENI.
func (c *cluster) asksFor(m identity.Interface, slot eni.Slot) bool {
	n := c.api.interfaceWith(types.UID(m.UID))
	return n != nil && int(n.Spec.Slot.NetworkCardIndex) == slot.Card && int(n.Spec.Slot.DeviceIndex) == slot.Device
}

// isPlaceOf reports whether an interface is a launch interface where only this NodeENI desires one.
func (p *process) isPlaceOf(nodeENI *v1alpha1.NodeENI, in []string, i eni.Interface) bool {
	return isLaunched(i) && sits(nodeENI, in, i) && p.wantedBy(i) == 1
}

// isKnown reports whether an interface has been attached to an instance, and unchanged by others, for longer than reads
// are stale.
func (c *cluster) isKnown(i eni.Interface, instanceID string) bool {
	r := c.run
	return i.Ready() && i.AttachedTo(instanceID) && !r.watch.tampered(i.ID) &&
		r.now.Sub(r.watch.made[i.ID]) > staleness && r.now.Sub(r.watch.meddled[i.ID]) > staleness
}

// saw reports whether the process has received the present version of an object.
func (p *process) saw(object interface{ GetResourceVersion() string }) bool {
	version, err := strconv.Atoi(object.GetResourceVersion())
	return err == nil && version <= p.views[len(p.views)-1]
}

// wantedBy counts the NodeENIs that desire an interface in the slot and subnet of a launch interface, whether they
// select its node or not. One whose edit or deletion the process may not have received counts as before: the process
// gives the interface to one of those that it knows.
func (p *process) wantedBy(i eni.Interface) int {
	wanting := map[string]bool{}
	for _, object := range p.mayKnow(nodeENIs) {
		nodeENI := object.(*v1alpha1.NodeENI)
		if sits(nodeENI, subnetsIn(i.Zone, nodeENI.Spec.SubnetIDs, nodeENI.Spec.SubnetNames), i) {
			wanting[nodeENI.Name] = true
		}
	}
	return len(wanting)
}

// mayKnow returns the present objects of a kind, and the earlier versions that the process may have worked with since
// it began its work.
func (p *process) mayKnow(k kind) []client.Object {
	api, seen := p.cluster.api, p.views[len(p.views)-1]
	objects := api.all(k)
	for _, c := range slices.Backward(api.log[k]) {
		if c.version <= seen {
			break
		}
		if c.before != nil {
			objects = append(objects, c.before)
		}
	}
	return objects
}
