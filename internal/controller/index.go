// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// The fields of the cache's indexes.
const (
	stateOwners  = "nodeENIUIDs"
	stateLacking = "lackingNodeENIUIDs"
	stateClaims  = "claimedAddresses"
)

// InstanceIDs is the index of Nodes and NodeENIStates by instance.
const InstanceIDs = "instanceIDs"

// Index indexes NodeENIStates by the UIDs of the NodeENIs that they name, by the UIDs of the NodeENIs that lack
// interfaces, and by the addresses that pods claim. It indexes both NodeENIStates and Nodes by instance.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, i := range []struct {
		object client.Object
		fields []string
	}{
		{&v1alpha1.NodeENIState{}, []string{stateOwners, stateLacking, stateClaims, InstanceIDs}},
		{&corev1.Node{}, []string{InstanceIDs}},
	} {
		for _, field := range i.fields {
			values := func(object client.Object) []string { return Indexed(object, field) }
			if err := indexer.IndexField(ctx, i.object, field, values); err != nil {
				return err
			}
		}
	}
	return nil
}

// Indexed returns an object's values of an indexed field.
func Indexed(object client.Object, field string) []string {
	switch object := object.(type) {
	case *corev1.Node:
		if ref, err := eni.ParseProviderID(object.Spec.ProviderID); err == nil {
			return []string{ref.ID}
		}
	case *v1alpha1.NodeENIState:
		switch field {
		case stateOwners:
			return Owners(object)
		case stateLacking:
			return OwnersNotReady(object)
		case stateClaims:
			return ClaimedAddresses(object)
		case InstanceIDs:
			return instancesOf(object)
		}
	}
	return nil
}

// OfInstance is the list option for the Nodes, and for the NodeENIStates, of an instance.
func OfInstance(id string) client.ListOption {
	return client.MatchingFields{InstanceIDs: id}
}

// StatesOf is the list option for the NodeENIStates that name a NodeENI.
func StatesOf(uid types.UID) client.ListOption {
	return client.MatchingFields{stateOwners: string(uid)}
}

// StatesNotReady is the list option for the NodeENIStates that lack an interface of a NodeENI.
func StatesNotReady(uid types.UID) client.ListOption {
	return client.MatchingFields{stateLacking: string(uid)}
}

// Owners returns the UIDs of the NodeENIs that the ledger or the status of a state names, without duplicates.
func Owners(state *v1alpha1.NodeENIState) []string {
	var uids []string
	ledgers := [][]v1alpha1.Member{state.Spec.Members}
	for _, previous := range state.Spec.PreviousInstances {
		ledgers = append(ledgers, previous.Members)
	}
	for _, m := range slices.Concat(ledgers...) {
		uids = append(uids, string(m.NodeENIUID))
	}
	for _, i := range state.Status.Interfaces {
		uids = append(uids, string(i.NodeENIUID))
	}
	for _, o := range state.Status.NodeENIs {
		uids = append(uids, string(o.NodeENIUID))
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// OwnersNotReady returns the UIDs of the NodeENIs that have an interface that is not attached or is about to be
// detached, without duplicates. An interface that was never possible, for example because there is no subnet in the
// zone, does not count: it would block every rollout.
func OwnersNotReady(state *v1alpha1.NodeENIState) []string {
	var uids []string
	for _, i := range state.Status.Interfaces {
		never := i.Phase == v1alpha1.PhaseBlocked && i.ENIID == "" &&
			(i.Reason == string(plan.NoSubnetInZone) || i.Reason == string(plan.SubnetNotFound))
		if !never && (i.Phase != v1alpha1.PhaseAttached || i.Reason == string(plan.Removing)) {
			uids = append(uids, string(i.NodeENIUID))
		}
	}
	for _, o := range state.Status.NodeENIs {
		if o.Omitted > o.Blocked {
			uids = append(uids, string(o.NodeENIUID))
		}
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

func instancesOf(state *v1alpha1.NodeENIState) []string {
	ids := []string{state.Spec.InstanceID}
	for _, previous := range state.Spec.PreviousInstances {
		ids = append(ids, previous.InstanceID)
	}
	return ids
}
