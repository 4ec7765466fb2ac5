// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/ipam"
)

var _ executor.Addresses = (*Reservations)(nil)

// Reservations assigns the lowest free addresses of subnets. It is safe for concurrent use.
type Reservations struct {
	subnets *subnets
	now     func() time.Time

	// mu guards claims.
	mu     sync.Mutex
	claims ipam.Reservations
}

// NewReservations returns empty Reservations.
func NewReservations(reader Reader, now func() time.Time) *Reservations {
	return &Reservations{subnets: newSubnets(reader, now), now: now}
}

// Reserve implements [executor.Addresses]. Repeated calls for the same interface return the same address while it is
// free.
func (b *Reservations) Reserve(ctx context.Context, subnetID string, key identity.Interface) (netip.Addr, error) {
	subnet, _, err := b.subnets.read(ctx, subnetID)
	if err != nil {
		return netip.Addr{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	address, found, err := b.claims.Take(subnetID, subnet, key.Token(), b.now())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find a free address in %s: %w", subnetID, err)
	}
	if !found {
		return netip.Addr{}, full(subnetID)
	}
	return address, nil
}

// WithIPv4Suffix implements [executor.Addresses].
func (b *Reservations) WithIPv4Suffix(ctx context.Context, subnetID string, address netip.Addr) (netip.Addr, error) {
	return b.subnets.beside(ctx, subnetID, address)
}

// Taken implements [executor.Addresses].
func (b *Reservations) Taken(subnetID string, address netip.Addr) {
	b.subnets.forget(subnetID)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claims.Taken(subnetID, address, b.now())
}
