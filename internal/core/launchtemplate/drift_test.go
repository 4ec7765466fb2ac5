// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// launched is what EC2 returns for an instance with a primary interface and one more.
func launched() []eni.Interface {
	one := func(id string, device int) eni.Interface {
		return eni.Interface{
			ID: id, Type: eni.Standard, SubnetID: "subnet-a", Groups: []string{"sg-1"}, Tags: map[string]string{},
			Attachment: &eni.Attachment{InstanceID: "i-1", Slot: eni.Slot{Device: device}, DeleteOnTermination: true},
		}
	}
	return []eni.Interface{one("eni-0", 0), one("eni-1", 1)}
}

func wanted() launchtemplate.Wanted {
	w := launchtemplate.Wanted{Interfaces: []launchtemplate.Interface{at(0), at(1)}, Subnets: map[eni.Slot][]string{}}
	for n := range w.Interfaces {
		w.Interfaces[n].Groups = []string{"sg-1"}
		w.Subnets[w.Interfaces[n].Slot] = []string{"subnet-a", "subnet-b"}
	}
	return w
}

func found(differences []launchtemplate.Difference) []string {
	all := []string{}
	for _, d := range differences {
		all = append(all, d.Field+" "+string(d.Class)+" "+string(d.Action))
	}
	return all
}

// TestEachFieldDriftsAsItsClassSays changes one field after the other, and expects exactly that difference.
func TestEachFieldDriftsAsItsClassSays(t *testing.T) {
	yes, no := true, false
	cases := map[string]struct {
		want func(*launchtemplate.Wanted)
		have func([]eni.Interface) []eni.Interface
		is   string
	}{
		"length": {want: func(w *launchtemplate.Wanted) {
			third := at(2)
			w.Interfaces = append(w.Interfaces, third)
		}, is: "networkInterfaces Static Replace"},
		"deviceIndex":      {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].Slot.Device = 2 }, is: "networkInterfaces[].deviceIndex Static Replace"},
		"networkCardIndex": {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].Slot.Card = 1 }, is: "networkInterfaces[].networkCardIndex Static Replace"},
		"interfaceType":    {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].Type = eni.EFA }, is: "networkInterfaces[].interfaceType Static Replace"},
		"description":      {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].Description = "n3" }, is: "networkInterfaces[].description Static Repair"},
		"deleteOnTermination": {want: func(w *launchtemplate.Wanted) {
			w.Interfaces[1].DeleteOnTermination = false
		}, is: "networkInterfaces[].deleteOnTermination Behavioral Repair"},
		"associatePublicIPAddress": {want: func(w *launchtemplate.Wanted) { w.Interfaces[0].PublicIP = &yes }, is: "networkInterfaces[].associatePublicIPAddress Static Replace"},
		"a public address that was not wanted": {
			want: func(w *launchtemplate.Wanted) { w.Interfaces[0].PublicIP = &no },
			have: func(i []eni.Interface) []eni.Interface {
				i[0].PublicIP = netip.MustParseAddr("203.0.113.1")
				return i
			}, is: "networkInterfaces[].associatePublicIPAddress Static Replace"},
		"associateCarrierIPAddress":  {want: func(w *launchtemplate.Wanted) { w.Interfaces[0].CarrierIP = &yes }, is: "networkInterfaces[].associateCarrierIPAddress Static Replace"},
		"ipv4PrefixCount":            {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].IPv4Prefixes = 1 }, is: "networkInterfaces[].ipv4PrefixCount Static Repair"},
		"ipv6PrefixCount":            {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].IPv6Prefixes = 1 }, is: "networkInterfaces[].ipv6PrefixCount Static Repair"},
		"connectionTracking":         {want: func(w *launchtemplate.Wanted) { tracked(&w.Interfaces[1]) }, is: "networkInterfaces[].connectionTracking Static Repair"},
		"enaExpress":                 {want: func(w *launchtemplate.Wanted) { express(&w.Interfaces[1]) }, is: "networkInterfaces[].enaExpress Static Repair"},
		"subnetSelector":             {want: func(w *launchtemplate.Wanted) { w.Subnets[eni.Slot{Device: 1}] = []string{"subnet-n3"} }, is: "networkInterfaces[].subnetSelector Dynamic Replace"},
		"securityGroupSelector":      {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].Groups = []string{"sg-2"} }, is: "networkInterfaces[].securityGroupSelector Dynamic Repair"},
		"an interface that was lost": {have: func(i []eni.Interface) []eni.Interface { return i[:1] }, is: "networkInterfaces Static Replace"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, have := wanted(), launched()
			if tc.want != nil {
				tc.want(&w)
			}
			if tc.have != nil {
				have = tc.have(have)
			}
			if diff := cmp.Diff([]string{tc.is}, found(launchtemplate.CompareInterfaces(w, have))); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatNeverCountsAsDrift(t *testing.T) {
	more := func(change func(*eni.Interface)) []eni.Interface {
		have := launched()
		i := have[1].Clone()
		i.ID, i.Attachment.Slot.Device = "eni-9", 2
		change(&i)
		return append(have, i)
	}
	cases := map[string][]eni.Interface{
		"as it was launched":  launched(),
		"one more interface":  more(func(*eni.Interface) {}),
		"one more of the CNI": more(func(i *eni.Interface) { i.Tags["node.k8s.amazonaws.com/instance_id"] = "i-1" }),
		"a trunk":             more(func(i *eni.Interface) { i.Type = "trunk" }),
		"prefixes of the CNI's on the primary": func() []eni.Interface {
			have := launched()
			have[0].IPv4Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.16/28")}
			return have
		}(),
		"groups in another order": func() []eni.Interface { return launched() }(),
	}
	for name, have := range cases {
		t.Run(name, func(t *testing.T) {
			if got := launchtemplate.CompareInterfaces(wanted(), have); len(got) > 0 {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestAnInterfaceOfTheCNIDoesNotStandInForADeclaredOne(t *testing.T) {
	have := launched()
	have[1].Tags["node.k8s.amazonaws.com/instance_id"] = "i-1"
	if diff := cmp.Diff([]string{"networkInterfaces Static Replace"}, found(launchtemplate.CompareInterfaces(wanted(), have))); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

func TestBehavioralDifferencesAreNoDrift(t *testing.T) {
	w := wanted()
	w.Interfaces[1].DeleteOnTermination = false
	differences := launchtemplate.CompareInterfaces(w, launched())
	if len(differences) != 1 || launchtemplate.Drifted(differences) {
		t.Errorf("%v", differences)
	}
}

func TestOtherFieldsDriftAsTheirClassSays(t *testing.T) {
	yes := true
	render := func(change func(*launchtemplate.NodeTemplate)) launchtemplate.Rendering {
		n := plain()
		change(&n)
		return launchtemplate.Render(n, of(t, "m5.large"), nil)
	}
	then := render(func(*launchtemplate.NodeTemplate) {})
	for name, tc := range map[string]struct {
		change func(*launchtemplate.NodeTemplate)
		is     []string
	}{
		"nothing":       {func(*launchtemplate.NodeTemplate) {}, []string{}},
		"interfaces":    {func(n *launchtemplate.NodeTemplate) { n.Interfaces = []launchtemplate.Interface{at(0), at(1)} }, []string{}},
		"instanceTypes": {func(n *launchtemplate.NodeTemplate) { n.Types.Include = []string{"m5.*"} }, []string{}},
		"amiSelector":   {func(n *launchtemplate.NodeTemplate) { n.Image.ID = "ami-2" }, []string{"amiSelector Dynamic Replace"}},
		"userData":      {func(n *launchtemplate.NodeTemplate) { n.UserData += "x" }, []string{"userData Static Replace"}},
		"tags":          {func(n *launchtemplate.NodeTemplate) { n.Tags = map[string]string{"a": "b"} }, []string{"tags Static Replace"}},
		"monitoring":    {func(n *launchtemplate.NodeTemplate) { n.Monitoring = &yes }, []string{"detailedMonitoring Static Replace"}},
		"profile":       {func(n *launchtemplate.NodeTemplate) { n.InstanceProfile = "p" }, []string{"instanceProfile Static Replace"}},
		"metadata":      {func(n *launchtemplate.NodeTemplate) { n.Metadata = &launchtemplate.MetadataOptions{HopLimit: 2} }, []string{"metadataOptions Static Replace"}},
		"block devices": {func(n *launchtemplate.NodeTemplate) {
			n.BlockDevices = []launchtemplate.BlockDevice{{DeviceName: "/dev/xvda"}}
		}, []string{"blockDeviceMappings Static Replace"}},
		"override": {func(n *launchtemplate.NodeTemplate) { n.Override = launchtemplate.Document{"EbsOptimized": true} }, []string{"launchTemplateOverride Static Replace"}},
		"a moved alias": {func(n *launchtemplate.NodeTemplate) {
			n.Source = &launchtemplate.Source{Autofill: true, Data: launchtemplate.Document{"EbsOptimized": true}}
		}, []string{"launchTemplateRef Dynamic Replace"}},
	} {
		t.Run(name, func(t *testing.T) {
			now := render(tc.change)
			if len(now.Problems) > 0 {
				t.Fatal(now.Problems)
			}
			got := found(launchtemplate.CompareData(now.Templates[0].Data, now.Origins, then.Templates[0].Data))
			if diff := cmp.Diff(tc.is, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDifferencesHaveBothValuesAndTheSlot changes the second of two interfaces, desired or observed.
func TestDifferencesHaveBothValuesAndTheSlot(t *testing.T) {
	v4 := func(count int) func(*eni.Interface) {
		return func(i *eni.Interface) { i.IPv4Prefixes = make([]netip.Prefix, count) }
	}
	v6 := func(count int) func(*eni.Interface) {
		return func(i *eni.Interface) { i.IPv6Prefixes = make([]netip.Prefix, count) }
	}
	groups := func(ids ...string) setting { return func(i *launchtemplate.Interface) { i.Groups = ids } }
	cniPrefixes := func(v4, v6 int) setting {
		return func(i *launchtemplate.Interface) {
			i.Management, i.IPv4Prefixes, i.IPv6Prefixes = launchtemplate.CNI, v4, v6
		}
	}
	address := netip.MustParseAddr("203.0.113.1")
	for name, tc := range map[string]struct {
		desired               setting
		observed              func(*eni.Interface)
		field, wanted, actual string
	}{
		"type": {ofType(eni.EFA), nil, "interfaceType", "efa", "interface"},
		"subnet": {
			nil, func(i *eni.Interface) { i.SubnetID = "s-z" }, "subnetSelector", "subnet-a or subnet-b", "s-z",
		},
		"one group of several": {groups("sg-2", "sg-1"), nil, "securityGroupSelector", "sg-2, sg-1", "sg-1"},
		"a group that was added": {
			nil, func(i *eni.Interface) { i.Groups = []string{"sg-1", "sg-9"} }, "securityGroupSelector", "sg-1", "sg-1, sg-9",
		},
		"a description of a person": {
			nil, func(i *eni.Interface) { i.Description = "by hand" }, "description", `""`, `"by hand"`,
		},
		"no deletion with instance": {
			func(i *launchtemplate.Interface) { i.DeleteOnTermination = false }, nil, "deleteOnTermination", "false", "true",
		},
		"a public address": {public(true), nil, "associatePublicIPAddress", "true", "false"},
		"no public address": {
			public(false), func(i *eni.Interface) { i.PublicIP = address }, "associatePublicIPAddress", "false", "true",
		},
		"a carrier address": {carrier(true), nil, "associateCarrierIPAddress", "true", "false"},
		"no carrier address": {
			carrier(false), func(i *eni.Interface) { i.CarrierIP = address }, "associateCarrierIPAddress", "false", "true",
		},
		"fewer IPv4 prefixes":        {prefixed(2, 0), v4(1), "ipv4PrefixCount", "2", "1"},
		"more IPv4 prefixes":         {nil, v4(1), "ipv4PrefixCount", "0", "1"},
		"fewer IPv6 prefixes":        {prefixed(0, 1), nil, "ipv6PrefixCount", "1", "0"},
		"more IPv6 prefixes":         {nil, v6(3), "ipv6PrefixCount", "0", "3"},
		"fewer IPv4 prefixes of CNI": {cniPrefixes(1, 0), nil, "ipv4PrefixCount", "1", "0"},
		"fewer IPv6 prefixes of CNI": {cniPrefixes(0, 2), v6(1), "ipv6PrefixCount", "2", "1"},
		"given to the CNI": {
			forCNI, func(i *eni.Interface) { i.Tags[identity.TagNoManage] = "true" }, "management", "CNI", "Unmanaged",
		},
		"on another device": {nil, func(i *eni.Interface) { i.Attachment.Slot.Device = 3 }, "deviceIndex", "1", "3"},
		"on another card": {
			nil, func(i *eni.Interface) { i.Attachment.Slot.Card = 2 }, "networkCardIndex", "0", "2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			field := "networkInterfaces[]." + tc.field
			f := launchtemplate.Fields()[field]
			same(t, "differences", []launchtemplate.Difference{
				{Field: field, Class: f.Class, Action: f.Action, Slot: eni.Slot{Device: 1}, Want: tc.wanted, Have: tc.actual},
			}, compareSecond(tc.desired, tc.observed))
		})
	}
}

// compareSecond compares an instance as it was launched with the desired interfaces, after changes of its second one.
func compareSecond(desired setting, observed func(*eni.Interface)) []launchtemplate.Difference {
	w, have := wanted(), launched()
	if desired != nil {
		desired(&w.Interfaces[1])
	}
	if observed != nil {
		observed(&have[1])
	}
	return launchtemplate.CompareInterfaces(w, have)
}

// An interface that cannot be the declared one, launched or moved, does not count: the declared one is missing.
func TestInterfaceIsMissingNextToOnesThatCannotBeIt(t *testing.T) {
	missing := launchtemplate.Difference{
		Field: "networkInterfaces", Class: launchtemplate.Static, Action: launchtemplate.Replace, Slot: eni.Slot{Device: 1},
		Want: "an interface at card 0 device 1", Have: "none",
	}
	for name, tc := range map[string]struct {
		desired  setting
		observed func(*eni.Interface)
	}{
		"detached":                {nil, func(i *eni.Interface) { i.Attachment = nil }},
		"made by an AWS service":  {nil, func(i *eni.Interface) { i.RequesterManaged = true }},
		"a trunk":                 {nil, func(i *eni.Interface) { i.Type = "trunk" }},
		"a branch":                {nil, func(i *eni.Interface) { i.Type = "branch" }},
		"another card and device": {nil, func(i *eni.Interface) { i.Attachment.Slot = eni.Slot{Card: 2, Device: 2} }},
		"another type and device": {ofType(eni.EFA), func(i *eni.Interface) { i.Attachment.Slot.Device = 3 }},
		"another type and card":   {ofType(eni.EFA), func(i *eni.Interface) { i.Attachment.Slot.Card = 3 }},
		"moved, of an AWS service": {
			nil, func(i *eni.Interface) { i.Attachment.Slot.Device, i.RequesterManaged = 3, true },
		},
		"in the primary one's place": {nil, func(i *eni.Interface) { i.Attachment.Slot = eni.Primary }},
	} {
		t.Run(name, func(t *testing.T) {
			same(t, "differences", []launchtemplate.Difference{missing}, compareSecond(tc.desired, tc.observed))
		})
	}
}

// The interface in the lowest of several surplus slots is the one that moved.
func TestMovedInterfaceIsTheLowestOneOfTheSameCardOrDevice(t *testing.T) {
	have := launched()[:1]
	slots := []eni.Slot{{Card: 1, Device: 2}, {Card: 3, Device: 1}, {Card: 2, Device: 1}, {Device: 9}, {Device: 7}}
	for _, slot := range slots {
		have = append(have, eni.Interface{Type: eni.Standard, Attachment: &eni.Attachment{Slot: slot}})
	}
	for count, text := range map[int]string{
		2: "networkInterfaces: want an interface at card 0 device 1, have none",
		3: "networkCardIndex at card 0 device 1: want 0, have 3",
		4: "networkCardIndex at card 0 device 1: want 0, have 2",
		5: "deviceIndex at card 0 device 1: want 1, have 9",
		6: "deviceIndex at card 0 device 1: want 1, have 7",
	} {
		t.Run(text, func(t *testing.T) {
			differences := launchtemplate.CompareInterfaces(wanted(), have[:count])
			if len(differences) != 1 || differences[0].String() != text {
				t.Errorf("the differences are %v, want %q", differences, text)
			}
		})
	}
}

// Values that a declaration leaves open, and changes of the VPC CNI to its own interfaces, are no difference.
func TestWhatADeclarationLeavesOpenIsNoDifference(t *testing.T) {
	address := netip.MustParseAddr("203.0.113.1")
	tag := func(value string) func(*eni.Interface) {
		return func(i *eni.Interface) { i.Tags[identity.TagNoManage] = value }
	}
	cniPrefixes := func(i *eni.Interface) {
		i.IPv4Prefixes, i.IPv6Prefixes = make([]netip.Prefix, 2), make([]netip.Prefix, 1)
	}
	for name, tc := range map[string]struct {
		desired  setting
		observed func(*eni.Interface)
	}{
		"a public address of the subnet":    {nil, func(i *eni.Interface) { i.PublicIP = address }},
		"a carrier address of the subnet":   {nil, func(i *eni.Interface) { i.CarrierIP = address }},
		"no public address, as declared":    {public(false), nil},
		"a public address, as declared":     {public(true), func(i *eni.Interface) { i.PublicIP = address }},
		"no type, which means the standard": {ofType(""), nil},
		"groups in another order, repeated": {
			func(i *launchtemplate.Interface) { i.Groups = []string{"sg-2", "sg-1", "sg-2"} },
			func(i *eni.Interface) { i.Groups = []string{"sg-1", "sg-2"} },
		},
		"prefixes that the CNI added":       {forCNI, cniPrefixes},
		"prefixes, as declared":             {prefixed(2, 1), cniPrefixes},
		"released to the CNI":               {forCNI, tag("false")},
		"never withheld from the CNI":       {forCNI, nil},
		"withheld from the CNI":             {nil, tag("true")},
		"taken from the CNI, which uses it": {nil, tag("false")},
		"efa-only, which the CNI cannot use": {
			func(i *launchtemplate.Interface) { forCNI(i); i.Type = eni.EFAOnly },
			func(i *eni.Interface) { tag("true")(i); i.Type = eni.EFAOnly },
		},
		"tags of a user": {nil, func(i *eni.Interface) { i.Tags["team"] = "net" }},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compareSecond(tc.desired, tc.observed); len(got) > 0 {
				t.Errorf("the differences are %v, want none", got)
			}
		})
	}
	w, have := wanted(), launched()
	w.Subnets, have[1].SubnetID = nil, "subnet-z"
	have[0].Tags[identity.TagNoManage] = "true" // all interfaces of a template have the tag, and the CNI ignores it here
	if got := launchtemplate.CompareInterfaces(w, have); len(got) > 0 {
		t.Errorf("with any subnet, the differences are %v, want none", got)
	}
}
