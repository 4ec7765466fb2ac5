// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/podaddress"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

// updateLeased updates the addresses of an interface that pods asked for, given the leases of its network. The CNI
// program writes leases without the agent, so the agent watches their folder.
func (a *Agent) updateLeased(network podnet.Network, leases []podnet.Lease, ranges []netip.Prefix) {
	a.leased[network.ENI] = podaddress.Leased(a.leased[network.ENI], network.Granted(leases), ranges, &a.arrivals)
	if a.leaseEvents != nil && network.IPv4 != nil && len(network.IPv4.Granted) > 0 {
		if err := a.leaseEvents.Add(filepath.Join(a.LeasesDir, network.Name)); err != nil {
			a.Log.Warn("the agent cannot watch the leases of a network, and reads them periodically", "network",
				network.Name, "err", err)
		}
	}
}

// watchLeases runs passes after changes of leases in watched folders, until the context ends.
func (a *Agent) watchLeases(ctx context.Context, beside *sync.WaitGroup) {
	if a.NetworksDir == "" {
		return
	}
	events, err := fsnotify.NewWatcher()
	if err != nil {
		a.Log.Warn("the agent cannot watch the leases of pods, and reads them periodically", "err", err)
		return
	}
	a.leaseEvents = events
	beside.Go(func() {
		defer events.Close()
		for ctx.Err() == nil {
			err := panics.AsError("the events of leases", func() error { return a.awaitLease(ctx, events) })
			if err != nil {
				a.Log.Warn("events of leases were lost; the agent reads the leases", "err", err)
			}
			a.API.wake()
		}
	})
}

// awaitLease waits for a change of a lease, and returns the error of the watch.
func (a *Agent) awaitLease(ctx context.Context, events *fsnotify.Watcher) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-events.Events:
			// The store renames each draft to the name of the lease.
			if event.Has(fsnotify.Create) && !strings.HasPrefix(filepath.Base(event.Name), ".") {
				return nil
			}
		case err := <-events.Errors:
			return err
		}
	}
}

// claim records in the lease that the agent is about to make its pod the holder over the version of the object: the
// write may have no answer, and the process may end before one. It reports whether the pod still has the lease.
func (a *Agent) claim(ctx context.Context, address presentAddress, object *v1alpha1.FloatingAddress) (bool, error) {
	store, err := podlease.OpenPresent(ctx, a.LeasesDir, address.network)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer store.Close()
	leases, err := store.Leases()
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(leases, func(l podnet.Lease) bool {
		return l.Address == address.Address && l.InUse() && l.Is(address.Lease.Holder)
	})
	if at < 0 {
		return false, nil
	}
	leases[at].Claim = &podnet.Claim{Object: string(object.UID), Sequence: object.Status.Sequence + 1}
	if err := store.Put(leases[at]); err != nil {
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
