// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"fmt"
	"net/netip"

	"go4.org/netipx"
)

// EC2 keeps the first four addresses and the last one of every subnet block for itself (Amazon VPC user guide, "Subnet
// sizing"; for IPv6 likewise).
const keptAtStart = 4

// Subnet is one address block of a subnet, and the addresses in it that are not available.
type Subnet struct {
	// CIDR is the block, IPv4 or IPv6.
	CIDR netip.Prefix
	// Used are the addresses and the delegated prefixes of all interfaces in the subnet, of whichever family.
	Used []netip.Prefix
	// Reserved are the CIDR reservations of the subnet. An explicit one could be taken from by naming its addresses,
	// and a prefix one could not; either was made to keep interfaces' own addresses out.
	Reserved []netip.Prefix
}

// Free returns the lowest n addresses that an interface could be given, fewer when there are no more.
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

// space is the block without what EC2 keeps, what is used and what is reserved.
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

// UsableRange returns the addresses of a block that interfaces and pods of the subnet can have; false if there are
// none.
func UsableRange(subnet, block netip.Prefix) (netipx.IPRange, bool) {
	usable, err := Subnet{CIDR: subnet}.space()
	if err != nil {
		return netipx.IPRange{}, false
	}
	ranges := intersection(usable, setOfPrefix(block)).Ranges()
	if len(ranges) == 0 {
		return netipx.IPRange{}, false
	}
	return ranges[0], true
}
