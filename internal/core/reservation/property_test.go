// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ipam"
	"github.com/multieni/multieni/internal/core/reservation"
)

// cloud is EC2's side of one subnet: it refuses overlaps, and can return an earlier state.
type cloud struct {
	made  []eni.SubnetReservation
	stale []eni.SubnetReservation
	next  int
}

func (c *cloud) create(made eni.SubnetReservation) (string, bool) {
	if slices.ContainsFunc(c.made, func(r eni.SubnetReservation) bool { return r.CIDR.Overlaps(made.CIDR) }) {
		return "", false
	}
	c.next++
	made.ID = fmt.Sprintf("scr-%d", c.next)
	c.made = append(slices.Clone(c.made), made)
	return made.ID, true
}

func (c *cloud) delete(ids []string) {
	c.made = slices.DeleteFunc(slices.Clone(c.made), func(r eni.SubnetReservation) bool { return slices.Contains(ids, r.ID) })
}

func (c *cloud) owned() []eni.SubnetReservation {
	return slices.DeleteFunc(slices.Clone(c.made), func(r eni.SubnetReservation) bool {
		return r.Description != owner.Description()
	})
}

// reconcile is one reconciliation, which may read an earlier state, and crash between a call and the record of its answer.
func (c *cloud) reconcile(rt *rapid.T, d reservation.Desired, recorded []reservation.Block, interfaces []eni.Interface, faulty bool) []reservation.Block {
	read := c.made
	if faulty && rapid.Bool().Draw(rt, "stale") {
		read = c.stale
	}
	c.stale = c.made
	p := d.Plan(reservation.Observed{Subnet: subnet(), Reservations: read, Interfaces: interfaces, Recorded: recorded})
	if faulty && rapid.Bool().Draw(rt, "crash before the calls") {
		return p.Blocks
	}
	c.delete(p.Delete)
	for n := range p.Blocks {
		b := &p.Blocks[n]
		if b.Reason != reservation.Reserving {
			continue
		}
		id, ok := c.create(owner.Reservation("", b.CIDR, d.Type))
		if ok && (!faulty || !rapid.Bool().Draw(rt, "crash after the call")) {
			b.ID, b.Owned, b.Reason, b.Message = id, true, "", ""
		}
	}
	return p.Blocks
}

func anyBlock(rt *rapid.T, bits int, label string) netip.Prefix {
	return rapid.SampledFrom(ipam.Split(subnet().CIDR, bits)).Draw(rt, label)
}

// anyForeign returns a reservation of another program, to which a user may have copied our tags.
func anyForeign(rt *rapid.T) eni.SubnetReservation {
	foreign := eni.SubnetReservation{
		CIDR: anyBlock(rt, rapid.IntRange(26, 28).Draw(rt, "bits"), "theirs"), Type: eni.ReservationExplicit,
	}
	if rapid.Bool().Draw(rt, "with our tags") {
		foreign.Tags = owner.Tags()
	}
	return foreign
}

func anyInterfaces(rt *rapid.T) []eni.Interface {
	var all []eni.Interface
	for n := range rapid.IntRange(0, 4).Draw(rt, "interfaces") {
		i := eni.Interface{ID: fmt.Sprintf("eni-%d", n)}
		if rapid.Bool().Draw(rt, "delegated") {
			i.IPv4Prefixes = []netip.Prefix{anyBlock(rt, 28, "prefix")}
		} else {
			i.PrimaryIPv4 = anyBlock(rt, 32, "address").Addr()
		}
		all = append(all, i)
	}
	return all
}

// usedBy returns an interface that uses a reservation for its purpose.
func usedBy(r eni.SubnetReservation) eni.Interface {
	i := eni.Interface{ID: "eni-of-" + r.ID}
	if r.Type == eni.ReservationExplicit {
		i.SecondaryIPv4 = []netip.Addr{r.CIDR.Addr()}
	} else {
		i.IPv4Prefixes = []netip.Prefix{netip.PrefixFrom(r.CIDR.Addr(), 28)}
	}
	return i
}

func anyDesired(rt *rapid.T) reservation.Desired {
	d := reservation.Desired{
		Owner: owner, Type: rapid.SampledFrom([]eni.ReservationType{eni.ReservationPrefix, eni.ReservationExplicit}).Draw(rt, "type"),
		Retain: rapid.Bool().Draw(rt, "retain"),
	}
	if rapid.Bool().Draw(rt, "by size") {
		d.PrefixLength = rapid.IntRange(24, 28).Draw(rt, "prefixLength")
		return d
	}
	for range rapid.IntRange(1, 3).Draw(rt, "cidrs") {
		d.Blocks = append(d.Blocks, anyBlock(rt, rapid.IntRange(25, 28).Draw(rt, "bits"), "cidr"))
	}
	return d
}

// A declaration never has two reservations for one block, in spite of crashes and late reads. Reservations of others
// stay. Once reads are current, EC2 has the reservations that the status names.
func TestNeverTwoAndNothingOfOthersIsDeleted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &cloud{}
		for range rapid.IntRange(0, 3).Draw(rt, "theirs") {
			c.create(anyForeign(rt))
		}
		theirs, interfaces := slices.Clone(c.made), anyInterfaces(rt)
		c.stale = c.made
		var recorded []reservation.Block
		d := anyDesired(rt)
		for range rapid.IntRange(1, 8).Draw(rt, "reconciliations") {
			recorded = c.reconcile(rt, d, recorded, interfaces, true)
			if mine := c.owned(); len(mine) > 0 && rapid.Bool().Draw(rt, "an address of a reservation is assigned") {
				interfaces = append(interfaces, usedBy(mine[0]))
			}
			if d.PrefixLength > 0 && len(c.owned()) > 1 {
				rt.Fatalf("two reservations for one declaration: %v", c.owned())
			}
		}
		for range 2 {
			recorded = c.reconcile(rt, d, recorded, interfaces, false)
		}
		settled := d.Plan(reservation.Observed{Subnet: subnet(), Reservations: c.made, Interfaces: interfaces, Recorded: recorded})
		if len(settled.Create)+len(settled.Delete) > 0 {
			rt.Fatalf("it does not settle: %+v", settled)
		}
		reserved := 0
		for _, b := range settled.Blocks {
			if b.Reason != "" {
				continue
			}
			reserved++
			if !slices.ContainsFunc(c.made, func(r eni.SubnetReservation) bool { return r.ID == b.ID && r.CIDR == b.CIDR && r.Type == d.Type }) {
				rt.Fatalf("EC2 has no %+v", b)
			}
		}
		if len(c.owned()) > reserved {
			rt.Fatalf("EC2 has %v, and the status %+v", c.owned(), settled.Blocks)
		}
		d.Retain = false
		c.delete(d.Release(reservation.Observed{Reservations: c.made, Recorded: recorded}))
		if fmt.Sprint(c.made) != fmt.Sprint(theirs) {
			rt.Fatalf("after the deletion EC2 has %v, and before %v", c.made, theirs)
		}
	})
}

// A new block holds no address and overlaps nothing.
func TestANewBlockIsFree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &cloud{}
		for range rapid.IntRange(0, 3).Draw(rt, "theirs") {
			c.create(anyForeign(rt))
		}
		d, interfaces := anyDesired(rt), anyInterfaces(rt)
		p := d.Plan(reservation.Observed{Subnet: subnet(), Reservations: c.made, Interfaces: interfaces})
		for _, block := range p.Create {
			if _, ok := c.create(eni.SubnetReservation{CIDR: block, Type: d.Type}); !ok {
				rt.Fatalf("%s overlaps one of %v", block, c.made)
			}
			for _, i := range interfaces {
				if i.PrimaryIPv4.IsValid() && block.Contains(i.PrimaryIPv4) {
					rt.Fatalf("%s holds the address %s", block, i.PrimaryIPv4)
				}
			}
		}
	})
}
