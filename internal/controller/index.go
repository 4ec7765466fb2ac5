// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// The fields of the cache's indexes.
const (
	stateOwners  = "nodeENIUIDs"
	stateLacking = "lackingNodeENIUIDs"
	addressENIs  = "eniIDs"
)

// InstanceIDs is the index of Nodes and NodeENIStates by instance.
const InstanceIDs = "instanceIDs"

// Index indexes NodeENIStates by the UIDs of the NodeENIs that they name, and by the UIDs of the NodeENIs that lack
// interfaces. It indexes both NodeENIStates and Nodes by instance, and FloatingAddresses by interface.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := object.Index(ctx, indexer); err != nil {
		return err
	}
	for _, i := range []struct {
		object client.Object
		fields []string
	}{
		{&v1alpha1.NodeENIState{}, []string{stateOwners, stateLacking, InstanceIDs}},
		{&corev1.Node{}, []string{InstanceIDs}},
		{&v1alpha1.FloatingAddress{}, []string{addressENIs}},
	} {
		for _, field := range i.fields {
			values := func(o client.Object) []string { return Indexed(o, field) }
			if err := indexer.IndexField(ctx, i.object, field, values); err != nil {
				return err
			}
		}
	}
	return nil
}

// Indexed returns an object's values of an indexed field.
func Indexed(obj client.Object, field string) []string {
	switch object := obj.(type) {
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
		case InstanceIDs:
			return instancesOf(object)
		}
	case *v1alpha1.FloatingAddress:
		return InterfacesOf(object)
	}
	return nil
}

// OfInstance is the list option for the Nodes, and for the NodeENIStates, of an instance.
func OfInstance(id string) client.ListOption {
	return client.MatchingFields{InstanceIDs: id}
}

// AddressesOn is the list option for the FloatingAddresses whose pods use an interface, or that were assigned to it.
func AddressesOn(interfaceID string) client.ListOption {
	return client.MatchingFields{addressENIs: interfaceID}
}

// Holders returns the holder and the contender of an address, as far as there are any.
func Holders(address *v1alpha1.FloatingAddress) []*v1alpha1.AddressHolder {
	return slices.DeleteFunc([]*v1alpha1.AddressHolder{address.Status.Holder, address.Status.Contender},
		func(h *v1alpha1.AddressHolder) bool { return h == nil })
}

// InterfacesOf returns the interfaces that an address names, without duplicates.
func InterfacesOf(address *v1alpha1.FloatingAddress) []string {
	var ids []string
	for _, holder := range Holders(address) {
		ids = append(ids, holder.ENIID)
	}
	if address.Status.Assignment != nil {
		ids = append(ids, address.Status.Assignment.ENIID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// FloatingRanges returns the ranges in which addresses of an interface follow pods.
func FloatingRanges(pods *v1alpha1.InterfacePods) []netip.Prefix {
	if pods == nil {
		return nil
	}
	var ranges []netip.Prefix
	for _, text := range pods.Floating {
		if r, err := netip.ParsePrefix(text); err == nil {
			ranges = append(ranges, r)
		}
	}
	return ranges
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
