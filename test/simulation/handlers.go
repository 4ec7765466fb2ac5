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

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/node"
)

// gathering is how long a NodeENI's status waits for more changes of nodes (internal/controller/nodeeni).
const gathering = 250 * time.Millisecond

// deliver hands the next change of a kind to the process.
func (p *process) deliver(k kind) {
	c := p.informers.next(k)
	p.run.note(p, "gets an event of %s %s", k, c.name())
	p.heard(k, c)
}

// relist makes the process list a kind again after its watch failed.
func (p *process) relist(k kind) {
	p.lost[k] = false
	p.run.note(p, "lists %ss again", k)
	for _, c := range p.informers.relist(k, p.run.faults.oldList()) {
		p.heard(k, c)
	}
}

// heard enqueues the objects that a change concerns, as the product's SetupWithManager functions do.
func (p *process) heard(k kind, c change) {
	versions := slices.DeleteFunc([]client.Object{c.before, c.after}, func(o client.Object) bool { return o == nil })
	isUpdate := len(versions) == 2
	update := event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}
	switch k {
	case nodes:
		if !isUpdate || controller.NodeIdentityChanged().Update(update) {
			p.enqueue(nodeQueue, c.name(), 0)
			for _, name := range p.nodes.DuplicateNodes(context.Background(), versions...) {
				p.enqueue(nodeQueue, name, 0)
			}
			for _, version := range versions {
				p.enqueueSelecting(version.(*corev1.Node))
			}
		}
	case nodeENIs:
		p.heardOfNodeENI(c.name(), versions, update)
	case subnetReservations:
		if !isUpdate || controller.SpecOrLifeChanged().Update(update) {
			p.enqueue(reservationQueue, c.name(), 0)
		}
	case floatingAddresses:
		p.enqueue(addressQueue, c.name(), 0)
		for _, version := range versions {
			for _, holder := range controller.Holders(version.(*v1alpha1.FloatingAddress)) {
				if state, is := p.informers.views[states].objects[holder.NodeName].(*v1alpha1.NodeENIState); is {
					p.enqueueOwners(state)
				}
			}
		}
	case states:
		if !isUpdate || node.StateChanged().Update(update) {
			p.enqueue(nodeQueue, c.name(), 0)
		}
		if !isUpdate || controller.StatusChanged().Update(update) {
			for _, name := range p.addresses.Concerned(context.Background(), versions[len(versions)-1].(*v1alpha1.NodeENIState)) {
				p.enqueue(addressQueue, name, 0)
			}
		}
		for _, version := range versions {
			p.enqueueOwners(version.(*v1alpha1.NodeENIState))
		}
	}
}

func (p *process) heardOfNodeENI(name string, versions []client.Object, update event.UpdateEvent) {
	isUpdate := len(versions) == 2
	switch {
	case !isUpdate || controller.SpecOrLifeChanged().Update(update):
		p.enqueue(nodeENIQueue, name, 0)
	case controller.StatusChanged().Update(update):
		p.enqueue(nodeENIQueue, name, gathering)
	}
	if !isUpdate || node.RelevantNodeENIChange().Update(update) {
		for _, concerned := range p.nodes.Concerned(context.Background(), versions...) {
			p.enqueue(nodeQueue, concerned, 0)
		}
	}
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

// enqueueOwners enqueues the NodeENIs that a state names.
func (p *process) enqueueOwners(state *v1alpha1.NodeENIState) {
	owners := controller.Owners(state)
	for _, object := range p.informers.known(nodeENIs) {
		if slices.Contains(owners, string(object.GetUID())) {
			p.enqueue(nodeENIQueue, object.GetName(), gathering)
		}
	}
}
