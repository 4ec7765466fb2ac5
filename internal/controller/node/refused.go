// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

// recordRejectedWrite says once that the API server refuses the node's ledger or status: the object itself cannot tell.
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
