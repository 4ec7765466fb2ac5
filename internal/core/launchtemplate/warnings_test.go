// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// A warning does not prevent a launch template. What all shapes have in common is reported once.
func TestWarnings(t *testing.T) {
	outlives := func(i string) launchtemplate.Problem {
		return launchtemplate.Problem{
			Reason: launchtemplate.InvalidInterface, Path: "spec.networkInterfaces", Message: i + " outlives its instance " +
				"(deleteOnTermination: false), and multieni does not remove it then: every node that ends leaves one behind",
		}
	}
	kept, keptPrimary := at(1), at(0)
	kept.DeleteOnTermination, keptPrimary.DeleteOnTermination, kept.Name = false, false, "n3"
	cases := map[string]struct {
		interfaces []launchtemplate.Interface
		want       []launchtemplate.Problem
	}{
		"nothing to warn of": {[]launchtemplate.Interface{at(0), at(1)}, nil},
		"an interface that is kept": {
			[]launchtemplate.Interface{at(0), kept},
			[]launchtemplate.Problem{outlives(`interface "n3" (card 0 device 1)`)},
		},
		"all interfaces are kept": {
			[]launchtemplate.Interface{keptPrimary, kept},
			[]launchtemplate.Problem{outlives(`interface "n3" (card 0 device 1)`), outlives("the interface at card 0 device 0")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Interfaces = tc.interfaces
			r := launchtemplate.Render(n, of(t, "p4d.24xlarge", "m5n.24xlarge"), nil)
			if diff := cmp.Diff(tc.want, r.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if len(r.Problems) > 0 || len(r.Templates) == 0 {
				t.Errorf("%d launch templates, problems %v", len(r.Templates), r.Problems)
			}
		})
	}
}

// EFAs need rules for all traffic in both directions that name a group of the interface. Groups that nothing read are
// not judged.
func TestGroupsOfEFAs(t *testing.T) {
	warning := func(groups, rules string) []launchtemplate.Problem {
		return []launchtemplate.Problem{{
			Reason: launchtemplate.InvalidInterface, Path: "spec.networkInterfaces",
			Message: "EFAs with " + groups + " exchange no traffic: add " + rules + " for all traffic that names a group of the interface, and no addresses",
		}}
	}
	group := func(id string, from, to []string) eni.SecurityGroup {
		return eni.SecurityGroup{ID: id, AllFrom: from, AllTo: to}
	}
	one, other := []string{"sg-1"}, []string{"sg-2"}
	both := []string{"sg-1", "sg-2"}
	cases := map[string]struct {
		efa    eni.Type
		groups []string
		known  []eni.SecurityGroup
		want   []launchtemplate.Problem
	}{
		"no EFA":                        {"", one, []eni.SecurityGroup{group("sg-1", nil, nil)}, nil},
		"not read":                      {eni.EFA, one, nil, nil},
		"one of two is not read":        {eni.EFA, both, []eni.SecurityGroup{group("sg-1", nil, nil)}, nil},
		"both directions":               {eni.EFA, one, []eni.SecurityGroup{group("sg-1", one, one)}, nil},
		"no rule":                       {eni.EFAOnly, one, []eni.SecurityGroup{group("sg-1", nil, nil)}, warning("sg-1", "an inbound rule and an outbound rule")},
		"as a new group with one rule":  {eni.EFA, one, []eni.SecurityGroup{group("sg-1", one, nil)}, warning("sg-1", "an outbound rule")},
		"outbound only":                 {eni.EFA, one, []eni.SecurityGroup{group("sg-1", nil, one)}, warning("sg-1", "an inbound rule")},
		"rules for another group":       {eni.EFA, one, []eni.SecurityGroup{group("sg-1", other, other)}, warning("sg-1", "an inbound rule and an outbound rule")},
		"two groups that name another":  {eni.EFA, both, []eni.SecurityGroup{group("sg-1", other, nil), group("sg-2", nil, one)}, nil},
		"a direction in neither of two": {eni.EFA, both, []eni.SecurityGroup{group("sg-1", one, nil), group("sg-2", other, nil)}, warning("sg-1, sg-2", "an outbound rule")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			efa := at(1)
			efa.Type, efa.Groups = tc.efa, tc.groups
			n := plain()
			n.Interfaces, n.Groups = []launchtemplate.Interface{at(0), efa}, tc.known
			r := launchtemplate.Render(n, of(t, "c5n.18xlarge"), nil)
			if diff := cmp.Diff(tc.want, r.Warnings); diff != "" || len(r.Problems) > 0 {
				t.Errorf("problems %v, warnings (-want +got):\n%s", r.Problems, diff)
			}
		})
	}
}

// A hidden value is a warning, or a problem if the node template requests that. The problem names the setting that
// makes it a warning again.
func TestShadowsAreWarningsOrProblems(t *testing.T) {
	const hides = "the referenced launch template hides what the spec says; remove it from one of them"
	n := plain()
	n.Layout, n.InstanceProfile = launchtemplate.IPOptimized, "nodes"
	n.Source = autofilled(t, `{"ImageId": "ami-2", "IamInstanceProfile": {"Name": "theirs"}}`)
	types := of(t, "p4d.24xlarge", "m5n.24xlarge") // two shapes, for which the layers are merged separately
	want := []launchtemplate.Problem{
		{Reason: launchtemplate.Shadowed, Path: "IamInstanceProfile", Message: hides},
		{Reason: launchtemplate.Shadowed, Path: "ImageId", Message: hides},
	}
	r := launchtemplate.Render(n, types, nil)
	if diff := cmp.Diff(want, r.Warnings); diff != "" || len(r.Problems) > 0 {
		t.Errorf("problems %v, warnings (-want +got):\n%s", r.Problems, diff)
	}
	shadows := []launchtemplate.Shadow{
		{Path: "IamInstanceProfile", By: byTemplate, Of: ofInline}, {Path: "ImageId", By: byTemplate, Of: ofInline},
	}
	if diff := cmp.Diff(shadows, r.Shadows); diff != "" {
		t.Errorf("shadows (-want +got):\n%s", diff)
	}
	n.RejectConflicts = true
	rejected := launchtemplate.Render(n, types, nil)
	for n := range want {
		want[n].Message += ", or set conflictPolicy: Warn"
	}
	if diff := cmp.Diff(want, rejected.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if len(rejected.Warnings) > 0 {
		t.Errorf("warnings %v", rejected.Warnings)
	}
	if diff := cmp.Diff(shadows, rejected.Shadows); diff != "" || len(rejected.Templates) > 0 {
		t.Errorf("%d launch templates, shadows (-want +got):\n%s", len(rejected.Templates), diff)
	}
}

// EC2 gives no public address to an instance with several interfaces, in a subnet that maps them either.
func TestSeveralInterfacesInAPublicSubnet(t *testing.T) {
	public := func(id, zone string) eni.Subnet {
		return eni.Subnet{ID: id, Zone: zone, VPCID: "v", FreeIPv4: 100, MapPublicIP: true}
	}
	private := eni.Subnet{ID: "subnet-private", Zone: "a", VPCID: "v", FreeIPv4: 100}
	noPublicIP := func(i *launchtemplate.Interface) { i.PublicIP = new(false) }
	kinds := []launchtemplate.InstanceType{sized("m5.xlarge", 4)}
	for name, tc := range map[string]struct {
		change func(*launchtemplate.NodeTemplate)
		want   string // the subnets in the warning, "" for none
	}{
		"one interface":         {func(n *launchtemplate.NodeTemplate) { n.Interfaces = list(at(0)) }, ""},
		"no declared interface": {func(n *launchtemplate.NodeTemplate) { n.Interfaces = nil }, ""},
		"two interfaces":        {func(*launchtemplate.NodeTemplate) {}, "subnet-a"},
		"private subnets": {
			func(n *launchtemplate.NodeTemplate) { n.Network.Subnets = []eni.Subnet{private} }, "",
		},
		"some of the subnets are public": {
			func(n *launchtemplate.NodeTemplate) { n.Network.Subnets = append(n.Network.Subnets, private) }, "subnet-a",
		},
		"five public subnets": {func(n *launchtemplate.NodeTemplate) {
			n.Network.Subnets = []eni.Subnet{
				public("subnet-1", "a"), public("subnet-2", "b"), public("subnet-3", "c"), public("subnet-4", "d"),
				public("subnet-5", "e"),
			}
		}, "subnet-1, subnet-2, subnet-3, 2 more"},
		"only the primary interface is in one": {func(n *launchtemplate.NodeTemplate) {
			n.Interfaces = list(at(0), interfaceIn(0, 1, inSubnets(private)))
			n.Network.Subnets = []eni.Subnet{public("subnet-a", "a")}
		}, "subnet-a"},
		"only the second interface is in one": {func(n *launchtemplate.NodeTemplate) {
			n.Interfaces = list(at(0), interfaceIn(0, 1, inSubnets(public("subnet-a", "a"))))
			n.Network.Subnets = []eni.Subnet{private}
		}, ""},
		"no public address is wanted": {func(n *launchtemplate.NodeTemplate) {
			n.Interfaces = list(interfaceIn(0, 0, noPublicIP), at(1))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := declaring(at(0), at(1))
			n.Network.Subnets = []eni.Subnet{public("subnet-a", "a")}
			tc.change(&n)
			r := launchtemplate.Render(n, kinds, nil)
			if len(r.Problems) > 0 {
				t.Fatal(r.Problems)
			}
			switch {
			case tc.want == "":
				if len(r.Warnings) > 0 {
					t.Error(r.Warnings)
				}
			case len(r.Warnings) != 1 || r.Warnings[0].Reason != launchtemplate.PublicIPRequiresSingleInterface ||
				!strings.HasPrefix(r.Warnings[0].Message, "nodes in "+tc.want+" get no public IP address"):
				t.Errorf("got %v, want a warning about %s", r.Warnings, tc.want)
			}
		})
	}
}
