// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
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
		if n%8 == 0 && r.settled() == nil && r.idle() {
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
		r.violate(problem.Invariant, "%s after everything has been well: %s", seconds(within), problem.Message)
	}
}

// longer is how much longer convergence takes where interfaces are in use whose NodeENI was lost or stripped of its
// finalizer: if there are many, they stay in use for a day. A process that does not know of the loss may still create
// some.
func (r *run) longer() time.Duration {
	for _, c := range r.clusters {
		for _, lost := range c.stripped {
			if r.now.Sub(lost) < noticed {
				return lossGrace
			}
		}
		for _, i := range r.truth().owned[c.name] {
			if i.Attachment != nil && c.nodeENIOf(spotOf(i).uid) == nil {
				return lossGrace
			}
		}
	}
	return 0
}

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
	mayAttach := r.blockedByRuins()
	until := r.now.Add(restFor)
	for r.now.Before(until) {
		r.step()
	}
	r.judged("I8")
	r.judged("I13")
	if r.watch.mutations > mayAttach*callsPerInterface {
		r.violate("I8", "%d mutating calls although nothing was to be done", r.watch.mutations)
	}
	told := mayAttach * writesPerAttach
	for key, n := range r.watch.probes {
		told += n * writesPerProbe
		if n > mostProbes {
			r.violate("I8", "NodeENI %s was tried %d times in %s although there is no room", key, n, restFor)
		}
	}
	told += r.turnNews()
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

// blockedByRuins counts the members that are blocked on instances with slots that EC2 reports as taken although nothing
// holds them. One of them gets another slot once the product no longer counts the ruined one.
func (r *run) blockedByRuins() (blocked int) {
	for _, c := range r.clusters {
		for _, object := range c.api.all(states) {
			state := object.(*v1alpha1.NodeENIState)
			if len(r.watch.ruined[state.Spec.InstanceID]) == 0 {
				continue
			}
			for _, i := range state.Status.Interfaces {
				if i.Phase == v1alpha1.PhaseBlocked {
					blocked++
				}
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

// writesPerAttach is how many writes follow a new interface: its entry in the ledger, the status of the node for each
// phase and for the link that the agent reports, and the status of the NodeENI after each of these. Each write leads to
// one reconciliation at most.
const writesPerAttach = 10

// turnNews is how many writes may report nodes that wait to replace an interface. Only a read shows that another
// interface holds the slot of the replacement; between two reads the node's status says that it waits for its turn.
func (r *run) turnNews() (writes int) {
	for _, c := range r.clusters {
		for _, object := range c.api.all(states) {
			if r.waitsForTurn(fmt.Sprintf("%s %s %s", c.name, nodeQueue, object.GetName())) {
				writes += writesPerProbe
			}
		}
	}
	return writes
}

// settled returns the first difference from the desired state, or nil.
func (r *run) settled() *Violation {
	for _, c := range r.clusters {
		if v := c.settled(); v != nil {
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
	have := map[desiredSlot][]eni.Interface{}
	for _, i := range c.accountable() {
		c.run.judged("I5")
		s := spotOf(i)
		have[s] = append(have[s], i)
		if _, wanted := claims[s]; !wanted && !c.mayStay(i) {
			return &Violation{"I5", fmt.Sprintf("%s is a leak: %s", i.ID, describe(i))}
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
		adopted := c.adoptedBy(s, claims[s])
		c.run.covers.Actors[adoptsLaunched] += len(adopted)
		have[s] = append(have[s], adopted...)
		if v := c.settledSpot(s, claims[s], have[s]); v != nil {
			return v
		}
		if v := c.checkStatusTrue(s, claims[s], have[s]); v != nil {
			return v
		}
	}
	return nil
}

// saysWhatItWaitsFor reports whether a NodeENI that is being deleted names the interface that a person must check:
// another program wrote its UID on interfaces that were never ours, together with tags that are not the cluster's.
func (c *cluster) saysWhatItWaitsFor(nodeENI *v1alpha1.NodeENI) bool {
	var (
		strays      []string
		alone, told bool
	)
	for _, i := range c.run.truth().interfaces {
		switch {
		case i.Tags[identity.TagNodeENIUID] != string(nodeENI.UID) || isPrimary(i) || c.isOfAnother(i):
		case c.heldForPods(i):
			told = true
		case c.leftAlone(i):
			alone, told = true, told || c.toldElsewhere(i)
		case c.nobodys(i):
			strays = append(strays, i.ID)
		default:
			return false
		}
	}
	ready := meta.FindStatusCondition(nodeENI.Status.Conditions, v1alpha1.ConditionReady)
	if told || ready == nil {
		return told
	}
	// Nothing distinguishes the interfaces that the NodeENIState names.
	named := alone && ready.Reason == v1alpha1.ReasonUnverified && strings.Contains(ready.Message, "NodeENIState")
	return named || slices.ContainsFunc(strays, func(id string) bool { return strings.Contains(ready.Message, id) })
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

// isOfAnother reports whether an interface is one of another cluster. The clusters of a run number their UIDs alike, so
// one UID can name a NodeENI of each.
func (c *cluster) isOfAnother(i eni.Interface) bool {
	return c.run.watch.strangers[i.ID] == nil && slices.ContainsFunc(c.run.clusters, func(other *cluster) bool {
		_, verdict := identity.Read(other.name, i.Tags)
		return other != c && verdict == identity.Owned
	})
}

// mayStay reports whether an undesired interface may still exist: its Node is absent, so the reason is unknown; it is
// in use and its NodeENI has no subnet any more; another Node of its instance is selected; or it is a pre-join
// interface. In the last two cases the product retains the interface without reading from EC2 whether the instance has
// ended: the cloud provider removes the Nodes of an ended instance.
func (c *cluster) mayStay(i eni.Interface) bool {
	s := spotOf(i)
	nodeENI := c.nodeENIOf(s.uid)
	its := c.nodesOf(s.instanceID)
	if isJoined(i) {
		return len(its) > 0 || !c.run.truth().ended(s.instanceID)
	}
	if i.AttachedTo(s.instanceID) && i.Attachment.Status != eni.AttachmentDetaching && !c.removable(i) {
		return true
	}
	if c.heldForPods(i) {
		return true
	}
	if nodeENI == nil || !nodeENI.DeletionTimestamp.IsZero() {
		return nodeENI == nil && c.isOneOfManyOrphans(i)
	}
	if len(its) > 1 && !selects(nodeENI, its[0]) {
		return anySelected(nodeENI, its)
	}
	return !c.run.truth().ended(s.instanceID) && len(its) == 0
}

// isOneOfManyOrphans reports whether an interface was left alone when its NodeENI ended, and many others of the cluster
// have no NodeENI either. A write of an earlier leader that arrives later can be the evidence that it is ours. The
// product cannot tell that from a mass loss, and keeps it for a day.
func (c *cluster) isOneOfManyOrphans(i eni.Interface) bool {
	since, was := c.run.watch.orphaned[i.ID]
	return was && !c.run.watch.lossSince[c.name].IsZero() && c.run.now.Sub(since) < lossGrace
}

func (c *cluster) settledSpot(s desiredSlot, claim expectedClaim, have []eni.Interface) *Violation {
	listed := slices.Clone(claim.subnets)
	c.run.judged("I6")
	for _, i := range have {
		if i.Attachment == nil || i.Attachment.Status != eni.AttachmentAttached {
			if c.excused(s, claim, i.ID) {
				continue
			}
			return &Violation{"I6", fmt.Sprintf("%s is not attached: %s", i.ID, describe(i))}
		}
		if v := c.checkAttributes(claim, i); v != nil {
			return v
		}
		if at := slices.Index(listed, i.SubnetID); at >= 0 {
			listed = slices.Delete(listed, at, at+1)
		} else if claim.nodeENI.Spec.UpdatePolicy == v1alpha1.UpdateReplace && !c.anyLacks(s.uid, claim.node.Name) &&
			!c.anyTaken(s, claim) &&
			!c.isTrue(plan.NoSuchNetworkCard, s, claim) && !c.isTrue(plan.NoSuchDeviceIndex, s, claim) {
			return &Violation{"I6", fmt.Sprintf("%s was not replaced: %s", i.ID, describe(i))}
		}
	}
	missing := len(claim.subnets) - len(have)
	switch {
	case missing < 0:
		return &Violation{"I5", fmt.Sprintf("%d interfaces of NodeENI %s on %s where %d are wanted", len(have),
			claim.nodeENI.Name, s.instanceID, len(claim.subnets))}
	case missing > c.blocked(s, claim):
		return &Violation{"I6", fmt.Sprintf("%d interfaces of NodeENI %s on %s (node %s) are missing", missing,
			claim.nodeENI.Name, s.instanceID, claim.node.Name)}
	}
	return c.checkStatusConsistent(s, claim, have)
}

// checkAttributes checks that an attached interface is as its NodeENI declares.
func (c *cluster) checkAttributes(claim expectedClaim, i eni.Interface) *Violation {
	kept := c.full(claim, i) || c.lacksReports(claim, i)
	if wrong := claim.mismatch(i, c.requested(i)); wrong != "" && (wrong != "addresses" || !kept) {
		return &Violation{"I6", fmt.Sprintf("%s has not the wanted %s: %s", i.ID, wrong, describe(i))}
	}
	return c.checkPrefixes(claim, i)
}

// sharedOrdinal reports whether two interfaces have the same ordinal. A NodeENIState shows them as one.
func sharedOrdinal(have []eni.Interface) bool {
	seen := map[string]bool{}
	for _, i := range have {
		if seen[i.Tags[identity.TagMember]] {
			return true
		}
		seen[i.Tags[identity.TagMember]] = true
	}
	return false
}

// anyLacks reports whether any node lacks an interface of a NodeENI, or the given node lacks one of any NodeENI: both
// delay replacements. An interface that is never available delays nothing.
func (c *cluster) anyLacks(uid, node string) bool {
	for _, object := range c.api.all(states) {
		for _, i := range object.(*v1alpha1.NodeENIState).Status.Interfaces {
			concerns := string(i.NodeENIUID) == uid || object.GetName() == node
			if concerns && i.Phase != v1alpha1.PhaseAttached && plan.Reason(i.Reason) != plan.NoSubnetInZone {
				return true
			}
		}
	}
	return false
}

// state returns what the API server has of a node.
func (c *cluster) state(node string) *v1alpha1.NodeENIState {
	state, _ := c.api.get(states, node).(*v1alpha1.NodeENIState)
	return state
}

// blocked counts the members of a claim that are reported as blocked for a reason that is true.
func (c *cluster) blocked(s desiredSlot, claim expectedClaim) int {
	n := 0
	if state := c.state(claim.node.Name); state != nil {
		for _, i := range state.Status.Interfaces {
			if string(i.NodeENIUID) == s.uid && i.Phase == v1alpha1.PhaseBlocked &&
				c.lacksFor(plan.Reason(i.Reason), s, claim, i.ENIID) {
				n++
			}
		}
	}
	return n
}

// lacksFor reports whether a member that lacks an interface is blocked for a reason that is true. The node's state
// names no interface for it, a pre-join interface that it is about to adopt, or one with its tags that another program
// attached elsewhere.
func (c *cluster) lacksFor(reason plan.Reason, s desiredSlot, claim expectedClaim, id string) bool {
	known := c.run.truth().interfaces[id]
	if reason == plan.AttachedElsewhere {
		return c.run.watch.strangers[id] != nil && known.Attachment != nil && !known.AttachedTo(s.instanceID)
	}
	return (id == "" || isJoined(known)) && c.isTrue(reason, s, claim)
}

// excused reports whether an interface is reported as blocked for a reason that is true.
func (c *cluster) excused(s desiredSlot, claim expectedClaim, id string) bool {
	if state := c.state(claim.node.Name); state != nil {
		for _, i := range state.Status.Interfaces {
			if i.ENIID == id && i.Phase == v1alpha1.PhaseBlocked && c.isTrue(plan.Reason(i.Reason), s, claim) {
				return true
			}
		}
	}
	return false
}
