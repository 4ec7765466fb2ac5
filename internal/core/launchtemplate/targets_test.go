// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

func rendered(t *testing.T, interfaces ...launchtemplate.Interface) launchtemplate.Template {
	t.Helper()
	n := plain()
	n.Interfaces, n.InstanceProfile = interfaces, "nodes"
	r := launchtemplate.Render(n, of(t, "m5n.24xlarge"), nil)
	if len(r.Templates) != 1 {
		t.Fatal(r.Problems)
	}
	return r.Templates[0]
}

// Case 14, and its sibling.
func TestWhyAManagedNodeGroupRefusesATemplate(t *testing.T) {
	own := at(0)
	own.Subnets = []eni.Subnet{subnet("subnet-a", "us-east-1a")}
	if _, problem := launchtemplate.ForManagedNodeGroup(rendered(t, own)); problem == nil || problem.Reason != launchtemplate.PerInterfaceSubnet {
		t.Errorf("with a subnet: %v", problem)
	}
	if _, problem := launchtemplate.ForManagedNodeGroup(rendered(t, at(0), at(1))); problem == nil || problem.Reason != launchtemplate.SeveralInterfaces {
		t.Errorf("with two interfaces: %v", problem)
	}
	data, problem := launchtemplate.ForManagedNodeGroup(rendered(t, at(0)))
	if problem != nil || data["IamInstanceProfile"] != nil || data["NetworkInterfaces"] == nil {
		t.Errorf("problem %v, data %s", problem, data.JSON())
	}
}

func TestWhatKarpenterCanSayAndWhatNot(t *testing.T) {
	described, efa := at(1), at(2)
	described.Description, described.Management, efa.Type = "n3", launchtemplate.CNI, eni.EFAOnly
	interfaces, lost := launchtemplate.ForKarpenter(rendered(t, at(0), described, efa))
	want := []launchtemplate.KarpenterInterface{{0, 0, "interface"}, {0, 1, "interface"}, {0, 2, "efa-only"}}
	if diff := cmp.Diff(want, interfaces); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(lost) != 1 {
		t.Errorf("what is lost: %v", lost)
	}
}

func TestForemost(t *testing.T) {
	for name, c := range map[string]struct {
		types      []string
		most       int
		kept, left []string
	}{
		"none is too many":           {[]string{"c3.large", "m7i.large"}, 2, []string{"c3.large", "m7i.large"}, nil},
		"newer generations are kept": {[]string{"c3.large", "m7i.large", "u-6tb1.metal", "x8g.large"}, 2, []string{"x8g.large", "m7i.large"}, []string{"c3.large", "u-6tb1.metal"}},
		"names decide among equals":  {[]string{"m5.large", "c5n.large", "hpc5a.large"}, 1, []string{"c5n.large"}, []string{"hpc5a.large", "m5.large"}},
	} {
		t.Run(name, func(t *testing.T) {
			kept, left := launchtemplate.Foremost(c.types, c.most)
			if !slices.Equal(kept, c.kept) || !slices.Equal(left, c.left) {
				t.Errorf("kept %v and left %v", kept, left)
			}
		})
	}
}

// The message has the reason why a managed node group does not take a template, and the two alternatives.
func TestProblemsOfAManagedNodeGroupNameWhatRemains(t *testing.T) {
	const instead = "; use a self-managed Auto Scaling group for this node template, or let a NodeENI attach the other " +
		"interfaces when the nodes join"
	own := inSubnets(subnet("subnet-a", "us-east-1a"))
	for name, tc := range map[string]struct {
		interfaces []launchtemplate.Interface
		want       launchtemplate.Problem
	}{
		"three interfaces": {list(at(0), at(1), at(2)), launchtemplate.Problem{
			Reason: launchtemplate.SeveralInterfaces, Path: "spec.networkInterfaces",
			Message: "an EKS managed node group refuses a launch template with more than one network interface, and this " +
				"node template has 3" + instead,
		}},
		"two interfaces, one with subnets": {list(at(0), interfaceIn(0, 1, own)), launchtemplate.Problem{
			Reason: launchtemplate.PerInterfaceSubnet, Path: "spec.networkInterfaces",
			Message: "an EKS managed node group refuses a launch template that names subnets, and interfaces of this node " +
				"template have subnets of their own" + instead,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			data, problem := launchtemplate.ForManagedNodeGroup(rendered(t, tc.interfaces...))
			same(t, "problem", &tc.want, problem)
			same(t, "data", launchtemplate.Document(nil), data)
		})
	}
}

// The variant for a managed node group lacks the instance profile and nothing else. The template itself stays whole.
func TestVariantOfAManagedNodeGroupLacksOnlyTheProfile(t *testing.T) {
	template := rendered(t, at(0))
	want := template.Data.Clone()
	data, problem := launchtemplate.ForManagedNodeGroup(template)
	if problem != nil {
		t.Fatal(problem)
	}
	same(t, "the template", want, template.Data)
	delete(want, "IamInstanceProfile")
	same(t, "the variant", want, data)
	data["NetworkInterfaces"].([]any)[0].(map[string]any)["DeviceIndex"] = 7.0
	same(t, "the template, after a change of the variant", 0.0, interfaces(t, template)[0]["DeviceIndex"])
}

// What an EC2NodeClass of Karpenter cannot express is reported for each interface, with the NodeENI as the next step.
func TestWhatKarpenterLosesIsReportedPerInterface(t *testing.T) {
	lost := func(what, of string) string {
		return "InvalidInterface spec.networkInterfaces: " + of + ": Karpenter's EC2NodeClass has no " + what +
			"; declare a NodeENI for it"
	}
	const (
		second    = "the interface at card 0 device 1"
		taken     = "way to keep the VPC CNI from taking it over"
		asEFAOnly = "interfaceType efa: it becomes efa-only, or interface at the primary slot"
	)
	describe := func(i *launchtemplate.Interface) { i.Description = "n3" }
	for name, tc := range map[string]struct {
		interfaces []launchtemplate.Interface
		kinds      []string
		lost       []string
	}{
		"the primary interface": {list(at(0)), []string{"interface"}, []string{}},
		"one for the VPC CNI":   {list(at(0), interfaceIn(0, 1, forCNI)), []string{"interface", "interface"}, []string{}},
		"one without addresses": {
			list(at(0), interfaceIn(0, 1, ofType(eni.EFAOnly))), []string{"interface", "efa-only"}, []string{},
		},
		"one that the VPC CNI must leave alone": {
			list(at(0), at(1)), []string{"interface", "interface"}, []string{lost(taken, second)},
		},
		"an EFA with addresses": {
			list(at(0), interfaceIn(0, 1, forCNI, ofType(eni.EFA))), []string{"interface", "efa-only"},
			[]string{lost(asEFAOnly, second)},
		},
		"an EFA as primary": {
			list(interfaceIn(0, 0, ofType(eni.EFA), named("main"))), []string{"interface"},
			[]string{lost(asEFAOnly, `interface "main" (card 0 device 0)`)},
		},
		"all of it at one interface, and IPv6 prefixes at another": {
			list(interfaceIn(0, 1, describe, ofType(eni.EFA), prefixed(1, 0)), interfaceIn(0, 0, prefixed(0, 1))),
			[]string{"interface", "efa-only"}, []string{
				lost("prefix count per interface", "the interface at card 0 device 0"),
				lost(asEFAOnly, second), lost("description", second), lost(taken, second), lost(
					"prefix count per interface", second,
				),
			},
		},
		"ENA settings": {
			list(interfaceIn(0, 0, tracked)), []string{"interface"}, []string{
				lost("connection tracking per interface (its spec.connectionTracking is for all interfaces)", "the interface at card 0 device 0"),
			},
		},
		"subnets of its own": {
			list(at(0), interfaceIn(0, 1, forCNI, inSubnets(subnet("subnet-n", "us-east-1a")))),
			[]string{"interface", "interface"}, []string{
				"PerInterfaceSubnet spec.networkInterfaces: Karpenter's EC2NodeClass puts all interfaces of an instance in one " +
					"subnet, and interfaces of this node template have subnets of their own; declare NodeENIs for them",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			interfaces, lost := launchtemplate.ForKarpenter(rendered(t, tc.interfaces...))
			var kinds []string
			for device, i := range interfaces {
				kinds = append(kinds, i.InterfaceType)
				same(t, "slot", eni.Slot{Device: device}, eni.Slot{Card: i.NetworkCardIndex, Device: i.DeviceIndex})
			}
			same(t, "types", tc.kinds, kinds)
			same(t, "what is lost", tc.lost, textOf(lost))
		})
	}
}

// An element of an EC2NodeClass has all three members, since an index of 0 must be explicit there.
func ExampleForKarpenter() {
	template := launchtemplate.Template{Interfaces: []launchtemplate.Interface{
		{}, {Slot: eni.Slot{Card: 1, Device: 1}, Type: eni.EFAOnly},
	}}
	interfaces, lost := launchtemplate.ForKarpenter(template)
	for _, i := range interfaces {
		text, err := json.Marshal(i)
		fmt.Println(string(text), err)
	}
	fmt.Println(len(lost), "lost")
	// Output:
	// {"networkCardIndex":0,"deviceIndex":0,"interfaceType":"interface"} <nil>
	// {"networkCardIndex":1,"deviceIndex":1,"interfaceType":"efa-only"} <nil>
	// 0 lost
}

// Foremost ranks by the number after the letters of the family. Names without that number come last.
func TestForemostRanksByGeneration(t *testing.T) {
	kept, left := launchtemplate.Foremost([]string{
		"metal", "u-6tb1.metal", "p6-b300.48xlarge", "g4dn.xlarge", "m10i.large", "hpc7g.large", "", "m5", "i4i.large",
	}, 8)
	same(t, "kept", []string{
		"m10i.large", "hpc7g.large", "p6-b300.48xlarge", "g4dn.xlarge", "i4i.large", "", "m5", "metal",
	}, kept)
	same(t, "left out", []string{"u-6tb1.metal"}, left)
}

// Foremost loses no type and keeps as many as allowed. A kept type is never of an older generation than one left out.
// The input stays as it is.
func TestForemostKeepsTheNewestAndLosesNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := rapid.SliceOfN(rapid.StringMatching(`[cmr][3-9][agn]?\.(large|metal)`), 0, 12).Draw(t, "types")
		most := rapid.IntRange(0, 12).Draw(t, "most")
		before := slices.Clone(types)
		kept, left := launchtemplate.Foremost(types, most)
		if !slices.Equal(before, types) {
			t.Fatalf("%v became %v", before, types)
		}
		if len(kept) != min(most, len(types)) {
			t.Fatalf("%d of %d types are kept, and %d may be", len(kept), len(types), most)
		}
		slices.Sort(before)
		after := slices.Sorted(slices.Values(slices.Concat(kept, left)))
		if diff := cmp.Diff(before, after, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("all types (-before +after):\n%s", diff)
		}
		for _, newer := range kept {
			for _, older := range left {
				if newer[1] < older[1] {
					t.Fatalf("%s is kept, and %s is left out", newer, older)
				}
			}
		}
	})
}
