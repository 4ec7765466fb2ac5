// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// ZoneVerdict is the result of the check whether instances can be launched in a zone.
type ZoneVerdict struct {
	Zone     string
	Eligible bool
	// Message has the cause, or a note.
	Message string
	// Subnets are the IDs of the subnets of the interfaces by slot, if interfaces have subnets of their own; else those
	// from which the launcher may choose, under the primary slot.
	Subnets map[eni.Slot][]string
}

// Choices are the subnets chosen before, by zone and slot. A choice stays while it is possible: the numbers of free
// addresses change all the time, and each change would otherwise publish a new version.
type Choices map[string]map[eni.Slot]string

// zonePlacement is an interface with its possible subnets.
type zonePlacement struct {
	Interface
	candidates []eni.Subnet
}

// narrow removes subnets that do not have the addresses that the interface requests.
func (t NodeTemplate) narrow(p *zonePlacement) []Problem {
	if len(p.candidates) == 0 {
		return nil // reported elsewhere
	}
	if p.CarrierIP != nil && *p.CarrierIP {
		p.candidates = slices.DeleteFunc(slices.Clone(p.candidates), func(s eni.Subnet) bool {
			return !wavelengthZone.MatchString(s.Zone)
		})
		if len(p.candidates) == 0 {
			return []Problem{{CarrierIPOutsideWavelength, t.path(p.Slot, "associateCarrierIPAddress"), fmt.Sprintf(
				"%s is to have a carrier IP address, which there is only in Wavelength Zones, and none of its "+
					"subnets is in one; remove associateCarrierIPAddress, or choose subnets of a Wavelength Zone", p.Interface)}}
		}
	}
	if p.IPv6Prefixes > 0 {
		p.candidates = slices.DeleteFunc(slices.Clone(p.candidates), func(s eni.Subnet) bool { return !s.HasIPv6 })
		if len(p.candidates) == 0 {
			return []Problem{{SubnetsWithoutIPv6, t.path(p.Slot, "ipv6PrefixCount"), fmt.Sprintf(
				"%s is to have IPv6 prefixes, and none of its subnets has IPv6; give the subnets an IPv6 CIDR block, "+
					"choose others, or remove ipv6PrefixCount", p.Interface)}}
		}
	}
	return nil
}

// intersect returns the subnets that every interface can use. The program that launches an instance chooses one of them
// for all its interfaces.
func intersect(places []zonePlacement) []zonePlacement {
	common := slices.DeleteFunc(slices.Clone(places[0].candidates), func(s eni.Subnet) bool {
		return slices.ContainsFunc(places, func(p zonePlacement) bool {
			return !slices.ContainsFunc(p.candidates, func(c eni.Subnet) bool { return c.ID == s.ID })
		})
	})
	all := slices.Clone(places)
	for n := range all {
		all[n].candidates = common
	}
	return all
}

// zoned reports whether any of the interfaces has subnets of its own, so that a template is for one zone.
func zoned(places []zonePlacement, own map[eni.Slot]bool) bool {
	return slices.ContainsFunc(places, func(p zonePlacement) bool { return own[p.Slot] })
}

// wavelengthZone matches the names of Wavelength Zones, such as us-east-1-wl1-bos-wlz-1 (AWS Wavelength developer
// guide, "Available Wavelength Zones"). Only their subnets have carrier addresses.
var wavelengthZone = regexp.MustCompile(`-wlz-\d+$`)

// zonesOf returns the zones of the subnets, sorted.
func zonesOf(subnets []eni.Subnet) []string {
	zones := map[string]bool{}
	for _, s := range subnets {
		zones[s.Zone] = true
	}
	return slices.Sorted(maps.Keys(zones))
}

// subnetsPlaced checks every zone in which any interface has a subnet.
func subnetsPlaced(places []zonePlacement, choices Choices) []ZoneVerdict {
	var all []eni.Subnet
	for _, p := range places {
		all = append(all, p.candidates...)
	}
	var verdicts []ZoneVerdict
	for _, zone := range zonesOf(all) {
		verdicts = append(verdicts, placedIn(zone, places, choices[zone]))
	}
	return verdicts
}

// placedIn chooses a subnet for each interface: the one chosen before, else the one with most addresses left after the
// interfaces that were placed first. All must be in one VPC, which is that of the primary interface.
func placedIn(zone string, places []zonePlacement, before map[eni.Slot]string) ZoneVerdict {
	v := ZoneVerdict{Zone: zone, Eligible: true, Subnets: map[eni.Slot][]string{}}
	taken, vpc := map[string]int{}, ""
	for _, p := range places {
		here := slices.DeleteFunc(slices.Clone(p.candidates), func(s eni.Subnet) bool {
			return s.Zone != zone || vpc != "" && s.VPCID != vpc
		})
		if len(here) == 0 {
			v.Eligible, v.Message = false, fmt.Sprintf("%s has no subnet in it%s", p.Interface, inVPC(vpc))
			v.Subnets = nil
			return v
		}
		chosen := chooseSubnets(here, taken, before[p.Slot], p.addresses())
		vpc = chosen.VPCID
		if need := p.addresses(); chosen.FreeIPv4-taken[chosen.ID] < need {
			v.Eligible, v.Message = false, fmt.Sprintf("%s needs %d free IPv4 addresses, and %s has %d left",
				p.Interface, need, chosen.ID, max(0, chosen.FreeIPv4-taken[chosen.ID]))
		}
		taken[chosen.ID] += p.addresses()
		v.Subnets[p.Slot] = []string{chosen.ID}
	}
	return v
}

func chooseSubnets(here []eni.Subnet, taken map[string]int, before string, need int) eni.Subnet {
	room := func(s eni.Subnet) int { return s.FreeIPv4 - taken[s.ID] }
	best := here[0]
	for _, s := range here {
		if s.ID == before && room(s) >= need {
			return s
		}
		if room(s) > room(best) || room(s) == room(best) && s.ID < best.ID {
			best = s
		}
	}
	return best
}

func inVPC(vpc string) string {
	if vpc == "" {
		return ""
	}
	return " of VPC " + vpc
}

// zones evaluates the zones of a template that leaves the choice of the subnet to the launch: all interfaces are then
// in one subnet.
func zones(places []zonePlacement) []ZoneVerdict {
	need := 0
	for _, p := range places {
		need += p.addresses()
	}
	var verdicts []ZoneVerdict
	subnets := places[0].candidates
	for _, zone := range zonesOf(subnets) {
		v := ZoneVerdict{Zone: zone, Subnets: map[eni.Slot][]string{}}
		for _, s := range subnets {
			if s.Zone == zone {
				v.Subnets[eni.Primary] = append(v.Subnets[eni.Primary], s.ID)
				v.Eligible = v.Eligible || s.FreeIPv4 >= need
			}
		}
		slices.Sort(v.Subnets[eni.Primary])
		if !v.Eligible {
			v.Message = fmt.Sprintf("an instance needs %d free IPv4 addresses, and no subnet here has as many", need)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// noZone returns the possible zones of each interface, if no zone suits them all.
func noZone(places []zonePlacement, verdicts []ZoneVerdict) *Problem {
	if slices.ContainsFunc(verdicts, func(v ZoneVerdict) bool { return v.Subnets != nil }) {
		return nil
	}
	var words []string
	for _, p := range places {
		zones := zonesOf(p.candidates)
		if len(zones) == 0 {
			return &Problem{NoSubnets, "spec.networkInterfaces", fmt.Sprintf(
				"%s has no subnet at all: its subnetSelector matches none; correct it, or tag a subnet", p.Interface)}
		}
		words = append(words, fmt.Sprintf("%s is in %s", p.Interface, strings.Join(zones, ", ")))
	}
	return &Problem{NoCommonZone, "spec.networkInterfaces",
		"there is no zone in which every interface has a subnet of one VPC: " + strings.Join(words, "; ") +
			"; add subnets, or change the selectors"}
}
