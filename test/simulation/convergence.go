// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/floating"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

const (
	// settleWithin is how long convergence may take after all faults ended: the longest wait after a refusal (30 min),
	// a forced detach, and two resyncs.
	settleWithin = 60 * time.Minute
	// restFor is the length of the quiet period after convergence.
	restFor = 30 * time.Minute
	// lastWrites is how long the product may still clean up and report after convergence.
	lastWrites = 15 * time.Minute
)

// heal ends all faults, and people undo what they did by hand.
func (r *run) heal() {
	r.faults.end()
	r.note(nil, "everything is well from now on")
	for _, c := range r.clusters {
		c.restoreNodes()
		c.unpause()
		c.release(false)
		for _, p := range c.processes {
			p.heldUntil = [kinds]time.Time{}
		}
	}
	r.startStopped()
	r.putBack()
}

// putBack undoes what people did to interfaces: it restores tags, deletes copies, and detaches what they attached
// elsewhere.
func (r *run) putBack() {
	for _, i := range r.truth().ordered {
		if identity := r.watch.identity[i.ID]; identity != nil && !r.watch.copies[i.ID] {
			_, _ = r.model.CreateTags(r.call(), &ec2.TagsInput{ResourceIDs: []string{i.ID}, Tags: tagList(identity)})
		}
		if i.Attachment != nil && (r.watch.copies[i.ID] || r.watch.elsewhere[i.ID]) {
			_, _ = r.model.DetachNetworkInterface(r.call(),
				&ec2.DetachNetworkInterfaceInput{AttachmentID: i.Attachment.ID, Force: true})
		}
	}
	for range 8 {
		r.pass(15 * time.Second)
		for _, id := range slices.Sorted(maps.Keys(r.watch.copies)) {
			_, _ = r.model.DeleteNetworkInterface(r.call(), &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceID: id})
		}
	}
	r.touched()
	for id := range r.watch.identity {
		r.watch.meddled[id] = r.now
	}
	clear(r.watch.identity)
	clear(r.watch.elsewhere)
	for _, c := range r.clusters {
		r.noteReasons(c) // for interfaces that can be distinguished again
	}
}

// converge runs until everything is as desired, and checks that this does not take too long.
func (r *run) converge() {
	within := settleWithin + r.ahead() + r.longer()
	well := r.now
	r.pods.excused = false
	for n := 0; ; n++ {
		if n%8 == 0 && r.settled() == nil && r.idle() && !r.endsOrphans() {
			break
		}
		if r.now.Sub(later(well, r.lastStart())) > within {
			break
		}
		r.step()
	}
	r.note(nil, "settled")
	r.pods.excused = true
	if problem := r.settled(); problem != nil {
		r.dump()
		r.violate(problem.Invariant, "%s after everything has been well: %s", seconds(within), problem.Message)
	}
}

// dump notes all objects, for those who read the trace of a run that did not converge.
func (r *run) dump() {
	for _, c := range r.clusters {
		for _, object := range c.api.all(nodes) {
			r.note(nil, "%s: Node %s is %s, %v", c.name, object.GetName(), object.(*corev1.Node).Spec.ProviderID,
				object.GetLabels())
		}
		for _, object := range c.api.all(nodeENIs) {
			nodeENI := object.(*v1alpha1.NodeENI)
			r.note(nil, "%s: NodeENI %s: %s, deleted %v, turns %v", c.name, nodeENI.Name, digest(nodeENI.Spec),
				nodeENI.DeletionTimestamp, nodeENI.Status.Turns)
		}
		for _, n := range c.api.interfaces() {
			message := ""
			if ready := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
				message = ready.Message
			}
			r.note(nil, "%s: %s: %s", c.name, objectDigest(n), message)
		}
	}
	for _, instance := range slices.Sorted(maps.Keys(r.pods.hosts)) {
		r.note(nil, "%s", r.pods.hosts[instance].digest())
	}
}

// digest summarizes what is on a node, for the trace.
func (h *podHost) digest() string {
	words := fmt.Appendf(nil, "%s: node %s of %s, which %s, %s:", h.c.name, h.node, h.instance, h.agent, h.boot.ID)
	for _, at := range slices.Sorted(maps.Keys(h.files)) {
		words = fmt.Appendf(words, " file %s %s %s", at, h.files[at].Phase, h.files[at].UID)
	}
	for _, at := range slices.Sorted(maps.Keys(h.leases)) {
		for _, l := range h.leases[at] {
			words = fmt.Appendf(words, " lease %s of %s in use %t of %s", l.Address, l.Pod, l.InUse(), l.BootID)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(h.using)) {
		for _, pod := range h.using[at] {
			words = fmt.Appendf(words, " %s on %s", pod.holder.Pod, pod.eni)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(h.bound)) {
		words = fmt.Appendf(words, " %s is bound", id)
	}
	if h.checkpoint != nil {
		for _, saved := range h.checkpoint.Held {
			words = fmt.Appendf(words, " checkpoint %s for %s", saved.ENI, saved.UID)
		}
	}
	return string(words)
}

// longer is how much longer convergence takes where a NodeENI was lost or stripped of its finalizer: its objects stay
// for a day, as long as no NodeENI of the name exists. A process that does not know of the loss may still create some.
func (r *run) longer() time.Duration {
	for _, c := range r.clusters {
		for _, lost := range c.stripped {
			if r.now.Sub(lost) < noticed {
				return orphanGrace
			}
		}
		if slices.ContainsFunc(c.api.interfaces(), c.isOrphan) {
			return orphanGrace
		}
	}
	return 0
}

// noticed is how long a process can take to notice that a NodeENI was lost: two resyncs and the staleness of reads.
const noticed = 2*resyncPeriod + staleness

// lastStart is when the youngest process started. A process that crashes late loses the waits that it began.
func (r *run) lastStart() (last time.Time) {
	for _, c := range r.clusters {
		for _, p := range c.processes {
			last = later(last, p.startAt)
		}
	}
	return last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ahead is how far the clocks of two replicas can be apart: until then, a time that one stored has not passed for the
// other.
func (r *run) ahead() time.Duration {
	if r.faults.has(clockSkew) {
		return 2 * time.Hour
	}
	return 0
}

// idle reports whether no process has a change to receive or a key to reconcile.
func (r *run) idle() bool {
	for _, c := range r.clusters {
		for _, p := range c.processes {
			if !p.observer.Synced() {
				return false
			}
			for k := range kinds {
				if p.informers.behind(k) > 0 {
					return false
				}
			}
			for q := range queues {
				if len(p.queues[q].ready(r.now.Add(time.Second))) > 0 {
					return false
				}
			}
		}
	}
	return true
}

// rest checks that the product makes no calls if it has nothing to do, and few if it waits for others.
func (r *run) rest() {
	r.fixed.quiet = true
	for quiet := r.now.Add(lastWrites + r.ahead()); r.now.Before(quiet); {
		r.step()
	}
	r.watch.mutations, r.watch.writes = 0, 0
	clear(r.watch.reconciles)
	clear(r.watch.probes)
	mayAttach, mayRepeat := r.blockedByRuins(), r.refused()
	r.watch.quietUntil = r.now.Add(restFor)
	for r.now.Before(r.watch.quietUntil) {
		r.step()
	}
	r.judged("I8")
	r.judged("I13")
	if r.watch.mutations > mayAttach*callsPerInterface+mayRepeat {
		r.violate("I8", "%d mutating calls although nothing was to be done", r.watch.mutations)
	}
	told := mayAttach * writesPerAttach
	for key, n := range r.watch.probes {
		told += n * writesPerProbe
		if n > mostProbes {
			r.violate("I8", "NodeENI %s was tried %d times in %s although there is no room", key, n, restFor)
		}
	}
	told += r.readNews()
	if r.watch.writes > told {
		r.violate("I8", "%d writes to the API server although nothing changed", r.watch.writes)
	}
	for key, n := range r.watch.reconciles {
		if most := r.mostIdleReconciles(key); n > most+mayAttach*writesPerAttach {
			r.violate("I13", "%s was reconciled %d times in %s although nothing changed, and may be %d times", key, n,
				restFor, most)
		}
	}
	if problem := r.settled(); problem != nil {
		r.violate(problem.Invariant, "%s", problem.Message)
	}
	r.checkQuiet()
}

// refused counts the objects whose calls EC2 refuses: each call is repeated once in a quiet period.
func (r *run) refused() (count int) {
	for _, c := range r.clusters {
		for _, n := range c.api.interfaces() {
			if plan.Reason(reasonOf(n)) == plan.RefusedByEC2 {
				count++
			}
		}
	}
	return count
}

// blockedByRuins counts the objects that are blocked on instances with slots that EC2 reports as taken although nothing
// holds them. One of them gets another slot once the product no longer counts the ruined one.
func (r *run) blockedByRuins() (blocked int) {
	for _, c := range r.clusters {
		for _, n := range c.api.interfaces() {
			if len(r.watch.ruined[n.Spec.InstanceID]) > 0 && isBlocked(n) {
				blocked++
			}
		}
	}
	return blocked
}

// mostProbes is how many calls that test for free capacity the members of a NodeENI on one instance may make in the
// quiet period: each one in ten minutes, with as many members as there are subnets in a NodeENI.
const mostProbes = 12

// writesPerProbe is how many writes may follow a probe, for its node and for a NodeENI that waits for the same slot:
// EC2's answer, and the next wait.
const writesPerProbe = 4

// writesPerAttach is how many writes follow a new interface: its object, its status for each phase and for the link
// that the agent reports, and the status of the NodeENI after each of these. Each write leads to one reconciliation at
// most.
const writesPerAttach = 10

// writesPerRead is how many writes may report an object whose instance and subnets are full: three times one reason and
// the other, each in the object, its Node and its NodeENI.
const writesPerRead = 18

// readNews is how many writes may report objects with two obstacles. Only a read shows that another interface holds a
// slot; between two reads an object says that it waits for its turn, or that its subnet is full.
func (r *run) readNews() (writes int) {
	for _, c := range r.clusters {
		for _, n := range c.api.interfaces() {
			switch {
			case c.replaces(n):
				writes += writesPerProbe
			case lacksRoom(n):
				writes += writesPerRead
			}
		}
	}
	return writes
}

// lacksRoom reports whether an object says that its instance or its subnets are full.
func lacksRoom(n *v1alpha1.NetworkInterface) bool {
	reason, _ := object.ReasonOf(n)
	return slices.Contains([]plan.Reason{plan.InstanceFull, plan.SlotTaken, plan.SubnetFull, plan.NoFreePrefix},
		plan.Reason(reason))
}

// settled returns the first difference from the desired state, or nil.
func (r *run) settled() *Violation {
	for _, c := range r.clusters {
		if v := c.settled(); v != nil {
			return v
		}
		if v := c.settledHolds(); v != nil {
			return v
		}
		if v := c.settledReservations(); v != nil {
			return v
		}
	}
	return nil
}

func (c *cluster) settled() *Violation {
	claims := c.claims()
	if v := c.settledInterfaces(); v != nil {
		return v
	}
	for _, n := range c.api.interfaces() {
		c.run.judged("I5")
		if _, wanted := claims[spotOfObject(n)]; !wanted && !c.mayStay(n) {
			return &Violation{"I5", fmt.Sprintf("no NodeENI declares %s", objectDigest(n))}
		}
		if !n.DeletionTimestamp.IsZero() && !c.mayStay(n) {
			return &Violation{"I6", fmt.Sprintf("%s is still being deleted", objectDigest(n))}
		}
	}
	if v := c.checkFollowed(); v != nil {
		return v
	}
	if v := c.settledFixed(); v != nil {
		return v
	}
	for _, object := range c.api.all(nodeENIs) {
		if !object.GetDeletionTimestamp().IsZero() && !c.saysWhatItWaitsFor(object.(*v1alpha1.NodeENI)) {
			ready := meta.FindStatusCondition(object.(*v1alpha1.NodeENI).Status.Conditions, v1alpha1.ConditionReady)
			return &Violation{"I6", fmt.Sprintf("NodeENI %s is still being deleted: %+v", object.GetName(), ready)}
		}
	}
	for _, s := range slices.SortedFunc(maps.Keys(claims), desiredSlot.compare) {
		have := c.serving(s)
		if v := c.settledSpot(s, claims[s], have); v != nil {
			return v
		}
		if v := c.checkStatusTrue(s, claims[s], have); v != nil {
			return v
		}
	}
	return nil
}

// settledInterfaces checks that no interface is left without an object: the product deletes those that are unattached,
// and reports those that are attached and lost their object.
func (c *cluster) settledInterfaces() *Violation {
	for _, i := range c.accountable() {
		c.run.judged("I5")
		switch {
		case c.api.interfaceOf(i.ID) != nil:
		case i.Attachment == nil && !c.awaitsPerson(i) && !c.awaitsNode(i):
			return &Violation{"I5", fmt.Sprintf("%s is a leak: %s", i.ID, c.run.describe(i))}
		case i.Attachment == nil:
		case isJoined(i):
			// It has an object once a Node names its instance, unless a NodeENI has its name, and other interfaces.
			if len(c.nodesOf(i.Attachment.InstanceID)) > 0 && !c.run.truth().ended(i.Attachment.InstanceID) &&
				i.AttachedTo(i.Tags[identity.TagInstanceID]) && c.nodeENINamed(i.Tags[identity.TagNodeENI]) == nil {
				return &Violation{"I23", fmt.Sprintf("%s has no object: %s", i.ID, c.run.describe(i))}
			}
		default:
			return &Violation{"I23", fmt.Sprintf("%s has no object: %s", i.ID, c.run.describe(i))}
		}
	}
	return nil
}

// serving returns the interfaces that the objects of a NodeENI on an instance record.
func (c *cluster) serving(s desiredSlot) (have []eni.Interface) {
	for _, n := range c.objectsAt(s) {
		i, exists := c.run.truth().interfaces[n.Status.ENIID]
		if !exists || !n.DeletionTimestamp.IsZero() {
			continue
		}
		if isLaunched(i) {
			c.run.covers.Actors[adoptsLaunched]++
		}
		have = append(have, i)
	}
	return have
}

// saysWhatItWaitsFor reports whether the objects for which a NodeENI waits that is being deleted may stay.
func (c *cluster) saysWhatItWaitsFor(nodeENI *v1alpha1.NodeENI) bool {
	waits := false
	for _, n := range c.api.interfaces() {
		if n.Spec.NodeENI.Name != nodeENI.Name {
			continue
		}
		if !c.mayStay(n) {
			return false
		}
		waits = true
	}
	return waits
}

func isPrimary(i eni.Interface) bool { return i.Attachment != nil && i.Attachment.Slot == eni.Primary }

func isPrimaryOfAny(all []eni.Interface, address netip.Addr) bool {
	return slices.ContainsFunc(all, func(i eni.Interface) bool { return i.PrimaryIPv4 == address })
}

func saysRefused(object *v1alpha1.FloatingAddress) bool {
	if object == nil {
		return false
	}
	ready := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == floating.ReasonAddressRefused
}

func (c *cluster) settledSpot(s desiredSlot, claim expectedClaim, have []eni.Interface) *Violation {
	listed := slices.Clone(claim.subnets)
	c.run.judged("I6")
	for _, i := range have {
		if i.Attachment == nil || i.Attachment.Status != eni.AttachmentAttached {
			if c.excused(s, claim, i.ID) {
				continue
			}
			return &Violation{"I6", fmt.Sprintf("%s is not attached: %s", i.ID, c.run.describe(i))}
		}
		if v := c.checkAttributes(claim, i); v != nil {
			return v
		}
		if at := slices.Index(listed, i.SubnetID); at >= 0 {
			listed = slices.Delete(listed, at, at+1)
		} else if c.mustBeReplaced(s, claim, i) {
			return &Violation{"I6", fmt.Sprintf("%s was not replaced: %s", i.ID, c.run.describe(i))}
		}
	}
	missing := len(claim.subnets) - len(have)
	switch {
	case missing < 0:
		return &Violation{"I5", fmt.Sprintf("%d interfaces of NodeENI %s on %s where %d are wanted", len(have),
			claim.nodeENI.Name, s.instanceID, len(claim.subnets))}
	case missing > c.blocked(s, claim)+c.awaitingTurn(s):
		return &Violation{"I6", fmt.Sprintf("%d interfaces of NodeENI %s on %s (node %s) are missing", missing,
			claim.nodeENI.Name, s.instanceID, claim.node.Name)}
	}
	return c.checkStatusConsistent(s, claim)
}

// mustBeReplaced reports whether a rollout must have replaced an interface in a subnet that is not listed any more.
func (c *cluster) mustBeReplaced(s desiredSlot, claim expectedClaim, i eni.Interface) bool {
	return claim.nodeENI.Spec.UpdatePolicy == v1alpha1.UpdateReplace && !c.anyLacks(s, i) && !c.full(claim, i) &&
		!c.anyTaken(s, claim) && !c.isLaunchInterface(i) && !c.isTrue(plan.NoSuchNetworkCard, s, claim) &&
		!c.isTrue(plan.NoSuchDeviceIndex, s, claim)
}

// checkAttributes checks that an attached interface is as its NodeENI declares.
func (c *cluster) checkAttributes(claim expectedClaim, i eni.Interface) *Violation {
	kept := c.full(claim, i) || c.lacksReports(claim, i)
	if wrong := claim.mismatch(i, c.requested(i)); wrong != "" && (wrong != "addresses" || !kept) {
		return &Violation{"I6", fmt.Sprintf("%s has not the wanted %s: %s", i.ID, wrong, c.run.describe(i))}
	}
	return c.checkPrefixes(claim, i)
}
