// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
)

// Counts counts interfaces by the name of their NodeENI and by their state, from the statuses.
func (r *Reconciler) Counts() map[string]map[string]int {
	var all v1alpha1.NodeENIList
	if err := r.Client.List(context.Background(), &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil // a cache that is not filled yet has no content
	}
	counts := map[string]map[string]int{}
	for n := range all.Items {
		st := all.Items[n].Status
		counts[all.Items[n].Name] = map[string]int{
			"desired": int(st.Desired), "attached": int(st.Attached), "ready": int(st.Ready),
			"blocked": int(st.Blocked), "drifted": int(st.Drifted),
		}
	}
	return counts
}

// AttachedInterface is an interface that a node has.
type AttachedInterface struct{ Node, NodeENI, MAC, ENI string }

// Attached returns the interfaces that nodes have.
func (r *Reconciler) Attached() []AttachedInterface {
	objects, err := object.All(context.Background(), r.Client)
	if err != nil {
		return nil // a cache that is not filled yet has no content
	}
	var all []AttachedInterface
	for _, o := range objects {
		if object.PhaseOf(&o) == v1alpha1.PhaseAttached && o.Status.MACAddress != "" {
			all = append(all, AttachedInterface{Node: o.Spec.NodeName, NodeENI: o.Spec.NodeENI.Name,
				MAC: o.Status.MACAddress, ENI: o.Status.ENIID})
		}
	}
	return all
}

// Blocked counts the interfaces that are blocked, by reason.
func (r *Reconciler) Blocked() map[string]int {
	objects, err := object.All(context.Background(), r.Client)
	if err != nil {
		return nil // a cache that is not filled yet has no content
	}
	counts := map[string]int{}
	for _, o := range objects {
		if object.PhaseOf(&o) == v1alpha1.PhaseBlocked {
			reason, _ := object.ReasonOf(&o)
			counts[reason]++
		}
	}
	return counts
}

// Orphaned returns the number of objects whose NodeENI does not exist.
func (r *Reconciler) Orphaned() (n int) {
	objects, err := object.All(context.Background(), r.Client)
	if err != nil {
		return 0 // a cache that is not filled yet has no content
	}
	for i := range objects {
		if meta.IsStatusConditionTrue(objects[i].Status.Conditions, v1alpha1.ConditionOrphaned) {
			n++
		}
	}
	return n
}
