// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// mostUnverified is how many unverified interfaces a NodeENIState lists.
const mostUnverified = 64

// addEvidence adds what NodeENIStates say of an instance's interfaces, under whichever name they know the instance.
func (r *Reconciler) addEvidence(ctx context.Context, s *snapshot, instanceID string, observed *plan.Observed) error {
	states, err := r.states(ctx, controller.OfInstance(instanceID))
	if err != nil {
		return err
	}
	states = slices.DeleteFunc(slices.Clone(states), func(other v1alpha1.NodeENIState) bool { return other.Name == s.name })
	observed.OtherLedgers, observed.Copies = map[identity.Key]int64{}, map[string]bool{}
	for n := range states {
		for _, m := range ledgerOf(states[n].Spec, instanceID) {
			key := identity.Key{NodeENIUID: string(m.NodeENIUID), Ordinal: int(m.Ordinal)}
			observed.OtherLedgers[key] = max(observed.OtherLedgers[key], m.Generation)
		}
	}
	if s.state != nil { // it may be newer than what the cache has
		states = append(states, *s.state)
	}
	for n := range states {
		observed.Recorded = append(observed.Recorded, recorded(&states[n], instanceID)...)
		for _, u := range states[n].Status.Unverified {
			observed.Copies[u.ENIID] = u.Copy
		}
	}
	return nil
}

// recorded returns the interfaces that a state names as those of members.
func recorded(state *v1alpha1.NodeENIState, instanceID string) []plan.Recorded {
	var all []plan.Recorded
	for _, i := range state.Status.Interfaces {
		if i.ENIID != "" && !i.Unverified {
			all = append(all, plan.Recorded{
				ID: i.ENIID, Key: identity.Key{NodeENIUID: string(i.NodeENIUID), Ordinal: int(i.Ordinal)}, Generation: i.Generation,
				Attached: i.InstanceID == instanceID && i.AttachmentID != "",
			})
		}
	}
	return all
}

// judged lets the observer know which interfaces are ours, and tells of those that are left alone from now on.
func (r *Reconciler) judged(s *snapshot, instanceID string, p plan.Plan) {
	denied := make([]string, len(p.Unverified))
	for n, u := range p.Unverified {
		denied[n] = u.ID
	}
	newly := r.Observer.Judged(r.Now(), instanceID, p.Verified, denied)
	var all []nodeEvent
	for _, u := range p.Unverified {
		if slices.Contains(newly, u.ID) {
			r.Log.Warn("an interface is left alone", "node", s.name, "nodeeni", u.Member.NodeENI, "interface", u.ID, "why", u.Message)
			o := outcome{corev1.EventTypeWarning, v1alpha1.ReasonUnverified, "Plan"}
			all = append(all, nodeEvent{o, u.Member.NodeENI, clip(u.Message, 1000), u.ID})
		}
	}
	r.emit(s, all)
}

func unverified(p plan.Plan) []v1alpha1.UnverifiedInterface {
	var all []v1alpha1.UnverifiedInterface
	for _, u := range p.Unverified {
		all = append(all, v1alpha1.UnverifiedInterface{ENIID: u.ID, Copy: u.Copy, Message: clip(u.Message, 1024)})
	}
	return all
}
