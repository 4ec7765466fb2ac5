// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"encoding/binary"
	"net/netip"
)

// WithIPv4Suffix returns the address whose offset in an IPv6 subnet block equals the offset of an IPv4 address in its
// own block: for example, the fifth IPv6 address for the fifth IPv4 address. It returns false if an interface cannot
// get that address. Two interfaces never share an IPv4 address, so processes that choose in this way do not collide.
func WithIPv4Suffix(block netip.Prefix, address netip.Addr, s Subnet) (beside netip.Addr, free bool, err error) {
	if !block.Contains(address) || !address.Is4() || !s.CIDR.IsValid() || !s.CIDR.Addr().Is6() {
		return netip.Addr{}, false, nil
	}
	first, own := block.Masked().Addr().As4(), address.As4()
	place := binary.BigEndian.Uint32(own[:]) - binary.BigEndian.Uint32(first[:])
	bytes := s.CIDR.Masked().Addr().As16()
	low := binary.BigEndian.Uint64(bytes[8:])
	binary.BigEndian.PutUint64(bytes[8:], low+uint64(place)) // the block is a /64 or larger, so these are host bits
	beside = netip.AddrFrom16(bytes)
	space, err := s.space()
	if err != nil {
		return netip.Addr{}, false, err
	}
	return beside, space.Contains(beside), nil
}
