// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/reservation"
)

var (
	owner = reservation.Owner{Cluster: "blue", Name: "n3-pods"}
	cidr  = netip.MustParsePrefix
)

func subnet() eni.Subnet {
	return eni.Subnet{ID: "subnet-a", Zone: "a", CIDR: cidr("10.0.4.0/24"), OwnerID: "123456789012"}
}

func reserved(block string, kind eni.ReservationType, tags map[string]string) eni.SubnetReservation {
	return eni.SubnetReservation{ID: "scr-" + block, CIDR: cidr(block), Type: kind, Tags: tags}
}

// made returns a reservation that multieni made for an owner.
func made(block string, kind eni.ReservationType, owner reservation.Owner) eni.SubnetReservation {
	return owner.Reservation("scr-"+block, cidr(block), kind)
}

func holding(addresses ...string) eni.Interface {
	i := eni.Interface{ID: "eni-1"}
	for _, a := range addresses {
		if strings.Contains(a, "/") {
			i.IPv4Prefixes = append(i.IPv4Prefixes, cidr(a))
		} else {
			i.SecondaryIPv4 = append(i.SecondaryIPv4, netip.MustParseAddr(a))
		}
	}
	return i
}

// sized declares one block of a size, listed the blocks of a list.
func sized(bits int) reservation.Desired {
	return reservation.Desired{Owner: owner, Type: eni.ReservationPrefix, PrefixLength: bits}
}

func listed(blocks ...string) reservation.Desired {
	d := reservation.Desired{Owner: owner, Type: eni.ReservationPrefix}
	for _, b := range blocks {
		d.Blocks = append(d.Blocks, cidr(b))
	}
	return d
}

func TestPlan(t *testing.T) {
	other := reservation.Owner{Cluster: "blue", Name: "n6-pods"}
	elsewhere := reservation.Owner{Cluster: "green", Name: owner.Name}
	explicit := func(d reservation.Desired) reservation.Desired {
		d.Type = eni.ReservationExplicit
		return d
	}
	retain := func(d reservation.Desired) reservation.Desired {
		d.Retain = true
		return d
	}
	cases := map[string]struct {
		desired  reservation.Desired
		observed reservation.Observed
		// want are the blocks, as CIDR ID owned reason.
		want, creates, deletes []string
	}{
		"the highest block of an empty subnet": {
			desired: sized(25), want: []string{"10.0.4.128/25 Reserving"}, creates: []string{"10.0.4.128/25"},
		},
		"the highest block that is free": {
			desired: sized(26),
			observed: reservation.Observed{
				Interfaces:   []eni.Interface{holding("10.0.4.200")},
				Reservations: []eni.SubnetReservation{reserved("10.0.4.160/28", eni.ReservationExplicit, nil)},
			},
			want: []string{"10.0.4.64/26 Reserving"}, creates: []string{"10.0.4.64/26"},
		},
		"no free block of the size": {
			desired: sized(25), observed: reservation.Observed{Interfaces: []eni.Interface{holding("10.0.4.5", "10.0.4.200")}},
			want: []string{"invalid Prefix NoRoom"},
		},
		"a block as large as the subnet": {desired: sized(24), want: []string{"invalid Prefix NoRoom"}},
		"our reservation is adopted after a crash": {
			desired: sized(25),
			observed: reservation.Observed{
				Reservations: []eni.SubnetReservation{made("10.0.4.0/25", eni.ReservationPrefix, owner)},
				Interfaces:   []eni.Interface{holding("10.0.4.5")},
			},
			want: []string{"10.0.4.0/25 scr-10.0.4.0/25 owned"},
		},
		"another cluster has a SubnetReservation of our name": {
			desired: sized(26),
			observed: reservation.Observed{Reservations: []eni.SubnetReservation{
				made("10.0.4.192/26", eni.ReservationPrefix, elsewhere),
				made("10.0.4.128/26", eni.ReservationExplicit, elsewhere),
			}},
			want: []string{"10.0.4.64/26 Reserving"}, creates: []string{"10.0.4.64/26"},
		},
		"a recorded block does not move": {
			desired: sized(26),
			observed: reservation.Observed{
				Recorded: []reservation.Block{{CIDR: cidr("10.0.4.64/26"), ID: "scr-1", Owned: true}},
			},
			want: []string{"10.0.4.64/26 scr-1 owned Reserving"}, creates: []string{"10.0.4.64/26"},
		},
		"a recorded block that is in use by now": {
			desired: sized(26),
			observed: reservation.Observed{
				Recorded:   []reservation.Block{{CIDR: cidr("10.0.4.64/26"), ID: "scr-1", Owned: true}},
				Interfaces: []eni.Interface{holding("10.0.4.70")},
			},
			want: []string{"10.0.4.64/26 scr-1 owned AddressesInUse"},
		},
		"a recorded block that EC2 never had is given up if it is not free": {
			desired: sized(26),
			observed: reservation.Observed{
				Recorded:     []reservation.Block{{CIDR: cidr("10.0.4.192/26"), Reason: reservation.Reserving}},
				Reservations: []eni.SubnetReservation{made("10.0.4.192/26", eni.ReservationPrefix, other)},
			},
			want: []string{"10.0.4.128/26 Reserving"}, creates: []string{"10.0.4.128/26"},
		},
		"a block whose request was not answered is requested again": {
			desired: sized(26),
			observed: reservation.Observed{
				Recorded:   []reservation.Block{{CIDR: cidr("10.0.4.192/26"), Reason: reservation.Reserving}},
				Interfaces: []eni.Interface{holding("10.0.4.192/28")},
			},
			want: []string{"10.0.4.192/26 Reserving"}, creates: []string{"10.0.4.192/26"},
		},
		"a listed block whose request was not answered has an address by now": {
			desired: explicit(listed("10.0.4.128/25")),
			observed: reservation.Observed{
				Recorded:   []reservation.Block{{CIDR: cidr("10.0.4.128/25"), Reason: reservation.Reserving}},
				Interfaces: []eni.Interface{holding("10.0.4.130", "10.0.4.144/28")},
			},
			want: []string{"10.0.4.128/25 Reserving"}, creates: []string{"10.0.4.128/25"},
		},
		"a block that EC2 refused is given up if it is not free": {
			desired: sized(26),
			observed: reservation.Observed{
				Recorded:   []reservation.Block{{CIDR: cidr("10.0.4.192/26"), Reason: reservation.Unauthorized}},
				Interfaces: []eni.Interface{holding("10.0.4.200")},
			},
			want: []string{"10.0.4.128/26 Reserving"}, creates: []string{"10.0.4.128/26"},
		},
		"another size": {
			desired:  sized(26),
			observed: reservation.Observed{Reservations: []eni.SubnetReservation{made("10.0.4.128/25", eni.ReservationPrefix, owner)}},
			want:     []string{"10.0.4.192/26 Reserving"}, creates: []string{"10.0.4.192/26"}, deletes: []string{"scr-10.0.4.128/25"},
		},
		"another size while the old one is retained": {
			desired:  retain(sized(26)),
			observed: reservation.Observed{Reservations: []eni.SubnetReservation{made("10.0.4.128/25", eni.ReservationPrefix, owner)}},
			want:     []string{"10.0.4.64/26 Reserving"}, creates: []string{"10.0.4.64/26"},
		},
		"another type": {
			desired:  explicit(listed("10.0.4.128/25")),
			observed: reservation.Observed{Reservations: []eni.SubnetReservation{made("10.0.4.128/25", eni.ReservationPrefix, owner)}},
			want:     []string{"10.0.4.128/25 Reserving"}, creates: []string{"10.0.4.128/25"}, deletes: []string{"scr-10.0.4.128/25"},
		},
		"a listed block that a person reserved is used": {
			desired: listed("10.0.4.128/25"),
			observed: reservation.Observed{
				Reservations: []eni.SubnetReservation{reserved("10.0.4.128/25", eni.ReservationPrefix, map[string]string{"team": "core"})},
				Interfaces:   []eni.Interface{holding("10.0.4.200")},
			},
			want: []string{"10.0.4.128/25 scr-10.0.4.128/25"},
		},
		"a listed block of another SubnetReservation": {
			desired:  listed("10.0.4.128/25"),
			observed: reservation.Observed{Reservations: []eni.SubnetReservation{made("10.0.4.128/25", eni.ReservationPrefix, other)}},
			want:     []string{"10.0.4.128/25 Overlaps"},
		},
		"a listed block within another reservation": {
			desired:  listed("10.0.4.192/26"),
			observed: reservation.Observed{Reservations: []eni.SubnetReservation{reserved("10.0.4.128/25", eni.ReservationPrefix, nil)}},
			want:     []string{"10.0.4.192/26 Overlaps"},
		},
		"two listed blocks that overlap": {
			desired: listed("10.0.4.128/25", "10.0.4.192/26"),
			want:    []string{"10.0.4.128/25 Reserving", "10.0.4.192/26 Overlaps"}, creates: []string{"10.0.4.128/25"},
		},
		"an address in a listed block": {
			desired: listed("10.0.4.128/25"), observed: reservation.Observed{Interfaces: []eni.Interface{holding("10.0.4.130")}},
			want: []string{"10.0.4.128/25 AddressesInUse"},
		},
		"a delegated prefix in a block for prefixes": {
			desired: listed("10.0.4.128/25"), observed: reservation.Observed{Interfaces: []eni.Interface{holding("10.0.4.128/28")}},
			want: []string{"10.0.4.128/25 Reserving"}, creates: []string{"10.0.4.128/25"},
		},
		"a delegated prefix in a block for named addresses": {
			desired: explicit(listed("10.0.4.128/25")), observed: reservation.Observed{Interfaces: []eni.Interface{holding("10.0.4.128/28")}},
			want: []string{"10.0.4.128/25 AddressesInUse"},
		},
		"a block that does not begin at its address": {desired: listed("10.0.4.129/25"), want: []string{"10.0.4.129/25 InvalidBlock"}},
		"a block of another subnet":                  {desired: listed("10.0.5.128/25")},
		"a block that is no longer listed": {
			desired: listed("10.0.4.128/26"),
			observed: reservation.Observed{Reservations: []eni.SubnetReservation{
				made("10.0.4.128/26", eni.ReservationPrefix, owner), made("10.0.4.192/26", eni.ReservationPrefix, owner),
				reserved("10.0.4.64/26", eni.ReservationPrefix, nil), made("10.0.4.32/28", eni.ReservationPrefix, other),
			}},
			want: []string{"10.0.4.128/26 scr-10.0.4.128/26 owned"}, deletes: []string{"scr-10.0.4.192/26"},
		},
		"a user copied our tags to a block of another size": {
			desired: sized(26),
			observed: reservation.Observed{
				Reservations: []eni.SubnetReservation{
					made("10.0.4.128/26", eni.ReservationPrefix, owner), reserved("10.0.4.0/25", eni.ReservationPrefix, owner.Tags()),
				},
				Recorded: []reservation.Block{{CIDR: cidr("10.0.4.128/26"), ID: "scr-10.0.4.128/26", Owned: true}},
			},
			want: []string{"10.0.4.128/26 scr-10.0.4.128/26 owned"},
		},
		"a user copied our tags, and the record is lost": {
			desired:  sized(26),
			observed: reservation.Observed{Reservations: []eni.SubnetReservation{reserved("10.0.4.192/26", eni.ReservationPrefix, owner.Tags())}},
			want:     []string{"10.0.4.128/26 Reserving"}, creates: []string{"10.0.4.128/26"},
		},
		"a user copied our tags to the reservation of another cluster": {
			desired: sized(26),
			observed: reservation.Observed{Reservations: []eni.SubnetReservation{{
				ID: "scr-1", CIDR: cidr("10.0.4.0/25"), Type: eni.ReservationPrefix, Tags: owner.Tags(), Description: elsewhere.Description(),
			}}},
			want: []string{"10.0.4.192/26 Reserving"}, creates: []string{"10.0.4.192/26"},
		},
		"a listed block to which a user copied our tags is used": {
			desired:  listed("10.0.4.128/25"),
			observed: reservation.Observed{Reservations: []eni.SubnetReservation{reserved("10.0.4.128/25", eni.ReservationPrefix, owner.Tags())}},
			want:     []string{"10.0.4.128/25 scr-10.0.4.128/25"},
		},
		"a recorded block that is no longer listed and that EC2 does not return yet": {
			desired:  listed("10.0.4.128/26"),
			observed: reservation.Observed{Recorded: []reservation.Block{{CIDR: cidr("10.0.4.0/26"), ID: "scr-2", Owned: true}, {CIDR: cidr("10.0.4.64/26"), ID: "scr-3"}}},
			want:     []string{"10.0.4.128/26 Reserving"}, creates: []string{"10.0.4.128/26"}, deletes: []string{"scr-2"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.observed.Subnet = subnet()
			p := tc.desired.Plan(tc.observed)
			var blocks, creates []string
			for _, b := range p.Blocks {
				words := []string{b.CIDR.String(), b.ID, "", string(b.Reason)}
				if b.Owned {
					words[2] = "owned"
				}
				blocks = append(blocks, strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "))
				if (b.Reason == "") != (b.Message == "") {
					t.Errorf("reason %q has the message %q", b.Reason, b.Message)
				}
			}
			for _, c := range p.Create {
				creates = append(creates, c.String())
			}
			got, want := [][]string{blocks, creates, p.Delete}, [][]string{tc.want, tc.creates, tc.deletes}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("blocks, creates, deletes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASubnetThatIsNotSelectedAnyMoreLosesOurReservationsOnly(t *testing.T) {
	o := reservation.Observed{Reservations: []eni.SubnetReservation{
		made("10.0.4.128/26", eni.ReservationPrefix, owner), reserved("10.0.4.192/26", eni.ReservationPrefix, nil),
		reserved("10.0.4.64/26", eni.ReservationPrefix, owner.Tags()),
	}}
	if got := sized(26).Release(o); !slices.Equal(got, []string{"scr-10.0.4.128/26"}) {
		t.Errorf("deletes %v", got)
	}
	retained := sized(26)
	retained.Retain = true
	if got := retained.Release(o); len(got) > 0 {
		t.Errorf("deletes %v although they are retained", got)
	}
}

// EC2 accepts 255 characters, and names of SubnetReservations have at most 220.
func TestADescriptionFits(t *testing.T) {
	o := reservation.Owner{Cluster: strings.Repeat("c", 100), Name: strings.Repeat("n", 220)}
	if length := len(o.Description()); length > 255 {
		t.Errorf("the description has %d characters", length)
	}
}

func TestAListedBlockOfNoSubnetIsReported(t *testing.T) {
	blocks := listed("10.0.4.128/25", "10.9.0.0/25").Elsewhere([]eni.Subnet{subnet()})
	if len(blocks) != 1 || blocks[0].Reason != reservation.NotInSubnet || blocks[0].CIDR != cidr("10.9.0.0/25") {
		t.Errorf("blocks %+v", blocks)
	}
}

func TestASubnetWithoutIPv4HasNoRoom(t *testing.T) {
	p := sized(25).Plan(reservation.Observed{Subnet: eni.Subnet{ID: "subnet-6"}})
	if len(p.Blocks) != 1 || p.Blocks[0].Reason != reservation.NoRoom || !strings.Contains(p.Blocks[0].Message, "no IPv4") {
		t.Errorf("blocks %+v", p.Blocks)
	}
}

func TestRefused(t *testing.T) {
	for class, want := range map[eni.Class]reservation.Reason{
		eni.Unauthorized: reservation.Unauthorized, eni.AddressTaken: reservation.Reserving, eni.Throttled: reservation.Reserving,
		eni.Transient: reservation.Reserving, eni.Invalid: reservation.RefusedByEC2,
	} {
		reason, message := reservation.Refused(class, &eni.APIError{Class: class, Operation: "CreateSubnetCidrReservation", Code: "Code"}, subnet())
		if reason != want || message == "" {
			t.Errorf("%s: %s %q", class, reason, message)
		}
	}
	if _, message := reservation.Refused(eni.Unauthorized, &eni.APIError{}, subnet()); !strings.Contains(message, "123456789012") {
		t.Errorf("the message does not name the subnet's account: %s", message)
	}
}

func TestSummary(t *testing.T) {
	done, waits, full := reservation.Block{}, reservation.Block{Reason: reservation.Reserving}, reservation.Block{Reason: reservation.NoRoom, Message: "full"}
	for name, tc := range map[string]struct {
		blocks  []reservation.Block
		reason  reservation.Reason
		message string
	}{
		"all reserved":              {[]reservation.Block{done, done}, "", "2 blocks reserved"},
		"one is requested":          {[]reservation.Block{done, waits}, reservation.Reserving, "1 of 2 blocks reserved: "},
		"a person has to act first": {[]reservation.Block{waits, done, full}, reservation.NoRoom, "1 of 3 blocks reserved: full"},
	} {
		if reason, message := reservation.Summary(tc.blocks); reason != tc.reason || message != tc.message {
			t.Errorf("%s: %s %q", name, reason, message)
		}
	}
}
