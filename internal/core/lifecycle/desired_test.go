// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

const (
	cluster = "multus-cluster"
	self    = "i-1234567890abcdef0"
	another = "i-0fedcba0987654321"
)

// subnets are those of two zones; those of zone b have no IPv6.
func subnets() []eni.Subnet {
	subnet := func(id, name, zone string, ipv6 bool) eni.Subnet {
		return eni.Subnet{
			ID: id, Name: name, VPCID: "vpc-1", Zone: zone, CIDR: netip.MustParsePrefix("10.0.1.0/24"), FreeIPv4: 100, HasIPv6: ipv6,
			Tags: map[string]string{"network": name},
		}
	}
	return []eni.Subnet{
		subnet("subnet-a1", "n3", "a", true), subnet("subnet-a2", "n6", "a", true),
		subnet("subnet-b1", "n3", "b", false), subnet("subnet-b2", "n6", "b", false),
	}
}

// parsed is the configuration of networks, with the defaults.
func parsed(t *testing.T, networks string) lifecycle.Config {
	t.Helper()
	c, err := lifecycle.ParseConfig([]byte(`{"cluster": "` + cluster + `", "trigger": {"tagKey": "role"}, "networks": [` + networks + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// instance is a snapshot of an instance of a zone with the interfaces.
func instance(zone string, interfaces ...eni.Interface) eni.InstanceSnapshot {
	return eni.InstanceSnapshot{
		Instance: eni.Instance{ID: self, Zone: zone, VPCID: "vpc-1", PrivateDNSName: "ip-10-0-0-10.internal", LaunchedAt: launched}, Interfaces: interfaces,
	}
}

// matches has the matches of the selectors of each network.
func matches(c lifecycle.Config) (found []selector.Found) {
	groups := []eni.SecurityGroup{{ID: "sg-1", Name: "n3", VPCID: "vpc-1"}, {ID: "sg-2", Name: "n6", VPCID: "vpc-1"}}
	for _, n := range c.Networks {
		found = append(found, selector.Found{
			Subnets: selector.MatchSubnets(n.SubnetTerms(), subnets()), Groups: selector.MatchGroups(n.GroupTerms(), groups),
		})
	}
	return found
}

// desired is what the networks request for the instance.
func desired(c lifecycle.Config, look eni.InstanceSnapshot) lifecycle.Desired {
	known := inventory.New(cluster)
	known.ObserveInterfaces(launched, look.Interfaces...)
	return c.Desired(look, matches(c), known.Of(self), nil)
}

// wantedBy returns the desired interfaces of a network that no existing one serves.
func wantedBy(d lifecycle.Desired, network string) []plan.Interface {
	return slices.DeleteFunc(slices.Clone(d.Interfaces), func(i plan.Interface) bool {
		return i.Key.NodeENI != network || i.Goal != plan.Serve || i.ENIID != ""
	})
}

// at is an interface in a subnet that is attached to an instance at a device index.
func at(id, subnet, instanceID string, device int, tags map[string]string) eni.Interface {
	return eni.Interface{
		ID: id, SubnetID: subnet, Status: eni.InUse, Tags: tags,
		Attachment: &eni.Attachment{ID: "attach-" + id, InstanceID: instanceID, Slot: eni.Slot{Device: device}, Status: eni.AttachmentAttached},
	}
}

var launched = time.Unix(1_700_000_000, 0)

// networkTags returns the tags of an interface of a network on an instance, and nodeENITags those of one of a NodeENI.
func networkTags(name, instanceID string) map[string]string {
	key := identity.Interface{Cluster: cluster, UID: identity.NetworkUID(name, 0, launched), Name: identity.ObjectName(name, instanceID, 0),
		NodeENI: name, Node: "node", InstanceID: instanceID}
	return key.Tags(launched, nil)
}

func nodeENITags(instanceID string) map[string]string {
	key := identity.Interface{Cluster: cluster, UID: "uid-1", Name: identity.ObjectName("web", instanceID, 0), NodeENI: "web", Node: "node", InstanceID: instanceID}
	return key.Tags(launched, nil)
}

const n3 = `{"name": "n3", "subnetNames": ["n3"], "securityGroupNames": ["n3"]}`

// TestInterfacesOfANetwork: they have the fields that the user declared, in the subnet of the instance's zone.
func TestInterfacesOfANetwork(t *testing.T) {
	full := `{"name": "n3", "subnetIDs": ["subnet-a2", "subnet-b2", "subnet-a1"], "securityGroupIDs": ["sg-2", "sg-1"], "deviceIndex": 3,
	  "networkCardIndex": 1, "deviceIndexPolicy": "Exact", "description": "VRF{deviceIndex}", "tags": {"team": "core"}, "mtu": 1500,
	  "sysctls": {"ipv4.rp_filter": 0}, "sourceDestCheck": false, "deleteOnTermination": false, "ipv4Allocation": "LowestFree", "ipv6": true}`
	plain := eni.Spec{Groups: []string{"sg-1"}, Tags: map[string]string{}, SourceDestCheck: true, DeleteOnTermination: true}
	custom := func(description string, ipv6 int) eni.Spec {
		return eni.Spec{
			Description: description, Groups: []string{"sg-1", "sg-2"}, LowestFree: true, MatchIPv4Suffix: ipv6 > 0,
			AddressCounts: eni.AddressCounts{IPv6: ipv6},
			Tags:          map[string]string{"team": "core", identity.TagMTU: "1500", identity.TagSysctls: "ipv4.rp_filter=0"},
		}
	}
	settings := func(subnet string, slot eni.Slot, exact bool, spec eni.Spec) eni.Settings {
		return eni.Settings{Subnets: []string{subnet}, Slot: slot, ExactSlot: exact, Spec: spec}
	}
	for name, tc := range map[string]struct {
		networks, zone string
		want           []eni.Settings
	}{
		"defaults in zone a": {n3, "a", []eni.Settings{settings("subnet-a1", eni.Slot{Device: 1}, false, plain)}},
		"defaults in zone b": {n3, "b", []eni.Settings{settings("subnet-b1", eni.Slot{Device: 1}, false, plain)}},
		"every field where the subnets have IPv6": {full, "a", []eni.Settings{
			settings("subnet-a2", eni.Slot{Card: 1, Device: 3}, true, custom("VRF3", 1)), settings("subnet-a1", eni.Slot{Card: 1, Device: 4}, true, custom("VRF4", 1)),
		}},
		"every field where the subnet has no IPv6": {full, "b", []eni.Settings{
			settings("subnet-b2", eni.Slot{Card: 1, Device: 3}, true, custom("VRF3", 0)),
		}},
		"a zone without subnets": {n3, "c", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []eni.Settings
			problems := 0
			for n, i := range desired(parsed(t, tc.networks), instance(tc.zone)).Interfaces {
				if i.Problem != nil {
					problems++
					continue
				}
				got = append(got, i.Settings)
				if i.Goal != plan.Serve || i.Key.UID != identity.NetworkUID("n3", n, launched) || i.Key.Node != "ip-10-0-0-10.internal" {
					t.Errorf("the interface is %+v", i.Key)
				}
				if read, verdict := identity.Read(cluster, i.Tags); verdict != identity.Owned || read != i.Key {
					t.Errorf("the tags are %v", i.Tags)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if lacks := problems > 0; lacks != (len(tc.want) == 0) {
				t.Errorf("%d interfaces have problems", problems)
			}
		})
	}
}

// TestExistingInterfacesOfANetworkServe: one in the subnet serves first, and one elsewhere serves as well. Others stay.
func TestExistingInterfacesOfANetworkServe(t *testing.T) {
	c := parsed(t, n3)
	elsewhere := networkTags("n3", self)
	elsewhere[identity.TagUID], elsewhere[identity.TagInterface] = string(identity.NetworkUID("n3", 1, launched)), identity.ObjectName("n3", self, 1)
	in, out := at("eni-1", "subnet-a1", self, 1, networkTags("n3", self)), at("eni-2", "subnet-a2", self, 2, elsewhere)
	for name, tc := range map[string]struct {
		has  []eni.Interface
		want map[string]plan.Goal
	}{
		"in its subnet":     {[]eni.Interface{in}, map[string]plan.Goal{"eni-1": plan.Serve}},
		"elsewhere":         {[]eni.Interface{out}, map[string]plan.Goal{"eni-2": plan.Serve}},
		"both":              {[]eni.Interface{out, in}, map[string]plan.Goal{"eni-1": plan.Serve, "eni-2": plan.Keep}},
		"another network's": {[]eni.Interface{at("eni-1", "subnet-a1", self, 1, networkTags("n6", self))}, map[string]plan.Goal{"": plan.Serve, "eni-1": plan.Keep}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]plan.Goal{}
			for _, i := range desired(c, instance("a", tc.has...)).Interfaces {
				got[i.ENIID] = i.Goal
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestADecisionIsAnotherToken: an interface whose token EC2 refused gets another one, and the others do not.
func TestADecisionIsAnotherToken(t *testing.T) {
	c := parsed(t, `{"name": "n3", "subnetNames": ["n3", "n6"], "securityGroupNames": ["n3"]}`)
	before := c.Desired(instance("a"), matches(c), nil, nil).Interfaces
	again := map[string]time.Time{before[1].Key.Name: launched.Add(time.Hour)}
	after := c.Desired(instance("a"), matches(c), nil, again).Interfaces
	if after[0].Key != before[0].Key || after[1].Key.Name != before[1].Key.Name || after[1].Key.Token() == before[1].Key.Token() {
		t.Errorf("%+v became %+v", before[1].Key, after[1].Key)
	}
}

// The single form of a subnet comes before the list; validation allows one of them.
func TestTermsOfANetwork(t *testing.T) {
	tags := map[string]string{"network": "n3"}
	for name, tc := range map[string]struct {
		network lifecycle.Network
		subnets selector.SubnetTerms
		groups  selector.GroupTerms
	}{
		"one ID":    {lifecycle.Network{SubnetID: "subnet-1"}, selector.SubnetTerms{IDs: []string{"subnet-1"}}, selector.GroupTerms{}},
		"IDs":       {lifecycle.Network{SubnetIDs: []string{"subnet-1", "subnet-2"}}, selector.SubnetTerms{IDs: []string{"subnet-1", "subnet-2"}}, selector.GroupTerms{}},
		"one name":  {lifecycle.Network{SubnetName: "n3"}, selector.SubnetTerms{Names: []string{"n3"}}, selector.GroupTerms{}},
		"names":     {lifecycle.Network{SubnetNames: []string{"n3", "n6"}}, selector.SubnetTerms{Names: []string{"n3", "n6"}}, selector.GroupTerms{}},
		"tags":      {lifecycle.Network{SubnetSelector: tags}, selector.SubnetTerms{Tags: tags}, selector.GroupTerms{}},
		"group IDs": {lifecycle.Network{SecurityGroupIDs: []string{"sg-1"}}, selector.SubnetTerms{}, selector.GroupTerms{IDs: []string{"sg-1"}}},
		"groups by name": {
			lifecycle.Network{SecurityGroupNames: []string{"n3"}}, selector.SubnetTerms{}, selector.GroupTerms{Names: []string{"n3"}},
		},
		"groups by tags": {lifecycle.Network{SecurityGroupSelector: tags}, selector.SubnetTerms{}, selector.GroupTerms{Tags: tags}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.subnets, tc.network.SubnetTerms()); diff != "" {
				t.Errorf("subnets (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.groups, tc.network.GroupTerms()); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}

// An instance without a DNS name, as in a subnet that names by resource, is its own node.
func TestNodeOfAnInstance(t *testing.T) {
	look := instance("a")
	if k := desired(parsed(t, n3), look).Interfaces[0].Key; k.Node != "ip-10-0-0-10.internal" || k.InstanceID != self || k.Cluster != cluster {
		t.Errorf("it is desired for %s on %s of %s", k.Node, k.InstanceID, k.Cluster)
	}
	look.Instance.PrivateDNSName = ""
	if k := desired(parsed(t, n3), look).Interfaces[0].Key; k.Node != self {
		t.Errorf("the node is %s, want %s", k.Node, self)
	}
}

// An instance never gets two interfaces for one purpose: one that a NodeENI has there, or one without an owner, serves
// the network.
func TestExistingInterfaceServesANetwork(t *testing.T) {
	unowned := map[string]string{identity.TagNoManage: "true"}
	detached := func(i eni.Interface) eni.Interface {
		i.Attachment, i.Status = nil, eni.Available
		return i
	}
	foreign := nodeENITags(self)
	foreign[identity.TagCluster] = "another-cluster"
	for name, tc := range map[string]struct {
		interfaces []eni.Interface
		served     []string
	}{
		"nothing there":                         {nil, nil},
		"of a NodeENI":                          {[]eni.Interface{at("eni-1", "subnet-a1", self, 2, nodeENITags(self))}, []string{"eni-1"}},
		"of a NodeENI, not attached yet":        {[]eni.Interface{detached(at("eni-1", "subnet-a1", self, 2, nodeENITags(self)))}, []string{"eni-1"}},
		"of a NodeENI in another subnet":        {[]eni.Interface{at("eni-1", "subnet-a2", self, 1, nodeENITags(self))}, nil},
		"of a NodeENI for another instance":     {[]eni.Interface{at("eni-1", "subnet-a1", self, 1, nodeENITags(another))}, nil},
		"of a NodeENI of another cluster":       {[]eni.Interface{at("eni-1", "subnet-a1", self, 1, foreign)}, nil},
		"of the network itself":                 {[]eni.Interface{at("eni-1", "subnet-a1", self, 1, networkTags("n3", self))}, nil},
		"of another network":                    {[]eni.Interface{at("eni-1", "subnet-a1", self, 1, networkTags("n6", self))}, nil},
		"without an owner":                      {[]eni.Interface{at("eni-1", "subnet-a1", self, 1, unowned)}, []string{"eni-1"}},
		"without an owner at another slot":      {[]eni.Interface{at("eni-1", "subnet-a1", self, 2, unowned)}, nil},
		"without an owner, not attached":        {[]eni.Interface{detached(at("eni-1", "subnet-a1", self, 1, unowned))}, nil},
		"without an owner, on another instance": {[]eni.Interface{at("eni-1", "subnet-a1", another, 1, unowned)}, nil},
		"without tags":                          {[]eni.Interface{at("eni-1", "subnet-a1", self, 1, nil)}, nil},
		"without an owner, and the network's own": {
			[]eni.Interface{at("eni-1", "subnet-a1", self, 1, unowned), at("eni-2", "subnet-a1", self, 2, networkTags("n3", self))}, nil,
		},
		"without an owner, and a NodeENI's": {
			[]eni.Interface{at("eni-1", "subnet-a1", self, 1, unowned), at("eni-2", "subnet-a1", self, 2, nodeENITags(self))}, []string{"eni-2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := desired(parsed(t, n3), instance("a", tc.interfaces...))
			var served []string
			for _, i := range d.Served {
				served = append(served, i.ID)
			}
			if diff := cmp.Diff(tc.served, served); diff != "" {
				t.Errorf("served by (-want +got):\n%s", diff)
			}
			left := 0
			for _, i := range d.Interfaces {
				if i.Goal == plan.Serve {
					left++
				}
			}
			if left != 1-len(tc.served) {
				t.Errorf("%d interfaces are still desired, want %d", left, 1-len(tc.served))
			}
		})
	}
}

// One existing interface serves one network: the second network of the subnet still gets its own.
func TestExistingInterfaceServesOneNetwork(t *testing.T) {
	second := strings.ReplaceAll(n3, `"name": "n3"`, `"name": "n3-again", "deviceIndex": 2`)
	d := desired(parsed(t, n3+","+second), instance("a", at("eni-1", "subnet-a1", self, 4, nodeENITags(self))))
	if first, second := len(wantedBy(d, "n3")), len(wantedBy(d, "n3-again")); len(d.Served) != 1 || first != 0 || second != 1 {
		t.Errorf("%d are served, and %d and %d desired; want 1, 0 and 1", len(d.Served), first, second)
	}
}

// TestEverySubnetIsServedOrDesired checks that each subnet of a network is either served or desired, in the order of
// the networks, regardless of the instance's interfaces.
func TestEverySubnetIsServedOrDesired(t *testing.T) {
	c := parsed(t, `{"name": "n3", "subnetNames": ["n3", "n6"], "securityGroupNames": ["n3"]}`)
	rapid.Check(t, func(t *rapid.T) {
		var interfaces []eni.Interface
		for n := range rapid.IntRange(0, 4).Draw(t, "interfaces") {
			i := at(fmt.Sprint("eni-", n), rapid.SampledFrom([]string{"subnet-a1", "subnet-a2", "subnet-b1"}).Draw(t, "subnet"),
				rapid.SampledFrom([]string{self, another}).Draw(t, "instance"), n+1, nil)
			switch rapid.SampledFrom([]string{"NodeENI", "network", "none", "foreign"}).Draw(t, "owner") {
			case "NodeENI":
				i.Tags = nodeENITags(self)
			case "network":
				i.Tags = networkTags("n3", self)
			case "none":
				i.Tags = map[string]string{identity.TagNoManage: "true"}
			}
			interfaces = append(interfaces, i)
		}
		d := desired(c, instance("a", interfaces...))
		var subnets, ids []string
		for _, i := range d.Interfaces {
			if i.Goal == plan.Serve {
				subnets = append(subnets, i.Settings.Subnets...)
			}
		}
		for _, i := range d.Served {
			subnets, ids = append(subnets, i.SubnetID), append(ids, i.ID)
		}
		slices.Sort(subnets)
		if diff := cmp.Diff([]string{"subnet-a1", "subnet-a2"}, subnets); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if distinct := slices.Compact(slices.Sorted(slices.Values(ids))); len(distinct) != len(ids) {
			t.Fatalf("one interface serves twice: %v", ids)
		}
	})
}

// The settings of the link travel in tags, where the agent reads them.
func TestLinkSettingsAreReadFromTheTags(t *testing.T) {
	d := desired(parsed(t, strings.TrimSuffix(n3, "}")+`, "mtu": 9000, "sysctls": {"ipv4.arp_ignore": 2, "ipv6.accept_ra": 1}}`), instance("a"))
	mtu, settings := identity.ReadLink(d.Interfaces[0].Tags)
	if diff := cmp.Diff(map[hostnet.Setting]int{hostnet.ARPIgnore: 2, hostnet.AcceptRA: 1}, settings); mtu != 9000 || diff != "" {
		t.Errorf("the MTU is %d; settings (-want +got):\n%s", mtu, diff)
	}
}
