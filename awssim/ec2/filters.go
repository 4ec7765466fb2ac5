// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"maps"
	"slices"
	"strings"
)

// Filters returns the sorted names of the filters of each action that has some.
func Filters() map[string][]string {
	m, all := &Model{}, map[string][]string{}
	note(all, vpcKind())
	note(all, m.subnetKind())
	note(all, m.groupKind())
	note(all, groupRuleKind())
	note(all, m.routeTableKind())
	note(all, internetGatewayKind())
	note(all, m.networkACLKind())
	note(all, m.interfaceKind())
	note(all, m.instanceKind())
	note(all, m.imageKind())
	note(all, templateKind())
	note(all, m.versionKind())
	note(all, m.fleetKind())
	note(all, m.spotFleetKind())
	note(all, reservationKind())
	note(all, tagKind())
	note(all, typeKind())
	note(all, offeringKind())
	note(all, zoneKind())
	note(all, regionKind())
	// DescribeInstanceStatus finds instances by the filters of DescribeInstances.
	all["DescribeInstanceStatus"] = all["DescribeInstances"]
	return all
}

func note[T any](all map[string][]string, k kind[T]) {
	names := slices.Collect(maps.Keys(k.filters))
	if k.tags != nil {
		names = append(names, "tag:KEY", "tag-key")
	}
	// Parentheses mark filters that other parameters set.
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "(") })
	slices.Sort(names)
	if len(names) > 0 {
		all[k.action] = names
	}
}
