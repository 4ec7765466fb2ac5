// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/lifecycle"
)

// parameters are those of a node group over two zones with two networks, changed as said.
func parameters(changes map[string]string) map[string]string {
	values := map[string]string{
		"ClusterName":             "multus-cluster",
		"EksNodeGroupTagKey":      "multus-ng",
		"MultusSubnetsAz1":        "subnet-0a1,subnet-0a2",
		"MultusSubnetsAz2":        "subnet-0b1,subnet-0b2",
		"MultusSecurityGroupIds":  "sg-01",
		"useIPsFromStartOfSubnet": "true",
		"MultusInterfaceTags":     "cnf=upf,team=core network",
	}
	maps.Copy(values, changes)
	return values
}

func TestOneSecurityGroupServesAllSubnets(t *testing.T) {
	p, err := lifecycle.ParseParameters(parameters(nil))
	if err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	want := []lifecycle.Network{{
		Name: "multus", SubnetIDs: []string{"subnet-0a1", "subnet-0a2", "subnet-0b1", "subnet-0b2"}, SecurityGroupIDs: []string{"sg-01"},
		DeviceIndex: 1, DeviceIndexPolicy: "Prefer", Tags: map[string]string{"cnf": "upf", "team": "core network"}, IPv4Allocation: "LowestFree",
		SourceDestCheck: &no, DeleteOnTermination: &yes, Required: &yes, IPv6: true, Description: "VRF{deviceIndex}",
	}}
	if diff := cmp.Diff(want, p.Networks); diff != "" {
		t.Error(diff)
	}
}

func TestAsManySecurityGroupsAsSubnetsBelongTogetherInOrder(t *testing.T) {
	p, err := lifecycle.ParseParameters(parameters(map[string]string{"MultusSecurityGroupIds": "sg-01, sg-02"}))
	if err != nil {
		t.Fatal(err)
	}
	type pair struct {
		Index   int
		Subnets []string
		Groups  []string
	}
	var got []pair
	for _, n := range p.Networks {
		got = append(got, pair{n.DeviceIndex, n.SubnetIDs, n.SecurityGroupIDs})
	}
	want := []pair{
		{1, []string{"subnet-0a1", "subnet-0b1"}, []string{"sg-01"}},
		{2, []string{"subnet-0a2", "subnet-0b2"}, []string{"sg-02"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestZonesMayBeAnyNumber(t *testing.T) {
	for name, tc := range map[string]struct {
		changes map[string]string
		want    []string
	}{
		"one, as the second list is optional": {map[string]string{"MultusSubnetsAz2": ""}, []string{"MultusSubnetsAz1"}},
		"eleven, in the order of their numbers": {
			map[string]string{"MultusSubnetsAz11": "subnet-0c1", "MultusSubnetsAz3": "subnet-0d1"},
			[]string{"MultusSubnetsAz1", "MultusSubnetsAz2", "MultusSubnetsAz3", "MultusSubnetsAz11"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := lifecycle.ParseParameters(parameters(tc.changes))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, z := range p.Zones {
				got = append(got, z.Parameter)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMistakesInParametersAreFoundAtStart(t *testing.T) {
	for name, tc := range map[string]struct {
		changes map[string]string
		names   string
	}{
		"no subnets":                        {map[string]string{"MultusSubnetsAz1": "", "MultusSubnetsAz2": " , "}, "MultusSubnetsAz1"},
		"one list and one for a zone":       {map[string]string{"MultusSubnets": "subnet-0c1"}, "MultusSubnets: "},
		"a subnet twice":                    {map[string]string{"MultusSubnetsAz2": "subnet-0b1,subnet-0b1"}, "subnet-0b1"},
		"no security group":                 {map[string]string{"MultusSecurityGroupIds": ""}, "MultusSecurityGroupIds"},
		"neither one group nor one for all": {map[string]string{"MultusSecurityGroupIds": "sg-01,sg-02,sg-03"}, "MultusSecurityGroupIds"},
		"a zone with fewer subnets than groups": {
			map[string]string{"MultusSecurityGroupIds": "sg-01,sg-02", "MultusSubnetsAz2": "subnet-0b1"}, "MultusSubnetsAz2",
		},
		"no cluster":                     {map[string]string{"ClusterName": ""}, "cluster"},
		"a word for true or false":       {map[string]string{"useIPsFromStartOfSubnet": "yes please"}, "useIPsFromStartOfSubnet"},
		"tags that are not pairs":        {map[string]string{"MultusInterfaceTags": "cnf"}, "MultusInterfaceTags"},
		"a hook that EKS completes":      {map[string]string{"LifecycleHooks": "*-LC-Hook"}, "Launch-LC-Hook"},
		"a result that does not exist":   {map[string]string{"OnFailure": "RETRY"}, "onFailure"},
		"a published function's subnets": {map[string]string{"Az2SubnetIds": "subnet-0b1"}, "Az2SubnetIds: it is the name of the published Multus functions; set MultusSubnetsAz2 instead"},
		"a published function's tags":    {map[string]string{"ENITags": "a=b"}, "set MultusInterfaceTags instead"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := lifecycle.ParseParameters(parameters(tc.changes)); err == nil || !strings.Contains(err.Error(), tc.names) {
				t.Errorf("the error does not name %s: %v", tc.names, err)
			}
		})
	}
}

// A node that prepares itself needs no trigger; a program that serves other instances does.
func TestWhoServesOthersNeedsATrigger(t *testing.T) {
	p, err := lifecycle.ParseParameters(parameters(map[string]string{"EksNodeGroupTagKey": ""}))
	if err != nil {
		t.Error(err)
	}
	if err := p.CheckTrigger(); err == nil || !strings.Contains(err.Error(), "EksNodeGroupTagKey") {
		t.Errorf("the error does not name EksNodeGroupTagKey: %v", err)
	}
	if p, err := lifecycle.ParseParameters(parameters(nil)); err != nil || p.CheckTrigger() != nil {
		t.Error(err, p.CheckTrigger())
	}
}

func TestZonesAreHeldAgainstTheSubnets(t *testing.T) {
	known := []eni.Subnet{{ID: "subnet-0a1", Zone: "a"}, {ID: "subnet-0a2", Zone: "a"}, {ID: "subnet-0b1", Zone: "b"}, {ID: "subnet-0b2", Zone: "b"}}
	for name, tc := range map[string]struct {
		changes map[string]string
		names   string
	}{
		"each list in a zone of its own": {},
		"a list over two zones":          {map[string]string{"MultusSubnetsAz1": "subnet-0a1,subnet-0b2", "MultusSubnetsAz2": ""}, "several zones: a, b"},
		"one list for all zones":         {changes: map[string]string{"MultusSubnets": "subnet-0a1,subnet-0b2", "MultusSubnetsAz1": "", "MultusSubnetsAz2": ""}},
		"one list of several zones, with a group for each subnet": {
			map[string]string{"MultusSubnets": "subnet-0a1,subnet-0b2", "MultusSubnetsAz1": "", "MultusSubnetsAz2": "", "MultusSecurityGroupIds": "sg-1,sg-2"}, "several zones: a, b",
		},
		"two lists for a zone":         {map[string]string{"MultusSubnetsAz1": "subnet-0a1", "MultusSubnetsAz2": "subnet-0a2"}, "MultusSubnetsAz1"},
		"a subnet that does not exist": {map[string]string{"MultusSubnetsAz2": "subnet-0c1"}, "subnet-0c1"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := lifecycle.ParseParameters(parameters(tc.changes))
			if err != nil {
				t.Fatal(err)
			}
			switch err := p.CheckZones(known); {
			case tc.names == "" && err != nil:
				t.Error(err)
			case tc.names != "" && (err == nil || !strings.Contains(err.Error(), tc.names)):
				t.Errorf("the error does not say %q: %v", tc.names, err)
			}
		})
	}
}

const document = `{
  "cluster": "multus-cluster", "trigger": {"tagKey": "role", "tagValue": "upf"}, "groups": ["multus-*"], "hooks": ["multus-hook"], "onFailure": "ABANDON",
  "networks": [{"name": "n3", "subnetSelector": {"network": "n3"}, "securityGroupNames": ["n3"], "deviceIndex": 2}]}`

func TestConfigFile(t *testing.T) {
	c, err := lifecycle.ParseConfig([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	if !c.Serves("multus-east") || c.Serves("other") {
		t.Error("the wrong groups are served")
	}
	if !c.Owns(lifecycle.HookRef{Name: "multus-hook"}) || c.Owns(lifecycle.HookRef{Name: "Launch-LC-Hook"}) {
		t.Error("the wrong hooks are completed")
	}
	for name, tc := range map[string]struct {
		tags map[string]string
		want bool
	}{
		"the tag":                  {map[string]string{"role": "upf"}, true},
		"the tag of another value": {map[string]string{"role": "smf"}, false},
		"another tag":              {map[string]string{"Name": "upf"}, false},
		"no tags":                  {nil, false},
	} {
		if c.Trigger.Matches(tc.tags) != tc.want {
			t.Errorf("with %s: %t", name, !tc.want)
		}
	}
	if n := c.Networks[0]; n.DeviceIndexPolicy != "Prefer" || !*n.Required || !*n.DeleteOnTermination || !*n.SourceDestCheck {
		t.Errorf("the defaults are not those of a NodeENI: %+v", n)
	}
}

func TestMistakesInAConfigFileAreFoundAtStart(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, names string }{
		"no JSON":                                  {"{", "", "invalid character"},
		"a field that does not exist":              {`"deviceIndex"`, `"devcieIndex"`, "devcieIndex"},
		"two ways to name subnets":                 {`"deviceIndex": 2`, `"subnetID": "subnet-1"`, "exactly one of subnetID"},
		"no way to name groups":                    {`"securityGroupNames": ["n3"],`, ``, "exactly one of securityGroupIDs"},
		"the primary's index":                      {`"deviceIndex": 2`, `"deviceIndex": -1`, "deviceIndex"},
		"a policy of its own":                      {`"deviceIndex": 2`, `"deviceIndexPolicy": "Maybe"`, "deviceIndexPolicy"},
		"an allocation of its own":                 {`"deviceIndex": 2`, `"ipv4Allocation": "Highest"`, "ipv4Allocation"},
		"an MTU that IPv6 does not take":           {`"deviceIndex": 2`, `"mtu": 1000`, "mtu: it can be from 1280 to 9001"},
		"a setting of all links":                   {`"deviceIndex": 2`, `"sysctls": {"ipv4.ip_forward": 1}`, "ipv4.ip_forward"},
		"a setting that is out of bounds":          {`"deviceIndex": 2`, `"sysctls": {"ipv4.rp_filter": 9}`, "from 0 to 8"},
		"AWS's own tags":                           {`"deviceIndex": 2`, `"tags": {"aws:x": "y"}`, "aws:"},
		"two networks of one name":                 {`]}`, `, {"name": "n3", "subnetID": "subnet-1", "securityGroupIDs": ["sg-1"]}]}`, "same name"},
		"a name that is more flags of the kubelet": {`"name": "n3"`, `"name": "x=true --anonymous-auth=true"`, "flag of the kubelet"},
		"a name that is too long for a label":      {`"name": "n3"`, `"name": "` + strings.Repeat("n", 56) + `"`, "at most 55"},
		"a pattern that is none":                   {`multus-*`, `[`, "not a name"},
		"a network wanted and removed":             {`"networks"`, `"removed": ["n3"], "networks"`, "removed"},
		"a second object":                          {`]}`, `]} {}`, "text follows the configuration"},
		"no networks":                              {document[strings.Index(document, `"networks"`):], `"networks": []}`, "networks"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := document
			if at := strings.LastIndex(document, tc.old); at >= 0 {
				changed = document[:at] + tc.new + document[at+len(tc.old):]
			}
			if _, err := lifecycle.ParseConfig([]byte(changed)); err == nil || !strings.Contains(err.Error(), tc.names) {
				t.Errorf("the error does not name %s: %v", tc.names, err)
			}
		})
	}
}
