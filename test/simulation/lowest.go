// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"net/netip"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/aws/addresses"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ipam"
)

var _ addresses.Reader = cloud{}

// SubnetInterfaces implements [addresses.Reader]. It runs in a goroutine of the product, and everything else waits for
// it.
func (c cloud) SubnetInterfaces(_ context.Context, subnetID string) (all []eni.Interface, err error) {
	err = c.p.quietly("DescribeNetworkInterfaces of subnet", func(at ec2.Call) error {
		out, err := c.p.run.model.DescribeNetworkInterfaces(at, &ec2.DescribeNetworkInterfacesInput{Page: ec2.Page{
			Filters: []ec2.Filter{{Name: "subnet-id", Values: []string{subnetID}}},
		}})
		if err == nil {
			for _, found := range out.NetworkInterfaces {
				i := networkInterface(found)
				c.p.run.noteAddresses(i) // it may have been created and deleted within one step
				all = append(all, i)
			}
		}
		return err
	})
	return all, err
}

// SubnetReservations implements [addresses.Reader]. It runs in a goroutine of the product, and everything else waits
// for it.
func (c cloud) SubnetReservations(_ context.Context, subnetID string) (all []eni.SubnetReservation, err error) {
	if !c.p.run.reserving.acts {
		return nil, nil // there is none, and the call would shift every later draw
	}
	err = c.p.quietly("GetSubnetCidrReservations of subnet", func(at ec2.Call) error {
		all, err = c.p.reservations(at, subnetID)
		return err
	})
	return all, err
}

// block is a block of addresses of a subnet. Two VPCs can have the same block.
type block struct {
	subnetID string
	prefix   netip.Prefix
}

// noteUse records when addresses were last used.
func (r *run) noteUse() {
	for _, i := range r.truth().ordered {
		r.noteAddresses(i)
	}
	for _, reserved := range r.truth().reservations {
		for _, prefix := range ipam.Split(reserved.CIDR, prefixBits) {
			r.watch.used[block{reserved.SubnetID, prefix}] = r.now
		}
	}
}

func (r *run) noteAddresses(i eni.Interface) {
	for _, address := range append([]netip.Addr{i.PrimaryIPv4}, i.SecondaryIPv4...) {
		r.noteAddress(i.SubnetID, address)
	}
	for _, prefix := range i.IPv4Prefixes {
		r.watch.used[block{i.SubnetID, prefix}] = r.now
	}
}

// noteAddress records that an address is used or requested now.
func (r *run) noteAddress(subnetID string, address netip.Addr) {
	r.watch.used[block{subnetID, netip.PrefixFrom(address, address.BitLen())}] = r.now
}

// keptAtStart is how many addresses EC2 reserves at the start of a subnet.
const keptAtStart = 4

// reaching checks that a chosen address is the lowest free one: each lower one is used, was used until recently, or was
// requested by another program recently.
func (r *run) reaching(p *process, c executor.CreateRequest) {
	if !c.PrimaryIPv4.IsValid() {
		return
	}
	r.judged("I2")
	r.covers.Actors[choosesAddress]++
	r.noteUse()
	lower := firstOf(c.SubnetID)
	for range keptAtStart {
		lower = lower.Next()
	}
	for ; lower.Less(c.PrimaryIPv4); lower = lower.Next() {
		if free := r.now.Sub(r.lastUse(c.SubnetID, lower)); free > staleness+ipam.ReservationTTL {
			r.violate("I2", "%s asks for %s in %s although %s was not used for %s", p.name, c.PrimaryIPv4, c.SubnetID, lower,
				seconds(free))
		}
	}
	r.noteAddress(c.SubnetID, c.PrimaryIPv4)
}

// lastUse is when an address was last used or requested, by itself or in a prefix.
func (r *run) lastUse(subnetID string, address netip.Addr) (last time.Time) {
	for _, bits := range []int{address.BitLen(), prefixBits} {
		prefix, _ := address.Prefix(bits)
		last = later(last, r.watch.used[block{subnetID, prefix}])
	}
	return last
}

// prefixBits is the length of a delegated IPv4 prefix.
const prefixBits = 28

// firstOf is the first address of a subnet.
func firstOf(subnetID string) (first netip.Addr) {
	for _, s := range subnets {
		if s.id == subnetID {
			first = netip.MustParsePrefix(s.cidr).Addr()
		}
	}
	return first
}
