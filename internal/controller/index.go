// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

const stateOwners = "nodeENIUIDs"

// IndexStates indexes NodeENIStates by the UIDs of the NodeENIs they speak of.
func IndexStates(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &v1alpha1.NodeENIState{}, stateOwners, func(object client.Object) []string {
		return Owners(object.(*v1alpha1.NodeENIState))
	})
}

// StatesOf is the list option for the NodeENIStates that speak of a NodeENI.
func StatesOf(uid types.UID) client.ListOption {
	return client.MatchingFields{stateOwners: string(uid)}
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
