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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
	"github.com/multieni/multieni/internal/core/volatile"
)

// gathered is what one reconciliation knows.
type gathered struct {
	// node is nil if the API server has no Node of the name.
	node *corev1.Node
	// in has no instance if the Node names none that can have interfaces, and no NodeENIs that are not accepted.
	in render.In
	// waiting are the NodeENIs that are not accepted yet.
	waiting []render.NodeENI
	// objects are those of the instance, by name.
	objects map[string]*v1alpha1.NetworkInterface
	// unresolved is why the selectors of NodeENIs could not be resolved.
	unresolved error
	// again is when to read the instance again; 0 if only an event changes something.
	again time.Duration
}

// gather reads what concerns a Node.
func (r *Reconciler) gather(ctx context.Context, name string) (gathered, error) {
	g := gathered{objects: map[string]*v1alpha1.NetworkInterface{}}
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return g, client.IgnoreNotFound(err)
	}
	g.node = node
	ref, nodes, err := r.registered(ctx, node)
	if err != nil || ref.ID == "" {
		return g, err
	}
	g.in.Instance, g.in.Nodes = ref, registrations(nodes)
	if nodes[0].Name != name {
		return g, nil
	}
	objects, err := object.OfInstance(ctx, r.Client, ref.ID)
	if err != nil {
		return g, err
	}
	for n := range objects {
		g.objects[objects[n].Name] = &objects[n]
		g.in.Objects = append(g.in.Objects, object.Rendered(&objects[n]))
	}
	if err := r.nodeENIs(ctx, &g, nodes[0].Labels); err != nil {
		return g, err
	}
	if g.again, err = r.expect(ctx, g); err != nil {
		return g, err
	}
	g.in.Made = r.made(ctx, ref.ID)
	r.ownSubnets(ctx, &g)
	if !g.needsVPC() {
		return g, nil
	}
	g.in.VPCID, err = r.vpcOf(ctx, g)
	if errors.Is(err, errNotListed) {
		g.dropMatches()
		return g, nil
	}
	if g.in.VPCID == "" {
		age := r.Now().Sub(g.node.CreationTimestamp.Time)
		g.again = sooner(g.again, min(max(firstInvisibleCheck, age), lastInvisibleCheck))
	}
	return g, err
}

// needsVPC reports whether the objects of the node depend on the VPC of its instance.
func (g gathered) needsVPC() bool {
	return slices.ContainsFunc(g.in.NodeENIs, func(n render.NodeENI) bool { return n.Found != nil })
}

// dropMatches makes the NodeENIs change nothing.
func (g gathered) dropMatches() {
	for n := range g.in.NodeENIs {
		g.in.NodeENIs[n].Found = nil
	}
}

// An instance that EC2 does not return yet is read again at growing intervals. Until then the matches of selectors in
// all VPCs count.
const firstInvisibleCheck, lastInvisibleCheck = 10 * time.Second, 10 * time.Minute

// registered returns the instance of a Node and the Nodes that name it, the oldest first; no instance for a Node that
// cannot have interfaces.
func (r *Reconciler) registered(ctx context.Context, node *corev1.Node) (eni.InstanceRef, []corev1.Node, error) {
	ref, err := eni.ServedInstance(node.Spec.ProviderID, node.Labels)
	if unserved, is := errors.AsType[*eni.UnservedError](err); is {
		r.skip(ctx, node, unserved.Reason, err)
		return eni.InstanceRef{}, nil, nil
	}
	nodes, err := r.nodesOf(ctx, ref.ID)
	if err != nil {
		return eni.InstanceRef{}, nil, err
	}
	if len(nodes) == 0 { // the index of the cache is about to have it
		nodes = []corev1.Node{*node}
	}
	if nodes[0].Name != node.Name {
		r.skip(ctx, node, v1alpha1.ReasonInstanceHasAnotherNode, fmt.Errorf(
			"instance %s is node %s already, whose Node is older; delete the Node that is outdated", ref.ID,
			nodes[0].Name))
		return ref, nodes, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped.Forget(node.Name)
	return ref, nodes, nil
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

func registrations(nodes []corev1.Node) []render.Registration {
	var all []render.Registration
	for n := range nodes {
		all = append(all, render.Registration{Name: nodes[n].Name, Labels: nodes[n].Labels,
			Paused: controller.Paused(&nodes[n])})
	}
	return all
}

// skip emits an Event if a selected node is not an EC2 instance, or has the instance of another node: once for each
// NodeENI and cause. It ignores a node without a providerID, which the cloud provider sets later.
func (r *Reconciler) skip(ctx context.Context, node *corev1.Node, reason string, why error) {
	if node.Spec.ProviderID == "" {
		return
	}
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
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

func (r *Reconciler) isNewSkip(node *corev1.Node, nodeENI *v1alpha1.NodeENI, why error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skipped.Report(node.Name,
		volatile.Skip{NodeUID: string(node.UID), NodeENIUID: string(nodeENI.UID), Why: why.Error()})
}

func selects(nodeENI *v1alpha1.NodeENI, labels map[string]string) bool {
	return controller.NodeENI(nodeENI).Selects(labels)
}

// nodeENIs adds the NodeENIs, those that select the node with the matches of their selectors. A NodeENI whose selectors
// cannot be resolved changes nothing.
func (r *Reconciler) nodeENIs(ctx context.Context, g *gathered, labels map[string]string) error {
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for n := range all.Items {
		converted := controller.NodeENI(&all.Items[n])
		if !slices.Contains(all.Items[n].Finalizers, v1alpha1.Finalizer) {
			g.waiting = append(g.waiting, converted)
			continue
		}
		if converted.Selects(labels) {
			if err := r.resolve(ctx, &converted, &all.Items[n]); err != nil {
				g.unresolved = errors.Join(g.unresolved, err)
			}
		}
		g.in.NodeENIs = append(g.in.NodeENIs, converted)
	}
	return nil
}

// resolve adds the matches of the selectors of a NodeENI.
func (r *Reconciler) resolve(ctx context.Context, converted *render.NodeENI, nodeENI *v1alpha1.NodeENI) error {
	found, err := controller.Resolve(ctx, r.Resolver, nodeENI)
	if err != nil {
		return err
	}
	if converted.FloatingOf, err = controller.FloatingOf(ctx, r.Client, nodeENI); err != nil {
		return err
	}
	converted.Found = found
	return nil
}

// ownSubnets adds the subnets of interfaces whose objects lack a range of these subnets: pods need it. Subnets that
// no NodeENI of the node selects any more are only read for objects that know nothing of them.
func (r *Reconciler) ownSubnets(ctx context.Context, g *gathered) {
	known := map[string]render.Subnet{}
	for _, n := range g.in.NodeENIs {
		if n.Found != nil {
			addSubnets(known, n.Found.Subnets)
		}
	}
	for _, o := range g.in.Objects {
		has := o.OwnSubnet()
		if o.ENIID == "" || o.SubnetID == "" {
			continue
		}
		if _, is := known[o.SubnetID]; !is && has.CIDR == "" && has.IPv6CIDR == "" {
			match, err := r.Resolver.Subnets(ctx, selector.SubnetTerms{IDs: []string{o.SubnetID}})
			if err != nil {
				g.unresolved = errors.Join(g.unresolved, err)
			}
			addSubnets(known, match)
		}
		if own, is := known[o.SubnetID]; is && own != has {
			g.in.Own = append(g.in.Own, own)
		}
	}
}

func addSubnets(known map[string]render.Subnet, match selector.SubnetMatch) {
	for _, s := range match.Subnets() {
		known[s.ID] = render.SubnetOf(s)
	}
}

// made returns the interfaces that a lifecycle hook or the boot of an instance made for networks.
func (r *Reconciler) made(ctx context.Context, instanceID string) []render.Made {
	var all []render.Made
	for _, record := range r.Observer.Of(instanceID).Interfaces {
		if record.Tagged.UID.IsNetwork() && !record.Missing && record.AttachedTo(instanceID) {
			all = append(all, r.madeOf(ctx, record))
		}
	}
	return all
}

func (r *Reconciler) madeOf(ctx context.Context, record inventory.Record) render.Made {
	mtu, settings := identity.ReadLink(record.Tags)
	slot := record.Attachment.Slot
	made := render.Made{
		Network: record.Tagged.NodeENI, Ordinal: record.Tagged.Ordinal, ENIID: record.ID, Slot: &slot,
		Subnet: render.Subnet{ID: record.SubnetID},
		Template: render.Template{
			InterfaceType: string(v1alpha1.InterfaceTypeInterface), Required: true,
			EC2: eni.Spec{
				Description: record.Description, Groups: record.Groups, SourceDestCheck: record.SourceDestCheck,
				DeleteOnTermination: record.Attachment.DeleteOnTermination,
			},
			Link: &render.Link{MTU: mtu},
		},
	}
	for name, value := range settings {
		if made.Template.Link.Sysctls == nil {
			made.Template.Link.Sysctls = map[string]int{}
		}
		made.Template.Link.Sysctls[string(name)] = value
	}
	match, err := r.Resolver.Subnets(ctx, selector.SubnetTerms{IDs: []string{record.SubnetID}})
	if subnets := match.Subnets(); err == nil && len(subnets) == 1 {
		made.Subnet = render.SubnetOf(subnets[0])
	}
	return made
}

// located is an instance and its VPC.
type located struct{ instanceID, vpcID string }

// errNotListed ends the search for a VPC before the first list of EC2, which enqueues each Node. The first plan of an
// instance waits for that list too, and needs a read that is no older than a second.
var errNotListed = errors.New("EC2 was not listed yet")

// vpcOf returns the VPC of the instance; empty while EC2 does not return it. The first time it reads the instance,
// unless one of its interfaces is known.
func (r *Reconciler) vpcOf(ctx context.Context, g gathered) (string, error) {
	id := g.in.Instance.ID
	r.mu.Lock()
	known := r.vpcs[g.node.Name]
	r.mu.Unlock()
	if known.instanceID == id {
		return known.vpcID, nil
	}
	known = located{instanceID: id, vpcID: g.in.AttachedVPC()}
	for _, record := range r.Observer.Of(id).Interfaces {
		if record.AttachedTo(id) {
			known.vpcID = record.VPCID
		}
	}
	if known.vpcID == "" {
		if !r.Observer.Synced() {
			return "", errNotListed
		}
		look, err := r.Observer.FirstLook(ctx, id)
		if err != nil || look.Instance.VPCID == "" { // EC2 does not return the instance yet
			return "", err
		}
		known.vpcID = look.Instance.VPCID
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.vpcs[g.node.Name] = known
	return known.vpcID, nil
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
// when to read again.
func (r *Reconciler) expect(ctx context.Context, g gathered) (time.Duration, error) {
	selected := slices.ContainsFunc(g.in.NodeENIs, func(n render.NodeENI) bool { return n.Selects(g.node.Labels) })
	if selected || !g.owns() || !r.isTainted(g.node) || r.Now().Sub(g.node.CreationTimestamp.Time) >= expectFor {
		return 0, nil
	}
	if _, err := r.Observer.RefreshInstance(ctx, g.in.Instance.ID); err != nil {
		return 0, err
	}
	return expectEvery, nil
}

// owns reports whether the Node is the oldest of an instance.
func (g gathered) owns() bool { return len(g.in.Nodes) > 0 && g.in.Nodes[0].Name == g.node.Name }
