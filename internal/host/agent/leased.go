// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podaddress"
	"github.com/multieni/multieni/internal/core/podnet"
)

// LeaseEvents reports changes of leases: the CNI program writes them without the agent.
type LeaseEvents interface {
	// Watch reports the changes of the leases of an interface from now on. Their folder must exist.
	Watch(network, eni string) error
	// Events sends a value after changes.
	Events() <-chan struct{}
}

// watchLeases updates the addresses of an interface that pods asked for, given its leases and the file of its folder.
func (a *Agent) watchLeases(one *served, folder *podnet.Network) {
	network := one.desired
	if folder != nil && !one.uses() {
		network = *folder
	}
	a.leased[one.eni] = podaddress.Leased(a.leased[one.eni], network.Granted(one.leases), floating(one.object),
		&a.arrivals)
	if folder == nil || network.IPv4 == nil || len(network.IPv4.Granted) == 0 {
		return
	}
	a.granted = true
	if a.LeaseEvents != nil {
		if err := a.LeaseEvents.Watch(one.network, one.eni); err != nil {
			a.Log.Warn("the agent cannot watch the leases of a network, and reads them periodically", "network",
				one.network, "err", err)
		}
	}
}

// claim records in the lease that the agent is about to make its pod the holder over the version of the object: the
// write may have no answer, and the process may end before one. It reports whether the pod still has the lease.
func (a *Agent) claim(ctx context.Context, address presentAddress, object *v1alpha1.FloatingAddress) (bool, error) {
	a.claims <- struct{}{}
	defer func() { <-a.claims }()
	store, err := a.PodFiles.LockPresent(ctx, address.network)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer store.Close()
	folders, err := store.Current(a.Now())
	if err != nil {
		return false, err
	}
	var leases []podnet.Lease
	for _, one := range folders {
		if one.ENI == address.interfaceID {
			leases = one.Leases
		}
	}
	at := slices.IndexFunc(leases, func(l podnet.Lease) bool {
		return l.Address == address.Address && l.InUse() && l.Is(address.Lease.Holder)
	})
	if at < 0 {
		return false, nil
	}
	leases[at].Claim = &podnet.Claim{Object: string(object.UID), Sequence: object.Status.Sequence + 1}
	if err := store.Put(address.interfaceID, leases[at]); err != nil {
		return false, err
	}
	address.Lease.Claim = leases[at].Claim
	return true, nil
}

// unclaim notes that the API server refused the write of a claim, because another client had changed the object.
func unclaim(address presentAddress) {
	if address.Lease != nil {
		address.Lease.Claim = nil
	}
}

// ownHolder returns what the object says of a pod of the node; nil for nothing.
func ownHolder(object *v1alpha1.FloatingAddress, node string) *v1alpha1.AddressHolder {
	if object == nil {
		return nil
	}
	for _, one := range []*v1alpha1.AddressHolder{object.Status.Holder, object.Status.Contender} {
		if one != nil && one.NodeName == node {
			return one
		}
	}
	return nil
}
