// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
)

// addressENIs is the index of FloatingAddresses by interface.
const addressENIs = "eniIDs"

// InstanceIDs is the index of Nodes by instance.
const InstanceIDs = "instanceIDs"

// withoutInstance is the index of the Nodes without a providerID.
const withoutInstance = "withoutInstance"

// Index indexes Nodes by instance and those without one, FloatingAddresses by interface, and NetworkInterfaces as
// package object does.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &corev1.Node{}, InstanceIDs, Indexed); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &corev1.Node{}, withoutInstance, lacksInstance); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &v1alpha1.FloatingAddress{}, addressENIs, Indexed); err != nil {
		return err
	}
	return object.Index(ctx, indexer)
}

// Indexed returns the values of the indexed field of a Node or a FloatingAddress.
func Indexed(o client.Object) []string {
	switch o := o.(type) {
	case *corev1.Node:
		if ref, err := eni.ParseProviderID(o.Spec.ProviderID); err == nil {
			return []string{ref.ID}
		}
	case *v1alpha1.FloatingAddress:
		return InterfacesOf(o)
	}
	return nil
}

func lacksInstance(o client.Object) []string {
	if node, is := o.(*corev1.Node); is && node.Spec.ProviderID == "" {
		return []string{"true"}
	}
	return nil
}

// OfInstance is the list option for the Nodes of an instance.
func OfInstance(id string) client.ListOption {
	return client.MatchingFields{InstanceIDs: id}
}

// OfNoInstance is the list option for the Nodes without a providerID, which the cloud provider sets later.
func OfNoInstance() client.ListOption {
	return client.MatchingFields{withoutInstance: "true"}
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
func FloatingRanges(pods *v1alpha1.PodSettings) []netip.Prefix {
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
