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
	efaTraffic := launchtemplate.Problem{
		Reason: launchtemplate.InvalidInterface, Path: "spec.networkInterfaces", Message: "EFA traffic passes only if a " +
			"security group of the interface lets all traffic from and to itself through",
	}
	kept, keptPrimary, primaryEFA, efa := at(1), at(0), at(0), at(1)
	kept.DeleteOnTermination, keptPrimary.DeleteOnTermination, kept.Name = false, false, "n3"
	primaryEFA.Type, efa.Type = eni.EFA, eni.EFA
	cases := map[string]struct {
		layout     launchtemplate.Layout
		interfaces []launchtemplate.Interface
		want       []launchtemplate.Problem
	}{
		"nothing to warn of": {"", []launchtemplate.Interface{at(0), at(1)}, nil},
		"an interface that is kept": {
			"", []launchtemplate.Interface{at(0), kept},
			[]launchtemplate.Problem{outlives(`interface "n3" (card 0 device 1)`)},
		},
		"all interfaces are kept": {
			"", []launchtemplate.Interface{keptPrimary, kept},
			[]launchtemplate.Problem{outlives(`interface "n3" (card 0 device 1)`), outlives("the interface at card 0 device 0")},
		},
		"a primary EFA": {"", []launchtemplate.Interface{primaryEFA}, nil},
		"a further EFA": {"", []launchtemplate.Interface{at(0), efa}, []launchtemplate.Problem{efaTraffic}},
		"EFAs of a layout": {
			launchtemplate.IPOptimized, nil, []launchtemplate.Problem{efaTraffic},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Layout, n.Interfaces = tc.layout, tc.interfaces
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

// A hidden value is a warning, or a problem if the node template requests that. The problem names the setting that
// makes it a warning again.
func TestShadowsAreWarningsOrProblems(t *testing.T) {
	const hides = "the referenced launch template hides what the spec says; remove it from one of them"
	n := plain()
	n.Layout, n.InstanceProfile = launchtemplate.IPOptimized, "nodes"
	n.Source = autofilled(t, `{"ImageId": "ami-2", "IamInstanceProfile": {"Name": "theirs"}}`)
	types := of(t, "p4d.24xlarge", "m5n.24xlarge") // two shapes, for which the layers are merged separately
	efa := "EFA traffic passes only if a security group of the interface lets all traffic from and to itself through"
	want := []launchtemplate.Problem{
		{Reason: launchtemplate.Shadowed, Path: "IamInstanceProfile", Message: hides},
		{Reason: launchtemplate.Shadowed, Path: "ImageId", Message: hides},
		{Reason: launchtemplate.InvalidInterface, Path: "spec.networkInterfaces", Message: efa},
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
	for n := range want[:2] {
		want[n].Message += ", or set conflictPolicy: Warn"
	}
	if diff := cmp.Diff(want[:2], rejected.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[2:], rejected.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
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
