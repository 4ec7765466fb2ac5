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
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/ipam"
)

var _ executor.Addresses = (*Ranked)(nil)

// Instances lists the instances that get interfaces of networks and are not terminating.
type Instances func(context.Context) ([]eni.Instance, error)

// WaitingNodes returns the interfaces of an instance that need an address of a subnet, including those that have one
// already.
type WaitingNodes func(ctx context.Context, subnetID string,
	instance eni.Instance) (interfaces []identity.Interface, err error)

// Ranked assigns the free addresses to the waiting interfaces by their rank. It is safe for concurrent use.
type Ranked struct {
	subnets   *subnets
	instances Instances
	wanting   WaitingNodes
	now       func() time.Time

	// mu guards taken.
	mu sync.Mutex
	// taken are the addresses that EC2 refused as used although no read shows that, and until when they count as used.
	taken map[netip.Addr]time.Time
}

// NewRanked returns a Ranked.
func NewRanked(reader Reader, instances Instances, wanting WaitingNodes, now func() time.Time) *Ranked {
	return &Ranked{subnets: newSubnets(reader, now), instances: instances, wanting: wanting, now: now,
		taken: map[netip.Addr]time.Time{}}
}

// Reserve implements [executor.Addresses].
func (q *Ranked) Reserve(ctx context.Context, subnetID string, key identity.Interface) (netip.Addr, error) {
	subnet, interfaces, err := q.subnets.read(ctx, subnetID)
	if err != nil {
		return netip.Addr{}, err
	}
	waiting, err := q.waiting(ctx, subnetID, key.Cluster, interfaces)
	if err != nil {
		return netip.Addr{}, err
	}
	subnet.Used = append(subnet.Used, q.believedTaken()...)
	rank := ipam.Rank(waiting, rankOf(key))
	free, err := subnet.Free(rank + 1)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find a free address in %s: %w", subnetID, err)
	}
	if len(free) == 0 {
		return netip.Addr{}, full(subnetID)
	}
	// If more interfaces wait than addresses are free, the last ones compete for the last address.
	return free[min(rank, len(free)-1)], nil
}

// WithIPv4Suffix implements [executor.Addresses].
func (q *Ranked) WithIPv4Suffix(ctx context.Context, subnetID string, address netip.Addr) (netip.Addr, error) {
	return q.subnets.beside(ctx, subnetID, address)
}

// Taken implements [executor.Addresses].
func (q *Ranked) Taken(subnetID string, address netip.Addr) {
	q.subnets.forget(subnetID)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken[address] = q.now().Add(5 * time.Second)
}

func (q *Ranked) believedTaken() []netip.Prefix {
	q.mu.Lock()
	defer q.mu.Unlock()
	var taken []netip.Prefix
	for address, until := range q.taken {
		if !q.now().Before(until) {
			delete(q.taken, address)
			continue
		}
		taken = append(taken, netip.PrefixFrom(address, address.BitLen()))
	}
	return taken
}

// waiting returns the ranks of the interfaces that need an address of the subnet and have none.
func (q *Ranked) waiting(ctx context.Context, subnetID, cluster string, interfaces []eni.Interface) ([]string, error) {
	served := map[string]bool{}
	for _, i := range interfaces {
		if is, verdict := identity.Read(cluster, i.Tags); verdict == identity.Owned {
			served[rankOf(is)] = true
		}
	}
	instances, err := q.instances(ctx)
	if err != nil {
		return nil, err
	}
	var waiting []string
	for _, instance := range instances {
		wanting, err := q.wanting(ctx, subnetID, instance)
		if err != nil {
			return nil, err
		}
		for _, key := range wanting {
			if !served[rankOf(key)] {
				waiting = append(waiting, rankOf(key))
			}
		}
	}
	return waiting, nil
}

// rankOf returns the sort key of an interface among the waiting ones.
func rankOf(key identity.Interface) string {
	return fmt.Sprintf("%s %s %06d", key.InstanceID, key.NodeENI, key.Ordinal)
}
