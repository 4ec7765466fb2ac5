// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
)

// frame is one piece of work of a process on the stack.
type frame struct {
	// queue has the key that the process reconciles; noQueue for other work.
	queue queueName
	// objects are the NetworkInterfaces, by UID, in their versions at the last live list of this work.
	objects map[types.UID]*v1alpha1.NetworkInterface
}

// noQueue is the queue of work that reconciles no key.
const noQueue queueName = -1

// work returns the present piece of work of a process.
func (p *process) work() *frame {
	if len(p.frames) == 0 {
		return &frame{queue: noQueue}
	}
	return p.frames[len(p.frames)-1]
}

// noteList records the objects of a live list.
func (p *process) noteList(all []v1alpha1.NetworkInterface) {
	w := p.work()
	w.objects = map[types.UID]*v1alpha1.NetworkInterface{}
	for n := range all {
		w.objects[all[n].UID], _ = p.api().get(netInterfaces, all[n].Name).(*v1alpha1.NetworkInterface)
	}
}

// closing checks I25 for a DELETE of a process: an object with pods that its Node or its NodeENI does not ask for any
// more was closed, and not held, when the process last read it from the API server. The node reconciler deletes for
// these reasons alone.
func (r *run) closing(p *process, n *v1alpha1.NetworkInterface) {
	w := p.work()
	if w.queue != nodeQueue || p.expired || !n.DeletionTimestamp.IsZero() {
		return
	}
	was := w.objects[n.UID]
	switch {
	case was == nil:
		r.violate("I25", "%s deletes %s without having read it", p.name, objectDigest(n))
	case was.Spec.Pods == nil:
		return
	case !was.Spec.Pods.Closed:
		r.violate("I25", "%s deletes %s, which is not closed", p.name, objectDigest(was))
	case was.Status.Node != nil && was.Status.Node.Open,
		was.Status.Node == nil && was.Status.ENIID != "" && was.Status.Evidence != v1alpha1.EvidenceCreated:
		r.violate("I25", "%s deletes %s, which is held", p.name, objectDigest(was))
	}
	r.judged("I25")
	r.covers.Actors[deletesClosed]++
}
