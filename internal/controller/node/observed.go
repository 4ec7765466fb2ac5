// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// observed says which generation of each NodeENI the interfaces were judged by. Of a NodeENI with an interface that waits
// at a gate it repeats what the state says already, since the plan for that interface is not confirmed yet.
func (s *snapshot) observed() []v1alpha1.ObservedNodeENI {
	all, waiting := map[types.UID]v1alpha1.ObservedNodeENI{}, map[types.UID]bool{}
	exists := map[types.UID]bool{}
	for n, p := range s.plans {
		if !s.present(s.instances[n]) {
			continue
		}
		for _, m := range p.Members {
			uid := types.UID(m.NodeENIUID)
			exists[uid] = exists[uid] || m.Interface != nil
			waiting[uid] = waiting[uid] || s.waiting[m.Key]
			if generation, judged := s.generations[uid]; judged && (m.Desired || m.Why.Reason == plan.Retained) {
				all[uid] = v1alpha1.ObservedNodeENI{NodeENI: m.NodeENI, NodeENIUID: uid, ObservedGeneration: generation}
			}
		}
	}
	for uid := range waiting {
		if waiting[uid] {
			delete(all, uid)
		}
	}
	for _, said := range s.state.Status.NodeENIs {
		if waiting[said.NodeENIUID] && s.state.Status.InstanceID == s.instanceID {
			all[said.NodeENIUID] = said
		}
	}
	return firstNodeENIs(all, exists)
}

// firstNodeENIs orders NodeENIs by name. Of more than a state takes it keeps those with an interface first.
func firstNodeENIs(all map[types.UID]v1alpha1.ObservedNodeENI, exists map[types.UID]bool) []v1alpha1.ObservedNodeENI {
	var list []v1alpha1.ObservedNodeENI
	for _, o := range all {
		list = append(list, o)
	}
	byName := func(a, b v1alpha1.ObservedNodeENI) int {
		return cmp.Or(cmp.Compare(a.NodeENI, b.NodeENI), cmp.Compare(a.NodeENIUID, b.NodeENIUID))
	}
	slices.SortFunc(list, byName)
	if len(list) > v1alpha1.MaxNodeENIs {
		slices.SortStableFunc(list, func(a, b v1alpha1.ObservedNodeENI) int {
			return cmp.Compare(rankOf(exists[a.NodeENIUID], false), rankOf(exists[b.NodeENIUID], false))
		})
		list = list[:v1alpha1.MaxNodeENIs]
		slices.SortFunc(list, byName)
	}
	return list
}

// omit leaves out of a status the interfaces that a NodeENIState has no room for, and counts them for their NodeENIs. What
// exists in EC2 stays, since agents hear of it here; then comes what can be delivered.
func omit(st *v1alpha1.NodeENIStateStatus) {
	for _, o := range st.NodeENIs {
		st.InterfacesOmitted += o.Omitted
	}
	rank := func(i v1alpha1.InterfaceState) int { return rankOf(i.ENIID != "", i.Phase == v1alpha1.PhaseBlocked) }
	ranked := slices.SortedStableFunc(slices.Values(st.Interfaces), func(a, b v1alpha1.InterfaceState) int {
		return cmp.Compare(rank(a), rank(b))
	})
	out, room := map[identity.Key]bool{}, v1alpha1.MaxInterfaces
	for _, i := range ranked {
		// Subnets of one zone alone can ask for ordinals that no instance has slots for.
		if room == 0 || i.Ordinal > identity.MaxOrdinal {
			out[keyOf(i)] = true
			countOmitted(st, i)
			continue
		}
		room--
	}
	st.InterfacesOmitted += int32(len(out))
	st.Interfaces = slices.DeleteFunc(st.Interfaces, func(i v1alpha1.InterfaceState) bool { return out[keyOf(i)] })
}

// rankOf orders what a state lists: what exists in EC2, what can be delivered, what cannot.
func rankOf(exists, blocked bool) int {
	switch {
	case exists:
		return 0
	case !blocked:
		return 1
	default:
		return 2
	}
}

// countOmitted counts an interface that is left out for its NodeENI.
func countOmitted(st *v1alpha1.NodeENIStateStatus, i v1alpha1.InterfaceState) {
	for n := range st.NodeENIs {
		o := &st.NodeENIs[n]
		if o.NodeENIUID != i.NodeENIUID {
			continue
		}
		o.Omitted++
		if i.Phase == v1alpha1.PhaseBlocked {
			o.Blocked++
			o.Reason = cmp.Or(o.Reason, i.Reason)
		}
	}
}

// announceOmitted says once that a node has more interfaces declared than its state lists.
func (r *Reconciler) announceOmitted(s *snapshot, before, after v1alpha1.NodeENIStateStatus) {
	if s.node == nil || before.InterfacesOmitted > 0 || after.InterfacesOmitted == 0 {
		return
	}
	r.Events.Eventf(s.node, nil, corev1.EventTypeWarning, "InterfacesOmitted", "Plan",
		"%d interfaces are declared for the node, and its NodeENIState lists %d; let fewer NodeENIs select it, or name fewer subnets of its zone",
		len(after.Interfaces)+int(after.InterfacesOmitted), len(after.Interfaces))
}
