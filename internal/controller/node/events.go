// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/executor"
)

// maxNote is the most bytes of an Event's note (Kubernetes API, events.k8s.io/v1).
const maxNote = 1024

// outcome is what happened to interfaces, in the words of an Event.
type outcome struct {
	kind, reason, action string
}

// nodeEvent is an outcome for an interface of a NodeENI.
type nodeEvent struct {
	outcome
	nodeENI, note string
	// of is the interface: its ID, or its place among those of the NodeENI while it has none.
	of string
}

// recordEvents records the outcomes for the interfaces whose state changed: one Event on the Node for each interface,
// and one on each NodeENI concerned, which the recorder joins to a series over all nodes.
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
		// An interface that leaves this ledger because another node has the instance is not removed.
		if _, there := r.Observer.Interface(gone.ENIID); left && gone.ENIID != "" && !there {
			removed := outcome{corev1.EventTypeNormal, "Removed", "Remove"}
			all = append(all, nodeEvent{removed, gone.NodeENI, gone.ENIID + " is detached and deleted", gone.ENIID})
		}
	}
	r.emit(s, all)
}

// eventFor says what is new about an interface; nothing that is worth an Event has no note.
func eventFor(was, now v1alpha1.InterfaceState) (o outcome, note string) {
	switch {
	case now.Phase == v1alpha1.PhaseAttached && was.Phase != v1alpha1.PhaseAttached:
		note := fmt.Sprintf("%s in %s is attached at card %d device %d", now.ENIID, now.SubnetID, now.NetworkCardIndex,
			now.DeviceIndex)
		if now.DeviceIndex != now.RequestedDeviceIndex {
			note += fmt.Sprintf(" (device %d, which was asked for, is taken)", now.RequestedDeviceIndex)
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

// needsPerson reports whether a reason does not go away by itself, and is more than that nothing is done for now.
func needsPerson(reason string) bool {
	return !plan.Reason(reason).Transient() && reason != string(plan.Retained)
}

// announceForce reports a forced detach before the detach: the force takes the interface from a running instance.
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

// splitBy separates the changes that match from the others.
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

// interfacesOf refers to interfaces of a Node, so that the recorder counts Events of the same ones as alike and no
// others. The Node's version is left out, which would part the previous as well.
func interfacesOf(node *corev1.Node, interfaces []string) *corev1.ObjectReference {
	slices.Sort(interfaces)
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
		FieldPath: "interfaces{" + strings.Join(interfaces, ",") + "}",
	}
}

// repetitions ends the note of an Event on a NodeENI: the note names one node and its interfaces, the count is of all.
const repetitions = " (repetitions may be of other interfaces)"

// emitOnNodeENI records one Event on a NodeENI for changes of one outcome. Apart from its note, the Event has nothing
// that differs from node to node: the recorder counts equal Events, and writes the first two.
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

// identityOf returns the NodeENI of a name without its version, which would keep the recorder from finding Events
// alike.
func (s *snapshot) identityOf(name string) runtime.Object {
	n := slices.IndexFunc(s.nodeENIs, func(n v1alpha1.NodeENI) bool { return n.Name == name })
	if n < 0 {
		return nil
	}
	return &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: name, UID: s.nodeENIs[n].UID}}
}

// joined are notes as one, each once.
func joined(notes []string) string {
	slices.Sort(notes)
	return clip(strings.Join(slices.Compact(notes), "; "), maxNote)
}
