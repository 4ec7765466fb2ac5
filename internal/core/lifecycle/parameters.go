// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/render"
)

// The parameters of the CloudFormation templates for Multus node groups. There is a parameter of subnets for each zone:
// MultusSubnetsAz1, MultusSubnetsAz2 and so on, without a limit and in any order of zones; or one for all zones, as in
// the template for user data.
const (
	ParameterSubnets  = "MultusSubnetsAz"
	ParameterAllZones = "MultusSubnets"
	ParameterGroups   = "MultusSecurityGroupIds"
	ParameterTagKey   = "EksNodeGroupTagKey"
	ParameterLowest   = "useIPsFromStartOfSubnet"
	ParameterTags     = "MultusInterfaceTags"
	ParameterCluster  = "ClusterName"
	ParameterHooks    = "LifecycleHooks"
	ParameterFailure  = "OnFailure"
)

// former maps the environment variables of the published Multus functions, and those parameters of their templates that
// have another name here, to the name here.
var former = map[string]string{
	"Az1SubnetIds": ParameterSubnets + "1", "Az2SubnetIds": ParameterSubnets + "2", "SubnetIds": ParameterSubnets + "1",
	"SecGroupIds": ParameterGroups, "TargetNodeGroupTagKey": ParameterTagKey, "useStaticIPs": ParameterLowest,
	"ENITags": ParameterTags, "InterfaceTags": ParameterTags,
}

// LegacyEnvironment reports whether a name is one of the published Multus functions that differs here.
func LegacyEnvironment(name string) bool { return former[name] != "" }

// legacyNames returns an error for each value that has a name of the published functions.
func legacyNames(values map[string]string) []error {
	var mistakes []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if here := former[name]; here != "" {
			mistakes = append(mistakes, fmt.Errorf(
				"%s: it is the name of the published Multus functions; set %s instead", name, here))
		}
	}
	return mistakes
}

// Parameters is the configuration in the form of the CloudFormation templates.
type Parameters struct {
	Config
	// Zones are the subnets as they were listed, one list for each zone.
	Zones []ZoneSubnets
}

// ZoneSubnets are the subnets of one zone, and the parameter that lists them.
type ZoneSubnets struct {
	Parameter string
	IDs       []string
}

// ofAllZones reports whether the list may hold the subnets of several zones.
func (z ZoneSubnets) ofAllZones() bool { return z.Parameter == ParameterAllZones }

// ParseParameters reads and checks the parameters. The Nth subnet of each zone's list is the interface at device index
// N. A single security group applies to all interfaces. Otherwise each list has as many groups as subnets, they belong
// together in that order, and each list must be of one zone. The error names every mistake.
func ParseParameters(values map[string]string) (Parameters, error) {
	mistakes := legacyNames(values)
	var p Parameters
	lists := zoneParameters(values)
	if len(words(values[ParameterAllZones])) > 0 {
		if len(lists) > 0 {
			mistakes = append(mistakes, fmt.Errorf(
				"%s: it is one list for all zones, and there is %s as well; give either", ParameterAllZones, lists[0]))
		}
		lists = []string{ParameterAllZones}
	}
	for _, name := range lists {
		subnets := words(values[name])
		if repeated := firstRepeated(subnets); repeated != "" {
			mistakes = append(mistakes, fmt.Errorf("%s: %s is listed twice", name, repeated))
		}
		p.Zones = append(p.Zones, ZoneSubnets{name, subnets})
	}
	lowest, err := strconv.ParseBool(cmp.Or(values[ParameterLowest], "false"))
	if err != nil {
		mistakes = append(mistakes, fmt.Errorf("%s: %q is neither true nor false", ParameterLowest, values[ParameterLowest]))
	}
	tags, err := parseTags(values[ParameterTags])
	if err != nil {
		mistakes = append(mistakes, fmt.Errorf("%s: %w", ParameterTags, err))
	}
	p.Config = Config{
		Cluster: values[ParameterCluster], Trigger: Trigger{TagKey: values[ParameterTagKey]},
		Hooks: words(values[ParameterHooks]), OnFailure: Policy(values[ParameterFailure]),
	}
	p.Networks, err = networks(p.Zones, words(values[ParameterGroups]))
	mistakes = append(mistakes, err)
	for n := range p.Networks {
		p.Networks[n].Tags = tags
		if lowest {
			p.Networks[n].IPv4Allocation = LowestFree
		}
	}
	p.applyDefaults()
	if err == nil {
		mistakes = append(mistakes, p.validate())
	}
	return p, errors.Join(mistakes...)
}

// zoneParameters returns the names of the subnet parameters that are set, by their numbers.
func zoneParameters(values map[string]string) []string {
	number := func(name string) int {
		n, err := strconv.Atoi(strings.TrimPrefix(name, ParameterSubnets))
		if err != nil {
			return 0
		}
		return n
	}
	var names []string
	for name, value := range values {
		if strings.HasPrefix(name, ParameterSubnets) && number(name) > 0 && len(words(value)) > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return names
}

// networks returns one network for all subnets if one security group is enough, and otherwise one for each group.
func networks(zones []ZoneSubnets, groups []string) ([]Network, error) {
	if len(zones) == 0 {
		return nil, fmt.Errorf("%s1: list the subnets of a zone, the one for device index 1 first; or %s: those "+
			"of all zones", ParameterSubnets, ParameterAllZones)
	}
	if len(groups) == 1 {
		var subnets []string
		for _, zone := range zones {
			subnets = append(subnets, zone.IDs...)
		}
		return []Network{legacy("multus", subnets, groups[0], 1)}, nil
	}
	var all []Network
	for n, group := range groups {
		all = append(all, legacy("multus-"+strconv.Itoa(n+1), nil, group, n+1))
	}
	for _, zone := range zones {
		if len(zone.IDs) != len(groups) {
			return nil, fmt.Errorf("%s: %d groups for the %d subnets of %s; give one for all, or as many as there are subnets",
				ParameterGroups, len(groups), len(zone.IDs), zone.Parameter)
		}
		for n, subnet := range zone.IDs {
			all[n].SubnetIDs = append(all[n].SubnetIDs, subnet)
		}
	}
	return all, nil
}

// legacy returns a network as the node groups' templates have always created it.
func legacy(name string, subnets []string, group string, deviceIndex int) Network {
	return Network{
		Name: name, SubnetIDs: subnets, SecurityGroupIDs: []string{group}, DeviceIndex: deviceIndex,
		SourceDestCheck: new(bool), IPv6: true, Description: "VRF" + render.DeviceIndex,
	}
}

// words splits a list at commas and spaces.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' })
}

func firstRepeated(list []string) string {
	seen := map[string]bool{}
	for _, item := range list {
		if seen[item] {
			return item
		}
		seen[item] = true
	}
	return ""
}

func parseTags(text string) (map[string]string, error) {
	tags := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		if key = strings.TrimSpace(key); !found || key == "" {
			return nil, fmt.Errorf("%q is not Key=Value; separate several with commas", pair)
		}
		tags[key] = strings.TrimSpace(value)
	}
	return tags, nil
}

// CheckZones checks the lists against the subnets of EC2: each list must be of one zone, and no two of the same,
// because nodes get their interfaces in their own zone and in the order of the list. The error names every mistake.
func (p Parameters) CheckZones(subnets []eni.Subnet) error {
	zoneOf := map[string]string{}
	for _, s := range subnets {
		zoneOf[s.ID] = s.Zone
	}
	var mistakes []error
	listedBy := map[string]string{}
	for _, list := range p.Zones {
		zone, err := list.zone(zoneOf, list.ofAllZones() && len(p.Networks) == 1)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", list.Parameter, err))
			continue
		}
		if other, taken := listedBy[zone]; taken {
			mistakes = append(mistakes, fmt.Errorf("%s: its subnets are in %s, as are those of %s; make it one list",
				list.Parameter, zone, other))
		}
		listedBy[zone] = list.Parameter
	}
	return errors.Join(mistakes...)
}

// zone returns the zone of a list's subnets, or one of several if the list may have several.
func (z ZoneSubnets) zone(zoneOf map[string]string, several bool) (string, error) {
	zones := map[string]bool{}
	for _, id := range z.IDs {
		zone, known := zoneOf[id]
		if !known {
			return "", fmt.Errorf("there is no subnet %s in this account and region", id)
		}
		zones[zone] = true
	}
	names := slices.Sorted(maps.Keys(zones))
	if len(names) != 1 && !several {
		return "", fmt.Errorf("its subnets are in several zones: %s; list each zone's by itself, in %s1 and so on",
			strings.Join(names, ", "), ParameterSubnets)
	}
	return names[0], nil
}
