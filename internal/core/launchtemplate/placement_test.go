// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// TestTheSubnetsOfALaunchTemplate checks the source of the subnet of each interface. A later layer has precedence over
// the interface's own selector, and that over the selector of the template. If there is only the latter, the launcher
// chooses the subnet.
func TestTheSubnetsOfALaunchTemplate(t *testing.T) {
	own := at(1)
	own.Subnets = []eni.Subnet{subnet("subnet-z", "us-east-1a"), subnet("subnet-y", "us-east-1a")}
	named := []eni.Subnet{subnet("subnet-other", "us-east-1a"), subnet("subnet-named", "us-east-1a")}
	const override = `{"NetworkInterfaces": [{"DeviceIndex": 1, "SubnetId": "subnet-named"}]}`
	ofTemplate := []string{"subnet-a", "subnet-b"}
	cases := map[string]struct {
		second   launchtemplate.Interface
		override string
		zone     string
		ids      []any
		subnets  map[eni.Slot][]string
	}{
		"selectors of the template alone": {
			at(1), `{}`, "", []any{nil, nil}, map[eni.Slot][]string{{}: ofTemplate, secondSlot: ofTemplate},
		},
		"a selector of the interface": {
			own, `{}`, "us-east-1a", []any{"subnet-a", "subnet-y"},
			map[eni.Slot][]string{{}: ofTemplate, secondSlot: {"subnet-y", "subnet-z"}},
		},
		"a subnet of the override": {
			at(1), override, "us-east-1a", []any{"subnet-a", "subnet-named"},
			map[eni.Slot][]string{{}: ofTemplate, secondSlot: {"subnet-named"}},
		},
		"a subnet of the override, and a selector of the interface": {
			own, override, "us-east-1a", []any{"subnet-a", "subnet-named"},
			map[eni.Slot][]string{{}: ofTemplate, secondSlot: {"subnet-named"}},
		},
		"null for a subnet, which leaves the selector": {
			own, `{"NetworkInterfaces": [{"DeviceIndex": 1, "SubnetId": null}]}`, "us-east-1a",
			[]any{"subnet-a", "subnet-y"}, map[eni.Slot][]string{{}: ofTemplate, secondSlot: {"subnet-y", "subnet-z"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Interfaces, n.Named = []launchtemplate.Interface{at(0), tc.second}, named
			n.Override = document(t, tc.override)
			template := only(t, n)
			var ids []any
			for _, i := range interfaces(t, template) {
				ids = append(ids, i["SubnetId"])
			}
			if diff := cmp.Diff(tc.ids, ids); diff != "" || template.Zone != tc.zone {
				t.Errorf("the zone is %q, want %q; subnets by interface (-want +got):\n%s", template.Zone, tc.zone, diff)
			}
			if diff := cmp.Diff(tc.subnets, template.Subnets); diff != "" {
				t.Errorf("possible subnets (-want +got):\n%s", diff)
			}
		})
	}
}

// If the launcher chooses one subnet for all interfaces, only subnets that suit all of them are possible.
func TestTheLauncherChoosesAmongSubnetsThatSuitAllInterfaces(t *testing.T) {
	without := subnet("subnet-b", "us-east-1b")
	without.HasIPv6 = false
	n := plain()
	n.Network.Subnets[1] = without
	n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
	n.Interfaces[1].IPv6Prefixes = 1
	r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	want := map[eni.Slot][]string{{}: {"subnet-a"}, secondSlot: {"subnet-a"}}
	if diff := cmp.Diff(want, r.Templates[0].Subnets); diff != "" {
		t.Errorf("possible subnets (-want +got):\n%s", diff)
	}
	if len(r.Zones) != 1 || r.Zones[0].Zone != "us-east-1a" {
		t.Errorf("the zones are %v, want us-east-1a alone", r.Zones)
	}
}

// TestInterfacesWithoutAPlace has the whole problem: the field, the cause and the next step.
func TestInterfacesWithoutAPlace(t *testing.T) {
	ipv4, carrier := subnet("subnet-b", "us-east-1b"), subnet("subnet-w", "us-east-1-wl1-bos-wlz-1")
	ipv4.HasIPv6, carrier.HasIPv6 = false, false
	noSubnet := launchtemplate.Problem{
		Reason: launchtemplate.NoSubnets, Path: "spec.subnetSelector", Message: "no subnet that subnetSelector matches " +
			"suits every interface; correct it, or tag a subnet",
	}
	yes := true
	cases := map[string]struct {
		change func(*launchtemplate.NodeTemplate)
		want   []launchtemplate.Problem
	}{
		"a selector that matches nothing": {
			func(n *launchtemplate.NodeTemplate) { n.Network.Subnets = nil }, []launchtemplate.Problem{noSubnet},
		},
		"no subnet that suits all interfaces": {
			func(n *launchtemplate.NodeTemplate) {
				n.Network.Subnets = []eni.Subnet{carrier, subnet("subnet-a", "us-east-1a")}
				n.Interfaces[0].CarrierIP, n.Interfaces[1].IPv6Prefixes = &yes, 1
			}, []launchtemplate.Problem{noSubnet},
		},
		"a selector of an interface that matches nothing": {
			func(n *launchtemplate.NodeTemplate) { n.Interfaces[1].Subnets = []eni.Subnet{} }, []launchtemplate.Problem{{
				Reason: launchtemplate.NoSubnets, Path: "spec.networkInterfaces", Message: "the interface at card 0 device " +
					"1 has no subnet at all: its subnetSelector matches none; correct it, or tag a subnet",
			}},
		},
		"subnets without IPv6": {
			func(n *launchtemplate.NodeTemplate) {
				n.Interfaces[1].Subnets, n.Interfaces[1].IPv6Prefixes = []eni.Subnet{ipv4}, 1
			}, []launchtemplate.Problem{{
				Reason: launchtemplate.SubnetsWithoutIPv6, Path: "spec.networkInterfaces[1].ipv6PrefixCount",
				Message: "the interface at card 0 device 1 is to have IPv6 prefixes, and none of its subnets has IPv6; give " +
					"the subnets an IPv6 CIDR block, choose others, or remove ipv6PrefixCount",
			}},
		},
		"two subnets of an override that EC2 does not know": {
			func(n *launchtemplate.NodeTemplate) {
				n.Override = launchtemplate.Document{"NetworkInterfaces": []any{
					map[string]any{"SubnetId": "subnet-x"}, map[string]any{"DeviceIndex": 1, "SubnetId": "subnet-y"},
				}}
			}, []launchtemplate.Problem{
				{
					Reason: launchtemplate.NoSubnets, Path: "NetworkInterfaces", Message: "the interface at card 0 device 0 " +
						"is to be in subnet-x, which EC2 does not know; correct the template or override that names it",
				},
				{
					Reason: launchtemplate.NoSubnets, Path: "NetworkInterfaces", Message: "the interface at card 0 device 1 " +
						"is to be in subnet-y, which EC2 does not know; correct the template or override that names it",
				},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
			tc.change(&n)
			refusedFor(t, n, tc.want...)
		})
	}
}

// A missing subnet does not hide the problems of other fields.
func TestAMissingPlaceIsReportedWithOtherProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		second  eni.Subnet
		subnets []eni.Subnet
		want    launchtemplate.Problem
	}{
		"no zone in common": {
			subnet("subnet-d", "us-east-1d"), plain().Network.Subnets, launchtemplate.Problem{
				Reason: launchtemplate.NoCommonZone, Path: "spec.networkInterfaces", Message: "there is no zone in which " +
					"every interface has a subnet of one VPC: the interface at card 0 device 0 is in us-east-1a, " +
					"us-east-1b; the interface at card 0 device 1 is in us-east-1d; add subnets, or change the selectors",
			},
		},
		"no subnet": {
			eni.Subnet{}, nil, launchtemplate.Problem{
				Reason: launchtemplate.NoSubnets, Path: "spec.subnetSelector", Message: "no subnet that subnetSelector " +
					"matches suits every interface; correct it, or tag a subnet",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Network.Subnets, n.Tags = tc.subnets, map[string]string{"aws:x": "1"}
			n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
			if tc.second.ID != "" {
				n.Interfaces[1].Subnets = []eni.Subnet{tc.second}
			}
			refusedFor(t, n, tc.want, launchtemplate.Problem{
				Reason: launchtemplate.InvalidTags, Path: "spec.tags", Message: `tag "aws:x": keys beginning with aws: ` +
					"belong to AWS; choose another key",
			})
		})
	}
}

// EC2 gives an interface without security groups the default one of the VPC. The message names the first of these
// interfaces.
func TestAnInterfaceWithoutSecurityGroupsIsNamed(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), at(1), at(2)}
	for device := 1; device <= 2; device++ {
		n.Interfaces[device].Name, n.Interfaces[device].Groups = fmt.Sprint("n", device), []string{}
	}
	refusedFor(t, n, launchtemplate.Problem{
		Reason: launchtemplate.NoSecurityGroups, Path: "spec.securityGroupSelector", Message: `interface "n1" (card 0 ` +
			"device 1) has no security group, and EC2 would give it the default one of the VPC; correct " +
			"securityGroupSelector, or tag a group",
	})
}

// Problems of an interface's security groups, of its subnets and of the image are independent of one another, and are
// reported together.
func TestProblemsOfAllPartsAreReportedTogether(t *testing.T) {
	n := plain()
	n.Image, n.UserData = launchtemplate.Image{Family: launchtemplate.Bottlerocket}, "settings: {}"
	n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
	n.Interfaces[1].Type, n.Interfaces[1].Groups = "trunk", []string{}
	n.Bootstrap = blueCluster()
	n.Override = document(t, `{"NetworkInterfaces": [{"DeviceIndex": 1, "SubnetId": "subnet-x"},
		{"Ipv4PrefixCount": 1, "SecondaryPrivateIpAddressCount": 1}]}`)
	r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
	var got []string
	for _, p := range r.Problems {
		got = append(got, p.Path+" "+string(p.Reason))
	}
	want := []string{
		"NetworkInterfaces NoSubnets", "NetworkInterfaces[0] AddressFormsExclude", "spec.amiFamily ImageRequired",
		"spec.networkInterfaces[1].interfaceType InvalidInterface", "spec.securityGroupSelector NoSecurityGroups",
		"spec.userData UserDataConflict",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// The declaration is checked even if no instance type is a candidate, so that a user corrects all of it at once.
func TestADeclarationIsCheckedWithoutCandidates(t *testing.T) {
	n := plain()
	n.Types.Include = []string{"c5.*"}
	n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
	n.Interfaces[1].Type = "trunk"
	refusedFor(t, n, launchtemplate.Problem{
		Reason: launchtemplate.NoEligibleInstanceType, Path: "spec.instanceTypes", Message: "no instance type matches; " +
			"check include and exclude, for example include: [\"m5.*\"]",
	}, launchtemplate.Problem{
		Reason: launchtemplate.InvalidInterface, Path: "spec.networkInterfaces[1].interfaceType", Message: "the interface " +
			"at card 0 device 1 is of type \"trunk\"; use interface, efa or efa-only",
	})
	r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
	want := []launchtemplate.TypeVerdict{{
		Name: "m5.xlarge", Reason: launchtemplate.Excluded, Message: "spec.instanceTypes does not choose it",
	}}
	if diff := cmp.Diff(want, r.Types); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
}
