// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/volatile"
)

// How long the controller defers a write of a NodeENIState while interfaces of its node are in transition, so that one
// write covers all of them: EC2 takes a few seconds to create and attach interfaces, and some more to detach and delete
// them. A change that a user, an agent or another node waits for is written at once.
const (
	attachStatusDelay = 10 * time.Second
	removeStatusDelay = 30 * time.Second
)

// unreadStatusDelay is how long the controller defers a write that only replaces reasons from a read of EC2 by a wait
// without one: the node reads when its turn comes, and the reasons mostly still hold.
const unreadStatusDelay = 5 * time.Minute

// report writes the node's status if it changed, with Events for users, and releases the state when nothing is left to
// report. It returns when to report again, or zero.
func (r *Reconciler) report(ctx context.Context, s reconciled) (requeueAt time.Time, err error) {
	if slices.ContainsFunc(s.results, func(one result) bool { return one.keepsState }) {
		return time.Time{}, nil // the node is reconciled again when it has the worker
	}
	if s.empty() {
		r.forgetVolatile(s.snapshot)
		return time.Time{}, r.releaseState(ctx, s)
	}
	if s.state == nil {
		return time.Time{}, nil
	}
	before, after := s.state.Status, s.status()
	before.Links, before.PodNetworks, before.CNI = nil, nil, nil // the agent's part
	if equality.Semantic.DeepEqual(before, after) {
		r.endDeferral(&r.state.StatusWrites, s.name)
		return time.Time{}, nil
	}
	if delay := s.delay(before, after); delay > 0 {
		if due, deferred := r.deferWrite(s.name, delay, &r.state.StatusWrites); deferred {
			return due, nil
		}
	}
	r.endDeferral(&r.state.StatusWrites, s.name)
	state := s.state.DeepCopy()
	state.Status = after
	write := status.Write
	if servesPods(before) || servesPods(after) {
		write = r.writePermitted
	}
	if err := write(ctx, r.Client, v1alpha1.FieldOwnerController, state); err != nil {
		return time.Time{}, err
	}
	r.recordEvents(s.snapshot, before.Interfaces, after.Interfaces)
	r.announceOmitted(s.snapshot, before, after)
	return time.Time{}, nil
}

// writePermitted writes a status over the version that was read, while this process certainly is the leader. A former
// leader must not list prefixes again that were unassigned since: the version refuses what it read before its
// successor's writes, and the permission what it read after them.
func (r *Reconciler) writePermitted(ctx context.Context, c client.Client, owner string, object client.Object) error {
	if r.Permit != nil {
		if err := r.Permit(); err != nil {
			return fmt.Errorf("write the status of NodeENIState %s: not sent: %w", object.GetName(), err)
		}
	}
	return status.WriteLocked(ctx, c, owner, object)
}

// withdraw removes the prefixes that a plan unassigns from the networks in the state of the node, before EC2 can give
// them to another interface. Pods use the prefixes that the state lists. The agent's mark on a drained prefix can be
// lost: an agent of another release removes the report with the mark, and a boot removes the file with the mark. The
// write names the version with the report on which the plan depends.
func (r *Reconciler) withdraw(ctx context.Context, s *snapshot, p plan.Plan) (*snapshot, error) {
	if s.state == nil || len(s.state.Status.Conditions) == 0 {
		return s, nil // it was just created and lists nothing: the interfaces are those of the state before it
	}
	after := s.state.DeepCopy()
	if !withoutUnassigned(&after.Status, p) {
		return s, nil
	}
	ours := after.DeepCopy()
	ours.Status.Links, ours.Status.PodNetworks, ours.Status.CNI = nil, nil, nil // the agent's part
	if err := r.writePermitted(ctx, r.Client, v1alpha1.FieldOwnerController, ours); err != nil {
		return s, err
	}
	after.ResourceVersion = ours.ResourceVersion
	return s.withLedger(after, s.deferredSpec), nil
}

// withoutUnassigned removes the prefixes that a plan unassigns from the networks of a status, and reports whether the
// status had one.
func withoutUnassigned(st *v1alpha1.NodeENIStateStatus, p plan.Plan) (listed bool) {
	for n := range st.Interfaces {
		i := &st.Interfaces[n]
		unassigned := unassignedPrefixes(p, i.ENIID)
		isUnassigned := func(prefix string) bool { return slices.Contains(unassigned, prefix) }
		if i.Pods == nil || !slices.ContainsFunc(slices.Concat(i.IPv4Prefixes, i.IPv6Prefixes), isUnassigned) {
			continue
		}
		listed = true
		i.IPv4Prefixes = slices.DeleteFunc(i.IPv4Prefixes, isUnassigned)
		i.IPv6Prefixes = slices.DeleteFunc(i.IPv6Prefixes, isUnassigned)
	}
	return listed
}

// unassignedPrefixes returns the prefixes of an interface that a plan unassigns.
func unassignedPrefixes(p plan.Plan, id string) (all []string) {
	for _, action := range p.Actions {
		change, _ := action.(plan.Change)
		if to, is := change.To.(plan.UnassignAddresses); is && change.InterfaceID == id {
			all = slices.Concat(all, controller.Texts(to.Surplus.IPv4Prefixes), controller.Texts(to.Surplus.IPv6Prefixes))
		}
	}
	return all
}

// servesPods reports whether a status lists an interface whose addresses pods use.
func servesPods(st v1alpha1.NodeENIStateStatus) bool {
	return slices.ContainsFunc(st.Interfaces, func(i v1alpha1.InterfaceState) bool { return i.Pods != nil })
}

// releaseState releases the state of a node without interfaces.
func (r *Reconciler) releaseState(ctx context.Context, s reconciled) error {
	if s.state == nil {
		return nil
	}
	released, err := r.release(ctx, s.snapshot)
	if released {
		r.recordEvents(s.snapshot, s.state.Status.Interfaces, nil)
	}
	return err
}

// removeGenerations removes from the ledger the generations that the plans no longer name. A ledger that names too many
// is safe, so this write is deferred while more removals follow. For an empty node it does nothing: report deletes the
// whole state. It returns when a deferred write is due, or zero.
func (r *Reconciler) removeGenerations(ctx context.Context, s reconciled) (*snapshot, time.Time, error) {
	if s.deferredSpec == nil || s.state == nil || s.empty() {
		return s.snapshot, time.Time{}, nil
	}
	if s.inTransition(func(plan.Member) bool { return true }) {
		if due, deferred := r.deferWrite(s.name, s.transitionDelay(), &r.state.LedgerWrites); deferred {
			return s.snapshot, due, nil
		}
	}
	r.endDeferral(&r.state.LedgerWrites, s.name)
	next, err := r.patchLedger(ctx, s.snapshot, *s.deferredSpec)
	next, err = r.proceedWithoutState(next, plan.Plan{}, err)
	return next, time.Time{}, err
}

// deferWrite reports whether a write that can wait is deferred now, and when it is due.
func (r *Reconciler) deferWrite(
	node string, delay time.Duration, writes *volatile.Deferrals,
) (due time.Time, deferred bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	due = writes.Due(node, delay, now)
	return due, now.Before(due)
}

// transitionDelay is how long a write waits for the other interfaces in transition.
func (s reconciled) transitionDelay() time.Duration {
	if s.inTransition(func(m plan.Member) bool { return m.Why.Reason != plan.Removing }) {
		return attachStatusDelay
	}
	return removeStatusDelay
}

// delay returns how long the write of the node's status can wait, because no object waits for the change and more
// changes follow; zero if it cannot.
func (s reconciled) delay(before, after v1alpha1.NodeENIStateStatus) time.Duration {
	// Members that wait for a worker keep their last status.
	moving := len(s.waiting) > 0 || slices.ContainsFunc(after.Interfaces, inTransition)
	old := byKey(before.Interfaces)
	unread, changed := false, false
	for _, now := range after.Interfaces {
		was := old[keyOf(now)]
		switch {
		case equality.Semantic.DeepEqual(was, now):
		case s.isUnread(was, now):
			unread = true
		case s.agentAwaitsStatus(was, now) || s.rolloutAwaitsStatus(was, now) ||
			!onlyTermination(was, now) && !isTransient(was, now, moving):
			return 0
		default:
			changed = true
		}
	}
	switch {
	case changed || moving:
		return s.transitionDelay()
	case unread && equality.Semantic.DeepEqual(before.NodeENIs, after.NodeENIs): // a user waits for a newer generation
		return unreadStatusDelay
	default:
		return 0
	}
}

// isUnread reports whether a reason replaces one that came from a read of the instance, without another read: the
// interface waits for its turn, or the plan cannot see the interfaces of others.
func (s reconciled) isUnread(was, now v1alpha1.InterfaceState) bool {
	read := []plan.Reason{plan.SlotTaken, plan.InstanceFull, plan.NoSuchNetworkCard, plan.NoSuchDeviceIndex}
	guess := append([]plan.Reason{plan.Replacing, plan.SubnetFull, plan.NoFreePrefix}, read...)
	return slices.Contains(read, plan.Reason(was.Reason)) && slices.Contains(guess, plan.Reason(now.Reason)) &&
		was.Phase == now.Phase && was.ENIID == now.ENIID &&
		!slices.ContainsFunc(s.results, func(one result) bool { return one.instanceID == now.InstanceID && one.read })
}

// isTransient reports whether the state of an interface changes soon or, once the interface is attached, can be written
// together with the others. An interface that is being removed before the first write is not transient: it would never
// appear in a status.
func isTransient(was, now v1alpha1.InterfaceState, moving bool) bool {
	if now.Reason == string(plan.Removing) && was.ENIID == "" {
		return false
	}
	return inTransition(now) || moving && now.Phase == v1alpha1.PhaseAttached && plan.Reason(now.Reason).Transient()
}

// inTransition reports whether the state of an interface changes soon without a user.
func inTransition(i v1alpha1.InterfaceState) bool {
	reason := plan.Reason(i.Reason)
	rests := i.Phase == v1alpha1.PhaseAttached && reason != plan.Removing
	return !rests && i.Phase != v1alpha1.PhaseBlocked && reason.Transient() && reason != plan.WaitingForDeviceRelease
}

// onlyTermination reports whether only DeleteOnTermination is new: the call that sets it is deferred after the
// attachment.
func onlyTermination(was, now v1alpha1.InterfaceState) bool {
	was.DeleteOnTermination = now.DeleteOnTermination
	return equality.Semantic.DeepEqual(was, now)
}

// lost reports whether an interface was attached and is not any more.
func lost(was, now v1alpha1.InterfaceState) bool {
	return was.Phase == v1alpha1.PhaseAttached && now.Phase != v1alpha1.PhaseAttached
}

// agentAwaitsStatus reports whether the agent on the node must learn of a removal: before the link vanishes, and before
// the agent can drain the pod network.
func (s *snapshot) agentAwaitsStatus(was, now v1alpha1.InterfaceState) bool {
	return agentAwaits(was.Pods, now.Pods) || lost(was, now) &&
		slices.ContainsFunc(s.state.Status.Links, func(link v1alpha1.LinkState) bool { return link.ENIID == was.ENIID })
}

// rolloutAwaitsStatus reports whether other nodes must learn that this node lost a desired interface: it counts for
// maxUnavailable, also after a restart of the controller.
func (s reconciled) rolloutAwaitsStatus(was, now v1alpha1.InterfaceState) bool {
	return lost(was, now) && slices.ContainsFunc(s.results, func(one result) bool {
		return slices.ContainsFunc(one.plan.Members, func(m plan.Member) bool { return m.Key == keyOf(now) && m.Desired })
	})
}

// inTransition reports whether an interface of the node that counts is in transition.
func (s reconciled) inTransition(counts func(plan.Member) bool) bool {
	return slices.ContainsFunc(s.results, func(one result) bool {
		return slices.ContainsFunc(one.plan.Members, func(m plan.Member) bool {
			return inTransition(s.interfaceState(m)) && counts(m)
		})
	})
}

// announceOmitted emits one Event when a node has more declared interfaces than its state lists.
func (r *Reconciler) announceOmitted(s *snapshot, before, after v1alpha1.NodeENIStateStatus) {
	if s.node == nil || before.InterfacesOmitted > 0 || after.InterfacesOmitted == 0 {
		return
	}
	r.Events.Eventf(s.node, nil, corev1.EventTypeWarning, "InterfacesOmitted", "Plan",
		"%d interfaces are declared for the node, and its NodeENIState lists %d; let fewer NodeENIs select it, or name "+
			"fewer subnets of its zone",
		len(after.Interfaces)+int(after.InterfacesOmitted), len(after.Interfaces))
}

// recordRejectedWrite reports once that the API server refuses the node's ledger or status: the refused object cannot
// report it.
func (r *Reconciler) recordRejectedWrite(s *snapshot, err error) {
	if !r.RefusedWrites.Note(controller.ObjectRef{Kind: "NodeENIState", Name: s.name}, err) || s.node == nil {
		return
	}
	why := controller.Note(err)
	r.Events.Eventf(s.node, nil, corev1.EventTypeWarning, v1alpha1.ReasonStateRefused, "Report", "%s", why)
	for n := range s.nodeENIs {
		if selects(&s.nodeENIs[n], s.node.Labels) {
			r.Events.Eventf(&s.nodeENIs[n], s.node, corev1.EventTypeWarning, v1alpha1.ReasonStateRefused, "Report", "%s", why)
		}
	}
}

// maxNote is the most bytes of an Event's note (Kubernetes API, events.k8s.io/v1).
const maxNote = 1024

// outcome is the part of an Event that says what happened to interfaces.
type outcome struct {
	kind, reason, action string
}

// nodeEvent is an outcome for an interface of a NodeENI.
type nodeEvent struct {
	outcome
	nodeENI, note string
	// of is the interface: its ID or, without one, its ordinal.
	of string
}

// recordEvents records the outcomes for the interfaces whose state changed: one Event on the Node for each interface,
// and one on each NodeENI concerned, which the recorder joins into a series over all nodes.
func (r *Reconciler) recordEvents(s *snapshot, before, after []v1alpha1.InterfaceState) {
	old := byKey(before)
	var all []nodeEvent
	for _, now := range after {
		was := old[keyOf(now)]
		delete(old, keyOf(now))
		if o, note := eventFor(was, now); note != "" {
			all = append(all, nodeEvent{o, now.NodeENI, note,
				cmp.Or(now.ENIID, fmt.Sprintf("%s[%d]", now.NodeENI, now.Ordinal))})
		}
	}
	for _, gone := range before {
		_, left := old[keyOf(gone)]
		// An interface that left this ledger because another node has the instance is not removed.
		if _, there := r.Observer.Interface(gone.ENIID); left && gone.ENIID != "" && !there {
			removed := outcome{corev1.EventTypeNormal, "Removed", "Remove"}
			all = append(all, nodeEvent{removed, gone.NodeENI, gone.ENIID + " is detached and deleted", gone.ENIID})
		}
	}
	r.emit(s, all)
}

// eventFor returns what is new about an interface. The note is empty if that is not worth an Event.
func eventFor(was, now v1alpha1.InterfaceState) (o outcome, note string) {
	switch {
	case now.Phase == v1alpha1.PhaseAttached && was.Phase != v1alpha1.PhaseAttached:
		note := fmt.Sprintf("%s in %s is attached at card %d device %d", now.ENIID, now.SubnetID, now.NetworkCardIndex,
			now.DeviceIndex)
		if now.DeviceIndex != now.RequestedDeviceIndex {
			note += fmt.Sprintf(" (the requested device %d is taken)", now.RequestedDeviceIndex)
		}
		return outcome{corev1.EventTypeNormal, "Attached", "Attach"}, note
	case now.Phase == v1alpha1.PhaseBlocked && (was.Phase != v1alpha1.PhaseBlocked || was.Reason != now.Reason):
		return outcome{corev1.EventTypeWarning, now.Reason, "Plan"}, now.Message
	case len(now.Drift) > 0 && len(was.Drift) == 0:
		return outcome{corev1.EventTypeWarning, v1alpha1.ReasonDrifted, "Plan"}, cmp.Or(now.Message, fmt.Sprintf(
			"%s differs in %s: want %s, have %s", now.ENIID, now.Drift[0].Field, now.Drift[0].Want, now.Drift[0].Have))
	case needsPerson(now.Reason) && was.Reason != now.Reason && len(was.Drift) == 0:
		return outcome{corev1.EventTypeWarning, now.Reason, "Plan"}, now.Message
	default:
		return outcome{}, ""
	}
}

// needsPerson reports whether a reason does not go away by itself and does more than postpone work.
func needsPerson(reason string) bool {
	return !plan.Reason(reason).Transient() && reason != string(plan.Retained)
}

// announceForce emits an Event for a forced detach: it removes the interface from a running instance.
func (r *Reconciler) announceForce(s *snapshot, outcomes []executor.Outcome) {
	var all []nodeEvent
	for _, o := range outcomes {
		if d, ok := o.Action.(plan.Detach); ok && d.Force {
			all = append(all, nodeEvent{outcome{corev1.EventTypeWarning, "ForceDetach", "Detach"}, d.Member.NodeENI, d.String(),
				d.InterfaceID})
		}
	}
	r.emit(s, all)
}

// emit records the changes of a node's interfaces, those of one outcome together.
func (r *Reconciler) emit(s *snapshot, all []nodeEvent) {
	for len(all) > 0 {
		alike, others := splitBy(all, func(n nodeEvent) bool { return n.outcome == all[0].outcome })
		r.emitOnNode(s, alike)
		for len(alike) > 0 {
			its, rest := splitBy(alike, func(n nodeEvent) bool { return n.nodeENI == alike[0].nodeENI })
			r.emitOnNodeENI(s, its)
			alike = rest
		}
		all = others
	}
}

// splitBy separates the events that match from the others.
func splitBy(all []nodeEvent, of func(nodeEvent) bool) (these, others []nodeEvent) {
	for _, n := range all {
		if of(n) {
			these = append(these, n)
		} else {
			others = append(others, n)
		}
	}
	return these, others
}

// emitOnNode records one Event on the Node for changes of one outcome.
func (r *Reconciler) emitOnNode(s *snapshot, alike []nodeEvent) {
	if s.node == nil {
		return
	}
	var related runtime.Object
	if only := alike[0].nodeENI; !slices.ContainsFunc(alike, func(n nodeEvent) bool { return n.nodeENI != only }) {
		related = s.identityOf(only)
	}
	notes, interfaces := make([]string, len(alike)), make([]string, len(alike))
	for i, n := range alike {
		notes[i], interfaces[i] = fmt.Sprintf("NodeENI %s: %s", n.nodeENI, n.note), n.of
	}
	o := alike[0].outcome
	r.Events.Eventf(interfacesOf(s.node, interfaces), related, o.kind, o.reason, o.action, "%s", joined(notes))
}

// interfacesOf returns a reference to interfaces of a Node, so that the recorder joins only Events of the same
// interfaces into a series. It omits the Node's version, which would separate those too.
func interfacesOf(node *corev1.Node, interfaces []string) *corev1.ObjectReference {
	slices.Sort(interfaces)
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
		FieldPath: "interfaces{" + strings.Join(interfaces, ",") + "}",
	}
}

// repetitions ends the note of an Event on a NodeENI: the note names one node and its interfaces, but the count covers
// all.
const repetitions = " (repetitions may be of other interfaces)"

// emitOnNodeENI records one Event on a NodeENI for changes of one outcome. Only the note of the Event differs from node
// to node: the recorder counts equal Events, and writes the first two.
func (r *Reconciler) emitOnNodeENI(s *snapshot, its []nodeEvent) {
	nodeENI := s.identityOf(its[0].nodeENI)
	if nodeENI == nil {
		return
	}
	notes := make([]string, len(its))
	for i, n := range its {
		notes[i] = n.note
	}
	o := its[0].outcome
	r.Events.Eventf(nodeENI, nil, o.kind, o.reason, o.action, "node %s: %s%s", s.name,
		clip(joined(notes), maxNote/2), repetitions)
}

// identityOf returns the NodeENI of a name without its version, because with the version the recorder would treat
// Events as different.
func (s *snapshot) identityOf(name string) runtime.Object {
	n := slices.IndexFunc(s.nodeENIs, func(n v1alpha1.NodeENI) bool { return n.Name == name })
	if n < 0 {
		return nil
	}
	return &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: name, UID: s.nodeENIs[n].UID}}
}

// joined returns the notes as one text, without duplicates.
func joined(notes []string) string {
	slices.Sort(notes)
	return clip(strings.Join(slices.Compact(notes), "; "), maxNote)
}
