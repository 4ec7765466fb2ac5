// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// orphanGrace is how long an object whose NodeENI does not exist keeps its interface.
const orphanGrace = 24 * time.Hour

// mostSkew is the greatest difference between the clocks of two replicas: one begins the grace period, and another ends
// it.
const mostSkew = 2 * time.Hour

// deleting checks I1 for a DELETE of a process: there is a reason to delete the object, other than that of users, whose
// DELETE is a reason by itself. It is a reason that the process can know.
func (r *run) deleting(p *process, n *v1alpha1.NetworkInterface) {
	r.judged("I1")
	c := p.cluster
	if n.DeletionTimestamp.IsZero() && !p.expired {
		r.rollingOut(p, n)
	}
	if !n.DeletionTimestamp.IsZero() || c.removable(n) || p.expired {
		return
	}
	s := spotOfObject(n)
	if r.now.Sub(r.watch.meddled[s.String()]) < 10*time.Minute || p.ignores(s) || p.rollsOut(n) ||
		r.watch.tampered(n.Status.ENIID) || n.Status.ENIID == "" && c.selectsOthers(s) {
		return
	}
	last, ever := r.watch.removable[n.UID]
	if seen := p.views[len(p.views)-1]; ever && (last.version >= seen || r.now.Sub(last.at) < 2*time.Minute) {
		return
	}
	r.violate("I1", "%s deletes %s, which is wanted (last removable at version %d, the process has seen all of %d)",
		p.name, objectDigest(n), last.version, p.views[len(p.views)-1])
}

// ending checks I7 when a process removes the finalizer of an object: EC2 has no interface of it any more, unless its
// instance ended and EC2 deletes it by itself, or the object is let go.
func (r *run) ending(p *process, n *v1alpha1.NetworkInterface) {
	if r.mayLetGo(p.cluster, n) || p.expired || p.knowsKept(n) {
		return
	}
	r.judged("I7")
	for _, i := range r.truth().owned[p.cluster.name] {
		if r.isOf(n, i) && !r.isExcused(n, i) {
			r.violate("I7", "%s ends %s, and %s of it is left: %s", p.name, n.Name, i.ID, r.describe(i))
		}
	}
}

// isOf reports whether an object records an interface, or was the reason for it.
func (r *run) isOf(n *v1alpha1.NetworkInterface, i eni.Interface) bool {
	_, of := r.objectOf(i)
	return i.ID == n.Status.ENIID || i.Tags[identity.TagUID] == string(n.UID) && (of == nil || of.UID == n.UID)
}

// isExcused reports whether an object may end before its interface: EC2 deletes the interface with its instance, or
// other programs made it, its copy or its tags.
func (r *run) isExcused(n *v1alpha1.NetworkInterface, i eni.Interface) bool {
	doomed := i.Attachment != nil && r.truth().ended(i.Attachment.InstanceID) && i.Attachment.DeleteOnTermination
	tookCopy := i.ID != n.Status.ENIID && r.watch.copies[n.Status.ENIID]
	return doomed || tookCopy || r.watch.tampered(i.ID) || r.watch.twins[i.ID] ||
		r.now.Sub(r.watch.meddled[i.ID]) <= staleness
}

// mayLetGo reports whether an object may end without its interface: a user asked for that, or the kind is being deleted
// and its NodeENI is not.
func (r *run) mayLetGo(c *cluster, n *v1alpha1.NetworkInterface) bool {
	if n.Annotations[v1alpha1.OnDeleteAnnotation] == v1alpha1.OnDeleteKeep {
		return true
	}
	nodeENI := c.nodeENINamed(n.Spec.NodeENI.Name)
	return c.api.interfaceKind == terminating && (nodeENI == nil || nodeENI.DeletionTimestamp.IsZero() ||
		r.now.Sub(nodeENI.DeletionTimestamp.Time) <= lettingGo)
}

// lettingGo is the longest time between the read of a NodeENI that is not being deleted, and the write that lets an
// object of it go: no write can depend on the state of two objects.
const lettingGo = time.Minute

// noteObject records what happens to an object.
func (r *run) noteObject(c *cluster, change change) {
	r.noteKeeping(change)
	if change.before != nil {
		was := change.before.(*v1alpha1.NetworkInterface)
		if was.Final() && was.Status.ENIID != "" {
			r.watch.final[was.Status.ENIID] = r.now
		}
		if change.after == nil {
			r.noteTorn(c, was)
		}
	}
	if change.after == nil {
		return
	}
	n := change.after.(*v1alpha1.NetworkInterface)
	if was, is := change.before.(*v1alpha1.NetworkInterface); is && was.Status.ENIID == "" &&
		n.Status.Evidence == v1alpha1.EvidenceTakenOver {
		r.watch.spent.needed++ // its tags name the object then
	}
	if r.watch.existed[n.UID] == "" {
		r.watch.existed[n.UID] = c.name
		c.checkNames(n)
	}
	if n.Final() && n.Status.ENIID != "" {
		r.watch.final[n.Status.ENIID] = r.now
	}
	if id := n.Status.ENIID; n.Status.Node != nil && id != "" {
		delete(r.watch.torn, id) // an agent has answered for the interface
	}
}

// noteTorn records the interfaces that are left when an object ends.
func (r *run) noteTorn(c *cluster, was *v1alpha1.NetworkInterface) {
	r.watch.endedAt[was.UID] = r.now
	for _, i := range r.truth().ordered {
		tags := i.Tags
		if before := r.watch.identity[i.ID]; before != nil { // a person edited them, and restores them in the end
			tags = before
		}
		if i.ID == was.Status.ENIID || tags[identity.TagUID] == string(was.UID) && tags[identity.TagCluster] == c.name {
			r.watch.torn[i.ID] = r.now
		}
	}
}

// removing checks I21: an interface is only detached or deleted if it is that of a final object, if its instance ended,
// or if it is unattached and no object's.
func (r *run) removing(p *process, q request, i eni.Interface) {
	r.judged("I21")
	r.interrupting(p, q, i)
	r.taking(p, q, i)
	r.replacing(p, q, i)
	c, n := r.objectOf(i)
	switch s := r.spotOf(i); {
	case r.truth().ended(s.instanceID), i.Attachment != nil && r.truth().ended(i.Attachment.InstanceID):
		return
	case n != nil && c == p.cluster && n.Final():
	case n != nil && strings.HasPrefix(q.action, "Detach") && r.isStuck(q, i):
	case (n == nil || r.justReturned(n)) && r.wasFinal(i.ID):
	case q.action == "DeleteNetworkInterface" && r.wasUnowned(n, i):
		r.collecting(p, q, i)
	default:
		r.violate("I21", "%s %s %s, whose object is not final: %s", p.name, q.action, q.target, r.describe(i))
	}
	r.keeping(p, q, i, n)
}

// wasUnowned reports whether an interface was unattached and had no object a moment ago. EC2 refuses to delete one that
// a person attached since.
func (r *run) wasUnowned(n *v1alpha1.NetworkInterface, i eni.Interface) bool {
	justAttached := n == nil && r.now.Sub(r.watch.meddled[i.ID]) <= waitInCall
	return (n == nil || r.justReturned(n)) && i.Attachment == nil || justAttached
}

// justReturned reports whether a restored etcd brought an object back a moment ago: a process that read the API server
// before did not see it.
func (r *run) justReturned(n *v1alpha1.NetworkInterface) bool {
	at, returned := r.watch.returned[n.UID]
	return returned && r.now.Sub(at) <= 2*waitInCall // one before the call, and the call itself
}

// wasFinal reports whether the object of an interface was final a moment ago: the order still stands.
func (r *run) wasFinal(id string) bool {
	at, was := r.watch.final[id]
	return was && r.now.Sub(at) <= staleness
}

// collecting checks I1 and I21 for unowned interfaces: they are unattached, old enough, and no object has their UID. An
// interface with the UID of an object that records another one has no object.
func (r *run) collecting(p *process, q request, i eni.Interface) {
	r.judged("I1")
	if n := p.cluster.api.interfaceWith(types.UID(i.Tags[identity.TagUID])); n != nil && n.Status.ENIID == "" &&
		!r.watch.tampered(i.ID) && !p.expired && !n.Final() && !r.watch.twins[i.ID] {
		r.violate("I21", "%s %s %s, which is that of object %s: %s", p.name, q.action, q.target, n.Name, r.describe(i))
	}
	if _, known := identity.CreatedAt(i.Tags); !known && r.now.Sub(r.watch.meddled[i.ID]) > staleness {
		r.violate("I1", "%s %s %s as a leak, although its age is not known: %s", p.name, q.action, q.target, r.describe(i))
	}
}

// checkObjects checks I3 for objects: each has its own interface.
func (c *cluster) checkObjects() {
	recorded := map[string]string{}
	for _, n := range c.api.interfaces() {
		c.run.judged("I3")
		if other, twice := recorded[n.Status.ENIID]; twice && n.Status.ENIID != "" {
			c.run.violate("I3", "both %s and %s record %s", other, n.Name, n.Status.ENIID)
		}
		recorded[n.Status.ENIID] = n.Name
		c.checkGrants(n)
	}
	c.checkHolds()
}

// checkNames checks I3 for the names of objects: a new one has the name of its NodeENI, instance and ordinal.
func (c *cluster) checkNames(n *v1alpha1.NetworkInterface) {
	c.run.judged("I3")
	want := identity.ObjectName(n.Spec.NodeENI.Name, n.Spec.InstanceID, int(n.Spec.Ordinal))
	if n.Name != want || !slices.Contains(n.Finalizers, v1alpha1.InterfaceFinalizer) {
		c.run.violate("I3", "the object %s has not the name %s, or no finalizer", n.Name, want)
	}
}

// checkOwner checks I23: an interface has the object that records it, or that of its UID. One that lost its object is
// reported as unowned, and so is a second one for a client token that EC2 forgot.
func (c *cluster) checkOwner(i eni.Interface) {
	r := c.run
	if isJoined(i) || r.watch.twins[i.ID] || !r.watch.torn[i.ID].IsZero() ||
		r.now.Sub(r.watch.meddled[i.ID]) <= staleness {
		return
	}
	if c.api.interfaceOf(i.ID) != nil || c.api.interfaceWith(types.UID(i.Tags[identity.TagUID])) != nil {
		r.judged("I23")
		return
	}
	doomed := r.truth().ended(i.Tags[identity.TagInstanceID])
	if _, was := r.watch.final[i.ID]; was || doomed {
		return // EC2 answered that it is deleted
	}
	if at, was := r.watch.endedAt[types.UID(i.Tags[identity.TagUID])]; was && !r.watch.made[i.ID].Before(at) {
		r.watch.torn[i.ID] = r.now // the process that made it had not received the end of the object (I7)
		return
	}
	r.violate("I23", "%s has no object: %s", i.ID, r.describe(i))
}

// checkGrants checks I22: EC2 has the granted prefixes of an object on its interface.
func (c *cluster) checkGrants(n *v1alpha1.NetworkInterface) {
	r := c.run
	i, exists := r.truth().interfaces[n.Status.ENIID]
	if n.Status.Pods == nil || !exists || n.Final() {
		return
	}
	for _, text := range n.Status.Pods.Prefixes {
		r.judged("I22")
		if !slices.Contains(prefixTexts(i), text) {
			r.violate("I22", "%s grants %s, which EC2 does not have on %s: %s", n.Name, text, i.ID, r.describe(i))
		}
	}
}

// prefixTexts returns the prefixes that EC2 has on an interface.
func prefixTexts(i eni.Interface) (all []string) {
	for _, p := range slices.Concat(i.IPv4Prefixes, i.IPv6Prefixes) {
		all = append(all, p.String())
	}
	return all
}

// keepingGranted checks I22 for calls: no granted prefix is unassigned.
func (r *run) keepingGranted(p *process, q request, i eni.Interface) {
	_, n := r.objectOf(i)
	if n == nil || n.Status.Pods == nil || n.Final() {
		return
	}
	for _, prefix := range slices.Concat(q.unassigns.IPv4Prefixes, q.unassigns.IPv6Prefixes) {
		r.judged("I22")
		if slices.Contains(n.Status.Pods.Prefixes, prefix.String()) {
			r.violate("I22", "%s unassigns %s from %s, which %s grants", p.name, prefix, i.ID, n.Name)
		}
	}
}
