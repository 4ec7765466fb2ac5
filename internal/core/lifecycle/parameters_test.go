// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/lifecycle"
)

// TestParametersAreAConfiguration compares the whole configuration from the parameters of a template.
func TestParametersAreAConfiguration(t *testing.T) {
	yes, no := true, false
	network := func(name string, index int, group string, subnets ...string) lifecycle.Network {
		return lifecycle.Network{
			Name: name, SubnetIDs: subnets, SecurityGroupIDs: []string{group}, DeviceIndex: index, DeviceIndexPolicy: "Prefer",
			Tags: map[string]string{}, IPv4Allocation: lifecycle.Auto, SourceDestCheck: &no, DeleteOnTermination: &yes,
			Required: &yes,
			IPv6:     true, Description: "VRF{deviceIndex}",
		}
	}
	got, err := lifecycle.ParseParameters(map[string]string{
		"ClusterName": "prod", "EksNodeGroupTagKey": "multus-ng", "LifecycleHooks": "one,two", "OnFailure": "ABANDON",
		"MultusSubnetsAz2": "subnet-b1\nsubnet-b2", "MultusSubnetsAz1": "\tsubnet-a1,  subnet-a2 ",
		"MultusSecurityGroupIds": "sg-1 sg-2",
		"PATH":                   "/bin",
		"MultusSubnetsAz":        "subnet-x", "MultusSubnetsAz0": "subnet-x", "MultusSubnetsAz-1": "subnet-x",
		"MultusSubnetsAzX": "subnet-x",
	})
	want := lifecycle.Parameters{
		Config: lifecycle.Config{
			Cluster: "prod", Trigger: lifecycle.Trigger{TagKey: "multus-ng"}, Hooks: []string{"one", "two"},
			OnFailure: lifecycle.Abandon,
			Networks: []lifecycle.Network{
				network("multus-1", 1, "sg-1", "subnet-a1", "subnet-b1"), network("multus-2", 2, "sg-2", "subnet-a2", "subnet-b2"),
			},
		},
		Zones: []lifecycle.ZoneSubnets{
			{Parameter: "MultusSubnetsAz1", IDs: []string{"subnet-a1", "subnet-a2"}},
			{Parameter: "MultusSubnetsAz2", IDs: []string{"subnet-b1", "subnet-b2"}},
		},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestFormsOfTags checks the text that becomes the tags of every interface.
func TestFormsOfTags(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		want  map[string]string
		error string
	}{
		"nothing":                    {"", map[string]string{}, ""},
		"spaces around all":          {" a = b , c = d e ", map[string]string{"a": "b", "c": "d e"}, ""},
		"commas without a pair":      {",a=b, ,c=d,", map[string]string{"a": "b", "c": "d"}, ""},
		"an equals sign in a value":  {"a=b=c", map[string]string{"a": "b=c"}, ""},
		"an empty value":             {"a=", map[string]string{"a": ""}, ""},
		"the last of two of one key": {"a=b,a=c", map[string]string{"a": "c"}, ""},
		"no equals sign": {
			"a=b,c", nil, `MultusInterfaceTags: "c" is not Key=Value; separate several with commas`,
		},
		"no key": {
			" =b", nil, `MultusInterfaceTags: " =b" is not Key=Value; separate several with commas`,
		},
		"a key of AWS": {
			"aws:a=b", nil, `networks[0] multus: tags: keys that begin with aws: are AWS's own, such as "aws:a"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := lifecycle.ParseParameters(parameters(map[string]string{"MultusInterfaceTags": tc.text}))
			if (err != nil) != (tc.error != "") || err != nil && err.Error() != tc.error {
				t.Fatalf("the error is %v, want %q", err, tc.error)
			}
			if diff := cmp.Diff(tc.want, p.Networks[0].Tags); err == nil && diff != "" {
				t.Errorf("tags (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFormsOfTheAllocation checks the words that select the lowest free address.
func TestFormsOfTheAllocation(t *testing.T) {
	for text, want := range map[string]lifecycle.Allocation{
		"": lifecycle.Auto, "false": lifecycle.Auto, "0": lifecycle.Auto,
		"true": lifecycle.LowestFree, "True": lifecycle.LowestFree, "1": lifecycle.LowestFree,
	} {
		p, err := lifecycle.ParseParameters(parameters(map[string]string{"useIPsFromStartOfSubnet": text}))
		if err != nil || p.Networks[0].IPv4Allocation != want {
			t.Errorf("%q is %s, %v; want %s", text, p.Networks[0].IPv4Allocation, err, want)
		}
	}
}

// TestTheErrorOfParametersHasEveryMistake compares the whole error, which names the parameter to change.
func TestTheErrorOfParametersHasEveryMistake(t *testing.T) {
	const oneList = "MultusSubnetsAz1: list the subnets of a zone, the one for device index 1 first; or MultusSubnets: " +
		"those of all zones"
	for name, tc := range map[string]struct {
		changes map[string]string
		want    []string
	}{
		"names of the published functions, sorted": {
			map[string]string{"useStaticIPs": "true", "SecGroupIds": "sg-1", "Az1SubnetIds": ""}, []string{
				"Az1SubnetIds: it is the name of the published Multus functions; set MultusSubnetsAz1 instead",
				"SecGroupIds: it is the name of the published Multus functions; set MultusSecurityGroupIds instead",
				"useStaticIPs: it is the name of the published Multus functions; set useIPsFromStartOfSubnet instead",
			},
		},
		"every parameter": {
			map[string]string{
				"MultusSubnetsAz1": "subnet-a,subnet-a", "MultusSubnets": "subnet-b,subnet-c,subnet-c",
				"useIPsFromStartOfSubnet": "no",
				"MultusInterfaceTags":     "x", "MultusSecurityGroupIds": "sg-1,sg-2", "ClusterName": "",
			}, []string{
				"MultusSubnets: it is one list for all zones, and there is MultusSubnetsAz1 as well; give either",
				"MultusSubnets: subnet-c is listed twice",
				`useIPsFromStartOfSubnet: "no" is neither true nor false`,
				`MultusInterfaceTags: "x" is not Key=Value; separate several with commas`,
				"MultusSecurityGroupIds: 2 groups for the 3 subnets of MultusSubnets; give one for all, or as many as " +
					"there are subnets",
			},
		},
		"one list, and the list of a second zone": {
			map[string]string{"MultusSubnetsAz1": "", "MultusSubnets": "subnet-b"}, []string{
				"MultusSubnets: it is one list for all zones, and there is MultusSubnetsAz2 as well; give either",
			},
		},
		"no list": {
			map[string]string{"MultusSubnetsAz1": "", "MultusSubnetsAz2": "", "MultusSubnetsAz": "subnet-a"},
			[]string{oneList},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lifecycle.ParseParameters(parameters(tc.changes))
			if err == nil {
				t.Fatal("there is no error")
			}
			if diff := cmp.Diff(tc.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheErrorOfZonesHasEveryMistake compares the whole error of lists that do not match the subnets of EC2.
func TestTheErrorOfZonesHasEveryMistake(t *testing.T) {
	p := lifecycle.Parameters{Zones: []lifecycle.ZoneSubnets{
		{Parameter: "MultusSubnetsAz1", IDs: []string{"subnet-b1", "subnet-a1"}},
		{Parameter: "MultusSubnetsAz2", IDs: []string{"subnet-x"}},
		{Parameter: "MultusSubnetsAz3", IDs: []string{"subnet-y", "subnet-a1"}},
		{Parameter: "MultusSubnetsAz4", IDs: []string{"subnet-a1"}},
		{Parameter: "MultusSubnetsAz5", IDs: []string{"subnet-a2"}},
		{Parameter: "MultusSubnetsAz6", IDs: []string{"subnet-b1"}},
	}}
	err := p.CheckZones([]eni.Subnet{
		{ID: "subnet-a1", Zone: "a"}, {ID: "subnet-a2", Zone: "a"}, {ID: "subnet-b1", Zone: "b"},
	})
	want := []string{
		"MultusSubnetsAz1: its subnets are in several zones: a, b; list each zone's by itself, in MultusSubnetsAz1 and so on",
		"MultusSubnetsAz2: there is no subnet subnet-x in this account and region",
		"MultusSubnetsAz3: there is no subnet subnet-y in this account and region",
		"MultusSubnetsAz5: its subnets are in a, as are those of MultusSubnetsAz4; make it one list",
	}
	if err == nil {
		t.Fatal("there is no error")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

// TestEverySubnetIsInOneNetwork checks for any number of zones and subnets that each subnet belongs to the network of
// its position in the list, with the group of that position.
func TestEverySubnetIsInOneNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zones, length := rapid.IntRange(1, 12).Draw(t, "zones"), rapid.IntRange(1, 6).Draw(t, "subnets of a zone")
		id := func(zone, n int) string { return "subnet-" + string(rune('a'+zone)) + string(rune('0'+n)) }
		changes := map[string]string{"MultusSubnetsAz1": "", "MultusSubnetsAz2": "", "MultusSecurityGroupIds": ""}
		separators := rapid.SampledFrom([]string{",", " ", ", "})
		for zone := range zones {
			for n := range length {
				changes["MultusSubnetsAz"+strconv.Itoa(zone+1)] += id(zone, n) + separators.Draw(t, "separator")
			}
		}
		for n := range length {
			changes["MultusSecurityGroupIds"] += "sg-" + strconv.Itoa(n) + ","
		}
		p, err := lifecycle.ParseParameters(parameters(changes))
		if err != nil {
			t.Fatal(err)
		}
		networks := p.Networks
		if length == 1 { // one group serves all subnets, in the order of the zones
			for zone, got := range networks[0].SubnetIDs {
				if got != id(zone, 0) {
					t.Fatalf("subnet %d is %s, want %s", zone, got, id(zone, 0))
				}
			}
			return
		}
		for n, network := range networks {
			for zone, got := range network.SubnetIDs {
				if got != id(zone, n) || network.SecurityGroupIDs[0] != "sg-"+strconv.Itoa(n) || network.DeviceIndex != n+1 {
					t.Fatalf("network %d has %s of zone %d at %d with %v", n, got, zone, network.DeviceIndex, network.SecurityGroupIDs)
				}
			}
		}
		if len(networks) != length {
			t.Fatalf("there are %d networks, want %d", len(networks), length)
		}
	})
}
