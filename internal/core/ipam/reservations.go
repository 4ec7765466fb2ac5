// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// ReservationTTL is how long an address stays reserved for a holder that does not renew it. It covers the time until
// EC2 returns a new interface to all readers.
const ReservationTTL = 2 * time.Minute

// Reservations are the addresses of subnets that this process reserved and that EC2 may not return as used yet. The
// type has no lock; its zero value is ready for use.
type Reservations struct {
	byAddr map[addressKey]claim
}

// addressKey is an address within one subnet, because two VPCs can have the same address.
type addressKey struct {
	subnetID string
	addr     netip.Addr
}

type claim struct {
	holder string
	until  time.Time
}

// Take reserves for a holder the lowest address of the subnet that is neither used nor reserved for another holder. A
// repeated call returns the same address to the same holder while it is free. It returns false if the subnet has no
// free address.
func (c *Reservations) Take(subnetID string, s Subnet, holder string, now time.Time) (netip.Addr, bool, error) {
	c.expire(now)
	space, err := s.space()
	if err != nil {
		return netip.Addr{}, false, err
	}
	if mine, held := c.of(subnetID, holder); held {
		if space.Contains(mine) {
			c.reserve(subnetID, mine, holder, now)
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
	c.reserve(subnetID, lowest[0], holder, now)
	return lowest[0], true, nil
}

// Taken records that EC2 refused an address as used although no read returned it as used. No holder gets the address
// for the next ReservationTTL.
func (c *Reservations) Taken(subnetID string, addr netip.Addr, now time.Time) {
	c.reserve(subnetID, addr, "", now)
}

// Release removes a reservation when its interface is not created.
func (c *Reservations) Release(subnetID string, addr netip.Addr) {
	delete(c.byAddr, addressKey{subnetID, addr})
}

func (c *Reservations) reserve(subnetID string, addr netip.Addr, holder string, now time.Time) {
	if c.byAddr == nil {
		c.byAddr = map[addressKey]claim{}
	}
	c.byAddr[addressKey{subnetID, addr}] = claim{holder, now.Add(ReservationTTL)}
}

func (c *Reservations) of(subnetID, holder string) (netip.Addr, bool) {
	for p, claim := range c.byAddr {
		if p.subnetID == subnetID && claim.holder == holder && holder != "" {
			return p.addr, true
		}
	}
	return netip.Addr{}, false
}

func (c *Reservations) expire(now time.Time) {
	maps.DeleteFunc(c.byAddr, func(_ addressKey, c claim) bool { return !now.Before(c.until) })
}
