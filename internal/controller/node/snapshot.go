// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/selector"
)

// snapshot is what one reconciliation knows about one node name. It does not change: a later read or write of the API
// server returns a new snapshot.
type snapshot struct {
	name string
	registration
	// state is nil while the node has never had a ledger.
	state *v1alpha1.NodeENIState
	// deferredSpec is the ledger after a deferred write that removes generations, nil if no write is deferred.
	deferredSpec *v1alpha1.NodeENIStateSpec
	// reliedOn are the states of other nodes, as the API server has them, whose ledgers replace entries of this one.
	reliedOn []*v1alpha1.NodeENIState
	// nodeENIs are those that may claim interfaces: all accepted ones, that is, with our finalizer.
	nodeENIs []v1alpha1.NodeENI
	// neverHadPods are the NodeENIs, accepted or not, that have declared no network for pods since they were created.
	neverHadPods map[identity.Owner]bool
	// reservations are the SubnetReservations, if a NodeENI has addresses that follow pods within them.
	reservations []v1alpha1.SubnetReservation
	// instances are those to plan for: the node's own, and previous ones that still have interfaces.
	instances []string
	// release has the instances that belong to another node, with its name.
	release map[string]string
	// formerSubnets are the subnets of interfaces that their NodeENIs no longer select, by ID.
	formerSubnets map[string]eni.Subnet
	// confirmed are the owners that were read from the API server itself, together with the node.
	confirmed map[identity.Owner]bool
}

// registration is what a Node says about its instance. It is empty when the API server has no Node of the name, or none
// that names an EC2 instance of its own.
type registration struct {
	node     *corev1.Node
	instance eni.InstanceRef
	// duplicateNodes are other Nodes that name the instance.
	duplicateNodes []corev1.Node
}

// gather reads everything that concerns a node name. It asks nothing of EC2.
func (r *Reconciler) gather(ctx context.Context, name string) (*snapshot, error) {
	node, err := r.readNode(ctx, r.Client, name)
	if err != nil {
		return nil, err
	}
	state, err := readState(ctx, r.Client, name)
	if err != nil {
		return nil, err
	}
	// They are only read. Copies, with up to a hundred attachments each, were the largest allocation of a reconciliation.
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	neverHadPods := map[identity.Owner]bool{}
	for n := range all.Items {
		neverHadPods[identity.Owner(all.Items[n].UID)] = neverDeclaredPods(&all.Items[n])
	}
	s := &snapshot{
		name: name, registration: node, state: state, nodeENIs: slices.DeleteFunc(all.Items, unaccepted),
		neverHadPods: neverHadPods, confirmed: map[identity.Owner]bool{},
	}
	if slices.ContainsFunc(s.nodeENIs, func(n v1alpha1.NodeENI) bool { return usesReservations(&n) }) {
		var reservations v1alpha1.SubnetReservationList
		if err := r.Client.List(ctx, &reservations, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		s.reservations = reservations.Items
	}
	// The instance may have interfaces under the name of another Node, which no longer exists.
	concerned := r.Observer.HasAny(s.instance.ID) || len(r.Repairs.Of(s.instance.ID)) > 0
	instances := s.chooseInstances(r.Observer.InstancesOf(name), concerned)
	release, err := r.instancesToRelease(ctx, s, instances)
	return s.withInstances(instances, release), err
}

// withInstances returns a snapshot with other instances.
func (s *snapshot) withInstances(instances []string, release map[string]string) *snapshot {
	next := *s
	next.instances, next.release = instances, release
	return &next
}

// relyingOn returns a snapshot whose ledger loses entries because another one has them.
func (s *snapshot) relyingOn(other *v1alpha1.NodeENIState) *snapshot {
	next := *s
	next.reliedOn = append(slices.Clone(s.reliedOn), other)
	return &next
}

// withLedger returns a snapshot with another stored or deferred ledger.
func (s *snapshot) withLedger(state *v1alpha1.NodeENIState, deferred *v1alpha1.NodeENIStateSpec) *snapshot {
	next := *s
	next.state, next.deferredSpec = state, deferred
	return &next
}

// withLive returns a snapshot with objects that were read from the API server itself.
func (s *snapshot) withLive(
	node registration, state *v1alpha1.NodeENIState, nodeENIs []v1alpha1.NodeENI, confirmed map[identity.Owner]bool,
) *snapshot {
	next := *s
	next.registration, next.state, next.nodeENIs, next.confirmed = node, state, nodeENIs, confirmed
	return &next
}

// withFormerSubnets returns a snapshot with the subnets that NodeENIs no longer select.
func (s *snapshot) withFormerSubnets(subnets map[string]eni.Subnet) *snapshot {
	next := *s
	next.formerSubnets = subnets
	return &next
}

func unaccepted(n v1alpha1.NodeENI) bool {
	return !slices.Contains(n.Finalizers, v1alpha1.Finalizer)
}

// readState reads the state of a node; nil if there is none.
func readState(ctx context.Context, reader client.Reader, name string) (*v1alpha1.NodeENIState, error) {
	var state v1alpha1.NodeENIState
	err := reader.Get(ctx, types.NamespacedName{Name: name}, &state)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	default:
		return &state, nil
	}
}

// readNode reads what the Node of a name says about its instance.
func (r *Reconciler) readNode(ctx context.Context, reader client.Reader, name string) (registration, error) {
	var node corev1.Node
	err := reader.Get(ctx, types.NamespacedName{Name: name}, &node)
	if apierrors.IsNotFound(err) {
		r.forgetSkips(name)
		return registration{}, nil
	}
	if err != nil {
		return registration{}, err
	}
	ref, err := eni.ServedInstance(node.Spec.ProviderID, node.Labels)
	if unserved, is := errors.AsType[*eni.UnservedError](err); is {
		r.skip(ctx, &node, unserved.Reason, err)
		return registration{}, nil
	}
	nodes, err := r.nodesOf(ctx, ref.ID)
	if err != nil {
		return registration{}, err
	}
	if len(nodes) > 0 && nodes[0].Name != name {
		r.skip(ctx, &node, v1alpha1.ReasonInstanceHasAnotherNode, fmt.Errorf(
			"instance %s is node %s already, whose Node is older; delete the Node that is outdated", ref.ID,
			nodes[0].Name))
		return registration{}, nil
	}
	r.forgetSkips(name)
	others := slices.DeleteFunc(nodes, func(n corev1.Node) bool { return n.Name == name })
	return registration{node: &node, instance: ref, duplicateNodes: others}, nil
}

// skip emits an Event if a selected node is not an EC2 instance, or has the instance of another node: once for each
// NodeENI and cause. It ignores a node without a providerID, which the cloud provider sets later.
func (r *Reconciler) skip(ctx context.Context, node *corev1.Node, reason string, why error) {
	if node.Spec.ProviderID == "" {
		return
	}
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all); err != nil {
		return
	}
	for n := range all.Items {
		nodeENI := &all.Items[n]
		if selects(nodeENI, node.Labels) && r.isNewSkip(node, nodeENI, why) {
			r.Log.Info("node is skipped", "node", node.Name, "nodeeni", nodeENI.Name, "why", why)
			r.Events.Eventf(node, nodeENI, corev1.EventTypeWarning, reason, "Plan",
				"NodeENI %s selects this node, but it gets no interfaces: %s", nodeENI.Name, why)
		}
	}
}

// nodesOf returns the Nodes that name an instance, the oldest first: that one owns it. The controller cannot
// distinguish a kubelet that registered again under another name from a Node that names an instance by mistake or by
// malice. Neither may cause the removal of an interface.
func (r *Reconciler) nodesOf(ctx context.Context, instanceID string) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, controller.OfInstance(instanceID), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	slices.SortFunc(nodes.Items, controller.CompareNodes)
	return nodes.Items, nil
}

// instancesToRelease finds the instances that belong to another node.
func (r *Reconciler) instancesToRelease(ctx context.Context, s *snapshot,
	instances []string) (map[string]string, error) {
	release := map[string]string{}
	for _, id := range instances {
		if s.present(id) {
			continue
		}
		nodes, err := r.nodesOf(ctx, id)
		if err != nil {
			return nil, err
		}
		if len(nodes) > 0 && nodes[0].Name != s.name {
			release[id] = nodes[0].Name
		}
	}
	return release, nil
}

// chooseInstances returns the instances to plan for, the node's own first; none if the node has nothing to plan.
// concerned means that the node's own instance has interfaces or updates.
func (s *snapshot) chooseInstances(previous []string, concerned bool) []string {
	instances := slices.Clone(s.instances)
	concerned = concerned || s.state != nil || len(previous) > 0 ||
		s.node != nil && slices.ContainsFunc(s.nodeENIs, func(n v1alpha1.NodeENI) bool { return selects(&n, s.node.Labels) })
	if !concerned {
		return instances
	}
	candidates := []string{s.instance.ID}
	if s.state != nil {
		candidates = append(candidates, s.state.Spec.InstanceID)
		for _, other := range s.state.Spec.PreviousInstances {
			candidates = append(candidates, other.InstanceID)
		}
	}
	for _, id := range append(candidates, previous...) {
		if id != "" && !slices.Contains(instances, id) {
			instances = append(instances, id)
		}
	}
	return instances
}

func selects(nodeENI *v1alpha1.NodeENI, nodeLabels map[string]string) bool {
	selector := controller.Selector(nodeENI.Spec)
	return selector.Matches(labels.Set(nodeLabels))
}

// states lists NodeENIStates that are only read.
func (r *Reconciler) states(ctx context.Context, opts ...client.ListOption) ([]v1alpha1.NodeENIState, error) {
	var states v1alpha1.NodeENIStateList
	err := r.Client.List(ctx, &states, append(opts, client.UnsafeDisableDeepCopy)...)
	return states.Items, err
}

// served reports whether the ledger or the status of the node names the NodeENI.
func (s *snapshot) served(uid types.UID) bool {
	if s.state == nil {
		return false
	}
	for _, owner := range controller.Owners(s.state) {
		if owner == string(uid) {
			return true
		}
	}
	return false
}

func (s *snapshot) nodeENI(owner identity.Owner) *v1alpha1.NodeENI {
	for n := range s.nodeENIs {
		if identity.Owner(s.nodeENIs[n].UID) == owner {
			return &s.nodeENIs[n]
		}
	}
	return nil
}

// present reports whether the API server has a Node for an instance.
func (s *snapshot) present(instanceID string) bool {
	return s.node != nil && s.instance.ID == instanceID
}

// instanceRef returns where an instance is: its zone from the Node or the ledger, its VPC from EC2.
func (s *snapshot) instanceRef(instanceID string, known observer.NodeInventory,
	look *eni.InstanceSnapshot) selector.Location {
	var at selector.Location
	switch {
	case s.instance.ID == instanceID:
		at.Zone = s.instance.Zone
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
func (s *snapshot) ledger(instanceID string) identity.Generations {
	if s.state == nil {
		return identity.Generations{}
	}
	return generations(ledgerOf(s.state.Spec, instanceID))
}

// generations returns the generations of stored members.
func generations(members []v1alpha1.Member) identity.Generations {
	all := identity.Generations{}
	for _, m := range members {
		key := identity.Key{Owner: identity.Owner(m.NodeENIUID), Ordinal: int(m.Ordinal)}
		all[key] = max(all[key], identity.Generation(m.Generation))
	}
	return all
}

// ledgerOf returns the ledger of an instance.
func ledgerOf(spec v1alpha1.NodeENIStateSpec, instanceID string) []v1alpha1.Member {
	if spec.InstanceID == instanceID {
		return spec.Members
	}
	for _, previous := range spec.PreviousInstances {
		if previous.InstanceID == instanceID {
			return previous.Members
		}
	}
	return nil
}

// owner returns the instance that spec.members belongs to.
func (s *snapshot) owner() string {
	if s.node != nil {
		return s.instance.ID
	}
	if s.state != nil {
		return s.state.Spec.InstanceID
	}
	return ""
}

// paused reports whether a user paused the node, under any of its names.
func (s *snapshot) paused() bool {
	return s.node != nil && controller.Paused(s.node) ||
		slices.ContainsFunc(s.duplicateNodes, func(n corev1.Node) bool { return controller.Paused(&n) })
}

// unpaused returns the UIDs of the NodeENIs that concern the node and are not paused.
func (s *snapshot) unpaused() map[types.UID]bool {
	uids := map[types.UID]bool{}
	for n := range s.nodeENIs {
		nodeENI := &s.nodeENIs[n]
		if !controller.Paused(nodeENI) && (selects(nodeENI, s.node.Labels) || s.served(nodeENI.UID)) {
			uids[nodeENI.UID] = true
		}
	}
	return uids
}

const (
	// expectFor is for how long after the creation of a Node the controller reads its instance for interfaces of networks.
	// A lifecycle hook waits for a shorter time.
	expectFor = 10 * time.Minute
	// expectEvery is the time between two reads.
	expectEvery = 10 * time.Second
)

// expect reads the instance of a node that started with the startup taint and that no NodeENI selects. A lifecycle hook
// creates its interfaces while it joins, and the controller would not learn of them before the next list. It returns
// when to read again, or zero.
func (r *Reconciler) expect(ctx context.Context, s *snapshot) (*snapshot, time.Time, error) {
	if s.node == nil || !s.awaitsNetworks(r.Now()) {
		return s, time.Time{}, nil
	}
	if _, err := r.Observer.DescribeInstance(ctx, s.instance.ID); err != nil {
		return s, time.Time{}, err
	}
	instances := s.chooseInstances(r.Observer.InstancesOf(s.name), r.Observer.HasAny(s.instance.ID))
	return s.withInstances(instances, s.release), r.Now().Add(expectEvery), nil
}

// awaitsNetworks reports whether the node has the startup taint, is new, and no NodeENI selects it.
func (s *snapshot) awaitsNetworks(now time.Time) bool {
	tainted := slices.ContainsFunc(s.node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == v1alpha1.NotReadyTaint
	})
	selected := slices.ContainsFunc(s.nodeENIs, func(n v1alpha1.NodeENI) bool { return selects(&n, s.node.Labels) })
	return tainted && !selected && now.Sub(s.node.CreationTimestamp.Time) < expectFor
}
