// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/podaddress"
)

// PodAddresses observes the network namespaces of pods.
type PodAddresses interface {
	// Namespaces returns the namespaces, and whether all of them were read.
	Namespaces() (namespaces []podaddress.Namespace, complete bool)
	// Events sends a value after changes.
	Events() <-chan struct{}
}

// interfacesOf returns the interfaces of the objects. Pods may have addresses on their links.
func interfacesOf(s *snapshot) []podaddress.Interface {
	var interfaces []podaddress.Interface
	for _, n := range s.objects {
		if n.Status.ENIID == "" {
			continue
		}
		one := podaddress.Interface{ID: n.Status.ENIID, MAC: n.Status.MACAddress,
			Own: ranges(append([]string{n.Status.Addresses.PrivateIP + "/32"}, n.Status.Addresses.IPv4Prefixes...))}
		one.Subnet, _ = subnetOf(n)
		for _, link := range s.facts.Links {
			if link.MAC == n.Status.MACAddress && link.Device != "" {
				one.Link = link.Index
			}
		}
		interfaces = append(interfaces, one)
	}
	return interfaces
}

// observe stores the addresses that pods have on links of the interfaces. Before the first time it reads which
// addresses the process before held.
func (a *Agent) observe(ctx context.Context, s *snapshot) {
	if a.follows(s) && s.read {
		s.unrecalled = a.Addresses.RecallAddresses(ctx)
	}
	a.interfaces = interfacesOf(s)
	a.found, a.foundAll = a.findAddresses()
}

// follows reports whether addresses can follow pods of the node: those that pods asked for, now or before a network
// ended, and with an observer those that pods bring up themselves.
func (a *Agent) follows(s *snapshot) bool {
	return a.PodAddresses != nil || a.granted ||
		slices.ContainsFunc(s.objects, func(n *v1alpha1.NetworkInterface) bool { return len(floating(n)) > 0 })
}

// findAddresses returns the addresses that pods have on links of the interfaces of the last pass, by the interface's
// ID. known is false without an observer, and until the observer has read all namespaces.
func (a *Agent) findAddresses() (found map[string][]podaddress.Address, known bool) {
	if a.PodAddresses == nil {
		return nil, false
	}
	namespaces, complete := a.PodAddresses.Namespaces()
	return podaddress.Find(namespaces, a.interfaces), complete
}

// addressesChanged reports whether the addresses differ from those of the last pass. Most events are of pods that use
// no interface of ours.
func (a *Agent) addressesChanged() bool {
	found, known := a.findAddresses()
	return known != a.foundAll || !maps.EqualFunc(found, a.found, slices.Equal[[]podaddress.Address])
}

// updatePresent updates the addresses that pods have on an interface, and returns their number. Without an observer
// nothing is known of them. While the API server is unreachable the last ones stay, so that an address that comes up
// meanwhile is new once the agent can write that.
func (a *Agent) updatePresent(s *snapshot, one *served) int {
	id, ranges := one.eni, floating(one.object)
	if a.PodAddresses == nil || !s.read || !a.Addresses.AddressesRecalled() {
		return len(a.present[id])
	}
	now := a.Now()
	last, known := a.present[id]
	if !known {
		last = a.Addresses.AddressesBefore(id)
	}
	found, waiting := podaddress.Admit(last, podaddress.Without(a.found[id], a.leased[id]), ranges,
		func(f podaddress.Address) bool { return a.budget.take(f, now) })
	a.waiting[id] = waiting
	present := podaddress.Present(last, found, ranges, &a.arrivals, now)
	if !a.foundAll {
		present = podaddress.Partial(last, present)
	}
	a.present[id] = present
	return len(present)
}

// mayHaveBrought reports whether a pod may have an address on an interface that the agent does not know.
func (a *Agent) mayHaveBrought(one *served) bool {
	if a.PodAddresses == nil || one.object != nil && len(floating(one.object)) == 0 && len(a.present[one.eni]) == 0 {
		return false
	}
	return !a.foundAll || !a.Addresses.AddressesRecalled() || a.waiting[one.eni] > 0
}

// forgetPresent drops the addresses of interfaces that the node does not have any more.
func (a *Agent) forgetPresent(s *snapshot) {
	a.budget.prune(a.Now())
	a.arrivals.Started = a.arrivals.Started || a.foundAll && s.read && a.Addresses.AddressesRecalled()
	for id := range a.present {
		if !s.serves(id) {
			delete(a.present, id)
			delete(a.waiting, id)
		}
	}
	for id := range a.leased {
		if !s.serves(id) {
			delete(a.leased, id)
		}
	}
}

// serves reports whether the pass is about an interface.
func (s *snapshot) serves(eni string) bool {
	return slices.ContainsFunc(s.served, func(o *served) bool { return o.eni == eni })
}

// presentAddress is an address that a pod has, with its interface.
type presentAddress struct {
	podaddress.Presence
	subnetID, interfaceID string
	// network is the pod network of the interface.
	network string
}

// addresses returns the addresses that pods have, by the name of the object. If pods have one address on two
// interfaces, the newest counts. Leases come before addresses that pods bring up themselves.
func (a *Agent) addresses(s *snapshot) map[string]presentAddress {
	all := map[string]presentAddress{}
	for _, n := range s.objects {
		id, subnet := n.Status.ENIID, n.Status.SubnetID
		presences := podaddress.Limit(a.leased[id], v1alpha1.MaxAddressesOfInterface)
		room := v1alpha1.MaxAddressesOfInterface - len(presences)
		for _, presence := range append(presences, podaddress.Limit(a.present[id], room)...) {
			name := v1alpha1.FloatingAddressName(subnet, presence.Address.String())
			if other, twice := all[name]; subnet != "" && (!twice || other.Arrival < presence.Arrival) {
				all[name] = presentAddress{presence, subnet, id, networkOf(n).Name()}
			}
		}
	}
	return all
}

// defaultMaxHolds lets pods that start together not wait for each other's writes, and keeps a node with many addresses
// from occupying the API server.
const defaultMaxHolds = 8

// isReplaced reports whether the Node of the agent's name is another instance by now. That one's agent has the name
// too, and each would write that the addresses of the other are gone.
func (s *snapshot) isReplaced() bool {
	return s.metadata != nil && s.node != nil && instanceOf(nil, s.node) != "" &&
		instanceOf(nil, s.node) != s.metadata.InstanceID
}

// hold writes which addresses pods of this node have. A failure of one keeps no other from being written.
func (a *Agent) hold(ctx context.Context, s *snapshot) error {
	if a.PodFiles == nil || s.isReplaced() || !a.follows(s) && !a.Addresses.AddressesRecalled() {
		return nil
	}
	if s.unrecalled != nil {
		return fmt.Errorf("list the FloatingAddresses of node %s: %w", a.Node, s.unrecalled)
	}
	addresses := a.addresses(s)
	names := a.Addresses.FollowAddresses(ctx, slices.Collect(maps.Keys(addresses)))
	failures := make([]error, len(names))
	var writes errgroup.Group
	writes.SetLimit(cmp.Or(a.MaxHolds, defaultMaxHolds))
	for n, name := range names {
		address, present := addresses[name]
		writes.Go(func() error {
			failures[n] = panics.AsError("write FloatingAddress "+name, func() error {
				return a.holdOne(ctx, s, name, address, present)
			})
			return nil
		})
	}
	return errors.Join(writes.Wait(), errors.Join(failures...))
}

// holdOne writes what the node has to say about an address.
func (a *Agent) holdOne(
	ctx context.Context, s *snapshot, name string, address presentAddress, present bool,
) (err error) {
	switch {
	case !present:
		err = a.holdAbsent(ctx, s, name)
	case address.Lease != nil && address.Lease.Unreadable:
		// Nothing is known of the pod, so the object stays as it is. The report names the lease.
	case address.Lease != nil, a.sawAll():
		err = a.holdPresent(ctx, name, address)
	}
	if err != nil {
		return fmt.Errorf("write FloatingAddress %s: %w", name, err)
	}
	return nil
}

// holdPresent writes what the node has to say about an address that a pod has.
func (a *Agent) holdPresent(ctx context.Context, name string, address presentAddress) error {
	object, err := a.Addresses.Address(ctx, name)
	if err != nil {
		return err
	}
	me, observed := podaddress.Owner{Node: a.Node, InterfaceID: address.interfaceID}, ObservedAddress(object)
	write := podaddress.Decide(me, address.Seen(observed), observed)
	if write == podaddress.Create {
		if object, err = a.Addresses.CreateAddress(ctx, address.subnetID, address.Address.String()); err != nil {
			return a.triedAgain(err)
		}
		write = podaddress.Hold
	}
	if write == podaddress.WriteNothing {
		return nil
	}
	holder := v1alpha1.AddressHolder{NodeName: a.Node, ENIID: address.interfaceID, Since: metav1.NewTime(address.Since)}
	if address.PodIP.IsValid() {
		holder.PodIP = address.PodIP.String()
	}
	if address.Lease != nil {
		holder.Pod = address.Lease.PodName()
	}
	return a.write(ctx, object, write, address, holder)
}

// write writes what the node has to say about an address that a pod has.
func (a *Agent) write(ctx context.Context, object *v1alpha1.FloatingAddress, write podaddress.Write,
	address presentAddress, holder v1alpha1.AddressHolder) error {
	if write == podaddress.Hold && address.Lease != nil {
		if has, err := a.claim(ctx, address, object); err != nil || !has {
			return err
		}
	}
	if err := a.Addresses.WriteAddress(ctx, object, write, holder); err != nil {
		if apierrors.IsConflict(err) {
			unclaim(address)
		}
		return a.triedAgain(err)
	}
	if write == podaddress.Hold {
		a.wrote(address)
	}
	return nil
}

// holdAbsent writes that no pod of the node has an address, if the agent knows that.
func (a *Agent) holdAbsent(ctx context.Context, s *snapshot, name string) error {
	object, err := a.Addresses.Address(ctx, name)
	if err != nil || !a.knowsAbsent(s, object) {
		return err
	}
	me := podaddress.Owner{Node: a.Node}
	write := podaddress.Decide(me, podaddress.Seen{}, ObservedAddress(object))
	if write == podaddress.WriteNothing {
		a.Addresses.LeaveAddress(name)
		return nil
	}
	if err := a.Addresses.WriteAddress(ctx, object, write, v1alpha1.AddressHolder{NodeName: a.Node}); err != nil {
		return a.triedAgain(err)
	}
	return nil
}

// sawAll reports whether the agent saw, once since its start, the addresses that all pods bring up themselves. An
// address that is absent before may be in a namespace that was not read.
func (a *Agent) sawAll() bool { return a.PodAddresses != nil && (a.arrivals.Started || a.foundAll) }

// knowsAbsent reports whether the agent knows all addresses among which that of an object would be: the leases of its
// interface, or those that pods bring up.
func (a *Agent) knowsAbsent(s *snapshot, object *v1alpha1.FloatingAddress) bool {
	mine := ownHolder(object, a.Node)
	switch {
	case mine == nil:
		return true // the object says nothing of this node
	case mine.Pod == "":
		return a.sawAll()
	}
	if _, read := a.leased[mine.ENIID]; read {
		return true
	}
	return s.read && !s.serves(mine.ENIID) // the interface is none of this node any more
}

// triedAgain returns the error of a write, and none if another client created or deleted the object meanwhile: the
// agent then decides again.
func (a *Agent) triedAgain(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		a.Addresses.Wake()
		return nil
	}
	return err
}

// wrote notes that the agent wrote that an address came up.
func (a *Agent) wrote(address presentAddress) {
	for _, presences := range [][]podaddress.Presence{a.present[address.interfaceID], a.leased[address.interfaceID]} {
		for n := range presences {
			if p := &presences[n]; p.Address == address.Address && p.Arrival == address.Arrival {
				p.Came = false
			}
		}
	}
}

// ObservedAddress returns what an agent sees of an object; nil for none.
func ObservedAddress(object *v1alpha1.FloatingAddress) podaddress.Object {
	if object == nil {
		return podaddress.Object{}
	}
	o := podaddress.Object{Exists: true, Deleting: !object.DeletionTimestamp.IsZero(), UID: string(object.UID),
		Sequence: object.Status.Sequence}
	if holder := object.Status.Holder; holder != nil {
		o.Holder = podaddress.Owner{Node: holder.NodeName, InterfaceID: holder.ENIID}
		o.Since = holder.Since.Time
	}
	if contender := object.Status.Contender; contender != nil {
		o.Contender = podaddress.Owner{Node: contender.NodeName, InterfaceID: contender.ENIID}
	}
	return o
}
