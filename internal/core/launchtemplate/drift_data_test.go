// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// A member that differs is reported once by the field of the spec that it comes from. A referenced template or an
// override that set it is the field instead.
func TestDataDiffersByTheFieldThatSetIt(t *testing.T) {
	fromTemplate := func(members ...string) map[string]launchtemplate.Origin {
		origins := map[string]launchtemplate.Origin{}
		for _, member := range members {
			origins[member] = launchtemplate.FromTemplate
		}
		return origins
	}
	for name, tc := range map[string]struct {
		now, then string
		origins   map[string]launchtemplate.Origin
		want      []string
	}{
		"the same":                  {`{"ImageId": "ami-1"}`, `{"ImageId": "ami-1"}`, nil, []string{}},
		"interfaces":                {`{"NetworkInterfaces": [{}]}`, `{"NetworkInterfaces": []}`, nil, []string{}},
		"interfaces that are new":   {`{"NetworkInterfaces": [{}]}`, `{}`, nil, []string{}},
		"interfaces that were once": {`{}`, `{"NetworkInterfaces": [{}]}`, nil, []string{}},
		"a member that was added": {
			`{"Monitoring": {"Enabled": true}}`, `{}`, nil, []string{"detailedMonitoring Static Replace"},
		},
		"a member that was removed": {
			`{}`, `{"Monitoring": {"Enabled": true}}`, nil, []string{"detailedMonitoring Static Replace"},
		},
		"null for an absent member": {`{"Monitoring": null}`, `{}`, nil, []string{}},
		"a removed override":        {`{}`, `{"EbsOptimized": true}`, nil, []string{"launchTemplateOverride Static Replace"}},
		"each member of the spec": {
			`{"ImageId": "ami-2", "UserData": "b", "IamInstanceProfile": {"Name": "b"},
			  "MetadataOptions": {"HttpTokens": "optional"}, "BlockDeviceMappings": [{"DeviceName": "/dev/sdb"}]}`,
			`{"ImageId": "ami-1", "UserData": "a", "IamInstanceProfile": {"Name": "a"},
			  "MetadataOptions": {"HttpTokens": "required"}, "BlockDeviceMappings": [{"DeviceName": "/dev/sda"}]}`,
			nil,
			[]string{
				"blockDeviceMappings Static Replace", "instanceProfile Static Replace", "amiSelector Dynamic Replace",
				"metadataOptions Static Replace", "userData Static Replace",
			},
		},
		"several members of a referenced template": {
			`{"ImageId": "ami-2", "UserData": "b"}`, `{"ImageId": "ami-1", "UserData": "a"}`, fromTemplate(
				"ImageId", "UserData",
			),
			[]string{"launchTemplateRef Dynamic Replace"},
		},
		"a referenced template and a field of the spec": {
			`{"ImageId": "ami-2", "UserData": "b"}`, `{"ImageId": "ami-1", "UserData": "a"}`, fromTemplate("ImageId"),
			[]string{"launchTemplateRef Dynamic Replace", "userData Static Replace"},
		},
		"an override of a field of the spec": {
			`{"ImageId": "ami-2"}`, `{"ImageId": "ami-1"}`,
			map[string]launchtemplate.Origin{"ImageId": launchtemplate.FromOverride}, []string{
				"launchTemplateOverride Static Replace",
			},
		},
		"an image of the family": {
			`{"ImageId": "ami-2"}`, `{"ImageId": "ami-1"}`,
			map[string]launchtemplate.Origin{"ImageId": launchtemplate.FromDefault}, []string{"amiSelector Dynamic Replace"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := launchtemplate.CompareData(document(t, tc.now), tc.origins, document(t, tc.then))
			same(t, "differences", tc.want, found(got))
		})
	}
}

// The tags that identify resources of multieni differ between versions and mean nothing to a node. Tags of a user
// count, for each type of resource on its own.
func TestOnlyTagsOfAUserMakeDataDiffer(t *testing.T) {
	spec := func(kind string, tags ...string) map[string]any {
		var list []any
		for n := 0; n < len(tags); n += 2 {
			list = append(list, map[string]any{"Key": tags[n], "Value": tags[n+1]})
		}
		return map[string]any{"ResourceType": kind, "Tags": list}
	}
	const hash, noManage = "networking.k8s.aws/template-hash", "node.k8s.amazonaws.com/no_manage"
	then := []any{spec("instance", "team", "net", hash, "1"), spec("volume", hash, "1")}
	for name, tc := range map[string]struct {
		now     []any
		differs bool
	}{
		"the same":                    {then, false},
		"another hash":                {[]any{spec("instance", "team", "net", hash, "2"), spec("volume", hash, "2")}, false},
		"withheld from the CNI":       {[]any{spec("instance", "team", "net", noManage, "true"), spec("volume")}, false},
		"tags in another order":       {[]any{spec("instance", hash, "1", "team", "net"), spec("volume")}, false},
		"resources in another order":  {[]any{spec("volume"), spec("instance", "team", "net")}, false},
		"another value":               {[]any{spec("instance", "team", "app"), spec("volume")}, true},
		"one more tag":                {[]any{spec("instance", "team", "net", "a", "b"), spec("volume")}, true},
		"a tag that the CNI reserves": {[]any{spec("instance", "team", "net", noManage+"2", "true"), spec("volume")}, true},
		"the tag on another resource": {[]any{spec("instance"), spec("volume", "team", "net")}, true},
		"one more type of resource":   {append(slices.Clone(then), spec("network-interface")), true},
	} {
		t.Run(name, func(t *testing.T) {
			got := found(launchtemplate.CompareData(launchtemplate.Document{"TagSpecifications": tc.now}, nil,
				launchtemplate.Document{"TagSpecifications": then}))
			want := []string{}
			if tc.differs {
				want = []string{"tags Static Replace"}
			}
			same(t, "differences", want, got)
		})
	}
}

// One difference that is not Behavioral is enough for drift.
func TestDriftIsAnyDifferenceThatIsNotBehavioral(t *testing.T) {
	behavioral := launchtemplate.Difference{Class: launchtemplate.Behavioral}
	for name, tc := range map[string]struct {
		differences []launchtemplate.Difference
		want        bool
	}{
		"none":                    {nil, false},
		"Behavioral":              {[]launchtemplate.Difference{behavioral, behavioral}, false},
		"Static":                  {[]launchtemplate.Difference{{Class: launchtemplate.Static}}, true},
		"Dynamic":                 {[]launchtemplate.Difference{{Class: launchtemplate.Dynamic}}, true},
		"Static after Behavioral": {[]launchtemplate.Difference{behavioral, {Class: launchtemplate.Static}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := launchtemplate.Drifted(tc.differences); got != tc.want {
				t.Errorf("drifted is %t, want %t", got, tc.want)
			}
		})
	}
}

// An interface as EC2 launches it has the declared values and the defaults of EC2. Its tags are those of the
// template, which is not known here.
func TestInterfaceAsLaunched(t *testing.T) {
	declared := interfaceIn(1, 2, ofType(eni.EFA), prefixed(2, 1), public(true), carrier(false))
	declared.Description, declared.Groups, declared.DeleteOnTermination = "n3", []string{"sg-2"}, false
	want := eni.Interface{
		Type: eni.EFA, Status: eni.InUse, SubnetID: "subnet-a", Description: "n3", Groups: []string{
			"sg-2",
		}, SourceDestCheck: true,
		Addresses: eni.Addresses{
			IPv4Prefixes: make([]netip.Prefix, 2), IPv6Prefixes: make([]netip.Prefix, 1), PublicIP: netip.IPv4Unspecified(),
		},
		Attachment: &eni.Attachment{Slot: eni.Slot{Card: 1, Device: 2}, Status: eni.AttachmentAttached},
	}
	if diff := cmp.Diff(want, declared.AsLaunched("subnet-a"), byValue, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the declared interface (-want +got):\n%s", diff)
	}
	want = eni.Interface{
		Type: eni.Standard, Status: eni.InUse, SubnetID: "subnet-b", SourceDestCheck: true,
		Addresses:  eni.Addresses{CarrierIP: netip.IPv4Unspecified()},
		Attachment: &eni.Attachment{Status: eni.AttachmentAttached, DeleteOnTermination: true},
	}
	got := interfaceIn(0, 0, carrier(true)).AsLaunched("subnet-b")
	if diff := cmp.Diff(want, got, byValue, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("an interface without a type (-want +got):\n%s", diff)
	}
}

// The differences are independent of the order in which EC2 returns the interfaces, and of interfaces in cards and
// devices that no declared interface can have moved to.
func TestDifferencesAreIndependentOfOrderAndSurplus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := launchtemplate.Wanted{Interfaces: declared(t)}
		var have []eni.Interface
		for _, i := range declared(t) {
			have = append(have, i.AsLaunched("subnet-a"))
		}
		differences := launchtemplate.CompareInterfaces(want, have)
		surplus := eni.Interface{Type: eni.Standard, Attachment: &eni.Attachment{Slot: eni.Slot{Card: 15, Device: 15}}}
		other := rapid.Permutation(append(have, surplus)).Draw(t, "other order")
		if diff := cmp.Diff(differences, launchtemplate.CompareInterfaces(want, other)); diff != "" {
			t.Fatalf("in another order, with a surplus (-before +after):\n%s", diff)
		}
	})
}
