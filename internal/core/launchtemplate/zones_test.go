// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

const (
	zoneA = "us-east-1a"
	zoneB = "us-east-1b"
)

// free is a subnet with a number of free IPv4 addresses.
func free(id, zone string, addresses int) eni.Subnet {
	s := subnet(id, zone)
	s.FreeIPv4 = addresses
	return s
}

// inVPC is a subnet of another VPC.
func inVPC(vpc string, s eni.Subnet) eni.Subnet {
	s.VPCID = vpc
	return s
}

// large renders for a type that carries all interfaces of these tests.
func large(n launchtemplate.NodeTemplate, choices launchtemplate.Choices) launchtemplate.Rendering {
	return launchtemplate.Render(n, []launchtemplate.InstanceType{withEFAs(6, "m9.x", 8, 8)}, choices)
}

// If the launch chooses the subnet, one subnet takes all interfaces of an instance: a zone is suitable if one of its
// subnets has all addresses.
func TestZonesWhereTheLaunchChoosesTheSubnet(t *testing.T) {
	n := declaring(
		at(0), interfaceIn(0, 1, prefixed(2, 3)), interfaceIn(0, 2, ofType(eni.EFAOnly)), interfaceIn(1, 3, ofType(eni.EFA)),
	)
	const need = 1 + (1 + 2*16) + 0 + 1
	n.Network.Subnets = []eni.Subnet{
		free("s-b2", zoneB, need), free("s-b1", zoneB, 0), free("s-c1", "us-east-1c", need-1),
		free("s-c2", "us-east-1c", need-1), free("s-a", zoneA, need+1),
	}
	r := large(n, nil)
	same(t, "zones", []launchtemplate.ZoneVerdict{
		{Zone: zoneA, Eligible: true, Subnets: map[eni.Slot][]string{eni.Primary: {"s-a"}}},
		{Zone: zoneB, Eligible: true, Subnets: map[eni.Slot][]string{eni.Primary: {"s-b1", "s-b2"}}},
		{
			Zone: "us-east-1c", Message: "an instance needs 35 free IPv4 addresses, and no subnet here has as many",
			Subnets: map[eni.Slot][]string{eni.Primary: {"s-c1", "s-c2"}},
		},
	}, r.Zones)
	all := []string{"s-a", "s-b1", "s-b2", "s-c1", "s-c2"}
	same(t, "the subnets of each interface", map[eni.Slot][]string{
		{}: all, {Device: 1}: all, {Device: 2}: all, {Card: 1, Device: 3}: all,
	}, r.Templates[0].Subnets)
}

// If interfaces have subnets of their own, each gets the subnet that was chosen before, else the one with most
// addresses left, else the first by ID. Interfaces in lower slots choose first.
func TestSubnetOfEachInterfaceInAZone(t *testing.T) {
	second := eni.Slot{Device: 1}
	for name, tc := range map[string]struct {
		main, own     []eni.Subnet
		before        map[eni.Slot]string
		first, second string
	}{
		"most addresses": {
			[]eni.Subnet{free("s-1", zoneA, 9)}, []eni.Subnet{free("s-3", zoneA, 5), free("s-2", zoneA, 6)}, nil, "s-1", "s-2",
		},
		"equal, by ID": {
			[]eni.Subnet{free("s-1", zoneA, 9)}, []eni.Subnet{free("s-3", zoneA, 5), free("s-2", zoneA, 5)}, nil, "s-1", "s-2",
		},
		"another zone is no place": {
			[]eni.Subnet{free("s-1", zoneA, 9)}, []eni.Subnet{free("s-2", zoneA, 5), free("s-3", zoneB, 9)}, nil, "s-1", "s-2",
		},
		"what the first one left": {
			[]eni.Subnet{free("s-1", zoneA, 9)}, []eni.Subnet{free("s-1", zoneA, 9), free("s-0", zoneA, 8)}, nil, "s-1", "s-0",
		},
		"chosen before": {
			[]eni.Subnet{free("s-1", zoneA, 9)}, []eni.Subnet{free("s-2", zoneA, 9), free("s-3", zoneA, 1)},
			map[eni.Slot]string{second: "s-3"}, "s-1", "s-3",
		},
		"chosen before, and full now": {
			[]eni.Subnet{free("s-1", zoneA, 9)}, []eni.Subnet{free("s-2", zoneA, 1), free("s-3", zoneA, 0)},
			map[eni.Slot]string{second: "s-3"}, "s-1", "s-2",
		},
		"chosen before, and no candidate now": {
			[]eni.Subnet{free("s-1", zoneA, 9)}, []eni.Subnet{free("s-2", zoneA, 1)},
			map[eni.Slot]string{second: "s-9"}, "s-1", "s-2",
		},
		"chosen before by another slot": {
			[]eni.Subnet{free("s-1", zoneA, 9)}, []eni.Subnet{free("s-2", zoneA, 9), free("s-3", zoneA, 1)},
			map[eni.Slot]string{{Device: 5}: "s-3"}, "s-1", "s-2",
		},
		"the VPC of the primary interface": {
			[]eni.Subnet{inVPC("vpc-2", free("s-1", zoneA, 9)), free("s-2", zoneA, 5)},
			[]eni.Subnet{free("s-3", zoneA, 99), inVPC("vpc-2", free("s-4", zoneA, 1))}, nil, "s-1", "s-4",
		},
		"chosen before, of another VPC": {
			[]eni.Subnet{inVPC("vpc-2", free("s-1", zoneA, 9))},
			[]eni.Subnet{free("s-3", zoneA, 99), inVPC("vpc-2", free("s-4", zoneA, 1))},
			map[eni.Slot]string{second: "s-3"}, "s-1", "s-4",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := declaring(interfaceIn(0, 1, inSubnets(tc.own...)), at(0))
			n.Network.Subnets = tc.main
			r := large(n, launchtemplate.Choices{zoneA: tc.before, zoneB: {second: "s-3"}})
			want := launchtemplate.ZoneVerdict{
				Zone: zoneA, Eligible: true, Subnets: map[eni.Slot][]string{{}: {tc.first}, second: {tc.second}},
			}
			same(t, "the zone", want, r.Zones[0])
			same(t, "the template", map[eni.Slot]string{{}: tc.first, second: tc.second},
				launchtemplate.ChosenSubnets(r.Templates[0].Data))
		})
	}
}

// A zone is not suitable without a subnet of one VPC, or without the addresses, for each interface. It still has a
// template if only addresses are missing: their number changes all the time.
func TestZonesThatAreNotSuitable(t *testing.T) {
	second := interfaceIn(0, 1, named("n3"), prefixed(1, 0), inSubnets(
		free("s-a2", zoneA, 17), free("s-b1", zoneB, 20), inVPC("vpc-2", subnet("s-c2", "us-east-1c")),
		subnet("s-d2", "us-east-1d")))
	third := interfaceIn(0, 2, prefixed(1, 0), inSubnets(
		free("s-a3", zoneA, 17), free("s-b1", zoneB, 20), subnet("s-c3", "us-east-1c")))
	n := declaring(at(0), second, third)
	n.Network.Subnets = []eni.Subnet{free("s-a1", zoneA, 1), free("s-b1", zoneB, 20), subnet("s-c1", "us-east-1c")}
	r := large(n, nil)
	of := func(ids ...string) map[eni.Slot][]string {
		return map[eni.Slot][]string{{}: ids[:1], {Device: 1}: ids[1:2], {Device: 2}: ids[2:]}
	}
	same(t, "zones", []launchtemplate.ZoneVerdict{
		{Zone: zoneA, Eligible: true, Subnets: of("s-a1", "s-a2", "s-a3")},
		{
			Zone: zoneB, Message: "the interface at card 0 device 2 needs 17 free IPv4 addresses, and s-b1 has 2 left",
			Subnets: of("s-b1", "s-b1", "s-b1"),
		},
		{Zone: "us-east-1c", Message: `interface "n3" (card 0 device 1) has no subnet in it of VPC vpc-1`},
		{Zone: "us-east-1d", Message: "the interface at card 0 device 0 has no subnet in it"},
	}, r.Zones)
	var zones []string
	for _, template := range r.Templates {
		zones = append(zones, template.Zone)
	}
	same(t, "zones with a template", []string{zoneA, zoneB}, zones)

	const full = `interface "n3" (card 0 device 1) needs 17 free IPv4 addresses, and s-a2 has 0 left`
	same(t, "a subnet that is more than full", full,
		large(declaring(interfaceIn(0, 0, prefixed(2, 0), inSubnets(free("s-a2", zoneA, 17))),
			interfaceIn(0, 1, named("n3"), prefixed(1, 0), inSubnets(free("s-a2", zoneA, 17)))), nil).Zones[0].Message)
}

// Without a zone for all interfaces, the message has the possible zones of each one. If an interface has no subnet at
// all, that is the problem.
func TestProblemWithoutACommonZone(t *testing.T) {
	primary := interfaceIn(0, 0, inSubnets(subnet("s-b", zoneB), subnet("s-a", zoneA)))
	for name, tc := range map[string]struct {
		second launchtemplate.Interface
		want   []string
	}{
		"in other zones": {interfaceIn(0, 1, named("n3"), inSubnets(subnet("s-d", "us-east-1d"))), []string{
			"NoCommonZone spec.networkInterfaces: there is no zone in which every interface has a subnet of one VPC: the " +
				`interface at card 0 device 0 is in us-east-1a, us-east-1b; interface "n3" (card 0 device 1) is in ` +
				"us-east-1d; add subnets, or change the selectors",
		}},
		"in the same zone of another VPC": {interfaceIn(0, 1, inSubnets(inVPC("vpc-2", subnet("s-a2", zoneA)))), []string{
			"NoCommonZone spec.networkInterfaces: there is no zone in which every interface has a subnet of one VPC: the " +
				"interface at card 0 device 0 is in us-east-1a, us-east-1b; the interface at card 0 device 1 is in " +
				"us-east-1a; add subnets, or change the selectors",
		}},
		"in the subnets of the template": {interfaceIn(0, 1, inSubnets()), []string{}},
		"a selector that matches none": {interfaceIn(0, 1, inSubnets([]eni.Subnet{}...)), []string{
			"NoSubnets spec.networkInterfaces: the interface at card 0 device 1 has no subnet at all: its subnetSelector " +
				"matches none; correct it, or tag a subnet",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := large(declaring(primary, tc.second), nil)
			same(t, "problems", tc.want, textOf(r.Problems))
			if len(tc.want) > 0 && len(r.Templates) > 0 {
				t.Errorf("templates of a node template with problems: %v", r.Templates)
			}
		})
	}
}

// A carrier address narrows the subnets of an interface to Wavelength Zones, IPv6 prefixes to subnets with IPv6. Where
// the launch chooses the subnet, this narrows the subnets of all interfaces.
func TestAddressesNarrowTheSubnets(t *testing.T) {
	noIPv6 := func(s eni.Subnet) eni.Subnet { s.HasIPv6 = false; return s }
	withAll, withoutIPv6, wave := subnet("s-1", zoneA), noIPv6(subnet("s-2", zoneB)), subnet("s-w", wavelength)
	waveWithoutIPv6 := noIPv6(subnet("s-w2", wavelength))
	const noCarrier = "CarrierIPOutsideWavelength spec.networkInterfaces[0].associateCarrierIPAddress: the interface at " +
		"card 0 device 0 is to have a carrier IP address, which there is only in Wavelength Zones, and none of its subnets " +
		"is in one; remove associateCarrierIPAddress, or choose subnets of a Wavelength Zone"
	const noPrefixes = "SubnetsWithoutIPv6 spec.networkInterfaces[1].ipv6PrefixCount: the interface at card 0 device 1 " +
		"is to have IPv6 prefixes, and none of its subnets has IPv6; give the subnets an IPv6 CIDR block, choose others, " +
		"or remove ipv6PrefixCount"
	const noCommon = "NoSubnets spec.subnetSelector: no subnet that subnetSelector matches suits every interface; " +
		"correct it, or tag a subnet"
	for name, tc := range map[string]struct {
		subnets    []eni.Subnet
		interfaces []launchtemplate.Interface
		want       []string
		problems   []string
	}{
		"neither": {
			[]eni.Subnet{withAll, withoutIPv6, wave}, list(at(0), at(1)), []string{"s-1", "s-2", "s-w"}, []string{},
		},
		"no carrier address": {
			[]eni.Subnet{withAll, wave}, list(interfaceIn(0, 0, carrier(false))), []string{"s-1", "s-w"}, []string{},
		},
		"a carrier address": {
			[]eni.Subnet{withAll, withoutIPv6, wave}, list(interfaceIn(0, 0, carrier(true)), at(1)), []string{"s-w"}, []string{},
		},
		"IPv6 prefixes of one": {
			[]eni.Subnet{withAll, withoutIPv6, wave}, list(at(0), interfaceIn(0, 1, prefixed(0, 1))), []string{"s-1", "s-w"},
			[]string{},
		},
		"both": {
			[]eni.Subnet{withAll, waveWithoutIPv6, wave}, list(interfaceIn(0, 0, carrier(true), prefixed(0, 1))),
			[]string{"s-w"}, []string{},
		},
		"no Wavelength Zone": {
			[]eni.Subnet{withAll, withoutIPv6}, list(interfaceIn(0, 0, carrier(true)), at(1)), nil, []string{noCarrier},
		},
		"a Local Zone": {
			[]eni.Subnet{subnet("s-l", "us-west-2-lax-1a")}, list(interfaceIn(0, 0, carrier(true))), nil, []string{noCarrier},
		},
		"no Wavelength Zone, GovCloud": {
			[]eni.Subnet{subnet("s-g", "us-gov-west-1a")}, list(interfaceIn(0, 0, carrier(true))), nil, []string{noCarrier},
		},
		"no IPv6": {
			[]eni.Subnet{withoutIPv6}, list(at(0), interfaceIn(0, 1, prefixed(0, 1))), nil, []string{noPrefixes},
		},
		"IPv6 in no Wavelength Zone": {
			[]eni.Subnet{withAll, waveWithoutIPv6},
			list(interfaceIn(0, 0, carrier(true)), interfaceIn(0, 1, prefixed(0, 1))), nil, []string{noCommon},
		},
		"no subnet at all": {
			nil, list(interfaceIn(0, 0, carrier(true), prefixed(0, 1))), nil, []string{noCommon},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := declaring(tc.interfaces...)
			n.Network.Subnets = slices.Clone(tc.subnets)
			r := large(n, nil)
			same(t, "problems", tc.problems, textOf(r.Problems))
			same(t, "the subnets of the node template", tc.subnets, n.Network.Subnets)
			for _, template := range r.Templates {
				for _, i := range template.Interfaces {
					same(t, "subnets of "+i.String(), tc.want, template.Subnets[i.Slot])
				}
			}
		})
	}
}

// A choice of subnets holds while it is possible: the numbers of free addresses change all the time, and none of these
// changes alone publishes a new version.
func TestChoicesHoldWhileTheyArePossible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		subnets := func(prefix string) []eni.Subnet {
			var all []eni.Subnet
			for _, id := range []string{"1", "2", "3"} {
				zone := rapid.SampledFrom([]string{zoneA, zoneB}).Draw(t, "zone")
				all = append(all, free(prefix+id, zone, rapid.IntRange(17, 100).Draw(t, "free")))
			}
			return all
		}
		n := declaring(at(0), interfaceIn(0, 1, prefixed(1, 0), inSubnets(subnets("s-n")...)))
		n.Network.Subnets = subnets("s-")
		before := large(n, nil)
		choices := launchtemplate.Choices{}
		for _, template := range before.Templates {
			choices[template.Zone] = launchtemplate.ChosenSubnets(template.Data)
		}
		for _, all := range [][]eni.Subnet{n.Network.Subnets, n.Interfaces[1].Subnets} {
			for s := range all {
				all[s].FreeIPv4 = rapid.IntRange(17, 100).Draw(t, "free later")
			}
		}
		after := large(n, choices)
		if len(before.Templates) != len(after.Templates) {
			t.Fatalf("%d templates became %d", len(before.Templates), len(after.Templates))
		}
		for k, template := range after.Templates {
			if template.Zone != before.Templates[k].Zone || template.Hash != before.Templates[k].Hash {
				t.Fatalf("the template of %s changed", template.Zone)
			}
		}
	})
}
