// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/host/agent"
)

// agentAPI is what a process of an agent knows of the NetworkInterfaces of its instance, and how it writes to them.
type agentAPI struct {
	host *podHost
	// read is set once the process has read the objects, and objects are the newest versions that it has read or written.
	read    bool
	objects map[string]*v1alpha1.NetworkInterface
	// seen are the MAC addresses of links for which the process looked for an object.
	seen map[string]bool
	// away is set while the API server is not reached.
	away bool
}

// known returns the objects that the process knows, by name.
func (a *agentAPI) known() (all []*v1alpha1.NetworkInterface) {
	for _, name := range slices.Sorted(maps.Keys(a.objects)) {
		all = append(all, a.objects[name])
	}
	return all
}

func (a *agentAPI) isAway() bool { return a.away || a.host.fixed.agentAway || !a.host.runsAgent() }

// catchUp lets the process read the objects that it knows, those that its Node names, and if there is a reason to list
// them, all of its instance.
func (a *agentAPI) catchUp() {
	if a.isAway() {
		return
	}
	node, _ := a.host.c.api.get(nodes, a.host.node).(*corev1.Node)
	names, named := agent.NamesOn(node, a.host.instance)
	isNew, known := a.findsLinks(), a.objects
	a.read, a.objects = true, map[string]*v1alpha1.NetworkInterface{}
	for _, n := range a.host.c.api.interfaces() {
		if n.Spec.InstanceID == a.host.instance &&
			(!named || isNew || known[n.Name] != nil || slices.Contains(names, n.Name)) {
			a.objects[n.Name] = n
		}
	}
}

// findsLinks reports whether the host has a new link that belongs to no known object.
func (a *agentAPI) findsLinks() (isNew bool) {
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	for _, link := range a.host.linkFacts().Links {
		isKnown := slices.ContainsFunc(a.known(), func(n *v1alpha1.NetworkInterface) bool {
			return n.Status.MACAddress == link.MAC
		})
		isNew = isNew || !isKnown && !a.seen[link.MAC]
		a.seen[link.MAC] = true
	}
	return isNew
}

// catchUpOne lets the process read one object.
func (a *agentAPI) catchUpOne(name string) {
	n, is := a.host.c.api.get(netInterfaces, name).(*v1alpha1.NetworkInterface)
	if a.objects == nil || !is {
		delete(a.objects, name)
		return
	}
	a.objects[name] = n
}

// passes lets the agent read, decide or write, as the seed draws it.
func (h *podHost) passes() {
	switch h.c.run.pods.random.IntN(8) {
	case 0, 1, 2:
		h.api.catchUp()
	case 3, 4, 5:
		h.serve()
	default:
		h.write()
	}
}

// passesOnce lets the agent do all of this.
func (h *podHost) passesOnce() {
	h.api.catchUp()
	h.serve()
	h.write()
}

// write lets the agent write its reports, which may be old by now, and the addresses of its pods.
func (h *podHost) write() {
	if h.pass == nil {
		return
	}
	pass := h.pass
	for _, report := range pass.Reports() {
		err := h.writeReport(report)
		if h.pass != pass {
			return // the process ended
		}
		pass.Answered(report, err)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			h.api.catchUpOne(report.Interface.Name)
		}
	}
	if h.holds {
		h.holds = false
		_ = pass.Hold(context.Background()) // another pass follows an error
		if h.book.ended {
			h.runs(h.agent)
			return
		}
	}
	h.pass = nil
}

// writeReport writes a report over the version that the process has read. In chaos it at times has no answer: it is
// done, or lost, or arrives later, also after the end of the process.
func (h *podHost) writeReport(report agent.Report) error {
	if h.api.isAway() {
		return errAPITimeout
	}
	r := h.c.run
	served := h.servedAt
	send := func() error { return h.storeReport(report, served) }
	if !r.agents.acts || r.faults.off || r.stage != nil {
		return send()
	}
	switch r.agents.random.IntN(40) {
	case 0:
		r.note(nil, "%s: a report of node %s about %s is under way", h.c.name, h.node, report.Interface.Name)
		h.late = append(h.late, func() { _ = send() })
	case 1:
		h.late = append(h.late, func() { _ = send() })
		h.runs(h.agent)
		r.note(nil, "%s: the agent of node %s restarts while it writes", h.c.name, h.node)
	case 2:
		_ = send()
		h.api.objects[report.Interface.Name] = report.Interface // it does not know its write
	case 3:
	default:
		return send()
	}
	return errAPITimeout
}

// storeReport stores a report, unless the object has another version, or the policy for agents refuses it.
func (h *podHost) storeReport(report agent.Report, served time.Time) error {
	n, node := report.Interface, h.node
	after, err := h.c.api.update(netInterfaces, n.Name, n.ResourceVersion, func(o client.Object) (client.Object, error) {
		now := o.(*v1alpha1.NetworkInterface)
		if err := admits(now, node, report.Node); err != nil {
			h.refusedReport(now, err)
			return nil, apierrors.NewForbidden(netInterfaces.resource(), n.Name, err)
		}
		said := report.Node
		now.Status.Node = &said
		return now, nil
	})
	h.c.run.note(nil, "%s: the agent of node %s reports %s: open %t (%v)", h.c.name, node, n.Name, report.Node.Open, err)
	if err != nil {
		return err
	}
	h.checkSeen(report, served)
	h.noteLetGo(n.Status.ENIID, report.Node.Open, served)
	if h.api.objects != nil {
		h.api.objects[n.Name] = after.(*v1alpha1.NetworkInterface)
	}
	return nil
}

// refusedReport says that the policy never refuses the hold of a correct agent.
func (h *podHost) refusedReport(n *v1alpha1.NetworkInterface, err error) {
	if errors.Is(err, errPolicy) && !h.lacksObject(n.Status.ENIID) {
		h.c.run.violate("I24", "the policy refuses the hold of the agent of node %s on %s", h.node, objectDigest(n))
	}
}

// arriveSometimes at times lets the oldest write that is under way arrive, or be lost.
func (h *podHost) arriveSometimes() {
	if len(h.late) == 0 || h.c.run.agents.random.IntN(8) > 0 {
		return
	}
	late := h.late[0]
	h.late = h.late[1:]
	if h.c.run.agents.random.IntN(4) > 0 {
		h.c.run.covers.Actors[agentWritesLate]++
		late()
	}
}

// arrive lets all writes that are under way arrive.
func (h *podHost) arrive() {
	for _, late := range h.late {
		late()
	}
	h.late = nil
}
