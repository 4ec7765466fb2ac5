// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/lifecycle"
)

// network is a file with one network that has further fields.
func network(fields string) []byte {
	const begin = `{"cluster": "c", "networks": [{"subnetIDs": ["subnet-1"], "securityGroupIDs": ["sg-1"], `
	return []byte(begin + fields + "}]}")
}

// TestBoundsOfANetwork checks the last value that is allowed and the first that is not.
func TestBoundsOfANetwork(t *testing.T) {
	const mtu = "networks[0] n3: mtu: it can be from 1280 to 9001 bytes"
	const sysctl = "networks[0] n3: sysctls: ipv4.rp_filter can be from 0 to 8"
	const index = "networks[0] n3: deviceIndex starts at 1 and networkCardIndex at 0: device 0 is the instance's own"
	const name = ": name: it becomes part of a node's label and of a flag of the kubelet: use letters, digits, -, _ and " +
		"., at most 55, with a letter or digit at both ends"
	longest := "n" + strings.Repeat("_", 53) + "3"
	for field, tc := range map[string]struct{ field, want string }{
		"no MTU":                        {`"mtu": 0`, ""},
		"the least MTU":                 {`"mtu": 1280`, ""},
		"an MTU below the least":        {`"mtu": 1279`, mtu},
		"the largest MTU":               {`"mtu": 9001`, ""},
		"an MTU above the largest":      {`"mtu": 9002`, mtu},
		"a negative MTU":                {`"mtu": -1`, mtu},
		"the highest setting":           {`"sysctls": {"ipv4.rp_filter": 8}`, ""},
		"a setting above the highest":   {`"sysctls": {"ipv4.rp_filter": 9}`, sysctl},
		"the lowest setting":            {`"sysctls": {"ipv4.rp_filter": 0}`, ""},
		"a setting below the lowest":    {`"sysctls": {"ipv4.rp_filter": -1}`, sysctl},
		"the first index":               {`"deviceIndex": 1`, ""},
		"an index below the first":      {`"deviceIndex": -1`, index},
		"the first network card":        {`"networkCardIndex": 0`, ""},
		"a network card that is none":   {`"networkCardIndex": -1`, index},
		"a name of one character":       {`"name": "x"`, ""},
		"the longest name":              {`"name": "` + longest + `"`, ""},
		"a name that is too long":       {`"name": "` + longest + `3"`, "networks[0] " + longest + "3" + name},
		"a name that ends with a dash":  {`"name": "n3-"`, "networks[0] n3-" + name},
		"a name that begins with a dot": {`"name": ".n3"`, "networks[0] .n3" + name},
		"no name":                       {`"name": ""`, "networks[0] : name: it has none"},
		"a tag that only contains aws:": {`"tags": {"x-aws:y": "z"}`, ""},
		"a tag of multieni": {`"tags": {"networking.k8s.aws/mtu": "9001"}`,
			`networks[0] n3: tags: keys that begin with networking.k8s.aws/ are multieni's own, such as "networking.k8s.aws/mtu"`},
		"an exact index":             {`"deviceIndexPolicy": "Exact"`, ""},
		"an address of EC2's choice": {`"ipv4Allocation": "Auto"`, ""},
		"the lowest free address":    {`"ipv4Allocation": "LowestFree"`, ""},
	} {
		t.Run(field, func(t *testing.T) {
			if !strings.Contains(tc.field, `"name"`) {
				tc.field += `, "name": "n3"`
			}
			got := ""
			if _, err := lifecycle.ParseConfig(network(tc.field)); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExactlyOneWayToChoose sets each pair of the fields that choose subnets, or security groups: one is enough, two
// contradict each other.
func TestExactlyOneWayToChoose(t *testing.T) {
	subnets := []string{
		`"subnetID": "subnet-1"`, `"subnetName": "n3"`, `"subnetIDs": ["subnet-1"]`, `"subnetNames": ["n3"]`,
		`"subnetSelector": {"k": "v"}`,
	}
	groups := []string{
		`"securityGroupIDs": ["sg-1"]`, `"securityGroupNames": ["n3"]`, `"securityGroupSelector": {"k": "v"}`,
	}
	const document = `{"cluster": "c", "networks": [{"name": "n3", %s}]}`
	check := func(want string, fields ...string) {
		t.Helper()
		text := fmt.Sprintf(document, strings.Join(fields, ", "))
		_, err := lifecycle.ParseConfig([]byte(text))
		message := "networks[0] n3: exactly one of " + want + " must be set"
		if (err != nil) != (want != "") || err != nil && err.Error() != message {
			t.Errorf("%s: %v", text, err)
		}
	}
	const subnetFields = "subnetID, subnetName, subnetIDs, subnetNames and subnetSelector"
	const groupFields = "securityGroupIDs, securityGroupNames and securityGroupSelector"
	check(subnetFields, groups[0])
	check(groupFields, subnets[0])
	for n, one := range subnets {
		for _, group := range groups {
			check("", one, group)
		}
		for _, other := range subnets[:n] {
			check(subnetFields, one, other, groups[0])
		}
	}
	for n, one := range groups {
		for _, other := range groups[:n] {
			check(groupFields, subnets[0], one, other)
		}
	}
}

// TestTheErrorHasEveryMistake compares the whole error of a file with many mistakes, in the order of the file.
func TestTheErrorHasEveryMistake(t *testing.T) {
	_, err := lifecycle.ParseConfig([]byte(`{
	  "onFailure": "RETRY", "groups": ["a["], "hooks": ["b[", "*-LC-Hook"],
	  "networks": [
	    {"name": "n3", "subnetID": "subnet-1", "securityGroupIDs": ["sg-1"], "deviceIndexPolicy": "exact",
	     "ipv4Allocation": "lowest"},
	{"name": "n3", "subnetID": "subnet-1", "securityGroupIDs": ["sg-1"],
	     "tags": {"aws:b": "", "aws:a": "", "aws:c": ""}},
	    {"subnetID": "subnet-1", "securityGroupIDs": ["sg-1"], "sysctls": {"ipv6.b": 9, "ipv4.a": 0}}],
	  "removed": ["n3", "", "n9"]}`))
	settings := "[ipv4.accept_local ipv4.arp_announce ipv4.arp_filter ipv4.arp_ignore ipv4.arp_notify " +
		"ipv4.force_igmp_version ipv4.proxy_arp ipv4.rp_filter ipv6.accept_ra ipv6.addr_gen_mode ipv6.autoconf], the settings of one link alone"
	want := []string{
		"cluster: name the cluster that owns the interfaces; its name tells them from those of other clusters",
		`onFailure: "RETRY" is neither CONTINUE nor ABANDON`,
		`"a[" is not a name with * and ?: syntax error in pattern`,
		`"b[" is not a name with * and ?: syntax error in pattern`,
		"hooks: Launch-LC-Hook is completed by EKS itself; add a hook of your own to the group and name that",
		"hooks: Terminate-LC-Hook is completed by EKS itself; add a hook of your own to the group and name that",
		`networks[0] n3: deviceIndexPolicy: "exact" is neither Prefer nor Exact`,
		`networks[0] n3: ipv4Allocation: "lowest" is neither Auto nor LowestFree`,
		`networks[1] n3: tags: keys that begin with aws: are AWS's own, such as "aws:a"`,
		`networks[1] n3: tags: keys that begin with aws: are AWS's own, such as "aws:b"`,
		`networks[1] n3: tags: keys that begin with aws: are AWS's own, such as "aws:c"`,
		"networks[1] n3: another network has the same name",
		"networks[2] : name: it has none",
		`networks[2] : sysctls: "ipv4.a" is none of ` + settings,
		`networks[2] : sysctls: "ipv6.b" is none of ` + settings,
		"networks[2] : sysctls: ipv6.b can be from 0 to 8",
		`removed: "n3" is listed in networks, or is no name; a network is either wanted or removed`,
		`removed: "" is listed in networks, or is no name; a network is either wanted or removed`,
	}
	if err == nil {
		t.Fatal("there is no error")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

// TestDefaultsOfANetwork compares the whole configuration of a file that sets nothing it need not, and of one that
// switches off all that is on by default.
func TestDefaultsOfANetwork(t *testing.T) {
	yes, no := true, false
	defaults := lifecycle.Network{
		Name: "n3", SubnetIDs: []string{"subnet-1"}, SecurityGroupIDs: []string{"sg-1"}, DeviceIndex: 1,
		DeviceIndexPolicy: "Prefer",
		IPv4Allocation:    lifecycle.Auto, SourceDestCheck: &yes, DeleteOnTermination: &yes, Required: &yes,
	}
	off := defaults
	off.SourceDestCheck, off.DeleteOnTermination, off.Required = &no, &no, &no
	for name, tc := range map[string]struct {
		fields string
		want   lifecycle.Network
	}{
		"nothing set":    {`"name": "n3"`, defaults},
		"everything off": {`"name": "n3", "sourceDestCheck": false, "deleteOnTermination": false, "required": false`, off},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lifecycle.ParseConfig(network(tc.fields))
			want := lifecycle.Config{Cluster: "c", OnFailure: lifecycle.Continue, Networks: []lifecycle.Network{tc.want}}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestWhoIsServed checks which instances, groups and hooks a configuration selects. All groups are served without a
// list; no hook is completed without one, because EKS completes its own.
func TestWhoIsServed(t *testing.T) {
	all := lifecycle.Config{}
	listed := lifecycle.Config{Groups: []string{"upf-?", "smf*"}, Hooks: []string{"[", "multieni-*"}}
	anyValue, one := lifecycle.Trigger{TagKey: "role"}, lifecycle.Trigger{TagKey: "role", TagValue: "upf"}
	tags := func(key, value string) map[string]string { return map[string]string{key: value} }
	hook := func(name string) lifecycle.HookRef { return lifecycle.HookRef{Group: "multieni-group", Name: name} }
	for name, tc := range map[string]struct{ got, want bool }{
		"any group without a list":                {all.Serves("x"), true},
		"a group of one more character":           {listed.Serves("upf-1"), true},
		"a group of two more characters":          {listed.Serves("upf-12"), false},
		"a group of the second pattern":           {listed.Serves("smf"), true},
		"a group with a prefix":                   {listed.Serves("a-smf"), false},
		"any hook without a list":                 {all.Owns(hook("multieni-1")), false},
		"a hook after a pattern that is none":     {listed.Owns(hook("multieni-1")), true},
		"a hook of another name, the group alike": {listed.Owns(hook("Launch-LC-Hook")), false},
		"any value of the tag":                    {anyValue.Matches(tags("role", "smf")), true},
		"an empty value of the tag":               {anyValue.Matches(tags("role", "")), true},
		"without the tag, any value":              {anyValue.Matches(tags("name", "upf")), false},
		"the value of the tag":                    {one.Matches(tags("role", "upf")), true},
		"an empty value instead":                  {one.Matches(tags("role", "")), false},
		"the value of another tag":                {one.Matches(tags("name", "upf")), false},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %t, want %t", name, tc.got, tc.want)
		}
	}
}
