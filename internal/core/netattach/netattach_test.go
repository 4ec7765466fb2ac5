// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package netattach_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/netattach"
)

func ExampleNetwork_Definition() {
	definition := netattach.Network{NodeENI: "n3"}.Definition()
	fmt.Println(definition.Name)
	fmt.Println(definition.Config)
	// Output:
	// n3
	// {"cniVersion":"1.0.0","name":"n3","plugins":[{"type":"ipvlan","capabilities":{"ips":true},"master":"net-n3","mode":"l2","ipam":{"type":"multieni-ipam","network":"n3"}},{"type":"multieni-routes","network":"n3"}]}
}

func TestDefinition(t *testing.T) {
	cases := map[string]struct {
		network      netattach.Network
		name, config string
	}{
		"the second interface": {
			netattach.Network{NodeENI: "n3", Ordinal: 1}, "n3--1",
			`{"cniVersion":"1.0.0","name":"n3--1","plugins":[{"type":"ipvlan","capabilities":{"ips":true},"master":"net-n3_1","mode":"l2","ipam":{"type":"multieni-ipam","network":"n3--1"}},{"type":"multieni-routes","network":"n3--1"}]}`,
		},
		"one pod for the interface": {
			netattach.Network{NodeENI: "n3", HostDevice: true}, "n3",
			`{"cniVersion":"1.0.0","name":"n3","plugins":[{"type":"host-device","capabilities":{"ips":true},"device":"net-n3","ipam":{"type":"multieni-ipam","network":"n3"}},{"type":"multieni-routes","network":"n3"}]}`,
		},
		"version 2 of IGMP": {
			netattach.Network{NodeENI: "n3", IGMPVersion: 2}, "n3",
			`{"cniVersion":"1.0.0","name":"n3","plugins":[{"type":"ipvlan","capabilities":{"ips":true},"master":"net-n3","mode":"l2","ipam":{"type":"multieni-ipam","network":"n3"}},{"type":"multieni-routes","network":"n3","igmpVersion":2}]}`,
		},
		"a name that makes no name of a link": {
			netattach.Network{NodeENI: "user-plane-network"}, "user-plane-network",
			`{"cniVersion":"1.0.0","name":"user-plane-network","plugins":[{"type":"ipvlan","capabilities":{"ips":true},"master":"net-user--ubnbf","mode":"l2","ipam":{"type":"multieni-ipam","network":"user-plane-network"}},{"type":"multieni-routes","network":"user-plane-network"}]}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.network.Definition()
			if got.Name != tc.name {
				t.Errorf("the name is %s", got.Name)
			}
			if diff := cmp.Diff(tc.config, got.Config); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCount(t *testing.T) {
	cases := map[string]struct {
		zones  []string
		listed bool
		want   int
	}{
		"no subnet is known yet":                {nil, true, 1},
		"a subnet in each zone":                 {[]string{"a", "b", "c"}, true, 1},
		"two subnets in one of the zones":       {[]string{"a", "b", "a"}, true, 2},
		"a selector that finds two in one zone": {[]string{"a", "a"}, false, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := netattach.Count(tc.zones, tc.listed); got != tc.want {
				t.Errorf("%d networks, want %d", got, tc.want)
			}
		})
	}
}
