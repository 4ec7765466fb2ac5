// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// subnetReservation is the least SubnetReservation with the row's fields set; nil removes one.
func subnetReservation(t *testing.T, row fields) map[string]any {
	t.Helper()
	spec := map[string]any{"subnetNames": []any{"n3"}, "type": "Prefix", "prefixLength": 25}
	maps.Copy(spec, row)
	maps.DeleteFunc(spec, func(_ string, value any) bool { return value == nil })
	return decoded(t, object("SubnetReservation", spec))
}

func TestSubnetReservationAccepted(t *testing.T) {
	k := load(t, "SubnetReservation")
	for name, row := range map[string]fields{
		"the least one":    {},
		"by ID":            {"subnetNames": nil, "subnetIDs": []any{"subnet-12345678"}},
		"by tags":          {"subnetNames": nil, "subnetSelector": fields{"network": "n3"}},
		"listed blocks":    {"prefixLength": nil, "cidrs": []any{"10.0.4.128/25", "10.0.6.128/28"}},
		"a single address": {"type": "Explicit", "prefixLength": nil, "cidrs": []any{"10.0.4.200/32"}},
		"retained":         {"deletionPolicy": "Retain"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, refusal := range k.admit(subnetReservation(t, row)) {
				t.Error(refusal)
			}
		})
	}
}

func TestSubnetReservationRefused(t *testing.T) {
	k := load(t, "SubnetReservation")
	for name, row := range map[string]struct {
		says string
		row  fields
	}{
		"no subnets":                   {"subnetIDs", fields{"subnetNames": nil}},
		"two selections":               {"subnetIDs", fields{"subnetIDs": []any{"subnet-12345678"}}},
		"no block":                     {"prefixLength", fields{"prefixLength": nil}},
		"a size and a list":            {"prefixLength", fields{"cidrs": []any{"10.0.4.128/25"}}},
		"a list too small for a /28":   {"EC2 delegates /28 prefixes", fields{"prefixLength": nil, "cidrs": []any{"10.0.4.128/29"}}},
		"a size too small":             {"prefixLength", fields{"prefixLength": 29}},
		"an IPv6 block":                {"cidrs", fields{"prefixLength": nil, "cidrs": []any{"2001:db8::/64"}}},
		"no address":                   {"cidrs", fields{"prefixLength": nil, "cidrs": []any{"10.0.4.256/28"}}},
		"another type":                 {"type", fields{"type": "prefix"}},
		"a subnet twice":               {"must not list a subnet twice", fields{"subnetNames": nil, "subnetIDs": []any{"subnet-12345678", "subnet-12345678"}}},
		"a name twice":                 {"must not list a name twice", fields{"subnetNames": []any{"n3", "n3"}}},
		"a block twice":                {"must not list a block twice", fields{"prefixLength": nil, "cidrs": []any{"10.0.4.128/25", "10.0.4.128/25"}}},
		"a tag key that is too long":   {"tag key of 1 to 128 characters", fields{"subnetNames": nil, "subnetSelector": fields{strings.Repeat("k", 129): "a"}}},
		"a policy that does not exist": {"deletionPolicy", fields{"deletionPolicy": "Orphan"}},
	} {
		t.Run(name, func(t *testing.T) {
			refusals := k.admit(subnetReservation(t, row.row))
			if !slices.ContainsFunc(refusals, func(refusal string) bool { return strings.Contains(refusal, row.says) }) {
				t.Errorf("no refusal says %q: %q", row.says, refusals)
			}
		})
	}
}
