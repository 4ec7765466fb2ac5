// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// desiredSlot names the interfaces of one NodeENI on one instance.
type desiredSlot struct{ uid, instanceID string }

func (s desiredSlot) compare(other desiredSlot) int {
	return cmp.Or(strings.Compare(s.uid, other.uid), strings.Compare(s.instanceID, other.instanceID))
}

// String implements [fmt.Stringer].
func (s desiredSlot) String() string { return s.uid + " on " + s.instanceID }

func spotOf(i eni.Interface) desiredSlot {
	return desiredSlot{i.Tags[identity.TagNodeENIUID], i.Tags[identity.TagInstanceID]}
}

// expectedClaim is what a NodeENI desires on an instance, by the true state of the API server. It is computed
// independently of the product, so that an error in the product's interpretation of a NodeENI becomes visible.
type expectedClaim struct {
	nodeENI *v1alpha1.NodeENI
	node    *corev1.Node
	// subnets are the subnets of the desired interfaces, in order.
	subnets []string
}

// nodeENIOf returns the NodeENI with a UID, or nil.
func (c *cluster) nodeENIOf(uid string) *v1alpha1.NodeENI {
	for _, object := range c.api.objects[nodeENIs] {
		if string(object.GetUID()) == uid {
			return object.(*v1alpha1.NodeENI)
		}
	}
	return nil
}

// claims returns what is desired now: nothing on instances that are ending, and only by the oldest Node of an instance.
func (c *cluster) claims() map[desiredSlot]expectedClaim {
	wanted := map[desiredSlot]expectedClaim{}
	t := c.run.truth()
	for _, object := range c.api.all(nodeENIs) {
		nodeENI := object.(*v1alpha1.NodeENI)
		if !nodeENI.DeletionTimestamp.IsZero() {
			continue
		}
		for _, object := range c.api.all(nodes) {
			node := object.(*corev1.Node)
			ref, err := eni.ParseProviderID(node.Spec.ProviderID)
			if err != nil || t.ended(ref.ID) || !selects(nodeENI, node) || c.nodesOf(ref.ID)[0] != node {
				continue
			}
			if in := subnetsIn(ref.Zone, nodeENI.Spec.SubnetIDs, nodeENI.Spec.SubnetNames); len(in) > 0 {
				wanted[desiredSlot{string(nodeENI.UID), ref.ID}] = expectedClaim{nodeENI, node, in}
			}
		}
	}
	return wanted
}

// sites returns, for every subnet in which a NodeENI could have an interface on an instance, whether it desires one
// there now.
func (c *cluster) sites() map[site]bool {
	all := map[site]bool{}
	for _, object := range c.api.objects[nodeENIs] {
		nodeENI := object.(*v1alpha1.NodeENI)
		for _, object := range c.api.objects[nodes] {
			node := object.(*corev1.Node)
			ref, err := eni.ParseProviderID(node.Spec.ProviderID)
			if err != nil {
				continue
			}
			listed := subnetsIn(ref.Zone, nodeENI.Spec.SubnetIDs, nodeENI.Spec.SubnetNames)
			for _, s := range subnets {
				at := site{desiredSlot{string(nodeENI.UID), ref.ID}, s.id}
				all[at] = all[at] || selects(nodeENI, node) && slices.Contains(listed, s.id)
			}
		}
	}
	return all
}

func selects(nodeENI *v1alpha1.NodeENI, node *corev1.Node) bool {
	return controller.Selector(nodeENI.Spec).Matches(labels.Set(node.Labels))
}

// removable reports whether the true state contains a reason to remove an interface.
func (c *cluster) removable(i eni.Interface) bool {
	if isJoined(i) {
		return c.run.truth().ended(spotOf(i).instanceID)
	}
	nodeENI := c.nodeENIOf(spotOf(i).uid)
	return nodeENI == nil || c.removableFor(nodeENI, i)
}

// removableFor is removable for an interface whose NodeENI exists.
func (c *cluster) removableFor(nodeENI *v1alpha1.NodeENI, i eni.Interface) bool {
	s, t := spotOf(i), c.run.truth()
	if !nodeENI.DeletionTimestamp.IsZero() || t.ended(s.instanceID) {
		return true
	}
	its := c.nodesOf(s.instanceID)
	if len(its) == 0 {
		return false // an absent Node is no reason
	}
	if !anySelected(nodeENI, its) {
		return true
	}
	in := subnetsIn(zoneOf(its[0]), nodeENI.Spec.SubnetIDs, nodeENI.Spec.SubnetNames)
	switch {
	case len(in) == 0:
		return i.Attachment == nil // no subnet serves the node, and an attached interface stays
	case c.replaceable(nodeENI, i):
		return true
	}
	return c.surplus(nodeENI, i, in)
}

// surplus reports whether a NodeENI has more interfaces on an instance than the subnets ask for, or has a surplus
// unattached one in its subnet. An attached one in a subnet that is not listed any more counts for one that is, until
// there are more than desired.
func (c *cluster) surplus(nodeENI *v1alpha1.NodeENI, i eni.Interface, in []string) bool {
	s := spotOf(i)
	there, same := len(c.adopted(nodeENI, c.nodesOf(s.instanceID)[0], s.instanceID, in)), 0
	for _, other := range c.run.truth().owned[c.name] {
		if spotOf(other) == s && (other.ID == i.ID || c.run.watch.strangers[other.ID] == nil) {
			there++
			if other.SubnetID == i.SubnetID {
				same++
			}
		}
	}
	listed := 0
	for _, id := range in {
		if id == i.SubnetID {
			listed++
		}
	}
	return there > len(in) || same > listed && i.Attachment == nil
}

func zoneOf(node *corev1.Node) string {
	ref, _ := eni.ParseProviderID(node.Spec.ProviderID)
	return ref.Zone
}

// mismatch names in one word the attribute of an attached interface that differs from its NodeENI; "" for none.
// Requested are the addresses that the product requested, as far as it knows.
func (c expectedClaim) mismatch(i eni.Interface, requested eni.Addresses) string {
	spec := c.nodeENI.Spec
	switch {
	case !sameMembers(i.Groups, spec.SecurityGroupIDs):
		return "groups"
	case i.Description != spec.Description:
		return "description"
	case i.SourceDestCheck != ptr.Deref(spec.SourceDestCheck, true):
		return "source/dest check"
	case i.Attachment.DeleteOnTermination != ptr.Deref(spec.DeleteOnTermination, true):
		return "delete on termination"
	case c.wrongAddresses(i.Counts(), requested.Counts()):
		return "addresses"
	case isLaunched(i):
		return "" // its tags are its node template's
	case i.Tags[identity.TagNoManage] != "true":
		return "no_manage"
	}
	for key, value := range spec.Tags {
		if i.Tags[key] != string(value) {
			return "tags"
		}
	}
	return ""
}

func sameMembers(a, b []string) bool {
	has := map[string]bool{}
	for _, one := range a {
		has[one] = true
	}
	for _, one := range b {
		if !has[one] {
			return false
		}
	}
	return len(a) == len(b)
}
