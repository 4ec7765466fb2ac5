// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// names are the names of the launch templates of a rendering, in their order, without the part that is common to all.
func names(n launchtemplate.NodeTemplate, r launchtemplate.Rendering) []string {
	var all []string
	for _, template := range r.Templates {
		all = append(all, strings.TrimPrefix(n.TemplateName(template), n.TemplateName(launchtemplate.Template{})))
	}
	return all
}

// The name of a launch template identifies cluster, node template, zone and shape. The name of a cluster can have 100
// characters, so the name has a hash of it: EC2 takes 128 characters.
func TestTheNameOfALaunchTemplate(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster, template, zone, shape, want string
	}{
		"of all zones and types": {"blue", "default", "", "", "multieni/16477688/default"},
		"of another cluster":     {"green", "default", "", "", "multieni/ba4788b2/default"},
		"of one zone":            {"blue", "upf", "us-east-1a", "", "multieni/16477688/upf/us-east-1a"},
		"of one shape":           {"blue", "upf", "", "2x1efa-ab12", "multieni/16477688/upf/2x1efa-ab12"},
		"of a zone and a shape": {
			"blue", "upf", "us-east-1a", "2x1efa-ab12", "multieni/16477688/upf/us-east-1a/2x1efa-ab12",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := launchtemplate.NodeTemplate{Name: tc.template, Cluster: tc.cluster}
			if got := n.TemplateName(launchtemplate.Template{Zone: tc.zone, Shape: tc.shape}); got != tc.want {
				t.Errorf("the name is %q, want %q", got, tc.want)
			}
		})
	}
}

// The longest names fit: a cluster of 100 characters, a node template of 63, a Wavelength Zone and the largest shape.
func TestTheLongestNameOfALaunchTemplateFits(t *testing.T) {
	n := launchtemplate.NodeTemplate{Name: strings.Repeat("n", 63), Cluster: strings.Repeat("c", 100)}
	longest := launchtemplate.Template{Zone: "ap-northeast-1-wl1-kix-wlz-1", Shape: "160x32efa-ab12"}
	if name := n.TemplateName(longest); len(name) > 128 {
		t.Errorf("%s has %d characters, and EC2 takes 128", name, len(name))
	}
}

// Types that get the same interfaces share a launch template; the types of each one find it by its shape.
func TestTypesOfOneShapeShareALaunchTemplate(t *testing.T) {
	n := plain()
	n.Layout = launchtemplate.IPOptimized
	kinds := []string{
		"p5.48xlarge", "m5n.24xlarge", "p4d.24xlarge", "p5e.48xlarge", "m5.large", "m5n.metal", "p4de.24xlarge",
	}
	r := launchtemplate.Render(n, of(t, kinds...), nil)
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	byShape := map[string][]string{}
	for _, v := range r.Types {
		byShape[v.Shape] = append(byShape[v.Shape], fmt.Sprintf("%s %d+%d %s", v.Name, v.Interfaces, v.EFAs, v.Reason))
	}
	want := map[string][]string{
		"":              {"m5.large 0+0 NoEFA"},
		"2x1efa-2903":   {"m5n.24xlarge 2+1 ", "m5n.metal 2+1 "},
		"5x4efa-ad84":   {"p4d.24xlarge 5+4 ", "p4de.24xlarge 5+4 "},
		"33x32efa-d932": {"p5.48xlarge 33+32 ", "p5e.48xlarge 33+32 "},
	}
	if diff := cmp.Diff(want, byShape); diff != "" {
		t.Errorf("types by shape (-want +got):\n%s", diff)
	}
	for _, template := range r.Templates {
		prefix := fmt.Sprintf("%dx", len(template.Interfaces))
		if !strings.HasPrefix(template.Shape, prefix) || len(byShape[template.Shape]) == 0 {
			t.Errorf("a launch template of %d interfaces has the shape %q", len(template.Interfaces), template.Shape)
		}
	}
	if len(r.Templates) != 3 {
		t.Errorf("the launch templates are %v, want one for each of 3 shapes", names(n, r))
	}
}

// Without a layout, all types get the declared interfaces: there is one shape, which has no name.
func TestWithoutALayoutThereIsOneShape(t *testing.T) {
	for _, layout := range []launchtemplate.Layout{"", launchtemplate.NoLayout} {
		n := plain()
		n.Layout = layout
		r := launchtemplate.Render(n, of(t, "p5.48xlarge", "m5.large"), nil)
		if diff := cmp.Diff([]string{""}, names(n, r)); diff != "" {
			t.Errorf("layout %q: names (-want +got):\n%s", layout, diff)
		}
	}
}

// There is no launch template for a shape that none of its types can carry, because nothing could launch from it.
func TestAShapeWithoutAnEligibleTypeHasNoLaunchTemplate(t *testing.T) {
	large := launchtemplate.InstanceType{
		Name: "x1.large", Limits: eni.Limits{Cards: []int{4, 4}, Interfaces: 8, IPv4: 10, EFAs: 2},
	}
	small := launchtemplate.InstanceType{
		Name: "x1.small", Limits: eni.Limits{Cards: []int{2}, Interfaces: 2, IPv4: 10, EFAs: 1},
	}
	narrow := launchtemplate.InstanceType{
		Name: "x1.narrow", Limits: eni.Limits{Cards: []int{2, 1}, Interfaces: 3, IPv4: 10, EFAs: 2},
	}
	n := plain()
	n.Layout = launchtemplate.IPOptimized
	n.Interfaces = []launchtemplate.Interface{at(0), at(1), at(2)}
	r := launchtemplate.Render(n, []launchtemplate.InstanceType{small, large, narrow}, nil)
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	want := map[string]launchtemplate.TypeReason{
		"x1.large": "", "x1.narrow": launchtemplate.TooManyInterfacesOnCard,
		"x1.small": launchtemplate.TooManyInterfacesOnCard,
	}
	if diff := cmp.Diff(want, verdicts(r)); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	shapes := map[string]bool{r.Types[0].Shape: true, r.Types[1].Shape: true, r.Types[2].Shape: true}
	if len(shapes) != 3 {
		t.Errorf("the shapes are %v, want 3", shapes)
	}
	if diff := cmp.Diff([]string{"/" + r.Types[0].Shape}, names(n, r)); diff != "" {
		t.Errorf("launch templates (-want +got):\n%s", diff)
	}
}

// Each zone gets a launch template with subnets of that zone alone; those of the others do not change.
func TestEachZoneHasItsOwnSubnets(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), zonal(1, "us-east-1b", "us-east-1a")}
	r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	got := map[string][]any{}
	for _, template := range r.Templates {
		for _, i := range interfaces(t, template) {
			got[template.Zone] = append(got[template.Zone], i["SubnetId"])
		}
		want := map[eni.Slot][]string{
			{}: {"subnet-a", "subnet-b"}, secondSlot: {"subnet-own-us-east-1a", "subnet-own-us-east-1b"},
		}
		if diff := cmp.Diff(want, template.Subnets); diff != "" {
			t.Errorf("subnets that an interface may be in, of all zones (-want +got):\n%s", diff)
		}
	}
	want := map[string][]any{
		"us-east-1a": {"subnet-a", "subnet-own-us-east-1a"}, "us-east-1b": {"subnet-b", "subnet-own-us-east-1b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subnets by zone (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/us-east-1a", "/us-east-1b"}, names(n, r)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if r.Templates[0].Hash == r.Templates[1].Hash {
		t.Error("the launch templates of two zones have one hash")
	}
}

// With a layout and subnets of interfaces, there is a launch template for each shape in each zone. A zone has one
// verdict.
func TestShapesAndZonesMultiply(t *testing.T) {
	n := plain()
	n.Layout = launchtemplate.IPOptimized
	n.Interfaces = []launchtemplate.Interface{zonal(0, "us-east-1b", "us-east-1a")}
	r := launchtemplate.Render(n, of(t, "p4d.24xlarge", "m5n.24xlarge"), nil)
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	var got, zones []string
	for _, template := range r.Templates {
		got = append(got, template.Zone+" "+template.Shape)
	}
	want := []string{
		"us-east-1a 5x4efa-ad84", "us-east-1b 5x4efa-ad84", "us-east-1a 2x1efa-2903", "us-east-1b 2x1efa-2903",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("launch templates (-want +got):\n%s", diff)
	}
	for _, z := range r.Zones {
		zones = append(zones, z.Zone)
	}
	if diff := cmp.Diff([]string{"us-east-1a", "us-east-1b"}, zones); diff != "" {
		t.Errorf("zones (-want +got):\n%s", diff)
	}
}

// The order in which instance types and subnets arrive from EC2 makes no difference.
func TestTheOrderOfTypesAndSubnetsMakesNoDifference(t *testing.T) {
	for name, own := range map[string][]launchtemplate.Interface{
		"subnets of the template":   nil,
		"subnets of the interfaces": {zonal(0, "us-east-1b", "us-east-1a")},
	} {
		t.Run(name, func(t *testing.T) {
			types := of(t, "p4d.24xlarge", "m5n.24xlarge", "m5.large", "m5n.metal")
			n := plain()
			n.Layout, n.Interfaces = launchtemplate.IPOptimized, own
			want := launchtemplate.Render(n, types, nil)
			slices.Reverse(n.Network.Subnets)
			for _, i := range n.Interfaces {
				slices.Reverse(i.Subnets)
			}
			for range types {
				types = append(types[1:], types[0])
				if diff := cmp.Diff(want, launchtemplate.Render(n, types, nil)); diff != "" {
					t.Fatalf("rendering with the types %v (-first order +other order):\n%s", types, diff)
				}
			}
		})
	}
}
