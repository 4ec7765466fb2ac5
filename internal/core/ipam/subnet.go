// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"fmt"
	"net/netip"

	"go4.org/netipx"
)

// EC2 reserves the first four addresses and the last one of every subnet block for itself, also for IPv6 (Amazon VPC
// user guide, "Subnet sizing").
const keptAtStart = 4

// Subnet is one address block of a subnet, and the addresses in it that are not available.
type Subnet struct {
	// CIDR is the block, IPv4 or IPv6.
	CIDR netip.Prefix
	// Used are the addresses and the delegated prefixes of all interfaces in the subnet, of both families.
	Used []netip.Prefix
	// Reserved are the CIDR reservations of the subnet. A call that names an address can take it from an explicit
	// reservation, but not from a prefix reservation. Both kinds exist to keep the interfaces' own addresses out.
	Reserved []netip.Prefix
}

// Free returns the lowest n addresses that an interface can get, or fewer if there are no more.
func (s Subnet) Free(n int) ([]netip.Addr, error) {
	free, err := s.space()
	if err != nil {
		return nil, err
	}
	var lowest []netip.Addr
	for _, r := range free.Ranges() {
		for a := r.From(); len(lowest) < n; a = a.Next() {
			lowest = append(lowest, a)
			if a == r.To() {
				break
			}
		}
	}
	return lowest, nil
}

// space returns the block without the addresses that EC2 reserves for itself, that are used, or that have a CIDR
// reservation.
func (s Subnet) space() (*netipx.IPSet, error) {
	if !s.CIDR.IsValid() {
		return nil, fmt.Errorf("the subnet's address block %v is not valid", s.CIDR)
	}
	block := netipx.RangeOfPrefix(s.CIDR.Masked())
	var b netipx.IPSetBuilder
	b.AddRange(block)
	kept := block.From()
	for range keptAtStart {
		b.Remove(kept)
		kept = kept.Next()
	}
	b.Remove(block.To())
	for _, taken := range [][]netip.Prefix{s.Used, s.Reserved} {
		for _, p := range taken {
			b.RemovePrefix(p)
		}
	}
	return b.IPSet()
}
