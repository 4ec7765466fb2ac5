// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

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
	ours := map[string]string{identity.TagNodeENI: "n3", identity.TagUID: "uid-n3"}
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

// subnetOf counts the holders of the addresses of the subnet 10.0.0.0/26, or of another block.
func subnetOf(
	t interface{ Fatal(...any) }, cidr string, interfaces []eni.Interface, reservations ...eni.SubnetReservation,
) report.Subnet {
	subnet := eni.Subnet{ID: "subnet-1", Name: "data", Zone: "us-east-1a", CIDR: netip.MustParsePrefix(cidr)}
	s, err := report.NewSubnet(subnet, interfaces, reservations, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// addressed is an interface with addresses, the first as its primary one, and with delegated prefixes.
func addressed(tags map[string]string, all ...string) eni.Interface {
	i := eni.Interface{Tags: tags}
	for _, one := range all {
		if prefix, err := netip.ParsePrefix(one); err == nil {
			i.IPv4Prefixes = append(i.IPv4Prefixes, prefix)
		} else if address := netip.MustParseAddr(one); i.PrimaryIPv4.IsValid() {
			i.SecondaryIPv4 = append(i.SecondaryIPv4, address)
		} else {
			i.PrimaryIPv4 = address
		}
	}
	return i
}

// picture is the signs that a subnet is printed with, without the addresses in front.
func picture(s report.Subnet) string {
	var signs strings.Builder
	for _, line := range strings.Split(report.Subnets{Subnets: []report.Subnet{s}}.Text(report.Page{}), "\n")[2:] {
		address, row, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, err := netip.ParseAddr(address); err != nil {
			break
		}
		signs.WriteString(strings.TrimSpace(row))
	}
	return signs.String()
}

func TestNewSubnetCountsAddresses(t *testing.T) {
	interfaces := []eni.Interface{
		addressed(map[string]string{identity.TagNodeENI: "n3"}, "10.0.0.4", "10.0.0.5", "10.0.0.16/28"),
		addressed(map[string]string{identity.TagNodeENI: "n3"}, "10.0.0.6"), addressed(nil, "10.0.0.7"),
	}
	reservations := []eni.SubnetReservation{
		{ID: "scr-2", CIDR: netip.MustParsePrefix("10.0.0.48/28"), Type: eni.ReservationExplicit},
		{ID: "scr-1", CIDR: netip.MustParsePrefix("10.0.0.16/28"), Type: eni.ReservationPrefix,
			Tags: map[string]string{identity.TagSubnetReservation: "pods"}},
	}
	subnet := eni.Subnet{ID: "subnet-1", Name: "data", Zone: "us-east-1a", CIDR: netip.MustParsePrefix("10.0.0.0/26")}
	got, err := report.NewSubnet(subnet, interfaces, reservations, []string{"n3", "n4"})
	if err != nil {
		t.Fatal(err)
	}
	want := report.Subnet{
		ID: "subnet-1", Name: "data", Zone: "us-east-1a", CIDR: "10.0.0.0/26", NodeENIs: []string{"n3", "n4"},
		Usable: 59, Used: 20, Free: 24, FreePrefixes: 0,
		Holders: []report.AddressHolder{
			{Name: "n3", Interfaces: 2, Addresses: 3, Prefixes: 1}, {Name: "others", Interfaces: 1, Addresses: 1},
		},
		Reservations: []report.SubnetReservation{
			{ID: "scr-1", CIDR: "10.0.0.16/28", Type: "prefix", SubnetReservation: "pods", Used: 16, Free: 0},
			{ID: "scr-2", CIDR: "10.0.0.48/28", Type: "explicit", Used: 0, Free: 15},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(report.Subnet{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestASubnetWithoutIPv4HasNoCounts(t *testing.T) {
	subnet := eni.Subnet{ID: "subnet-1", Name: "v6", Zone: "us-east-1a"}
	got, err := report.NewSubnet(subnet, []eni.Interface{addressed(nil, "10.0.0.4")}, nil, []string{"n3"})
	want := report.Subnet{ID: "subnet-1", Name: "v6", Zone: "us-east-1a", IPv6Only: true, NodeENIs: []string{"n3"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(report.Subnet{})); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestWhatHoldsTheAddressesOfASubnet(t *testing.T) {
	at := func(device int, tags map[string]string) eni.Interface {
		i := addressed(tags, "10.0.0.4")
		i.Attachment = &eni.Attachment{InstanceID: "i-1", Slot: eni.Slot{Device: device}}
		return i
	}
	byAWS := addressed(nil, "10.0.0.4")
	byAWS.RequesterManaged = true
	named := func(name string) map[string]string {
		return map[string]string{identity.TagNodeENI: name, identity.TagUID: "uid"}
	}
	for name, tc := range map[string]struct {
		of   eni.Interface
		want string
	}{
		"the primary interface of a node": {at(0, nil), "primary interfaces"},
		"a NodeENI":                       {at(1, named("n3")), "n3"},
		"a NodeENI with the name primary": {at(1, named("primary")), "primary"},
		"a NodeENI with the name other":   {at(1, named("other")), "other"},
		"a service of AWS":                {byAWS, "an AWS service"},
		"another program":                 {at(1, nil), "others"},
		"another program, unattached":     {addressed(nil, "10.0.0.4"), "others"},
	} {
		t.Run(name, func(t *testing.T) {
			want := []report.AddressHolder{{Name: tc.want, Interfaces: 1, Addresses: 1}}
			if diff := cmp.Diff(want, subnetOf(t, "10.0.0.0/26", []eni.Interface{tc.of}).Holders); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheSignsOfASubnetsBlocks(t *testing.T) {
	singles := func(n int) (all []string) {
		address := netip.MustParseAddr("10.0.0.0")
		for range n {
			all, address = append(all, address.String()), address.Next()
		}
		return all
	}
	reserved := func(kind eni.ReservationType) eni.SubnetReservation {
		return eni.SubnetReservation{CIDR: netip.MustParsePrefix("10.0.0.0/28"), Type: kind}
	}
	prefixes, explicit := reserved(eni.ReservationPrefix), reserved(eni.ReservationExplicit)
	others := strings.Repeat("·", 255)
	for name, tc := range map[string]struct {
		cidr     string
		held     []string
		reserved []eni.SubnetReservation
		want     string
	}{
		"nothing is used":           {"10.0.0.0/27", nil, nil, "··"},
		"1 of 16":                   {"10.0.0.0/27", singles(1), nil, "▁·"},
		"2 of 16":                   {"10.0.0.0/27", singles(2), nil, "▂·"},
		"7 of 16":                   {"10.0.0.0/27", singles(7), nil, "▄·"},
		"8 of 16":                   {"10.0.0.0/27", singles(8), nil, "▅·"},
		"13 of 16":                  {"10.0.0.0/27", singles(13), nil, "▇·"},
		"14 of 16":                  {"10.0.0.0/27", singles(14), nil, "█·"},
		"all":                       {"10.0.0.0/27", singles(16), nil, "█·"},
		"all, and the next":         {"10.0.0.0/27", singles(17), nil, "█▁"},
		"a prefix":                  {"10.0.0.0/27", []string{"10.0.0.4", "10.0.0.16/28"}, nil, "▁P"},
		"blocks of 32 addresses":    {"10.0.0.0/19", singles(4), nil, "▂" + others},
		"a prefix in a block of 32": {"10.0.0.0/19", append(singles(15), "10.0.0.16/28"), nil, "P" + others},
		"as many single addresses":  {"10.0.0.0/19", append(singles(16), "10.0.0.16/28"), nil, "P" + others},
		"reserved for prefixes":     {"10.0.0.0/27", nil, []eni.SubnetReservation{prefixes}, "p·"},
		"reserved for addresses":    {"10.0.0.0/27", nil, []eni.SubnetReservation{explicit}, "x·"},
		"reserved, and used":        {"10.0.0.0/27", singles(1), []eni.SubnetReservation{explicit}, "▁·"},
		"reserved, and delegated": {
			"10.0.0.0/27", []string{"10.0.0.20", "10.0.0.0/28"}, []eni.SubnetReservation{prefixes}, "P▁",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := subnetOf(t, tc.cidr, []eni.Interface{addressed(nil, tc.held...)}, tc.reserved...)
			if got := picture(s); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// More single addresses than delegated ones make a block's sign that of their sum.
func TestABlockWithMoreSingleAddressesThanDelegatedOnes(t *testing.T) {
	held := []string{"10.0.0.48/28"}
	for n := range 24 {
		held = append(held, fmt.Sprintf("10.0.0.%d", n))
	}
	// 40 of 64 addresses are five of eight parts.
	s := subnetOf(t, "10.0.0.0/18", []eni.Interface{addressed(nil, held...)})
	if want := "▆" + strings.Repeat("·", 255); picture(s) != want {
		t.Errorf("got %s, want %s", picture(s), want)
	}
}

// A row is 64 blocks, and begins with the address of its first one.
func TestTheRowsOfASubnetsPicture(t *testing.T) {
	row := strings.Repeat("·", 64)
	for cidr, want := range map[string]string{
		"10.0.4.0/28": "  10.0.4.0         ·\n",
		"10.0.4.0/22": "  10.0.4.0         " + row + "\n",
		"10.0.0.0/21": "  10.0.0.0         " + row + "\n  10.0.4.0         " + row + "\n",
		"172.16.0.0/16": "  172.16.0.0       " + row + "\n  172.16.64.0      " + row + "\n" +
			"  172.16.128.0     " + row + "\n  172.16.192.0     " + row + "\n",
	} {
		t.Run(cidr, func(t *testing.T) {
			text := report.Subnets{Subnets: []report.Subnet{subnetOf(t, cidr, nil)}}.Text(report.Page{})
			_, got, _ := strings.Cut(text, "to delegate\n")
			if got, _, _ = strings.Cut(got, "\nOne sign"); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// The signs of a picture and the numbers above it are of the same addresses.
func TestThePictureShowsABlockForEachPartOfTheSubnet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bits := rapid.IntRange(16, 28).Draw(rt, "bits")
		base := netip.MustParseAddr("10.16.0.0").As4()
		var held []string
		for range rapid.IntRange(0, 12).Draw(rt, "addresses") {
			base[3] = byte(rapid.IntRange(4, 14).Draw(rt, "address"))
			held = append(held, netip.AddrFrom4(base).String())
		}
		slices.Sort(held)
		s := subnetOf(rt, fmt.Sprintf("10.16.0.0/%d", bits), []eni.Interface{addressed(nil, slices.Compact(held)...)})
		signs := picture(s)
		if got, want := utf8.RuneCountInString(signs), min(256, 1<<(28-bits)); got != want {
			rt.Fatalf("%d signs of a /%d, want %d", got, bits, want)
		}
		used := strings.Trim(signs, "·") != ""
		if used != (s.Used > 0) || s.Used+s.Free != s.Usable {
			rt.Fatalf("%d used and %d free of %d: %s", s.Used, s.Free, s.Usable, signs)
		}
	})
}

func TestTheSignOfASubnetIsThatOfItsFreeAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		of   report.Subnet
		want string
	}{
		"no free address":   {report.Subnet{Usable: 100}, "✗ subnet-1\n  0 of 100 addresses free"},
		"one":               {report.Subnet{Usable: 100, Free: 1}, "◐ subnet-1\n  1 of 100 addresses free"},
		"less than a tenth": {report.Subnet{Usable: 101, Free: 10}, "◐ subnet-1\n  10 of 101 addresses free"},
		"a tenth":           {report.Subnet{Usable: 100, Free: 10}, "● subnet-1\n  10 of 100 addresses free"},
		"no IPv4":           {report.Subnet{IPv6Only: true}, "● subnet-1\n  only IPv6, which EC2 does not run out of\n\n"},
		"a /28 that EC2 can delegate": {
			report.Subnet{Usable: 9, Free: 9, FreePrefixes: 1}, "● subnet-1\n  9 of 9 addresses free, 1 free /28 to delegate\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.of.ID = "subnet-1"
			got := report.Subnets{Subnets: []report.Subnet{tc.of}}.Text(report.Page{})
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q, want %q first", got, tc.want)
			}
		})
	}
}

func TestTheLinesBelowASubnetsPicture(t *testing.T) {
	s := report.Subnet{ID: "subnet-1", Usable: 9, Free: 9,
		Holders: []report.AddressHolder{
			{Name: "n3", Interfaces: 2, Addresses: 1, Prefixes: 1}, {Name: "others", Interfaces: 1, Addresses: 2},
		},
		Reservations: []report.SubnetReservation{
			{ID: "scr-1", CIDR: "10.0.0.16/28", Type: "prefix", SubnetReservation: "pods", Used: 16},
			{ID: "scr-2", CIDR: "10.0.0.32/28", Type: "explicit", Free: 14},
		},
		NodeENIs: []string{"n1", "n2", "n3", "n4", "n5", "n6"},
	}
	const lines = `  n3: 1 address on 2 interfaces, and 1 /28
  others: 2 addresses on 1 interface
  reservation 10.0.0.16/28 (prefix) of SubnetReservation pods: 16 used, 0 free
  reservation 10.0.0.32/28 (explicit): 0 used, 14 free
  selected by `
	for wide, want := range map[bool]string{
		false: lines + "n1, n2, n3, n4 and 2 more\n", true: lines + "n1, n2, n3, n4, n5, n6\n",
	} {
		text := report.Subnets{Subnets: []report.Subnet{s}}.Text(report.Page{Wide: wide})
		_, got, _ := strings.Cut(text, "to delegate\n")
		got, _, _ = strings.Cut(got, "\nOne sign")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("wide: %v (-want +got):\n%s", wide, diff)
		}
	}
}

func TestSubnetsAreOrderedByZoneThenNameThenID(t *testing.T) {
	sorted := []report.Subnet{
		{Zone: "us-east-1a", Name: "", ID: "subnet-9"}, {Zone: "us-east-1a", Name: "a", ID: "subnet-8"},
		{Zone: "us-east-1a", Name: "b", ID: "subnet-1"}, {Zone: "us-east-1a", Name: "b", ID: "subnet-2"},
		{Zone: "us-east-1b", Name: "a", ID: "subnet-0"},
	}
	rapid.Check(t, func(rt *rapid.T) {
		got := rapid.Permutation(sorted).Draw(rt, "subnets")
		slices.SortFunc(got, report.CompareSubnets)
		if diff := cmp.Diff(sorted, got, cmpopts.IgnoreUnexported(report.Subnet{})); diff != "" {
			rt.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestSubnetsAreJSON(t *testing.T) {
	full := report.Subnet{
		ID: "subnet-1", Name: "data", Zone: "us-east-1a", CIDR: "10.0.0.0/26", NodeENIs: []string{"n3"}, Usable: 59, Used: 20,
		Free: 24, FreePrefixes: 1,
		Holders: []report.AddressHolder{{Name: "n3", Interfaces: 2, Addresses: 3, Prefixes: 1}},
		Reservations: []report.SubnetReservation{
			{ID: "scr-1", CIDR: "10.0.0.16/28", Type: "prefix", SubnetReservation: "pods", Used: 16},
		},
	}
	v := report.Subnets{Subnets: []report.Subnet{full, {ID: "subnet-2", Zone: "us-east-1b", IPv6Only: true}}}
	const want = `{
 "subnets": [
  {
   "id": "subnet-1",
   "name": "data",
   "zone": "us-east-1a",
   "cidr": "10.0.0.0/26",
   "nodeENIs": [
    "n3"
   ],
   "usable": 59,
   "used": 20,
   "free": 24,
   "freePrefixes": 1,
   "holders": [
    {
     "name": "n3",
     "interfaces": 2,
     "addresses": 3,
     "prefixes": 1
    }
   ],
   "reservations": [
    {
     "id": "scr-1",
     "cidr": "10.0.0.16/28",
     "type": "prefix",
     "subnetReservation": "pods",
     "used": 16,
     "free": 0
    }
   ]
  },
  {
   "id": "subnet-2",
   "zone": "us-east-1b",
   "ipv6Only": true,
   "usable": 0,
   "used": 0,
   "free": 0,
   "freePrefixes": 0
  }
 ]
}`
	if diff := cmp.Diff(want, asJSON(t, v)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func ExampleNewSubnet() {
	storage := eni.Interface{Tags: map[string]string{identity.TagNodeENI: "storage"}}
	storage.PrimaryIPv4 = netip.MustParseAddr("10.0.0.4")
	storage.IPv4Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.16/28")}
	subnet, err := report.NewSubnet(
		eni.Subnet{ID: "subnet-1", Zone: "us-east-1a", CIDR: netip.MustParsePrefix("10.0.0.0/26")},
		[]eni.Interface{storage}, nil, []string{"storage"},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(report.Subnets{Subnets: []report.Subnet{subnet}}.Text(report.Page{Width: 80}))
	// Output:
	// ● subnet-1  us-east-1a  10.0.0.0/26
	//   42 of 59 addresses free, 1 free /28 to delegate
	//   10.0.0.0         ▁P··
	//   storage: 1 address on 1 interface, and 1 /28
	//   selected by storage
	//
	// One sign is one block: ▁ to █ by its used share, P delegated prefixes, · free, p
	// reserved for prefixes, x reserved for named addresses.
}
