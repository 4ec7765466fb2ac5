// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/plan"
)

// mayReplace reports whether the plan may take a live interface away to make it anew: whether it is the node's turn. If
// not, it says what is waited for, in the same words for as long as it is waited for.
func (r *Reconciler) mayReplace(ctx context.Context, s *subject, p plan.Plan) (may bool, turn string, err error) {
	if p.WouldReplace == "" {
		if !p.Unsettled {
			r.rollout.release(s.name)
		}
		return false, "", nil
	}
	nodeENI := s.nodeENI(p.WouldReplace)
	if nodeENI == nil {
		return false, "", nil
	}
	states, err := r.statesOf(ctx, nodeENI.UID)
	if err != nil {
		return false, "", err
	}
	var unavailable []string
	for n := range states {
		if lacks(states[n].Status.Interfaces, nodeENI.UID) {
			unavailable = append(unavailable, states[n].Name)
		}
	}
	limit := int(max(1, nodeENI.Spec.MaxUnavailable))
	if r.rollout.acquire(p.WouldReplace, s.name, limit, unavailable) {
		return true, "", nil
	}
	return false, fmt.Sprintf("it is the node's turn: no more than %d at a time (maxUnavailable) are without an interface of NodeENI %s", limit, nodeENI.Name), nil
}

// lacks reports whether any interface of the NodeENI is not attached. What could never be had, for example for want of a
// subnet in the zone, is not lacked: it would keep every rollout from beginning.
func lacks(interfaces []v1alpha1.InterfaceState, uid types.UID) bool {
	for _, i := range interfaces {
		never := i.Phase == v1alpha1.PhaseBlocked && i.ENIID == "" &&
			(i.Reason == string(plan.NoSubnetInZone) || i.Reason == string(plan.SubnetNotFound))
		if i.NodeENIUID == uid && !never && (i.Phase != v1alpha1.PhaseAttached || i.Reason == string(plan.Leaving)) {
			return true
		}
	}
	return false
}

// mustWait says why a node must wait for its first interface of a NodeENI, or nothing: the NodeENI's spec was not taken
// note of yet, or a change of its selector reaches so many nodes that they are let in bit by bit.
func (r *Reconciler) mustWait(ctx context.Context, s *subject, nodeENI *v1alpha1.NodeENI) (string, error) {
	if s.served(nodeENI.UID) {
		return "", nil
	}
	if nodeENI.Status.ObservedGeneration != nodeENI.Generation {
		return "its NodeENI was just changed", nil
	}
	if nodeENI.Status.Ramp == nil {
		r.admissions.end(string(nodeENI.UID))
		return "", nil
	}
	states, err := r.statesOf(ctx, nodeENI.UID)
	if err != nil {
		return "", err
	}
	served := make([]string, len(states))
	for n := range states {
		served[n] = states[n].Name
	}
	limit := controller.Admitted(*nodeENI.Status.Ramp, r.Now())
	if r.admissions.admit(string(nodeENI.UID), s.name, limit, served) {
		return "", nil
	}
	s.turn = sooner(s.turn, r.Now().Add(turnCheck))
	return "its NodeENI reaches far more nodes than before and lets them in bit by bit", nil
}

// served reports whether the node was ever promised anything by the NodeENI.
func (s *subject) served(uid types.UID) bool {
	if s.state == nil {
		return false
	}
	for _, owner := range controller.Owners(s.state) {
		if owner == string(uid) {
			return true
		}
	}
	return false
}

func (s *subject) nodeENI(uid string) *v1alpha1.NodeENI {
	for n := range s.nodeENIs {
		if string(s.nodeENIs[n].UID) == uid {
			return &s.nodeENIs[n]
		}
	}
	return nil
}

func (r *Reconciler) statesOf(ctx context.Context, uid types.UID) ([]v1alpha1.NodeENIState, error) {
	var states v1alpha1.NodeENIStateList
	err := r.Client.List(ctx, &states, controller.StatesOf(uid), client.UnsafeDisableDeepCopy)
	return states.Items, err
}
