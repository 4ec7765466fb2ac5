// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package freeprefix counts the free /28s of the subnets in which NodeENIs need prefixes. EC2 counts free addresses
// only, and a subnet with many of them can have no free /28.
package freeprefix

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ipam"
)

const (
	// interval is the time between two counts. Each costs two requests per subnet, or more above 1,000 interfaces.
	interval = 10 * time.Minute
	// firstCount is how long a new leader waits, so that its first reads are the ones that nodes wait for.
	firstCount = time.Minute
)

// EC2 reads what uses the addresses of a subnet.
type EC2 interface {
	SubnetInterfaces(ctx context.Context, subnetID string) ([]eni.Interface, error)
	SubnetReservations(ctx context.Context, subnetID string) ([]eni.SubnetReservation, error)
}

// Counter counts free prefixes periodically while it runs.
type Counter struct {
	client client.Reader
	ec2    EC2
	log    *slog.Logger

	// mu guards counts.
	mu     sync.Mutex
	counts []ipam.PrefixCount
}

// New returns a Counter to be added to a manager.
func New(reader client.Reader, ec2 EC2, log *slog.Logger) *Counter {
	return &Counter{client: reader, ec2: ec2, log: log}
}

// Start counts periodically until the context ends.
func (c *Counter) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(firstCount):
		wait.UntilWithContext(ctx, c.count, interval)
	}
	return nil
}

// Counts returns the last count of each subnet, in the order of their IDs. A subnet that could not be read has none.
func (c *Counter) Counts() []ipam.PrefixCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.counts)
}

func (c *Counter) count(ctx context.Context) {
	subnets, err := c.subnets(ctx)
	if err != nil {
		c.log.Error("NodeENIs could not be listed to count the free /28s of their subnets", "err", err)
		return
	}
	var counts []ipam.PrefixCount
	for _, subnet := range subnets {
		count, err := c.countIn(ctx, subnet)
		if err != nil {
			c.log.Warn("the free /28s of a subnet are not known", "subnet", subnet.ID, "err", err)
			continue
		}
		counts = append(counts, count)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = counts
}

// subnets returns the subnets of NodeENIs that need prefixes, in the order of their IDs.
func (c *Counter) subnets(ctx context.Context) ([]v1alpha1.ResolvedSubnet, error) {
	var nodeENIs v1alpha1.NodeENIList
	if err := c.client.List(ctx, &nodeENIs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	byID := map[string]v1alpha1.ResolvedSubnet{}
	for _, n := range nodeENIs.Items {
		if n.Spec.IPv4PrefixCount > 0 || n.Spec.Pods != nil && n.Spec.Pods.IPv4 != nil {
			for _, subnet := range n.Status.Subnets {
				byID[subnet.ID] = subnet
			}
		}
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b v1alpha1.ResolvedSubnet) int {
		return cmp.Compare(a.ID, b.ID)
	}), nil
}

func (c *Counter) countIn(ctx context.Context, subnet v1alpha1.ResolvedSubnet) (ipam.PrefixCount, error) {
	block, err := netip.ParsePrefix(subnet.CIDR)
	if err != nil {
		return ipam.PrefixCount{}, fmt.Errorf("the IPv4 block %q: %w", subnet.CIDR, err)
	}
	interfaces, err := c.ec2.SubnetInterfaces(ctx, subnet.ID)
	if err != nil {
		return ipam.PrefixCount{}, err
	}
	reservations, err := c.ec2.SubnetReservations(ctx, subnet.ID)
	if err != nil {
		return ipam.PrefixCount{}, err
	}
	held := make([]ipam.HeldInterface, len(interfaces))
	for n, i := range interfaces {
		held[n].Addresses = i.Addresses
	}
	used, err := ipam.NewOccupancy(block, held, reservations)
	if err != nil {
		return ipam.PrefixCount{}, err
	}
	empty, err := ipam.NewOccupancy(block, nil, reservations)
	return ipam.PrefixCount{SubnetID: subnet.ID, Zone: subnet.Zone, Free: used.FreePrefixes, All: empty.FreePrefixes}, err
}
