// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subnetuse counts the free addresses of the subnets that objects of the cluster select, and their free /28s.
// EC2 counts free addresses without regard to reservations, and a subnet with many of them can have no free /28.
package subnetuse

import (
	"context"
	"log/slog"
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
	// interval is the time between two counts. Each costs two requests per subnet with reservations or with NodeENIs that
	// need prefixes, or more above 1,000 interfaces.
	interval = 10 * time.Minute
	// lookEvery is the number of counts after which the reservations of all other subnets are read again.
	lookEvery = 6
	// firstCount is how long a new leader waits, so that its first reads are the ones that nodes wait for.
	firstCount = 2 * time.Minute
)

// EC2 reads what uses the addresses of a subnet.
type EC2 interface {
	SubnetInterfaces(ctx context.Context, subnetID string) ([]eni.Interface, error)
	SubnetReservations(ctx context.Context, subnetID string) ([]eni.SubnetReservation, error)
}

// Counter counts free addresses and prefixes periodically while it runs.
type Counter struct {
	client  client.Reader
	ec2     EC2
	subnets func() []eni.Subnet
	log     *slog.Logger

	// begun is the number of counts, and reserved has the subnets with reservations at the last look.
	begun    int
	reserved map[string]bool

	// mu guards counts.
	mu     sync.Mutex
	counts []ipam.SubnetCount
}

// New returns a Counter to be added to a manager. It counts in the subnets that the function returns.
func New(reader client.Reader, ec2 EC2, subnets func() []eni.Subnet, log *slog.Logger) *Counter {
	return &Counter{client: reader, ec2: ec2, subnets: subnets, log: log}
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

// Counts returns the last count of each subnet, in the order of the subnets. A subnet that could not be read, or that
// has no IPv4 block, has none.
func (c *Counter) Counts() []ipam.SubnetCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.counts)
}

func (c *Counter) count(ctx context.Context) {
	withPrefixes, err := c.withPrefixes(ctx)
	if err != nil {
		c.log.Error("NodeENIs could not be listed to count what is free in their subnets", "err", err)
		return
	}
	var counts []ipam.SubnetCount
	reserved := map[string]bool{}
	for _, subnet := range c.subnets() {
		if !subnet.CIDR.IsValid() {
			continue
		}
		count, err := c.countIn(ctx, subnet, withPrefixes[subnet.ID], reserved)
		if err != nil {
			c.log.Warn("the free addresses of a subnet are not known", "subnet", subnet.ID, "err", err)
			continue
		}
		counts = append(counts, count)
	}
	c.begun, c.reserved = c.begun+1, reserved
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = counts
}

// withPrefixes returns the IDs of the subnets in which NodeENIs need prefixes.
func (c *Counter) withPrefixes(ctx context.Context) (map[string]bool, error) {
	var nodeENIs v1alpha1.NodeENIList
	if err := c.client.List(ctx, &nodeENIs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, n := range nodeENIs.Items {
		if n.Spec.IPv4PrefixCount > 0 || n.Spec.Pods != nil && n.Spec.Pods.IPv4 != nil {
			for _, subnet := range n.Status.Subnets {
				ids[subnet.ID] = true
			}
		}
	}
	return ids, nil
}

// countIn counts in one subnet. Without reservations EC2's own number of free addresses is the result of a count, and
// interfaces are read for prefixes only.
func (c *Counter) countIn(
	ctx context.Context, subnet eni.Subnet, needsPrefixes bool, reserved map[string]bool,
) (ipam.SubnetCount, error) {
	var reservations []eni.SubnetReservation
	had, looked := c.reserved[subnet.ID]
	if needsPrefixes || had || !looked || c.begun%lookEvery == 0 {
		var err error
		if reservations, err = c.ec2.SubnetReservations(ctx, subnet.ID); err != nil {
			return ipam.SubnetCount{}, err
		}
	}
	reserved[subnet.ID] = len(reservations) > 0
	empty, err := ipam.NewOccupancy(subnet.CIDR, nil, reservations)
	if err != nil {
		return ipam.SubnetCount{}, err
	}
	count := ipam.SubnetCount{SubnetID: subnet.ID, Zone: subnet.Zone, Free: subnet.FreeIPv4, Addresses: empty.Free}
	if !needsPrefixes && len(reservations) == 0 {
		return count, nil
	}
	interfaces, err := c.ec2.SubnetInterfaces(ctx, subnet.ID)
	if err != nil {
		return ipam.SubnetCount{}, err
	}
	held := make([]ipam.HeldInterface, len(interfaces))
	for n, i := range interfaces {
		held[n].Addresses = i.Addresses
	}
	used, err := ipam.NewOccupancy(subnet.CIDR, held, reservations)
	count.Free, count.NeedsPrefixes = used.Free, needsPrefixes
	count.FreePrefixes, count.Prefixes = used.FreePrefixes, empty.FreePrefixes
	return count, err
}
