// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/userdata"
)

func document(t *testing.T, text string) launchtemplate.Document {
	t.Helper()
	var d launchtemplate.Document
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestValidationCases are the cases of the four ways to combine inline fields with a launch template.
func TestValidationCases(t *testing.T) {
	source := func(autofill bool, text string) *launchtemplate.Source {
		return &launchtemplate.Source{ID: "lt-1", Version: "$Latest", Resolved: 3, Autofill: autofill, Data: document(t, text)}
	}
	joined := userdata.Cluster{ClusterName: "blue", Endpoint: "https://x", CA: "Q0E=", ServiceCIDR: "172.20.0.0/16"}
	yes := true
	cases := map[string]struct {
		change func(*launchtemplate.NodeTemplate)
		want   launchtemplate.Reason // empty: accepted
	}{
		"1 custom image, nothing says how it joins": {func(n *launchtemplate.NodeTemplate) { n.UserData = "" }, launchtemplate.UserDataRequired},
		"1 the same from an override": {func(n *launchtemplate.NodeTemplate) {
			n.Image.ID, n.UserData, n.Override = "", "", launchtemplate.Document{"ImageId": "ami-9"}
		}, launchtemplate.UserDataRequired},
		"2 custom image of a family that is known": {func(n *launchtemplate.NodeTemplate) {
			n.UserData, n.Image.Family, n.Bootstrap = "", launchtemplate.AL2023, joined
		}, ""},
		"3 cluster DNS and opaque user data": {func(n *launchtemplate.NodeTemplate) {
			n.Bootstrap.ClusterDNS = "172.20.0.10"
		}, launchtemplate.ClusterDNSConflict},
		"3 cluster DNS and user data from a template": {func(n *launchtemplate.NodeTemplate) {
			n.Image.Family, n.Bootstrap = launchtemplate.AL2023, joined
			n.Bootstrap.ClusterDNS = "172.20.0.10"
			n.UserData, n.Source = "", source(true, `{"UserData": "#!/bin/sh"}`)
		}, launchtemplate.ClusterDNSConflict},
		"4 cluster DNS and user data that can be merged": {func(n *launchtemplate.NodeTemplate) {
			n.Image.Family, n.Bootstrap = launchtemplate.AL2023, joined
			n.Bootstrap.ClusterDNS = "172.20.0.10"
		}, ""},
		"5 partial template with an image and no user data": {func(n *launchtemplate.NodeTemplate) {
			n.Image, n.UserData, n.Source = launchtemplate.Image{}, "", source(true, `{"ImageId": "ami-7"}`)
		}, launchtemplate.UserDataRequired},
		"6 as it is, and inline fields": {func(n *launchtemplate.NodeTemplate) {
			n.Source = source(false, `{"ImageId": "ami-7", "UserData": "x", "IamInstanceProfile": {"Name": "nodes"}}`)
		}, launchtemplate.AutofillOff},
		"6 as it is, complete": {func(n *launchtemplate.NodeTemplate) {
			*n = launchtemplate.NodeTemplate{Name: n.Name, Source: source(false, `{"ImageId": "ami-7", "UserData": "x", "IamInstanceProfile": {"Name": "nodes"}}`)}
		}, ""},
		"6 as it is, incomplete": {func(n *launchtemplate.NodeTemplate) {
			*n = launchtemplate.NodeTemplate{Name: n.Name, Source: source(false, `{"ImageId": "ami-7"}`)}
		}, launchtemplate.TemplateIncomplete},
		"8 one interface in template and inline": {func(n *launchtemplate.NodeTemplate) {
			n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
			n.Interfaces[1].Description = "inline"
			n.Source, n.RejectConflicts = source(true, `{"NetworkInterfaces": [{"DeviceIndex": 1, "Description": "theirs"}]}`), true
		}, launchtemplate.Shadowed},
		"10 more user data than EC2 takes": {func(n *launchtemplate.NodeTemplate) {
			n.UserData = "#!/bin/sh\n" + strings.Repeat("x", userdata.MaxSize)
		}, launchtemplate.UserDataTooLarge},
		"12 public address and several interfaces": {func(n *launchtemplate.NodeTemplate) {
			n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
			n.Interfaces[0].PublicIP = &yes
		}, launchtemplate.PublicIPRequiresSingleInterface},
		"13 subnets without a common zone": {func(n *launchtemplate.NodeTemplate) {
			n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
			n.Interfaces[1].Subnets = []eni.Subnet{subnet("subnet-d", "us-east-1d")}
		}, launchtemplate.NoCommonZone},
		"an instance type in an override": {func(n *launchtemplate.NodeTemplate) {
			n.Override = launchtemplate.Document{"InstanceType": "m5.large"}
		}, launchtemplate.ForbiddenMember},
		"an address that the second instance could not have": {func(n *launchtemplate.NodeTemplate) {
			n.Override = document(t, `{"NetworkInterfaces": [{"DeviceIndex": 0, "PrivateIpAddress": "10.0.0.9"}]}`)
		}, launchtemplate.ForbiddenMember},
		"a tag of ours": {func(n *launchtemplate.NodeTemplate) {
			n.Tags = map[string]string{"networking.k8s.aws/cluster": "green"}
		}, launchtemplate.InvalidTags},
		"a tag that makes the VPC CNI delete the interface": {func(n *launchtemplate.NodeTemplate) {
			n.Override = document(t, `{"TagSpecifications": [{"ResourceType": "network-interface", "Tags": [{"Key": "cluster.k8s.amazonaws.com/name", "Value": "x"}]}]}`)
		}, launchtemplate.InvalidTags},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			tc.change(&n)
			judged(t, n, tc.want)
		})
	}
}

// judged renders a node template, which must be accepted, or refused for the reason.
func judged(t *testing.T, n launchtemplate.NodeTemplate, want launchtemplate.Reason) {
	t.Helper()
	r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
	switch {
	case want == "" && len(r.Problems) > 0:
		t.Errorf("refused: %v", r.Problems)
	case want != "" && !slices.Contains(reasons(r.Problems), want):
		t.Errorf("got %v, want %s", r.Problems, want)
	case want != "" && len(r.Templates) > 0:
		t.Error("a template was rendered all the same")
	}
}

// Case 8 with the default policy.
func TestTheTemplateHidesInlineFieldsAndSaysSo(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
	n.Interfaces[1].Description, n.InstanceProfile = "inline", "inline"
	n.Source = &launchtemplate.Source{ID: "lt-1", Autofill: true, Data: document(t, `{
		"NetworkInterfaces": [{"DeviceIndex": 1, "Description": "theirs"}, {"DeviceIndex": 2, "DeleteOnTermination": false}],
		"IamInstanceProfile": {"Arn": "arn:aws:iam::1:instance-profile/theirs"}, "EbsOptimized": true}`)}
	n.Override = document(t, `{"EbsOptimized": false}`)
	r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	want := []launchtemplate.Shadow{
		{Path: "EbsOptimized", By: launchtemplate.FromOverride, Of: launchtemplate.FromTemplate},
		{Path: "IamInstanceProfile", By: launchtemplate.FromTemplate, Of: launchtemplate.FromInline},
		{Path: "NetworkInterfaces[card 0 device 1].Description", By: launchtemplate.FromTemplate, Of: launchtemplate.FromInline},
	}
	if diff := cmp.Diff(want, r.Shadows); diff != "" {
		t.Errorf("shadows (-want +got):\n%s", diff)
	}
	got := interfaces(t, r.Templates[0])
	if len(got) != 3 || got[1]["Description"] != "theirs" || got[1]["DeleteOnTermination"] != true || got[2]["DeleteOnTermination"] != false {
		t.Errorf("interfaces %v", got)
	}
	if r.Origins["EbsOptimized"] != launchtemplate.FromOverride || r.Origins["MetadataOptions"] != launchtemplate.FromDefault || r.Origins["ImageId"] != launchtemplate.FromInline {
		t.Errorf("origins %v", r.Origins)
	}
}

// Case 9.
func TestGroupsBesideInterfacesMoveIntoThem(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
	n.Interfaces[1].Groups = []string{"sg-own"}
	n.Source = &launchtemplate.Source{ID: "lt-1", Autofill: true, Data: document(t, `{"SecurityGroupIds": ["sg-theirs"]}`)}
	r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
	got := interfaces(t, r.Templates[0])
	if !cmp.Equal(got[0]["Groups"], []any{"sg-theirs"}) || !cmp.Equal(got[1]["Groups"], []any{"sg-own"}) || r.Templates[0].Data["SecurityGroupIds"] != nil {
		t.Errorf("%s", r.Templates[0].Data.JSON())
	}
}

func TestNullInAnOverrideTakesAMemberAway(t *testing.T) {
	n := plain()
	n.Override = document(t, `{"MetadataOptions": null, "NetworkInterfaces": [{"DeviceIndex": 0, "InterfaceType": null}]}`)
	r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
	if _, there := r.Templates[0].Data["MetadataOptions"]; there {
		t.Error("MetadataOptions is still there")
	}
	if _, there := interfaces(t, r.Templates[0])[0]["InterfaceType"]; there {
		t.Error("InterfaceType is still there")
	}
}

func TestWhatGoesWithoutSayingIsNotSaid(t *testing.T) {
	no := false
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
	n.Interfaces[0].PublicIP, n.Interfaces[0].CarrierIP = &no, &no
	several := interfaces(t, launchtemplate.Render(n, of(t, "m5.xlarge"), nil).Templates[0])
	if _, said := several[0]["AssociatePublicIpAddress"]; said {
		t.Error("EC2 refuses associatePublicIpAddress, even false, on an instance with several interfaces")
	}
	n.Interfaces = n.Interfaces[:1]
	single := interfaces(t, launchtemplate.Render(n, of(t, "m5.xlarge"), nil).Templates[0])
	if single[0]["AssociatePublicIpAddress"] != false {
		t.Error("an explicit false is not told EC2, and the subnet may give an address all the same")
	}
}

func TestASubnetThatALaterLayerNames(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
	n.Override = document(t, `{"NetworkInterfaces": [{"DeviceIndex": 1, "SubnetId": "subnet-n"}]}`)
	if r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil); !slices.Contains(reasons(r.Problems), launchtemplate.NoSubnets) {
		t.Errorf("a subnet EC2 does not know: %v", r.Problems)
	}
	n.Named = []eni.Subnet{subnet("subnet-n", "us-east-1b")}
	r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
	if len(r.Templates) != 1 || r.Templates[0].Zone != "us-east-1b" {
		t.Errorf("templates %v, problems %v", r.Templates, r.Problems)
	}
}

func TestInterfacesThatEC2WouldRefuse(t *testing.T) {
	yes := true
	second := func(change func(*launchtemplate.Interface)) []launchtemplate.Interface {
		i := at(1)
		change(&i)
		return []launchtemplate.Interface{at(0), i}
	}
	primary := func(change func(*launchtemplate.Interface)) []launchtemplate.Interface {
		i := at(0)
		change(&i)
		return []launchtemplate.Interface{i}
	}
	cases := map[string]struct {
		interfaces []launchtemplate.Interface
		want       launchtemplate.Reason
	}{
		"a slot twice":                  {[]launchtemplate.Interface{at(0), at(1), at(1)}, launchtemplate.DuplicateSlot},
		"no primary":                    {[]launchtemplate.Interface{at(1)}, launchtemplate.NoPrimaryInterface},
		"an efa-only primary":           {primary(func(i *launchtemplate.Interface) { i.Type = eni.EFAOnly }), launchtemplate.PrimaryNotPlain},
		"an unknown type":               {second(func(i *launchtemplate.Interface) { i.Type = "trunk" }), launchtemplate.InvalidInterface},
		"a negative index":              {second(func(i *launchtemplate.Interface) { i.Slot.Card = -1 }), launchtemplate.InvalidInterface},
		"a negative count":              {second(func(i *launchtemplate.Interface) { i.IPv4Prefixes = -1 }), launchtemplate.InvalidInterface},
		"a long description":            {second(func(i *launchtemplate.Interface) { i.Description = strings.Repeat("x", 256) }), launchtemplate.InvalidInterface},
		"prefixes on efa-only":          {second(func(i *launchtemplate.Interface) { i.Type, i.IPv4Prefixes = eni.EFAOnly, 1 }), launchtemplate.EFAOnlyHasNoAddresses},
		"two EFAs on a card":            {[]launchtemplate.Interface{at(0), {Slot: eni.Slot{Device: 1}, Type: eni.EFA}, {Slot: eni.Slot{Device: 2}, Type: eni.EFAOnly}}, launchtemplate.SeveralEFAsOnCard},
		"public and carrier":            {primary(func(i *launchtemplate.Interface) { i.PublicIP, i.CarrierIP = &yes, &yes }), launchtemplate.PublicAndCarrierIP},
		"carrier beside the primary":    {second(func(i *launchtemplate.Interface) { i.CarrierIP = &yes }), launchtemplate.CarrierIPOnPrimaryOnly},
		"more groups than EC2 takes":    {second(func(i *launchtemplate.Interface) { i.Groups = slices.Repeat([]string{"sg"}, 17) }), launchtemplate.TooManySecurityGroups},
		"groups that stand for nothing": {second(func(i *launchtemplate.Interface) { i.Groups = []string{} }), launchtemplate.NoSecurityGroups},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Interfaces = tc.interfaces
			r := launchtemplate.Render(n, of(t, "m5n.24xlarge"), nil)
			if !slices.Contains(reasons(r.Problems), tc.want) {
				t.Errorf("got %v, want %s", r.Problems, tc.want)
			}
		})
	}
}
