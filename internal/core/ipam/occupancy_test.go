// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ipam"
)

var block = netip.MustParsePrefix("10.0.4.0/24")

// held is an interface of a holder with single addresses, the first as its primary one, and delegated prefixes.
func held(holder string, single []netip.Addr, delegated ...string) ipam.HeldInterface {
	i := ipam.HeldInterface{Holder: holder}
	i.IPv4Prefixes = prefixes(delegated...)
	if len(single) > 0 {
		i.PrimaryIPv4, i.SecondaryIPv4 = single[0], single[1:]
	}
	return i
}

func reserved(kind eni.ReservationType, cidr string) eni.SubnetReservation {
	return eni.SubnetReservation{CIDR: netip.MustParsePrefix(cidr), Type: kind}
}

func TestOccupancyCounts(t *testing.T) {
	type counts struct{ Usable, Used, Free, FreePrefixes int }
	for name, tc := range map[string]struct {
		block        string
		interfaces   []ipam.HeldInterface
		reservations []eni.SubnetReservation
		want         counts
	}{
		"an empty subnet lacks the five addresses of EC2, and the two /28 with them": {
			block: "10.0.4.0/24", want: counts{251, 0, 251, 14},
		},
		"one address in a /28 takes the /28 from delegation": {
			block:      "10.0.4.0/24",
			interfaces: []ipam.HeldInterface{held("a", addrs("10.0.4.20"))},
			want:       counts{251, 1, 250, 13},
		},
		"a delegated prefix uses 16 addresses": {
			block:      "10.0.4.0/24",
			interfaces: []ipam.HeldInterface{held("a", addrs("10.0.4.4"), "10.0.4.32/28")},
			want:       counts{251, 17, 234, 13},
		},
		"EC2 delegates from the reservation for prefixes alone": {
			block:        "10.0.4.0/24",
			interfaces:   []ipam.HeldInterface{held("a", nil, "10.0.4.128/28")},
			reservations: []eni.SubnetReservation{reserved(eni.ReservationPrefix, "10.0.4.128/26")},
			want:         counts{251, 16, 187, 3},
		},
		"EC2 delegates nothing from an explicit reservation": {
			block:        "10.0.4.0/24",
			reservations: []eni.SubnetReservation{reserved(eni.ReservationExplicit, "10.0.4.128/25")},
			want:         counts{251, 0, 124, 7},
		},
		"fragments leave free addresses and no free /28": {
			block:      "10.0.4.0/26",
			interfaces: []ipam.HeldInterface{held("a", addrs("10.0.4.17", "10.0.4.40"))},
			want:       counts{59, 2, 57, 0},
		},
		"IPv6 does not count": {
			block:        "10.0.4.0/24",
			interfaces:   []ipam.HeldInterface{held("a", addrs("2001:db8::4"))},
			reservations: []eni.SubnetReservation{reserved(eni.ReservationPrefix, "2001:db8::/80")},
			want:         counts{251, 0, 251, 14},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := ipam.NewOccupancy(netip.MustParsePrefix(tc.block), tc.interfaces, tc.reservations)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, counts{o.Usable, o.Used, o.Free, o.FreePrefixes}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOccupancyOfNoIPv4BlockIsAnError(t *testing.T) {
	for _, block := range []netip.Prefix{{}, netip.MustParsePrefix("2001:db8::/64")} {
		if _, err := ipam.NewOccupancy(block, nil, nil); err == nil {
			t.Errorf("%v has an occupancy", block)
		}
	}
}

func TestHoldersAreOrderedByTheirAddresses(t *testing.T) {
	o, err := ipam.NewOccupancy(block, []ipam.HeldInterface{
		held("few", addrs("10.0.4.4", "10.0.4.5")),
		held("many", addrs("10.0.4.6"), "10.0.4.32/28"),
		held("few", addrs("10.0.4.7")),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []ipam.Holder{
		{Name: "many", Interfaces: 1, Addresses: 1, Prefixes: 1},
		{Name: "few", Interfaces: 2, Addresses: 3},
	}
	if diff := cmp.Diff(want, o.Holders); diff != "" {
		t.Error(diff)
	}
}

func TestCellsDivideEveryBlock(t *testing.T) {
	for cidr, want := range map[string]struct{ cells, bits int }{
		"10.0.4.0/28": {1, 28}, "10.0.4.0/24": {16, 28}, "10.0.0.0/20": {256, 28}, "10.0.0.0/16": {256, 24},
	} {
		o, err := ipam.NewOccupancy(netip.MustParsePrefix(cidr), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Cells) != want.cells || o.Cells[0].CIDR.Bits() != want.bits {
			t.Errorf("%s has %d cells, the first is %s", cidr, len(o.Cells), o.Cells[0].CIDR)
		}
	}
}

// Every usable address is used, free, or free within a reservation; and the cells have every used address once.
func TestOccupancyAddsUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var interfaces []ipam.HeldInterface
		for _, p := range someUsed(rt) {
			if p.IsSingleIP() {
				interfaces = append(interfaces, held("a", []netip.Addr{p.Addr()}))
			} else {
				interfaces = append(interfaces, held("b", nil, p.String()))
			}
		}
		kind := rapid.SampledFrom([]eni.ReservationType{eni.ReservationExplicit, eni.ReservationPrefix}).Draw(rt, "type")
		reservations := []eni.SubnetReservation{reserved(kind, "10.0.4.64/27")}
		o, err := ipam.NewOccupancy(block, interfaces, reservations)
		if err != nil {
			rt.Fatal(err)
		}
		kept := 0
		for _, a := range addrs("10.0.4.0", "10.0.4.1", "10.0.4.2", "10.0.4.3", "10.0.4.255") {
			for _, i := range interfaces {
				if i.PrimaryIPv4 == a || len(i.IPv4Prefixes) > 0 && i.IPv4Prefixes[0].Contains(a) {
					kept++
					break
				}
			}
		}
		if sum := o.Used - kept + o.Free + o.Reservations[0].Free; sum != o.Usable {
			rt.Errorf("%d used (%d of EC2's), %d free, %d free in the reservation; %d are usable", o.Used, kept, o.Free, o.Reservations[0].Free, o.Usable)
		}
		if o.FreePrefixes*16 > o.Free+o.Reservations[0].Free {
			rt.Errorf("%d free /28 in %d free addresses", o.FreePrefixes, o.Free)
		}
	})
}
