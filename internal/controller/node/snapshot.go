// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
	"github.com/multieni/multieni/internal/observer"
)

// snapshot is all that concerns one node name.
type snapshot struct {
	name string
	// node is nil when the API server has none, or none that names an EC2 instance.
	node             *corev1.Node
	instanceID, zone string
	// state is nil while nothing was ever promised to the node.
	state *v1alpha1.NodeENIState
	// nodeENIs are those that may ask for something: all that were accepted, that is, carry our finalizer.
	nodeENIs []v1alpha1.NodeENI
	// instances are those to plan for: the node's own, and previous ones that still have interfaces.
	instances []string
	// duplicateNodes are other Nodes that name the node's instance, and letGo are instances that are another node's, and whose.
	duplicateNodes []corev1.Node
	release        map[string]string
	// plans are the last plans of the instances, in the same order.
	plans []plan.Plan
	// generations are those of the NodeENIs that the last plan of the node's own instance went by.
	generations map[types.UID]int64
	// confirmed are the UIDs of the NodeENIs that were read from the API server itself, together with the node.
	confirmed map[string]bool
	// replacement is when to ask again for a turn that was not given.
	replacement time.Time
	// pendingShrink is what the ledger is to say once it is written that less is promised.
	pendingShrink *v1alpha1.NodeENIStateSpec
	// workerSlot is the node's standing at the gates, and waiting the members that wait there.
	workerSlot *workerSlot
	waiting    map[identity.Key]bool
}

// gather reads everything that concerns a node name. It asks nothing of EC2.
func (r *Reconciler) gather(ctx context.Context, name string) (*snapshot, error) {
	s := &snapshot{name: name, confirmed: map[string]bool{}, generations: map[types.UID]int64{}}
	if err := r.gatherNode(ctx, r.Client, s); err != nil {
		return nil, err
	}
	var state v1alpha1.NodeENIState
	switch err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &state); {
	case err == nil:
		s.state = &state
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	if !r.Observer.IsPastVisibilityWindow() { // later nobody asks, and nodes come and go for as long as the process lives
		r.Ledgers.Read(name, s.state)
	}
	// They are only read: copies, of up to a hundred attachments each, were the most that a reconciliation made.
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	s.nodeENIs = slices.DeleteFunc(all.Items, unaccepted)
	// What its instance has may be there under the name of another Node, which is gone.
	s.chooseInstances(r.Observer.InstancesOf(name), r.Observer.HasAny(s.instanceID) || len(r.Repairs.Of(s.instanceID)) > 0)
	return s, r.instancesToRelease(ctx, s)
}

func unaccepted(n v1alpha1.NodeENI) bool {
	return !slices.Contains(n.Finalizers, v1alpha1.Finalizer)
}

func (r *Reconciler) gatherNode(ctx context.Context, reader client.Reader, s *snapshot) error {
	s.node, s.zone, s.instanceID, s.duplicateNodes = nil, "", "", nil
	var node corev1.Node
	err := reader.Get(ctx, types.NamespacedName{Name: s.name}, &node)
	if apierrors.IsNotFound(err) {
		r.forgetSkips(s.name)
		return nil
	}
	if err != nil {
		return err
	}
	zone, instanceID, err := eni.ParseProviderID(node.Spec.ProviderID)
	if err != nil {
		r.skip(ctx, &node, "NotAnEC2Instance", err)
		return nil
	}
	if its, err := r.findDuplicateNodes(ctx, s, &node, instanceID); !its {
		return err
	}
	r.forgetSkips(s.name)
	s.node, s.zone, s.instanceID = &node, zone, instanceID
	return nil
}

// chooseInstances puts the node's own instance first. A node that nothing concerns has none; that there is something of its
// instance to see to is one reason.
func (s *snapshot) chooseInstances(previous []string, concerned bool) {
	concerned = concerned || s.state != nil || len(previous) > 0 ||
		s.node != nil && slices.ContainsFunc(s.nodeENIs, func(n v1alpha1.NodeENI) bool { return selects(&n, s.node.Labels) })
	if !concerned {
		return
	}
	add := func(id string) {
		if id != "" && !slices.Contains(s.instances, id) {
			s.instances = append(s.instances, id)
		}
	}
	add(s.instanceID)
	if s.state != nil {
		add(s.state.Spec.InstanceID)
		for _, other := range s.state.Spec.PreviousInstances {
			add(other.InstanceID)
		}
	}
	for _, id := range previous {
		add(id)
	}
}

// present reports whether the API server has a Node for an instance.
func (s *snapshot) present(instanceID string) bool {
	return s.node != nil && s.instanceID == instanceID
}

// instanceRef says where an instance is: its zone by the Node or the ledger, its VPC by what EC2 showed.
func (s *snapshot) instanceRef(instanceID string, known observer.NodeInventory, look *eni.InstanceSnapshot) selector.Location {
	var at selector.Location
	switch {
	case s.instanceID == instanceID:
		at.Zone = s.zone
	case s.state != nil && s.state.Spec.InstanceID == instanceID:
		at.Zone = s.state.Spec.Zone
	}
	if len(known.Owned) > 0 {
		at.VPCID = known.Owned[0].VPCID
	}
	if look != nil && look.Instance.VPCID != "" {
		at.VPCID = look.Instance.VPCID
	}
	return at
}

// ledger returns the stored generations of an instance's members.
func (s *snapshot) ledger(instanceID string) map[identity.Key]int64 {
	ledger := map[identity.Key]int64{}
	if s.state == nil {
		return ledger
	}
	for _, m := range ledgerOf(s.state.Spec, instanceID) {
		ledger[identity.Key{NodeENIUID: string(m.NodeENIUID), Ordinal: int(m.Ordinal)}] = m.Generation
	}
	return ledger
}

// lookAgain returns how long to wait for the earliest time that a plan, or a turn, asks for; 0 when none does.
func (s *snapshot) lookAgain(now time.Time) time.Duration {
	earliest := s.replacement
	for _, p := range s.plans {
		earliest = sooner(earliest, p.RequeueAt)
	}
	if earliest.IsZero() {
		return 0
	}
	return max(earliest.Sub(now), 50*time.Millisecond)
}

// sooner returns the earlier of two times, of which zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// detachBlocked returns the interfaces that the agent on the node has not let go of, and why.
func (s *snapshot) detachBlocked() map[string]string {
	held := map[string]string{}
	if s.state == nil {
		return held
	}
	for _, link := range s.state.Status.Links {
		if holds(link) {
			held[link.ENIID] = link.Message
		}
	}
	return held
}

// holds reports whether the device of a link has, or is about to get, a driver for user space.
func holds(link v1alpha1.LinkState) bool {
	return link.State == v1alpha1.LinkBound || link.State == v1alpha1.LinkBinding
}
