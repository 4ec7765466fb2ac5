// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/podaddress"
	"github.com/multieni/multieni/internal/host/agent"
)

// addressBook is an agent's access to the FloatingAddresses of its node.
type addressBook struct {
	host *podHost
	// seen are the versions that the agent read before its last pass, or wrote since.
	seen     map[string]client.Object
	followed map[string]bool
	before   map[string][]podaddress.Presence
	// late, if set, gets the writes: they have no answer, and no effect yet.
	late *[]func()
	// ended is set once the process ended in the middle of its writes.
	ended bool
}

func newAddressBook(h *podHost) *addressBook {
	return &addressBook{host: h, followed: map[string]bool{}}
}

// read lets the agent's caches catch up.
func (b *addressBook) read() { b.seen = maps.Clone(b.host.c.api.objects[floatingAddresses]) }

// RecallAddresses is part of [agent.AddressAPI].
func (b *addressBook) RecallAddresses(context.Context) error {
	if b.before != nil {
		return nil
	}
	b.before = map[string][]podaddress.Presence{}
	for _, object := range b.host.c.api.all(floatingAddresses) {
		one := object.(*v1alpha1.FloatingAddress)
		for _, holder := range controller.Holders(one) {
			b.followed[one.Name] = b.followed[one.Name] || holder.NodeName == b.host.node
		}
		if holder := one.Status.Holder; holder != nil && holder.NodeName == b.host.node {
			b.before[holder.ENIID] = append(b.before[holder.ENIID],
				podaddress.Presence{Address: netip.MustParseAddr(one.Spec.Address), Since: holder.Since.Time})
		}
	}
	maps.DeleteFunc(b.followed, func(_ string, is bool) bool { return !is })
	return nil
}

// AddressesRecalled is part of [agent.AddressAPI].
func (b *addressBook) AddressesRecalled() bool { return b.before != nil }

// AddressesBefore is part of [agent.AddressAPI].
func (b *addressBook) AddressesBefore(id string) []podaddress.Presence { return b.before[id] }

// FollowAddresses is part of [agent.AddressAPI].
func (b *addressBook) FollowAddresses(_ context.Context, names []string) []string {
	for _, name := range names {
		b.followed[name] = true
	}
	return slices.Sorted(maps.Keys(b.followed))
}

// LeaveAddress is part of [agent.AddressAPI].
func (b *addressBook) LeaveAddress(name string) { delete(b.followed, name) }

// Address is part of [agent.AddressAPI].
func (b *addressBook) Address(_ context.Context, name string) (*v1alpha1.FloatingAddress, error) {
	object, _ := b.seen[name].(*v1alpha1.FloatingAddress)
	return object, nil
}

// CreateAddress is part of [agent.AddressAPI].
func (b *addressBook) CreateAddress(_ context.Context, subnetID, address string) (*v1alpha1.FloatingAddress, error) {
	if b.isAway() {
		return nil, errAPITimeout
	}
	made, err := b.host.c.api.create(&v1alpha1.FloatingAddress{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FloatingAddressName(subnetID, address),
			Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.FloatingAddressSpec{SubnetID: subnetID, Address: address},
	})
	if err != nil {
		return nil, err
	}
	b.host.c.checkCreations(made.GetName())
	b.seen[made.GetName()] = made
	return made.(*v1alpha1.FloatingAddress), nil
}

// errAPITimeout is the error of a request that the API server does not answer.
var errAPITimeout = apierrors.NewTimeoutError("the API server does not answer", 1)

func (b *addressBook) isAway() bool { return b.ended || b.host.api.isAway() }

// WriteAddress writes nothing into an object that is being deleted.
func (b *addressBook) WriteAddress(_ context.Context, read *v1alpha1.FloatingAddress, write podaddress.Write,
	mine v1alpha1.AddressHolder) error {
	send := func() error { return b.host.writeAddress(read, write, mine) }
	switch {
	case b.late != nil:
		*b.late = append(*b.late, func() { _ = send() })
		return errAPITimeout
	case b.isAway():
		return errAPITimeout
	case mine.Pod != "":
		return b.writeFixed(read.Name, send)
	default:
		return send()
	}
}

// writeFixed writes an address that a pod asked for. The process at times ends before or after it, or the answer is
// lost.
func (b *addressBook) writeFixed(name string, send func() error) error {
	r, node := b.host.c.run, b.host.node
	happens := func() bool { return !r.faults.off && r.fixed.happens(12) }
	if happens() {
		r.note(nil, "%s: the agent of node %s ends before it writes %s", b.host.c.name, node, name)
		b.ended = true
		return errAPITimeout
	}
	err := send()
	switch {
	case err != nil:
		return err
	case happens():
		r.note(nil, "%s: the agent of node %s ends after it writes %s", b.host.c.name, node, name)
		b.ended = true
		return errAPITimeout
	case happens():
		return errAPITimeout
	default:
		return nil
	}
}

// Wake is part of [agent.AddressAPI].
func (*addressBook) Wake() {}

// writeAddress writes over the version that the agent has read.
func (h *podHost) writeAddress(object *v1alpha1.FloatingAddress, write podaddress.Write,
	mine v1alpha1.AddressHolder) error {
	patch, err := json.Marshal(map[string]any{"status": agent.ChangedAddress(object.Status, write, mine)})
	if err != nil {
		panic(err)
	}
	name := object.Name
	change := func(o client.Object) (client.Object, error) {
		if !o.GetDeletionTimestamp().IsZero() {
			return nil, errors.New("no pod becomes the holder of an object that is being deleted")
		}
		return merge(o, patch)
	}
	after, err := h.c.api.update(floatingAddresses, name, object.ResourceVersion, change)
	h.c.run.note(nil, "%s: the agent of node %s writes %s: %s (%v)", h.c.name, h.node, name, patch, err)
	if err != nil {
		return err
	}
	h.book.seen[name] = after
	if write == podaddress.Hold {
		followers, key := h.c.run.followers, h.c.name+" "+name
		if h.came[name] || h.isNew(mine.ENIID, followers.heldSince[key]) {
			followers.arrived[key] = mine.ENIID
		}
		followers.heldSince[key] = h.c.run.now
		delete(h.came, name)
		h.noteHeld(netip.MustParseAddr(object.Spec.Address), mine)
	}
	return nil
}

// isNew reports whether the agent follows an interface since after a time: since it got its object, or pods again. Its
// addresses come up for the agent then.
func (h *podHost) isNew(id string, since time.Time) bool {
	n := h.c.api.interfaceOf(id)
	return n != nil && !n.CreationTimestamp.Time.Before(since.Truncate(time.Second)) || h.openedAt[id].After(since)
}
