// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podaddress"
)

// AddressAPI is the access to the FloatingAddresses of a node's pods in the API server.
type AddressAPI interface {
	// RecallAddresses lists the objects that name this node, once, and follows them. AddressesRecalled reports whether it
	// did, and AddressesBefore returns the addresses that the node held on an interface by that list.
	RecallAddresses(context.Context) error
	AddressesRecalled() bool
	AddressesBefore(interfaceID string) []podaddress.Presence
	// FollowAddresses follows the named objects too, and returns the names of all that are followed, sorted. LeaveAddress
	// ends that of one.
	FollowAddresses(ctx context.Context, names []string) []string
	LeaveAddress(name string)
	// Address returns a followed object; nil if there is none. Callers must not change it.
	Address(ctx context.Context, name string) (*v1alpha1.FloatingAddress, error)
	// CreateAddress creates the object of an address. Its finalizer keeps it until the controller knows that no interface
	// has the address.
	CreateAddress(ctx context.Context, subnetID, address string) (*v1alpha1.FloatingAddress, error)
	// WriteAddress writes what the agent has to say about an address, over the version that it has read.
	WriteAddress(ctx context.Context, read *v1alpha1.FloatingAddress, write podaddress.Write,
		mine v1alpha1.AddressHolder) error
	// Wake lets the agent decide again soon.
	Wake()
}

// addressResource is the resource of FloatingAddresses.
const addressResource = "floatingaddresses"

// AddressesRecalled is part of [AddressAPI].
func (a *API) AddressesRecalled() bool { return a.before != nil }

// AddressesBefore is part of [AddressAPI].
func (a *API) AddressesBefore(interfaceID string) []podaddress.Presence {
	return a.before[interfaceID]
}

// RecallAddresses is part of [AddressAPI].
func (a *API) RecallAddresses(ctx context.Context) error {
	if a.AddressesRecalled() {
		return nil
	}
	before := map[string][]podaddress.Presence{}
	var names []string
	for _, field := range []string{"status.holder.nodeName", "status.contender.nodeName"} {
		var list v1alpha1.FloatingAddressList
		if err := a.listAddresses(ctx, fields.OneTermEqualSelector(field, a.node), &list); err != nil {
			return err
		}
		for n := range list.Items {
			one := &list.Items[n]
			names = append(names, one.Name)
			address, err := netip.ParseAddr(one.Spec.Address)
			if holder := one.Status.Holder; err == nil && holder != nil && holder.NodeName == a.node {
				before[holder.ENIID] = append(before[holder.ENIID],
					podaddress.Presence{Address: address, Since: holder.Since.Time})
			}
		}
	}
	a.before = before
	a.FollowAddresses(ctx, names)
	return nil
}

func (a *API) listAddresses(ctx context.Context, selector fields.Selector, into *v1alpha1.FloatingAddressList) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return a.addresses.client.Get().Resource(addressResource).
		Param("fieldSelector", selector.String()).Do(ctx).Into(into)
}

// FollowAddresses is part of [AddressAPI].
func (a *API) FollowAddresses(ctx context.Context, names []string) []string {
	return a.addresses.follow(ctx, names...)
}

// LeaveAddress is part of [AddressAPI].
func (a *API) LeaveAddress(name string) { a.addresses.leave(name) }

// Address is part of [AddressAPI]. A pod waits for the address.
func (a *API) Address(ctx context.Context, name string) (*v1alpha1.FloatingAddress, error) {
	object, found, err := a.addresses.get(ctx, name)
	if err != nil || !found {
		return nil, err
	}
	return object, nil
}

// CreateAddress is part of [AddressAPI].
func (a *API) CreateAddress(ctx context.Context, subnetID, address string) (*v1alpha1.FloatingAddress, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	object := &v1alpha1.FloatingAddress{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "FloatingAddress"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FloatingAddressName(subnetID, address),
			Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.FloatingAddressSpec{SubnetID: subnetID, Address: address},
	}
	made := &v1alpha1.FloatingAddress{}
	if err := a.addresses.client.Post().Resource(addressResource).Body(object).Do(ctx).Into(made); err != nil {
		return nil, err
	}
	a.addresses.note(made)
	return made, nil
}

// WriteAddress is part of [AddressAPI].
func (a *API) WriteAddress(
	ctx context.Context, object *v1alpha1.FloatingAddress, write podaddress.Write, mine v1alpha1.AddressHolder,
) error {
	content, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": object.ResourceVersion, "uid": object.UID},
		"status":   ChangedAddress(object.Status, write, mine),
	})
	if err != nil {
		return err
	}
	became := &v1alpha1.FloatingAddress{}
	addresses := endpoint{a.addresses.client, addressResource}
	err = addresses.patch(ctx, object.Name, change{kind: types.MergePatchType, of: []string{"status"}, content: content,
		parameters: map[string]string{"fieldManager": v1alpha1.FieldOwnerAgent}}, became)
	if err != nil {
		return err
	}
	a.addresses.note(became)
	return nil
}

// ChangedAddress returns a write as the changes of a status (RFC 7386): null removes a field.
func ChangedAddress(
	status v1alpha1.FloatingAddressStatus, write podaddress.Write, mine v1alpha1.AddressHolder,
) map[string]any {
	me := map[string]any{"nodeName": mine.NodeName, "eniID": mine.ENIID, "since": mine.Since, "podIP": nil, "pod": nil}
	if mine.PodIP != "" {
		me["podIP"] = mine.PodIP
	}
	if mine.Pod != "" {
		me["pod"] = mine.Pod
	}
	changes := map[string]any{}
	if status.Contender != nil && status.Contender.NodeName == mine.NodeName {
		changes["contender"] = nil
	}
	switch write {
	case podaddress.Hold:
		changes["holder"], changes["sequence"] = me, status.Sequence+1
	case podaddress.LetGo:
		changes["holder"], changes["sequence"] = nil, status.Sequence+1
	case podaddress.Contend:
		changes["contender"] = me
	}
	return changes
}
