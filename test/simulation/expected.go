// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// desiredSlot names the interfaces of one NodeENI on one instance. A NodeENI that is created again has the interfaces
// of the earlier one of its name.
type desiredSlot struct{ nodeENI, instanceID string }

func (s desiredSlot) compare(other desiredSlot) int {
	return cmp.Or(strings.Compare(s.nodeENI, other.nodeENI), strings.Compare(s.instanceID, other.instanceID))
}

// String implements [fmt.Stringer].
func (s desiredSlot) String() string { return s.nodeENI + " on " + s.instanceID }

// spotOf returns the NodeENI and the instance of an interface: those of the object that records its ID or, without one,
// those that its tags name.
func (r *run) spotOf(i eni.Interface) desiredSlot {
	if _, n := r.objectOf(i); n != nil {
		return spotOfObject(n)
	}
	return desiredSlot{i.Tags[identity.TagNodeENI], i.Tags[identity.TagInstanceID]}
}

// objectOf returns the object that records the ID of an interface, and its cluster; nil for none.
func (r *run) objectOf(i eni.Interface) (*cluster, *v1alpha1.NetworkInterface) {
	for _, c := range r.clusters {
		if n := c.api.interfaceOf(i.ID); n != nil {
			return c, n
		}
	}
	return nil, nil
}

func spotOfObject(n *v1alpha1.NetworkInterface) desiredSlot {
	if n.Spec.Origin == v1alpha1.OriginNetwork { // no NodeENI declares it, not even the one of its name
		return desiredSlot{"network/" + n.Spec.NodeENI.Name, n.Spec.InstanceID}
	}
	return desiredSlot{n.Spec.NodeENI.Name, n.Spec.InstanceID}
}

// expectedClaim is what a NodeENI desires on an instance, by the true state of the API server. It is computed
// independently of the product, so that an error in the product's interpretation of a NodeENI becomes visible.
type expectedClaim struct {
	nodeENI *v1alpha1.NodeENI
	node    *corev1.Node
	// subnets are the subnets of the desired interfaces, in order.
	subnets []string
}

// nodeENINamed returns the NodeENI of a name, or nil.
func (c *cluster) nodeENINamed(name string) *v1alpha1.NodeENI {
	nodeENI, _ := c.api.get(nodeENIs, name).(*v1alpha1.NodeENI)
	return nodeENI
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
				wanted[desiredSlot{nodeENI.Name, ref.ID}] = expectedClaim{nodeENI, node, in}
			}
		}
	}
	return wanted
}

func selects(nodeENI *v1alpha1.NodeENI, node *corev1.Node) bool {
	return controller.Selector(nodeENI.Spec).Matches(labels.Set(node.Labels))
}

// removable reports whether the true state contains a reason to delete an object, other than a user's deletion of it.
func (c *cluster) removable(n *v1alpha1.NetworkInterface) bool {
	refused := n.Status.ENIID == "" && c.run.watch.mismatched[n.UID] // it can still take over an interface
	if c.run.truth().ended(n.Spec.InstanceID) || c.hasVanished(n) || c.isStuck(n) || refused {
		return true
	}
	if n.Spec.Origin == v1alpha1.OriginNetwork {
		return n.Annotations[v1alpha1.OnDeleteAnnotation] == v1alpha1.OnDeleteKeep
	}
	nodeENI := c.nodeENINamed(n.Spec.NodeENI.Name)
	if nodeENI == nil {
		lost := c.run.now.Sub(c.orphanedAt(n))
		return n.Status.ENIID == "" || lost >= orphanGrace || c.run.faults.has(clockSkew) && lost >= orphanGrace-mostSkew
	}
	return c.removableFor(nodeENI, n)
}

// orphanedAt is when the NodeENI of an object ended. An object that returned with a restored etcd keeps the time that
// it recorded.
func (c *cluster) orphanedAt(n *v1alpha1.NetworkInterface) time.Time {
	since := c.lostAt[n.Spec.NodeENI.Name]
	orphaned := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionOrphaned)
	if at, returned := c.run.watch.returned[n.UID]; returned && orphaned != nil && !at.Before(since) &&
		orphaned.LastTransitionTime.Time.Before(since) {
		return orphaned.LastTransitionTime.Time
	}
	return since
}

// hasVanished reports whether EC2 does not have the interface that an object records, or no longer as one of the
// cluster's.
func (c *cluster) hasVanished(n *v1alpha1.NetworkInterface) bool {
	if n.Status.ENIID == "" {
		return false
	}
	i, exists := c.run.truth().interfaces[n.Status.ENIID]
	return !exists || i.Tags[identity.TagCluster] != c.name
}

// isStuck reports whether EC2 has taken so long to attach or detach the interface of an object that the object is given
// up, by the clock of a process.
func (c *cluster) isStuck(n *v1alpha1.NetworkInterface) bool {
	age := c.run.now.Sub(n.CreationTimestamp.Time) + staleness
	if c.run.faults.has(clockSkew) {
		age += mostSkew
	}
	i, exists := c.madeFor(n)
	return exists && i.Attachment != nil && c.run.isStuck(request{action: forceDetach}, i) && age >= plan.RecreateAfter
}

// madeFor returns the interface of an object: the one that it records, or the one with its UID before it records any.
func (c *cluster) madeFor(n *v1alpha1.NetworkInterface) (eni.Interface, bool) {
	if n.Status.ENIID != "" {
		i, exists := c.run.truth().interfaces[n.Status.ENIID]
		return i, exists
	}
	for _, i := range c.run.truth().owned[c.name] {
		if i.Tags[identity.TagUID] == string(n.UID) {
			return i, true
		}
	}
	return eni.Interface{}, false
}

// removableFor is removable for an object whose NodeENI exists.
func (c *cluster) removableFor(nodeENI *v1alpha1.NodeENI, n *v1alpha1.NetworkInterface) bool {
	if !nodeENI.DeletionTimestamp.IsZero() {
		return true
	}
	its := c.nodesOf(n.Spec.InstanceID)
	if len(its) == 0 {
		return false // an absent Node is no reason
	}
	if !anySelected(nodeENI, its) {
		return true
	}
	in := subnetsIn(zoneOf(its[0]), nodeENI.Spec.SubnetIDs, nodeENI.Spec.SubnetNames)
	switch {
	case len(in) == 0:
		return n.Status.ENIID == "" // no subnet serves the node: one object says so, and an interface stays
	case c.replaceable(nodeENI, n):
		return true
	}
	return c.surplus(n, in)
}

// surplus reports whether a NodeENI has more objects on an instance than the subnets ask for. An interface in a subnet
// that is not listed any more counts for one that is, until there are more than desired.
func (c *cluster) surplus(n *v1alpha1.NetworkInterface, in []string) bool {
	there, same, listed := 0, 0, 0
	for _, other := range c.objectsAt(spotOfObject(n)) {
		if other.DeletionTimestamp.IsZero() || other.UID == n.UID {
			there++
			if subnetOf(other) == subnetOf(n) {
				same++
			}
		}
	}
	for _, id := range in {
		if id == subnetOf(n) {
			listed++
		}
	}
	return there > len(in) || n.Status.AttachmentID == "" && (same > listed || listed == 0)
}

// subnetOf returns the subnet of an object: that of its interface, or the preferred one.
func subnetOf(n *v1alpha1.NetworkInterface) string {
	if n.Status.SubnetID != "" || len(n.Spec.Subnets) == 0 {
		return n.Status.SubnetID
	}
	return n.Spec.Subnets[0].ID
}

// objectsAt returns the objects of a NodeENI on an instance, by name.
func (c *cluster) objectsAt(s desiredSlot) (its []*v1alpha1.NetworkInterface) {
	for _, n := range c.api.interfaces() {
		if spotOfObject(n) == s {
			its = append(its, n)
		}
	}
	return its
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
