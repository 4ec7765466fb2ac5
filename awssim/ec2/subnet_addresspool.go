// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// EC2 reserves the first four addresses and the last one of each subnet (VPC user guide, "Subnet CIDR blocks").
const (
	reservedAtStart = 4
	reservedAtEnd   = 1
)

// Sizes of delegated prefixes.
const (
	ipv4PrefixBits = 28
	ipv6PrefixBits = 80
)

// pool is the address space of one subnet. It assigns the lowest free address.
type pool struct {
	cidr netip.Prefix // the zero value in an IPv6-only subnet
	used []uint64     // a bit per IPv4 address
	size int
	free int
	low  int // no address below is free

	reservations []*SubnetCIDRReservation

	cidr6     netip.Prefix // a /64, or the zero value
	used6     map[netip.Addr]bool
	prefixes6 map[netip.Prefix]bool
}

func newPool(cidr, cidr6 netip.Prefix) *pool {
	p := &pool{cidr6: cidr6.Masked(), used6: map[netip.Addr]bool{}, prefixes6: map[netip.Prefix]bool{}}
	if !cidr.IsValid() {
		return p
	}
	size := 1 << (32 - cidr.Bits())
	p.cidr, p.used, p.size, p.free = cidr.Masked(), make([]uint64, (size+63)/64), size, size
	for i := range reservedAtStart {
		p.mark(i)
	}
	p.mark(size - reservedAtEnd)
	return p
}

func (p *pool) isUsed(i int) bool { return p.used[i/64]&(1<<(i%64)) != 0 }

func (p *pool) mark(i int) {
	p.used[i/64] |= 1 << (i % 64)
	p.free--
}

func (p *pool) clear(i int) {
	p.used[i/64] &^= 1 << (i % 64)
	p.free++
	p.low = min(p.low, i)
}

// offset is the address's number in the subnet, which it must be in.
func (p *pool) offset(a netip.Addr) int {
	base, address := p.cidr.Addr().As4(), a.As4()
	return int(binary.BigEndian.Uint32(address[:]) - binary.BigEndian.Uint32(base[:]))
}

func (p *pool) address(i int) netip.Addr {
	base := p.cidr.Addr().As4()
	binary.BigEndian.PutUint32(base[:], binary.BigEndian.Uint32(base[:])+uint32(i))
	return netip.AddrFrom4(base)
}

// take returns the lowest free address.
func (p *pool) take() (netip.Addr, bool) {
	for i := p.low; i < p.size; i++ {
		if word := p.used[i/64]; i%64 == 0 && word == ^uint64(0) {
			i += 63
			continue
		}
		if !p.isUsed(i) && !p.reserved(p.address(i)) {
			p.low = i + 1
			p.mark(i)
			return p.address(i), true
		}
	}
	p.low = p.size
	return netip.Addr{}, false
}

// takeThis takes a given address, which must be in the subnet, and reports whether it was free.
func (p *pool) takeThis(a netip.Addr) bool {
	i := p.offset(a)
	if p.isUsed(i) {
		return false
	}
	p.mark(i)
	return true
}

func (p *pool) release(a netip.Addr) { p.clear(p.offset(a)) }

// takePrefix takes the lowest completely free /28.
func (p *pool) takePrefix() (netip.Prefix, bool) {
	for first := 0; first+16 <= p.size; first += 16 {
		if p.block(first) == 0 && p.givesPrefixes(p.address(first)) {
			prefix := netip.PrefixFrom(p.address(first), ipv4PrefixBits)
			return prefix, p.takeThisPrefix(prefix)
		}
	}
	return netip.Prefix{}, false
}

// takeThisPrefix takes a given /28 of the subnet, and reports whether it was completely free.
func (p *pool) takeThisPrefix(prefix netip.Prefix) bool {
	first := p.offset(prefix.Addr())
	if p.block(first) != 0 {
		return false
	}
	for i := range 16 {
		p.mark(first + i)
	}
	return true
}

func (p *pool) releasePrefix(prefix netip.Prefix) {
	first := p.offset(prefix.Addr())
	for i := range 16 {
		p.clear(first + i)
	}
}

// block counts the used addresses of the 16 from first, a multiple of 16.
func (p *pool) block(first int) int {
	return bits.OnesCount64(p.used[first/64] >> (first % 64) & 0xffff)
}

// hasIPv4 reports whether the subnet has an IPv4 range.
func (p *pool) hasIPv4() bool { return p.cidr.IsValid() }

// hasIPv6 reports whether the subnet has an IPv6 range.
func (p *pool) hasIPv6() bool { return p.cidr6.IsValid() }

// take6 returns the lowest free IPv6 address. There is always one.
func (p *pool) take6() netip.Addr {
	address := p.cidr6.Addr()
	for range reservedAtStart {
		address = address.Next()
	}
	for p.reserved(address) || !p.takeThis6(address) {
		address = address.Next()
	}
	return address
}

// takeThis6 takes a given address of the subnet, and reports whether it was free and in no assigned prefix.
func (p *pool) takeThis6(a netip.Addr) bool {
	if p.used6[a] || p.prefixes6[netip.PrefixFrom(a, ipv6PrefixBits).Masked()] {
		return false
	}
	p.used6[a] = true
	return true
}

func (p *pool) release6(a netip.Addr) { delete(p.used6, a) }

// takePrefix6 returns the lowest free /80 except the first, which is for single addresses.
func (p *pool) takePrefix6() netip.Prefix {
	bytes := p.cidr6.Addr().As16()
	for {
		number := binary.BigEndian.Uint16(bytes[8:10]) + 1
		binary.BigEndian.PutUint16(bytes[8:10], number)
		if prefix := netip.PrefixFrom(netip.AddrFrom16(bytes), ipv6PrefixBits); p.takeThisPrefix6(prefix) {
			return prefix
		}
	}
}

// takeThisPrefix6 takes a given /80 of the subnet, and reports whether it and all its addresses were free.
func (p *pool) takeThisPrefix6(prefix netip.Prefix) bool {
	if p.prefixes6[prefix] {
		return false
	}
	for address := range p.used6 {
		if prefix.Contains(address) {
			return false
		}
	}
	p.prefixes6[prefix] = true
	return true
}

func (p *pool) releasePrefix6(prefix netip.Prefix) { delete(p.prefixes6, prefix) }
