// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package addressing

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// ClaimLife is how long an address stays promised to a holder that is not heard of again. It covers the time that EC2
// may take to show a new interface to everybody.
const ClaimLife = 2 * time.Minute

// Claims are the addresses of subnets that were promised within this process and that EC2 need not show as used yet.
// It is a plain value without a lock; the zero value is ready for use.
type Claims struct {
	byAddr map[place]claim
}

// place is an address within one subnet: two VPCs can have the same one.
type place struct {
	subnetID string
	addr     netip.Addr
}

type claim struct {
	holder string
	until  time.Time
}

// Take promises a holder the lowest address of the subnet that is neither used nor promised to another. Asked again, it
// gives the same holder the same address as long as it is free. It returns false when the subnet has none left.
func (c *Claims) Take(subnetID string, s Subnet, holder string, now time.Time) (netip.Addr, bool, error) {
	c.expire(now)
	space, err := s.space()
	if err != nil {
		return netip.Addr{}, false, err
	}
	if mine, held := c.of(subnetID, holder); held {
		if space.Contains(mine) {
			c.promise(subnetID, mine, holder, now)
			return mine, true, nil
		}
		c.Release(subnetID, mine)
	}
	for p := range c.byAddr {
		if p.subnetID == subnetID && p.addr.BitLen() == s.CIDR.Addr().BitLen() {
			s.Used = append(slices.Clip(s.Used), netip.PrefixFrom(p.addr, p.addr.BitLen()))
		}
	}
	lowest, err := s.Free(1)
	if err != nil || len(lowest) == 0 {
		return netip.Addr{}, false, err
	}
	c.promise(subnetID, lowest[0], holder, now)
	return lowest[0], true, nil
}

// Taken records that EC2 called an address used which it did not show as used: nobody is promised it for a while.
func (c *Claims) Taken(subnetID string, addr netip.Addr, now time.Time) {
	c.promise(subnetID, addr, "", now)
}

// Release takes a promise back, when the interface it was for is not made after all.
func (c *Claims) Release(subnetID string, addr netip.Addr) {
	delete(c.byAddr, place{subnetID, addr})
}

func (c *Claims) promise(subnetID string, addr netip.Addr, holder string, now time.Time) {
	if c.byAddr == nil {
		c.byAddr = map[place]claim{}
	}
	c.byAddr[place{subnetID, addr}] = claim{holder, now.Add(ClaimLife)}
}

func (c *Claims) of(subnetID, holder string) (netip.Addr, bool) {
	for p, claim := range c.byAddr {
		if p.subnetID == subnetID && claim.holder == holder && holder != "" {
			return p.addr, true
		}
	}
	return netip.Addr{}, false
}

func (c *Claims) expire(now time.Time) {
	maps.DeleteFunc(c.byAddr, func(_ place, c claim) bool { return !now.Before(c.until) })
}
