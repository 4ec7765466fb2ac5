// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/apply"
	"github.com/multieni/multieni/ownership"
	"github.com/multieni/multieni/plan"
)

// news is one thing that happened to an interface.
type news struct {
	kind, reason, action, note string
}

// announce records an event on the NodeENI and on the Node for every interface whose standing changed.
func (r *Reconciler) announce(s *subject, before, after []v1alpha1.InterfaceState) {
	old := byKey(before)
	said := map[news]bool{}
	for _, now := range after {
		was := old[keyOf(now)]
		delete(old, keyOf(now))
		if n := change(was, now); n != nil && !said[*n] {
			said[*n] = true
			r.emit(s, now.NodeENI, *n)
		}
	}
	for _, gone := range before {
		_, left := old[keyOf(gone)]
		// What is let go for another node that has the instance stays where it is.
		if _, there := r.Observer.Interface(gone.ENIID); left && gone.ENIID != "" && !there {
			r.emit(s, gone.NodeENI, news{
				corev1.EventTypeNormal, "Removed", "Remove",
				gone.ENIID + " is detached and deleted",
			})
		}
	}
}

// change says what is new about an interface; nil for nothing worth an event.
func change(was, now v1alpha1.InterfaceState) *news {
	switch {
	case now.Phase == v1alpha1.PhaseAttached && was.Phase != v1alpha1.PhaseAttached:
		note := fmt.Sprintf("%s in %s is attached at card %d device %d", now.ENIID, now.SubnetID, now.NetworkCardIndex, now.DeviceIndex)
		if now.DeviceIndex != now.RequestedDeviceIndex {
			note += fmt.Sprintf(" (device %d, which was asked for, is taken)", now.RequestedDeviceIndex)
		}
		return &news{corev1.EventTypeNormal, "Attached", "Attach", note}
	case now.Phase == v1alpha1.PhaseBlocked && (was.Phase != v1alpha1.PhaseBlocked || was.Reason != now.Reason):
		return &news{corev1.EventTypeWarning, now.Reason, "Plan", now.Message}
	case len(now.Drift) > 0 && len(was.Drift) == 0:
		return &news{corev1.EventTypeWarning, v1alpha1.ReasonDrifted, "Plan", cmp.Or(now.Message, fmt.Sprintf(
			"%s differs in %s: want %s, have %s", now.ENIID, now.Drift[0].Field, now.Drift[0].Want, now.Drift[0].Have))}
	case needsSomebody(now.Reason) && was.Reason != now.Reason && len(was.Drift) == 0:
		return &news{corev1.EventTypeWarning, now.Reason, "Plan", now.Message}
	case now.Phase == v1alpha1.PhaseDetaching && was.Phase == v1alpha1.PhaseAttached:
		return &news{corev1.EventTypeNormal, "Detaching", "Detach", now.Message}
	default:
		return nil
	}
}

// needsSomebody reports whether a reason does not go away by itself, and is more than that nothing is done for now.
func needsSomebody(reason string) bool {
	return !plan.Reason(reason).Passing() && reason != string(plan.Kept)
}

// announceForce says so before anybody wonders: force cuts an instance off.
func (r *Reconciler) announceForce(s *subject, outcomes []apply.Outcome) {
	for _, o := range outcomes {
		if d, ok := o.Action.(plan.Detach); ok && d.Force {
			r.emit(s, d.Member.NodeENI, news{corev1.EventTypeWarning, "ForceDetach", "Detach", d.String()})
		}
	}
}

func (r *Reconciler) emit(s *subject, nodeENIName string, n news) {
	var node, nodeENI runtime.Object
	if s.node != nil {
		node = s.node
	}
	for i := range s.nodeENIs {
		if s.nodeENIs[i].Name == nodeENIName {
			nodeENI = &s.nodeENIs[i]
		}
	}
	if nodeENI != nil {
		r.Events.Eventf(nodeENI, node, n.kind, n.reason, n.action, "node %s: %s", s.name, n.note)
	}
	if node != nil {
		r.Events.Eventf(node, nodeENI, n.kind, n.reason, n.action, "NodeENI %s: %s", nodeENIName, n.note)
	}
}

// skip says that a node which NodeENIs select is no EC2 instance, or one that another node is already. A node that has no providerID yet is not spoken of:
// it gets one when the cloud provider has seen it.
func (r *Reconciler) skip(ctx context.Context, node *corev1.Node, reason string, why error) {
	if node.Spec.ProviderID == "" {
		return
	}
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all); err != nil {
		return
	}
	for n := range all.Items {
		if selects(&all.Items[n], node.Labels) {
			r.Log.Info("node is skipped", "node", node.Name, "nodeeni", all.Items[n].Name, "why", why)
			r.Events.Eventf(node, &all.Items[n], corev1.EventTypeWarning, reason, "Plan",
				"NodeENI %s selects this node, but it gets no interfaces: %s", all.Items[n].Name, why)
		}
	}
}

func keyOf(i v1alpha1.InterfaceState) ownership.Key {
	return ownership.Key{NodeENIUID: string(i.NodeENIUID), Ordinal: int(i.Ordinal)}
}

func byKey(interfaces []v1alpha1.InterfaceState) map[ownership.Key]v1alpha1.InterfaceState {
	all := make(map[ownership.Key]v1alpha1.InterfaceState, len(interfaces))
	for _, i := range interfaces {
		all[keyOf(i)] = i
	}
	return all
}
