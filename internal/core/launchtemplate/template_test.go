// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// Whether an interface is for EFA or IP depends only on its type; a type that is not declared is the standard one.
func TestTheTypeOfAnInterfaceSaysWhatItCarries(t *testing.T) {
	for kind, want := range map[eni.Type]struct{ ip, efa bool }{
		"": {ip: true}, eni.Standard: {ip: true}, eni.EFA: {ip: true, efa: true}, eni.EFAOnly: {efa: true},
	} {
		t.Run(string(kind), func(t *testing.T) {
			i := launchtemplate.Interface{Type: kind}
			if i.TakesIP() != want.ip || i.IsEFA() != want.efa {
				t.Errorf("has addresses: %t, want %t; is an EFA: %t, want %t", i.TakesIP(), want.ip, i.IsEFA(), want.efa)
			}
		})
	}
}

// Messages name an interface by its name and slot, so that a user finds it in the spec and in EC2.
func TestMessagesNameAnInterface(t *testing.T) {
	slot := eni.Slot{Card: 1, Device: 2}
	for want, i := range map[string]launchtemplate.Interface{
		"the interface at card 1 device 2":      {Slot: slot, Description: "n3 of upf"},
		`interface "n3" (card 1 device 2)`:      {Slot: slot, Name: "n3"},
		"the interface at card 0 device 0":      {},
		`interface "a \"b\"" (card 0 device 0)`: {Name: `a "b"`},
	} {
		if got := i.String(); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
}

// A problem is an error whose text begins with the field, if there is one.
func TestAProblemAsError(t *testing.T) {
	for want, p := range map[string]launchtemplate.Problem{
		"spec.userData: too much": {Reason: launchtemplate.UserDataTooLarge, Path: "spec.userData", Message: "too much"},
		"too much":                {Reason: launchtemplate.UserDataTooLarge, Message: "too much"},
	} {
		if got := error(p).Error(); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
}

// An interface takes one IPv4 address of its subnet, and 16 with each /28 prefix. A zone is eligible from exactly that
// number of free addresses on.
func TestTheAddressesThatAnInterfaceTakes(t *testing.T) {
	with := func(change func(*launchtemplate.Interface)) []launchtemplate.Interface {
		i := at(1)
		change(&i)
		return []launchtemplate.Interface{at(0), i}
	}
	for name, tc := range map[string]struct {
		interfaces []launchtemplate.Interface
		want       int
	}{
		"the primary one":   {[]launchtemplate.Interface{at(0)}, 1},
		"a second one":      {with(func(*launchtemplate.Interface) {}), 2},
		"two IPv4 prefixes": {with(func(i *launchtemplate.Interface) { i.IPv4Prefixes = 2 }), 34},
		"IPv6 prefixes":     {with(func(i *launchtemplate.Interface) { i.IPv6Prefixes = 2 }), 2},
		"an EFA":            {with(func(i *launchtemplate.Interface) { i.Type = eni.EFA }), 2},
		"an EFA without IP": {with(func(i *launchtemplate.Interface) { i.Type = eni.EFAOnly }), 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := plain()
			enough, short := subnet("subnet-a", "us-east-1a"), subnet("subnet-b", "us-east-1b")
			enough.FreeIPv4, short.FreeIPv4 = tc.want, tc.want-1
			n.Network.Subnets, n.Interfaces = []eni.Subnet{enough, short}, tc.interfaces
			want := []launchtemplate.ZoneVerdict{
				{Zone: "us-east-1a", Eligible: true, Subnets: map[eni.Slot][]string{{}: {"subnet-a"}}},
				{
					Zone: "us-east-1b", Subnets: map[eni.Slot][]string{{}: {"subnet-b"}}, Message: fmt.Sprintf(
						"an instance needs %d free IPv4 addresses, and no subnet here has as many", tc.want),
				},
			}
			if diff := cmp.Diff(want, launchtemplate.Render(n, of(t, "m5n.24xlarge"), nil).Zones); diff != "" {
				t.Errorf("zones (-want +got):\n%s", diff)
			}
		})
	}
}

// The VPC CNI ignores an interface with a tag. It always uses the primary interface, on which it ignores the tag. It
// never uses an interface without IP addresses, regardless of its management.
func TestWhichInterfacesTheVPCCNILeavesAlone(t *testing.T) {
	slots := map[string]eni.Slot{"primary": {}, "further": {Device: 1}}
	for name, tc := range map[string]struct {
		slot       string
		kind       eni.Type
		management launchtemplate.Management
		want       bool
	}{
		"a further one, unmanaged":                {"further", eni.Standard, launchtemplate.Unmanaged, true},
		"a further one, nothing declared":         {"further", "", "", true},
		"a further one, for the CNI":              {"further", eni.Standard, launchtemplate.CNI, false},
		"a further EFA, for the CNI":              {"further", eni.EFA, launchtemplate.CNI, false},
		"a further EFA without IP, for the CNI":   {"further", eni.EFAOnly, launchtemplate.CNI, true},
		"the primary one, unmanaged":              {"primary", eni.Standard, launchtemplate.Unmanaged, false},
		"the primary one, for the CNI":            {"primary", eni.Standard, launchtemplate.CNI, false},
		"the primary one as EFA, not for the CNI": {"primary", eni.EFA, launchtemplate.Unmanaged, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Interfaces = []launchtemplate.Interface{{
				Slot: slots[tc.slot], Type: tc.kind, Management: tc.management, DeleteOnTermination: true,
			}}
			if tc.slot != "primary" {
				n.Interfaces = append(n.Interfaces, at(0))
			}
			template := only(t, n, "m5n.24xlarge")
			if got := tagsOf(template, "network-interface")[identity.TagNoManage]; (got == "true") != tc.want {
				t.Errorf("the tag is %q, want it to be there: %t", got, tc.want)
			}
			if _, there := tagsOf(template, "instance")[identity.TagNoManage]; there {
				t.Error("the tag is on the instance, where the VPC CNI does not look")
			}
		})
	}
}

// Problems are sorted by path, then by reason, so that a status does not change without cause. What two shapes of one
// template have in common is reported once.
func TestProblemsAreSortedAndReportedOnce(t *testing.T) {
	n := plain()
	n.Layout = launchtemplate.IPOptimized
	n.UserData, n.Network.Groups = "", nil
	n.Tags = map[string]string{"aws:b": "", "aws:a": ""}
	n.Metadata = &launchtemplate.MetadataOptions{HTTPEndpoint: "on", HTTPTokens: "on"}
	r := launchtemplate.Render(n, of(t, "p5.48xlarge", "p4d.24xlarge", "m5n.24xlarge"), nil)
	var got []string
	for _, p := range r.Problems {
		what, _, _ := strings.Cut(p.Message, ": ")
		got = append(got, p.Path+" "+string(p.Reason)+" "+what)
	}
	want := []string{
		"spec.metadataOptions.httpEndpoint InvalidMetadataOptions EC2 does not know \"on\"; use enabled or disabled",
		"spec.metadataOptions.httpTokens InvalidMetadataOptions EC2 does not know \"on\"; use required or optional",
		"spec.securityGroupSelector NoSecurityGroups the interface at card 0 device 0 has no security group, and EC2 " +
			"would give it the default one of the VPC; correct securityGroupSelector, or tag a group",
		"spec.tags InvalidTags tag \"aws:a\"",
		"spec.tags InvalidTags tag \"aws:b\"",
		"spec.userData UserDataRequired nothing says how instances of this image join the cluster",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// Two problems of one path are in the order of their reasons, regardless of their messages.
func TestProblemsOfOnePathAreSortedByReason(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), at(1), at(2), at(3)}
	n.Interfaces[1].Subnets = []eni.Subnet{subnet("subnet-d", "us-east-1d")}
	var got []string
	for _, p := range launchtemplate.Render(n, of(t, "m5.large"), nil).Problems {
		what, _, _ := strings.Cut(p.Message, ": ")
		got = append(got, p.Path+" "+string(p.Reason)+" "+what)
	}
	want := []string{
		"spec.networkInterfaces NoCommonZone there is no zone in which every interface has a subnet of one VPC",
		"spec.networkInterfaces NoEligibleInstanceType none of the 1 chosen instance types can carry the interfaces",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
