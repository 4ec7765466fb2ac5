// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// changeInstance stops, starts or terminates an instance, or replaces it by another one under the same node name.
func (c *cluster) changeInstance() {
	r := c.run
	object := c.any(nodes)
	if object == nil {
		return
	}
	node := object.(*corev1.Node)
	ref, err := eni.ParseProviderID(node.Spec.ProviderID)
	if err != nil {
		return
	}
	switch r.pick(5) {
	case 0:
		r.note(nil, "instance %s stops", ref.ID)
		delete(r.watch.ruined, ref.ID)
		_, _ = r.model.StopInstances(r.call(),
			&ec2.StopInstancesInput{InstancesInput: ec2.InstancesInput{InstanceIDs: []string{ref.ID}}})
	case 1:
		r.startStopped()
	case 2:
		r.terminate(node)
	default:
		if r.chance(0.8) {
			r.terminate(node)
		}
		c.replaceNode(node)
	}
	r.touched()
}

// replaceNode puts another instance behind a node name.
func (c *cluster) replaceNode(node *corev1.Node) {
	r := c.run
	zone := zones[r.pick(len(zones))]
	launched, err := r.model.Launch(r.call(),
		ec2.WorldInstance{InstanceType: "m5.xlarge", AvailabilityZone: zone, Name: node.Name})
	if err != nil {
		return
	}
	r.note(nil, "%s: node %s comes back as another instance", c.name, node.Name)
	_ = c.api.delete(nodes, node.Name, "")
	c.addNode(node.Name, "aws:///"+zone+"/"+launched[0].InstanceID)
}

func (r *run) startStopped() {
	for _, i := range r.truth().machines {
		if i.State.Name == ec2.Stopped {
			r.note(nil, "instance %s starts", i.InstanceID)
			_, _ = r.model.StartInstances(r.call(), &ec2.InstancesInput{InstanceIDs: []string{i.InstanceID}})
		}
	}
	r.touched()
}

// flap removes a Node that will return, removes a providerID for a while, or reclaims many instances at once.
func (c *cluster) flap() {
	r := c.run
	object := c.any(nodes)
	if object == nil {
		return
	}
	node := object.(*corev1.Node)
	switch r.pick(6) {
	case 0:
		for _, each := range c.api.all(nodes) {
			if r.chance(0.6) {
				r.terminate(each.(*corev1.Node))
			}
		}
	case 1:
		r.note(nil, "%s: node %s has no providerID for a moment", c.name, node.Name)
		c.vanished = append(c.vanished, node)
		_, _ = c.api.update(nodes, node.Name, "", func(o client.Object) (client.Object, error) {
			o.(*corev1.Node).Spec.ProviderID = ""
			return o, nil
		})
	case 2:
		r.note(nil, "%s: node %s vanishes for a moment", c.name, node.Name)
		c.vanished = append(c.vanished, node)
		_ = c.api.delete(nodes, node.Name, "")
	default:
		c.restoreNodes()
	}
}

// restoreNodes brings vanished nodes back.
func (c *cluster) restoreNodes() {
	for _, node := range c.vanished {
		if c.api.get(nodes, node.Name) != nil {
			_, _ = c.api.update(nodes, node.Name, "", func(o client.Object) (client.Object, error) {
				if o.(*corev1.Node).Spec.ProviderID == "" {
					o.(*corev1.Node).Spec.ProviderID = node.Spec.ProviderID
				}
				return o, nil
			})
			continue
		}
		c.run.note(nil, "%s: node %s is back", c.name, node.Name)
		_, _ = c.api.create(&corev1.Node{ObjectMeta: *withoutIdentity(node), Spec: node.Spec})
	}
	c.vanished = nil
}

// restoreEtcd removes NodeENIs and NetworkInterfaces without the steps of a deletion. Users who have NodeENIs in a
// repository create them again. An object that was deleted may be there again.
func (c *cluster) restoreEtcd() {
	r := c.run
	for _, object := range c.api.all(nodeENIs) {
		if r.chance(0.3) {
			continue
		}
		r.note(nil, "%s: NodeENI %s is lost", c.name, object.GetName())
		c.stripped[string(object.GetUID())] = r.now
		c.api.put(nodeENIs, object.GetName(), nil)
		if r.chance(0.6) {
			_, _ = c.api.create(&v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: object.GetName()},
				Spec: object.(*v1alpha1.NodeENI).Spec})
		}
	}
	for _, n := range c.api.interfaces() {
		if r.chance(0.3) {
			r.note(nil, "%s: NetworkInterface %s is lost", c.name, n.Name)
			c.api.put(netInterfaces, n.Name, nil)
		}
	}
	c.returnInterface()
}

// handle makes one change as a person with the EC2 console does.
func (c *cluster) handle() {
	r := c.run
	owned := r.truth().owned[c.name]
	if len(owned) == 0 {
		return
	}
	i := owned[r.pick(len(owned))]
	r.watch.handled(r, i)
	switch r.pick(10) {
	case 0, 1:
		if i.Attachment != nil {
			r.note(nil, "a person detaches %s by hand", i.ID)
			_, _ = r.model.DetachNetworkInterface(r.call(),
				&ec2.DetachNetworkInterfaceInput{AttachmentID: i.Attachment.ID, Force: r.chance(0.2)})
		}
	case 2, 3:
		r.note(nil, "a person deletes %s by hand", i.ID)
		_, _ = r.model.DeleteNetworkInterface(r.call(), &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceID: i.ID})
	case 4:
		r.retag(i)
	case 5:
		r.copyTags(i)
	case 6:
		r.attachElsewhere(i)
	case 7, 8:
		c.disguise(i)
	default:
		r.changeAttributes(i)
	}
	r.touched()
}

// spoiltValues are values that another program writes into a tag: a word, and numbers outside of some range.
var spoiltValues = []string{"spoilt", "-1", "128", "200", "4294967296", "253402300800", "9223372036854775807"}

// retag spoils or removes one tag.
func (r *run) retag(i eni.Interface) {
	keys := slices.Sorted(maps.Keys(i.Tags))
	key := keys[r.pick(len(keys))]
	r.watch.remember(i)
	if r.chance(0.5) {
		r.note(nil, "a person removes tag %s of %s", key, i.ID)
		_, _ = r.model.DeleteTags(r.call(), &ec2.TagsInput{ResourceIDs: []string{i.ID}, Tags: []ec2.Tag{{Key: key}}})
		return
	}
	value := spoiltValues[r.pick(len(spoiltValues))]
	r.note(nil, "a person sets tag %s of %s to %s", key, i.ID, value)
	_, _ = r.model.CreateTags(r.call(),
		&ec2.TagsInput{ResourceIDs: []string{i.ID}, Tags: []ec2.Tag{{Key: key, Value: &value}}})
}

// copyTags creates an interface with the tags of one of ours, as a cloned template does. A person copies an identity
// only once: after a second copy, only IDs would tell the interfaces apart.
func (r *run) copyTags(i eni.Interface) {
	if r.watch.spread[identityIn(i.Tags)] {
		return
	}
	made, err := r.model.CreateNetworkInterface(r.call(), &ec2.CreateNetworkInterfaceInput{
		InterfaceSettings: ec2.InterfaceSettings{SubnetID: i.SubnetID},
		TagSpecifications: []ec2.TagSpecification{{ResourceType: "network-interface", Tags: tagList(i.Tags)}},
	})
	if err == nil {
		r.note(nil, "a person copies the tags of %s to %s", i.ID, made.NetworkInterface.NetworkInterfaceID)
		r.watch.copies[made.NetworkInterface.NetworkInterfaceID] = true
		r.watch.spread[identityIn(i.Tags)] = true
	}
}

// identityIn returns what tags say about which interface they are on.
func identityIn(tags map[string]string) string {
	return strings.Join([]string{tags[identity.TagCluster], tags[identity.TagUID], tags[identity.TagInterface]}, " ")
}

func (r *run) attachElsewhere(i eni.Interface) {
	for _, other := range r.truth().machines {
		if other.Placement.AvailabilityZone != i.Zone || i.Attachment != nil ||
			other.InstanceID == i.Tags[identity.TagInstanceID] {
			continue
		}
		card, device := 0, 2+r.pick(2)
		_, err := r.model.AttachNetworkInterface(r.call(), &ec2.AttachNetworkInterfaceInput{
			NetworkInterfaceID: i.ID, InstanceID: other.InstanceID, NetworkCardIndex: &card, DeviceIndex: &device,
		})
		if err == nil {
			r.note(nil, "a person attaches %s to %s", i.ID, other.InstanceID)
			r.watch.elsewhere[i.ID] = true
			return
		}
	}
}

func (r *run) changeAttributes(i eni.Interface) {
	r.note(nil, "a person changes attributes of %s", i.ID)
	_, _ = r.model.ModifyNetworkInterfaceAttribute(r.call(), &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceID: i.ID, Description: &ec2.StringValue{Value: "by hand"},
	})
	_, _ = r.model.ModifyNetworkInterfaceAttribute(r.call(),
		&ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceID: i.ID, Groups: groups[2:]})
}

// troubleWatch delays the events of one kind, or loses them until the kind is listed again.
func (c *cluster) troubleWatch() {
	for _, p := range c.processes {
		k := kind(c.run.pick(int(c.run.reserving.kinds())))
		if f := c.run.followers; f.acts && f.random.IntN(3) == 0 {
			k = floatingAddresses
		}
		lasts := time.Duration(c.run.pick(300)) * time.Second
		p.heldUntil[k] = c.run.now.Add(lasts)
		p.lost[k] = c.run.chance(0.5)
		c.run.note(p, "gets no events of %ss for %s", k, seconds(lasts))
	}
}

// kill ends a process between two calls.
func (c *cluster) kill() {
	p := c.processes[c.run.pick(len(c.processes))]
	if p.depth == 0 && p.runs() && c.run.chance(0.3) {
		p.end("is killed")
	}
}

func withoutIdentity(node *corev1.Node) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Name: node.Name, Labels: maps.Clone(node.Labels)}
}
