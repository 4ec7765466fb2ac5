// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/instance"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/controller/nodeeni"
)

// gathering is how long a NodeENI's status waits for more changes of nodes (internal/controller/nodeeni).
const gathering = 250 * time.Millisecond

// deliver hands the next change of a kind to the process.
func (p *process) deliver(k kind) {
	c := p.informers.next(k)
	p.run.note(p, "gets an event of %s %s", k, c.name())
	p.handle(k, c)
}

// relist makes the process list a kind again after its watch failed.
func (p *process) relist(k kind) {
	p.lost[k] = false
	p.run.note(p, "lists %ss again", k)
	for _, c := range p.informers.relist(k, p.run.faults.oldList()) {
		p.handle(k, c)
	}
}

// handle enqueues the objects that a change concerns, as the product's SetupWithManager functions do.
func (p *process) handle(k kind, c change) {
	switch k {
	case nodes:
		p.handleNode(c)
	case nodeENIs:
		p.handleNodeENI(c)
	case subnetReservations:
		if c.passes(controller.SpecOrLifeChanged()) {
			p.enqueue(reservationQueue, c.name(), 0)
		}
	case floatingAddresses:
		p.handleFloatingAddress(c)
	case netInterfaces:
		p.handleInterface(c)
	}
}

func (p *process) handleNode(c change) {
	if c.passes(node.Changed()) {
		p.enqueue(nodeQueue, c.name(), 0)
	}
	if !c.passes(controller.NodeIdentityChanged()) {
		return
	}
	for _, version := range c.versions() {
		for _, id := range controller.Indexed(version) {
			for _, other := range nodesIn(p.informers.known(nodes), id) {
				p.enqueue(nodeQueue, other.Name, 0)
			}
			p.enqueue(instanceQueue, id, 0)
		}
		p.enqueueSelecting(version.(*corev1.Node))
	}
}

func (p *process) handleNodeENI(c change) {
	switch {
	case c.passes(controller.SpecOrLifeChanged()):
		p.enqueue(nodeENIQueue, c.name(), 0)
	case c.passes(controller.StatusChanged()):
		p.enqueue(nodeENIQueue, c.name(), gathering)
	}
	if c.passes(node.RelevantNodeENIChange()) {
		for _, concerned := range p.nodes.Concerned(context.Background(), c.versions()...) {
			p.enqueue(nodeQueue, concerned, 0)
		}
	}
	if c.passes(instance.NodeENIChanged()) {
		for _, object := range p.informers.known(netInterfaces) {
			if n := object.(*v1alpha1.NetworkInterface); n.Spec.NodeENI.Name == c.name() {
				p.enqueue(instanceQueue, n.Spec.InstanceID, 0)
			}
		}
	}
	if c.before != nil && c.after != nil {
		for _, id := range instance.GotTurns(c.before.(*v1alpha1.NodeENI), c.after.(*v1alpha1.NodeENI)) {
			p.enqueue(instanceQueue, id, 0)
		}
		if nodeeni.TurnsEnded(c.before.(*v1alpha1.NodeENI), c.after.(*v1alpha1.NodeENI)) {
			for _, object := range p.informers.known(nodeENIs) {
				if nodeeni.Replacing(object.(*v1alpha1.NodeENI)) {
					p.enqueue(nodeENIQueue, object.GetName(), gathering)
				}
			}
		}
	}
}

func (p *process) handleFloatingAddress(c change) {
	p.enqueue(addressQueue, c.name(), 0)
	for _, version := range c.versions() {
		for _, id := range controller.InterfacesOf(version.(*v1alpha1.FloatingAddress)) {
			for _, object := range p.informers.known(netInterfaces) {
				if n := object.(*v1alpha1.NetworkInterface); n.Status.ENIID == id {
					p.enqueue(nodeENIQueue, n.Spec.NodeENI.Name, gathering)
				}
			}
		}
	}
}

func (p *process) handleInterface(c change) {
	for _, version := range c.versions() {
		n := version.(*v1alpha1.NetworkInterface)
		for _, request := range p.nodes.NodesOfObject(context.Background(), n) {
			p.enqueue(nodeQueue, request.Name, 0)
		}
		if c.passes(instance.ObjectChanged()) {
			p.enqueue(instanceQueue, n.Spec.InstanceID, 0)
		}
		p.enqueue(nodeENIQueue, n.Spec.NodeENI.Name, gathering)
		for _, name := range p.addresses.Concerned(context.Background(), n) {
			p.enqueue(addressQueue, name, 0)
		}
	}
	if c.before != nil && c.after != nil && c.passes(instance.LinkVanished()) {
		p.instances.AddStale(c.after.(*v1alpha1.NetworkInterface).Spec.InstanceID)
	}
}

// versions returns the object before and after the change, as far as it existed.
func (c change) versions() []client.Object {
	return slices.DeleteFunc([]client.Object{c.before, c.after}, func(o client.Object) bool { return o == nil })
}

// passes reports whether a predicate lets the change through. The predicates of the product drop only updates.
func (c change) passes(p predicate.Predicate) bool {
	isUpdate := c.before != nil && c.after != nil
	return !isUpdate || p.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after})
}

func (p *process) enqueue(q queueName, key string, after time.Duration) {
	p.queues[q].add(key, p.run.now.Add(after))
}

// enqueueSelecting enqueues the NodeENIs that a version of a Node concerns.
func (p *process) enqueueSelecting(version *corev1.Node) {
	concerned := p.nodeENIs.Concerned(context.Background(), version)
	for _, object := range p.informers.known(nodeENIs) {
		if concerned(object.(*v1alpha1.NodeENI)) {
			p.enqueue(nodeENIQueue, object.GetName(), gathering)
		}
	}
}
