// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/plan"
)

// The fields by which NodeENIStates are found.
const (
	stateOwners  = "nodeENIUIDs"
	stateLacking = "lackingNodeENIUIDs"
)

// StateIndexes returns what NodeENIStates are found by, per field.
func StateIndexes() map[string]func(*v1alpha1.NodeENIState) []string {
	return map[string]func(*v1alpha1.NodeENIState) []string{stateOwners: Owners, stateLacking: Lacking}
}

// IndexStates indexes NodeENIStates by the UIDs of the NodeENIs they speak of, and of those they lack interfaces of.
func IndexStates(ctx context.Context, indexer client.FieldIndexer) error {
	for field, values := range StateIndexes() {
		extract := func(object client.Object) []string { return values(object.(*v1alpha1.NodeENIState)) }
		if err := indexer.IndexField(ctx, &v1alpha1.NodeENIState{}, field, extract); err != nil {
			return err
		}
	}
	return nil
}

// StatesOf is the list option for the NodeENIStates that speak of a NodeENI.
func StatesOf(uid types.UID) client.ListOption {
	return client.MatchingFields{stateOwners: string(uid)}
}

// StatesLacking is the list option for the NodeENIStates that lack an interface of a NodeENI.
func StatesLacking(uid types.UID) client.ListOption {
	return client.MatchingFields{stateLacking: string(uid)}
}

// Owners returns the UIDs of the NodeENIs that a state speaks of, in its ledger or its status, each once.
func Owners(state *v1alpha1.NodeENIState) []string {
	var uids []string
	add := func(members []v1alpha1.Member) {
		for _, m := range members {
			uids = append(uids, string(m.NodeENIUID))
		}
	}
	add(state.Spec.Members)
	for _, former := range state.Spec.Former {
		add(former.Members)
	}
	for _, i := range state.Status.Interfaces {
		uids = append(uids, string(i.NodeENIUID))
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// Lacking returns the UIDs of the NodeENIs of which an interface is not attached, or about to leave, each once. What could
// never be had, for example for want of a subnet in the zone, is not lacked: it would keep every rollout from beginning.
func Lacking(state *v1alpha1.NodeENIState) []string {
	var uids []string
	for _, i := range state.Status.Interfaces {
		never := i.Phase == v1alpha1.PhaseBlocked && i.ENIID == "" &&
			(i.Reason == string(plan.NoSubnetInZone) || i.Reason == string(plan.SubnetNotFound))
		if !never && (i.Phase != v1alpha1.PhaseAttached || i.Reason == string(plan.Leaving)) {
			uids = append(uids, string(i.NodeENIUID))
		}
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}
