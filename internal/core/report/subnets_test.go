// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"net/netip"
	"testing"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/report"
)

// subnets are a subnet with room, one without, and one that has no IPv4 block.
func subnets() report.Subnets {
	var room []eni.Interface
	add := func(tags map[string]string, address string, prefixes ...string) {
		i := eni.Interface{Tags: tags}
		i.PrimaryIPv4 = netip.MustParseAddr(address)
		for _, p := range prefixes {
			i.IPv4Prefixes = append(i.IPv4Prefixes, netip.MustParsePrefix(p))
		}
		room = append(room, i)
	}
	ours := map[string]string{identity.TagNodeENI: "n3", identity.TagNodeENIUID: "uid-n3"}
	add(ours, "10.0.4.4", "10.0.4.128/28", "10.0.4.144/28")
	add(ours, "10.0.4.5")
	for address := netip.MustParseAddr("10.0.4.32"); address.Less(netip.MustParseAddr("10.0.4.41")); address = address.Next() {
		add(map[string]string{"node.k8s.amazonaws.com/instance_id": "i-1"}, address.String())
	}
	add(nil, "10.0.4.66")
	reservations := []eni.SubnetReservation{
		{ID: "scr-1", CIDR: netip.MustParsePrefix("10.0.4.128/26"), Type: eni.ReservationPrefix},
		{ID: "scr-2", CIDR: netip.MustParsePrefix("10.0.4.224/28"), Type: eni.ReservationExplicit},
	}
	subnet := func(id, name, cidr string, interfaces []eni.Interface, reservations []eni.SubnetReservation) report.Subnet {
		s := eni.Subnet{ID: id, Name: name, Zone: "us-east-1a"}
		if cidr != "" {
			s.CIDR = netip.MustParsePrefix(cidr)
		}
		one, err := report.NewSubnet(s, interfaces, reservations, []string{"n3"})
		if err != nil {
			panic(err) // the blocks above are valid
		}
		return one
	}
	full := eni.Interface{}
	full.IPv4Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.5.0/28")}
	return report.Subnets{Subnets: []report.Subnet{
		subnet("subnet-1", "n3-a", "10.0.4.0/24", room, reservations),
		subnet("subnet-2", "", "10.0.5.0/28", []eni.Interface{full}, nil),
		subnet("subnet-3", "v6", "", nil, nil),
	}}
}

func TestASubnetWithAnInvalidBlockIsNamed(t *testing.T) {
	_, err := report.NewSubnet(eni.Subnet{ID: "subnet-1", CIDR: netip.MustParsePrefix("2001:db8::/64")}, nil, nil, nil)
	if err == nil || err.Error() != "subnet subnet-1: 2001:db8::/64 is no IPv4 block" {
		t.Error(err)
	}
}
