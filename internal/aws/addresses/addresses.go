// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addresses finds the lowest free address of a subnet for an interface that is about to be created. It reads
// EC2; package ipam decides.
//
// [Reservations] is for a process that creates all or nearly all interfaces of its cluster: it assigns each address
// once. [Ranked] is for independent processes, for example a function that runs once for each instance: each process
// takes the address at its own rank among the waiting interfaces.
package addresses

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/multieni/multieni/internal/base/cache"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ipam"
	"github.com/multieni/multieni/internal/core/selector"
)

const (
	// reservationsTTL is how long the reservations of a subnet are cached: they rarely change, and EC2 allows few reads.
	reservationsTTL = 10 * time.Minute
	// subnetUseTTL is how long concurrent callers share a list of a subnet's interfaces.
	subnetUseTTL = 500 * time.Millisecond
)

// Reader is the part of EC2 that this package reads.
type Reader interface {
	Subnets(context.Context, selector.SubnetTerms) ([]eni.Subnet, error)
	SubnetInterfaces(ctx context.Context, subnetID string) ([]eni.Interface, error)
	SubnetReservations(ctx context.Context, subnetID string) ([]eni.SubnetReservation, error)
}

// subnets reads subnets for many callers.
type subnets struct {
	reader   Reader
	constant *cache.Cache[blocks]
	use      *cache.Cache[[]eni.Interface]
}

// blocks is the constant part of a subnet: its IPv4 block with the reservations, and its IPv6 block.
type blocks struct {
	ipam.Subnet
	ipv6 netip.Prefix
}

func newSubnets(reader Reader, now func() time.Time) *subnets {
	return &subnets{reader: reader, constant: cache.New[blocks](now), use: cache.New[[]eni.Interface](now)}
}

// read returns the IPv4 block of a subnet with the used and reserved parts, and the subnet's interfaces.
func (s *subnets) read(ctx context.Context, subnetID string) (ipam.Subnet, []eni.Interface, error) {
	constant, err := s.blocks(ctx, subnetID)
	if err != nil {
		return ipam.Subnet{}, nil, err
	}
	subnet := constant.Subnet
	interfaces, err := s.use.Get(ctx, subnetID, func(ctx context.Context) ([]eni.Interface, time.Duration, error) {
		interfaces, err := s.reader.SubnetInterfaces(ctx, subnetID)
		return interfaces, subnetUseTTL, err
	})
	if err != nil {
		return subnet, nil, err
	}
	for _, i := range interfaces {
		subnet.Used = append(subnet.Used, i.Addresses.Prefixes()...)
	}
	return subnet, interfaces, nil
}

// Both implementations of [executor.Addresses] use it for WithIPv4Suffix.
func (s *subnets) beside(ctx context.Context, subnetID string, address netip.Addr) (netip.Addr, error) {
	constant, err := s.blocks(ctx, subnetID)
	if err != nil || !constant.ipv6.IsValid() {
		return netip.Addr{}, err
	}
	subnet, _, err := s.read(ctx, subnetID)
	if err != nil {
		return netip.Addr{}, err
	}
	block := subnet.CIDR
	subnet.CIDR = constant.ipv6
	beside, free, err := ipam.WithIPv4Suffix(block, address, subnet)
	if err != nil || !free {
		return netip.Addr{}, err
	}
	return beside, nil
}

func (s *subnets) blocks(ctx context.Context, subnetID string) (blocks, error) {
	return s.constant.Get(ctx, subnetID, func(ctx context.Context) (blocks, time.Duration, error) {
		constant, err := s.block(ctx, subnetID)
		return constant, reservationsTTL, err
	})
}

func (s *subnets) block(ctx context.Context, subnetID string) (blocks, error) {
	known, err := s.reader.Subnets(ctx, selector.SubnetTerms{IDs: []string{subnetID}})
	if err != nil {
		return blocks{}, err
	}
	if len(known) != 1 {
		return blocks{}, &eni.APIError{Class: eni.NotFound, Operation: "DescribeSubnets",
			Code: "InvalidSubnetID.NotFound", Message: "there is no " + subnetID}
	}
	reserved, err := s.reader.SubnetReservations(ctx, subnetID)
	subnet := ipam.Subnet{CIDR: known[0].CIDR}
	for _, r := range reserved {
		subnet.Reserved = append(subnet.Reserved, r.CIDR)
	}
	return blocks{subnet, known[0].IPv6CIDR}, err
}

// forget drops the cached interfaces of a subnet.
func (s *subnets) forget(subnetID string) { s.use.Forget(subnetID) }

// full returns the error for a subnet without a free address.
func full(subnetID string) error {
	return &eni.APIError{
		Class: eni.NoAddresses, Operation: "CreateNetworkInterface", Code: "InsufficientFreeAddressesInSubnet",
		Message: fmt.Sprintf("%s has no free address outside of its CIDR reservations", subnetID),
	}
}
