// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/podaddress"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
)

// leasedAddress is an address that a pod asked for, with its interface.
type leasedAddress struct {
	podaddress.Presence
	subnetID, eniID, network string
}

// restartLeased is what a new agent knows of leases: the objects that name its node, and what the files of leases say.
func (h *podHost) restartLeased() {
	h.fixed.presences, h.fixed.arrivals = map[string][]podaddress.Presence{}, podaddress.Arrivals{}
	h.fixed.follows = map[string]bool{}
	for _, object := range h.c.api.all(floatingAddresses) {
		for _, holder := range controller.Holders(object.(*v1alpha1.FloatingAddress)) {
			if holder.NodeName == h.node && holder.Pod != "" {
				h.fixed.follows[object.GetName()] = true
			}
		}
	}
}

// readLeased lets the agent read the leases, and returns the addresses that pods have, by the name of the object.
func (h *podHost) readLeased() map[string]leasedAddress {
	ranges := map[string][]netip.Prefix{}
	for _, i := range h.observed.Status.Interfaces {
		ranges[i.ENIID] = controller.FloatingRanges(i.Pods)
	}
	files := map[string]string{}
	for network, file := range h.files {
		if !h.lost[network] {
			files[network] = file.ENI
		}
	}
	served := agent.ServedNetworks(h.observed, files)
	presences, networks := map[string][]podaddress.Presence{}, map[string]string{}
	for _, network := range slices.Sorted(maps.Keys(h.files)) {
		file := h.files[network]
		if _, is := served[network]; is || !h.lost[network] && h.observed.Status.ObservedGeneration != 0 {
			presences[file.ENI] = podaddress.Leased(h.fixed.presences[file.ENI], file.Granted(h.current(network)),
				ranges[file.ENI], &h.fixed.arrivals)
			networks[file.ENI] = network
		}
	}
	h.fixed.presences = presences
	at := map[string]leasedAddress{}
	for _, i := range h.observed.Status.Interfaces {
		for _, presence := range podaddress.Limit(presences[i.ENIID], v1alpha1.MaxAddressesOfInterface) {
			name := v1alpha1.FloatingAddressName(i.SubnetID, presence.Address.String())
			if other, twice := at[name]; i.SubnetID != "" && (!twice || other.Arrival < presence.Arrival) {
				at[name] = leasedAddress{presence, i.SubnetID, i.ENIID, networks[i.ENIID]}
			}
		}
	}
	return at
}

// decideLeased lets the agent decide, by the present versions of the objects, what it writes about leased addresses.
func (h *podHost) decideLeased() {
	if !h.c.run.fixed.acts || !h.knowsState() || h.agent != servesPods || h.recalled {
		return
	}
	at := h.readLeased()
	for name := range at {
		h.fixed.follows[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(h.fixed.follows)) {
		object, _ := h.c.api.get(floatingAddresses, name).(*v1alpha1.FloatingAddress)
		address, present := at[name]
		if !present && !h.knowsUnleased(object) || present && address.Lease.Unreadable {
			continue
		}
		observed := agent.ObservedAddress(object)
		me := podaddress.Owner{Node: h.node, InterfaceID: address.eniID}
		var seen podaddress.Seen
		if present {
			seen = address.Seen(observed)
		}
		switch write := podaddress.Decide(me, seen, observed); {
		case write == podaddress.WriteNothing && !present:
			delete(h.fixed.follows, name)
		case write == podaddress.WriteNothing:
		case write == podaddress.Create:
			h.holds = append(h.holds, func() { h.createLeased(address) })
		case !present:
			h.holds = append(h.holds, func() {
				if !h.fixed.agentAway {
					_ = h.writeHolder(object, write, v1alpha1.AddressHolder{NodeName: h.node})
				}
			})
		default:
			h.holds = append(h.holds, func() { h.writeLeased(object, write, address) })
		}
	}
}

// knowsUnleased reports whether the agent knows that no lease of its node has the address of an object.
func (h *podHost) knowsUnleased(object *v1alpha1.FloatingAddress) bool {
	if object == nil {
		return true
	}
	for _, holder := range controller.Holders(object) {
		if holder.NodeName != h.node {
			continue
		}
		_, read := h.fixed.presences[holder.ENIID]
		return holder.Pod != "" && (read || h.observed.Status.ObservedGeneration != 0 &&
			!slices.ContainsFunc(h.observed.Status.Interfaces, func(i v1alpha1.InterfaceState) bool {
				return i.ENIID == holder.ENIID && i.Pods != nil
			}))
	}
	return true
}

// createLeased creates the object of a leased address, and makes the pod the holder.
func (h *podHost) createLeased(address leasedAddress) {
	if h.fixed.agentAway {
		return
	}
	made, err := h.c.api.create(&v1alpha1.FloatingAddress{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FloatingAddressName(address.subnetID, address.Address.String()),
			Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.FloatingAddressSpec{SubnetID: address.subnetID, Address: address.Address.String()},
	})
	if err == nil {
		h.c.checkCreations(made.GetName())
		h.writeLeased(made.(*v1alpha1.FloatingAddress), podaddress.Hold, address)
	}
}

// writeLeased records a claim in the lease, and writes the holder over the version that the agent has read. The agent
// can end between the two and after the second, the request or its answer can be lost.
func (h *podHost) writeLeased(object *v1alpha1.FloatingAddress, write podaddress.Write, address leasedAddress) {
	f := h.c.run.fixed
	if write == podaddress.Hold && !h.claim(object, address) {
		return
	}
	if h.fixed.agentAway {
		return
	}
	if f.happens(12) && !h.c.run.faults.off {
		h.c.run.note(nil, "%s: the agent of node %s ends before it writes %s", h.c.name, h.node, object.Name)
		h.restartHolds()
		return
	}
	holder := v1alpha1.AddressHolder{NodeName: h.node, ENIID: address.eniID, Since: metav1.NewTime(address.Since),
		Pod: address.Lease.PodName()}
	err := h.writeHolder(object, write, holder)
	if err == nil && write == podaddress.Hold {
		h.noteHeld(address)
	}
	switch {
	case apierrors.IsConflict(err):
		address.Lease.Claim = nil
	case err != nil, write != podaddress.Hold:
	case f.happens(12) && !h.c.run.faults.off:
		h.c.run.note(nil, "%s: the agent of node %s ends after it writes %s", h.c.name, h.node, object.Name)
		h.restartHolds()
	case !f.happens(12) || h.c.run.faults.off: // otherwise the answer is lost
		for n := range h.fixed.presences[address.eniID] {
			p := &h.fixed.presences[address.eniID][n]
			if p.Address == address.Address && p.Arrival == address.Arrival {
				p.Came = false
			}
		}
	}
}

// claim records in the lease that the agent is about to make its pod the holder. It reports whether the pod still has
// the lease.
func (h *podHost) claim(object *v1alpha1.FloatingAddress, address leasedAddress) bool {
	at := slices.IndexFunc(h.leases[address.network], func(l podnet.Lease) bool {
		return l.Address == address.Address && l.InUse() && l.Is(address.Lease.Holder)
	})
	if at < 0 {
		return false
	}
	claim := &podnet.Claim{Object: string(object.UID), Sequence: object.Status.Sequence + 1}
	h.leases[address.network][at].Claim, address.Lease.Claim = claim, claim
	return true
}

// writeHolder writes the holder of an address over the version that the agent has read, and nothing into an object that is
// being deleted.
func (h *podHost) writeHolder(object *v1alpha1.FloatingAddress, write podaddress.Write, mine v1alpha1.AddressHolder,
) error {
	patch, err := json.Marshal(map[string]any{"status": agent.ChangedAddress(object.Status, write, mine)})
	if err != nil {
		panic(err)
	}
	name := object.Name
	_, err = h.c.api.update(floatingAddresses, name, object.ResourceVersion, func(o client.Object) (client.Object, error) {
		if !o.GetDeletionTimestamp().IsZero() {
			return nil, errors.New("no pod becomes the holder of an object that is being deleted")
		}
		return merge(o, patch)
	})
	h.c.run.note(nil, "%s: the agent of node %s writes %s: %s (%v)", h.c.name, h.node, name, patch, err)
	return err
}
