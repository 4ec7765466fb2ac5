// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"encoding/base64"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/plan"
)

// A node is compared with the template of its shape and zone. A template without a zone is for all zones, and the first
// template of the shape is the one for a zone that no template is for.
func TestNodeIsComparedWithTheTemplateOfItsShapeAndZone(t *testing.T) {
	template := func(shape, zone, description string) launchtemplate.Template {
		i := at(0)
		i.Description, i.Groups = description, []string{"sg-1"}
		return launchtemplate.Template{Shape: shape, Zone: zone, Interfaces: list(i)}
	}
	types := []launchtemplate.TypeVerdict{
		{Name: "m9.small"}, {Name: "m9.efa", Shape: "2x1efa"}, {Name: "m9.none", Shape: "9x9efa"},
	}
	zoned := []launchtemplate.Template{
		template("2x1efa", "us-east-1a", "efa a"), template("2x1efa", "us-east-1b", "efa b"),
		template("", "us-east-1a", "small a"), template("", "us-east-1b", "small b"),
	}
	anyZone := []launchtemplate.Template{template("2x1efa", "", "efa"), template("", "", "small")}
	for name, tc := range map[string]struct {
		templates  []launchtemplate.Template
		kind, zone string
		want       string
	}{
		"first zone":                   {zoned, "m9.small", "us-east-1a", `"small a"`},
		"second zone":                  {zoned, "m9.small", "us-east-1b", `"small b"`},
		"another zone":                 {zoned, "m9.small", "us-east-1z", `"small a"`},
		"zone not known":               {zoned, "m9.small", "", `"small a"`},
		"another shape":                {zoned, "m9.efa", "us-east-1b", `"efa b"`},
		"another shape, another zone":  {zoned, "m9.efa", "us-east-1z", `"efa a"`},
		"templates of any zone":        {anyZone, "m9.small", "us-east-1b", `"small"`},
		"any zone, of another shape":   {anyZone, "m9.efa", "us-east-1b", `"efa"`},
		"a type without a verdict":     {anyZone, "m9.new", "us-east-1b", `"small"`},
		"a shape without a template":   {anyZone, "m9.none", "us-east-1b", ""},
		"no shape without a template":  {zoned[:2], "m9.small", "us-east-1a", ""},
		"no templates, for a new type": {nil, "m9.new", "us-east-1a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := launchtemplate.Node{InstanceType: tc.kind, Zone: tc.zone, Interfaces: launched()[:1]}
			r := launchtemplate.Rendering{Templates: tc.templates, Types: types}
			got := ""
			differences, _ := r.Drift(plain(), n, nil)
			for _, d := range differences {
				got += d.Want
			}
			if got != tc.want {
				t.Errorf("the description that the template wants is %s, want %s", got, tc.want)
			}
		})
	}
}

// The data of a node's version is compared if that version is another one and its data is known.
func TestDataIsComparedOnlyIfTheVersionIsAnotherOne(t *testing.T) {
	declared := twoInterfaces()
	r := rendering(t, declared)
	other := launchtemplate.Readable(r.Templates[0].Data)
	other["UserData"] = "other"
	for name, tc := range map[string]struct {
		hash string
		then launchtemplate.Document
		want []string
	}{
		"the same version":                 {r.Templates[0].Hash, other, []string{}},
		"another version":                  {"other", other, []string{"userData Static Replace"}},
		"another version of the same data": {"other", launchtemplate.Readable(r.Templates[0].Data), []string{}},
		"another version of unknown data":  {"other", nil, []string{}},
		"another version of no data at all": {
			"other", launchtemplate.Document{},
			[]string{
				"amiSelector Dynamic Replace", "metadataOptions Static Replace", "tags Static Replace", "userData Static Replace",
			},
		},
		"a node without a hash, a known one": {"", other, []string{"userData Static Replace"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := node(r)
			n.Hash = tc.hash
			differences, updates := r.Drift(declared, n, tc.then)
			same(t, "differences", tc.want, found(differences))
			same(t, "updates", []plan.InPlaceUpdate(nil), updates)
		})
	}
}

// A stale image is reported once: by its IDs, unless the declaration of the image changed as well. Its field is that of
// the layer that names the parameter.
func TestStaleImageIsReportedOnceByTheLayerThatNamesIt(t *testing.T) {
	const parameter, stale = "resolve:ssm:/images/upf", ": want ami-2, have ami-1 "
	images := map[string]string{parameter: "ami-2"}
	then := launchtemplate.Document{"ImageId": "resolve:ssm:/images/before"}
	for name, tc := range map[string]struct {
		origin launchtemplate.Origin
		then   launchtemplate.Document
		want   []string
	}{
		"of the spec": {launchtemplate.FromInline, nil, []string{"amiSelector" + stale + "(Dynamic; needs a new node)"}},
		"of the family": {
			launchtemplate.FromDefault, nil, []string{"amiSelector" + stale + "(Dynamic; needs a new node)"},
		},
		"of an override": {
			launchtemplate.FromOverride, nil, []string{"launchTemplateOverride" + stale + "(Static; needs a new node)"},
		},
		"of the spec, with another parameter now": {
			launchtemplate.FromInline, then, []string{"amiSelector has changed (Dynamic; needs a new node)"},
		},
		"of an override, with another parameter now": {
			launchtemplate.FromOverride, then, []string{"launchTemplateOverride has changed (Static; needs a new node)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := launchtemplate.Rendering{
				Templates: []launchtemplate.Template{{Hash: "now", Data: launchtemplate.Document{"ImageId": parameter}}},
				Origins:   map[string]launchtemplate.Origin{"ImageId": tc.origin}, Images: images,
			}
			var lines []string
			differences, _ := r.Drift(plain(), launchtemplate.Node{Hash: "then", Image: "ami-1"}, tc.then)
			for _, d := range differences {
				lines = append(lines, d.Told())
			}
			same(t, "differences", tc.want, lines)
		})
	}
}

// Each interface with a difference that an update removes gets one update with exactly these fields. The order is that
// of the node's interfaces.
func TestEachInterfaceGetsOneUpdate(t *testing.T) {
	declared := twoInterfaces()
	declared.Interfaces = append(declared.Interfaces, at(2), at(3))
	n := node(launchtemplate.Render(declared, of(t, "m5n.24xlarge"), nil))
	n.InstanceType = "m5n.24xlarge"
	n.Interfaces[1], n.Interfaces[2] = n.Interfaces[2], n.Interfaces[1]
	n.Interfaces[3].SubnetID = "subnet-z" // a new node removes this difference, no update does
	n.Interfaces = append(n.Interfaces, eni.Interface{ID: "eni-unattached", Description: "other"})
	declared.Interfaces[0].Description = "primary"
	declared.Interfaces[1].Groups, declared.Interfaces[1].Description = []string{"sg-2", "sg-3"}, "second"
	declared.Interfaces[2].DeleteOnTermination = false
	declared.Interfaces[3].Type = eni.EFA
	expected := func(device int, change func(*plan.InPlaceUpdate)) plan.InPlaceUpdate {
		u := plan.InPlaceUpdate{InterfaceID: "eni-" + eni.Slot{Device: device}.String(), Owner: "default", OwnerUID: "uid-1"}
		change(&u)
		return u
	}
	first, second, no := "primary", "second", false
	r := launchtemplate.Render(declared, of(t, "m5n.24xlarge"), nil)
	differences, updates := r.Drift(declared, n, nil)
	same(t, "updates", []plan.InPlaceUpdate{
		expected(0, func(u *plan.InPlaceUpdate) { u.Description = &first }),
		expected(2, func(u *plan.InPlaceUpdate) { u.DeleteOnTermination = &no }),
		expected(1, func(u *plan.InPlaceUpdate) { u.Description, u.Groups = &second, []string{"sg-2", "sg-3"} }),
	}, updates)
	same(t, "differences", []string{
		"networkInterfaces[].description Static Repair",
		"networkInterfaces[].securityGroupSelector Dynamic Repair", "networkInterfaces[].description Static Repair",
		"networkInterfaces[].deleteOnTermination Behavioral Repair",
		"networkInterfaces[].interfaceType Static Replace", "networkInterfaces[].subnetSelector Dynamic Replace",
	}, found(differences))

	n.Adopted = map[eni.Slot]bool{{Device: 1}: true, {Device: 3}: true}
	differences, updates = r.Drift(declared, n, nil)
	same(t, "updates next to an adopted interface", []plan.InPlaceUpdate{
		expected(0, func(u *plan.InPlaceUpdate) { u.Description = &first }),
		expected(2, func(u *plan.InPlaceUpdate) { u.DeleteOnTermination = &no }),
	}, updates)
	same(t, "differences next to an adopted interface", []string{
		"networkInterfaces[].description Static Repair", "networkInterfaces[].deleteOnTermination Behavioral Repair",
		"networkInterfaces[].interfaceType Static Replace", "networkInterfaces[].subnetSelector Dynamic Replace",
	}, found(differences))
}

// After one round of updates, interfaces that a user changed have no difference that an update removes.
func TestUpdatesRemoveTheDifferencesTheyAreFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := declaring(declared(t)...)
		r := launchtemplate.Render(n, []launchtemplate.InstanceType{withEFAs(6, "m9.x", 8, 8, 8)}, nil)
		if len(r.Templates) == 0 {
			return
		}
		running := launchtemplate.Node{InstanceType: "m9.x"}
		for _, i := range r.Templates[0].Interfaces {
			changed := i.AsLaunched("subnet-a")
			changed.ID, changed.Tags = "eni-"+i.Slot.String(), map[string]string{}
			changed.Description = rapid.SampledFrom([]string{i.Description, "by hand"}).Draw(t, "description")
			changed.Groups = rapid.SampledFrom([][]string{i.Groups, {"sg-2"}, {"sg-1", "sg-2"}}).Draw(t, "groups")
			changed.Attachment.DeleteOnTermination = rapid.Bool().Draw(t, "deleteOnTermination")
			changed.IPv4Prefixes = make([]netip.Prefix, rapid.IntRange(0, 3).Draw(t, "ipv4Prefixes"))
			changed.IPv6Prefixes = make([]netip.Prefix, rapid.IntRange(0, 3).Draw(t, "ipv6Prefixes"))
			changed.Tags[identity.TagNoManage] = rapid.SampledFrom([]string{"true", "false"}).Draw(t, "no_manage")
			running.Interfaces = append(running.Interfaces, changed)
		}
		_, updates := r.Drift(n, running, nil)
		for _, u := range updates {
			at := slices.IndexFunc(running.Interfaces, func(i eni.Interface) bool { return i.ID == u.InterfaceID })
			updated(&running.Interfaces[at], u)
		}
		differences, again := r.Drift(n, running, nil)
		repairable := func(d launchtemplate.Difference) bool { return d.Action == launchtemplate.Repair }
		if len(again) > 0 || slices.ContainsFunc(differences, repairable) {
			t.Fatalf("after %+v, the differences are %v and the updates %+v", updates, differences, again)
		}
	})
}

// updated applies an update in place like EC2.
func updated(i *eni.Interface, u plan.InPlaceUpdate) {
	if u.Description != nil {
		i.Description = *u.Description
	}
	if u.DeleteOnTermination != nil {
		i.Attachment.DeleteOnTermination = *u.DeleteOnTermination
	}
	if u.Groups != nil {
		i.Groups = u.Groups
	}
	if u.IPv4Prefixes != nil {
		i.IPv4Prefixes = make([]netip.Prefix, *u.IPv4Prefixes)
	}
	if u.IPv6Prefixes != nil {
		i.IPv6Prefixes = make([]netip.Prefix, *u.IPv6Prefixes)
	}
	maps.Copy(i.Tags, u.Tags)
}

// User data is compared and shown as text. Text that is not in base64 stays as it is, and so does the original.
func TestReadableDecodesUserData(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"))
	for name, tc := range map[string]struct{ data, want launchtemplate.Document }{
		"encoded": {
			launchtemplate.Document{"UserData": encoded, "ImageId": encoded},
			launchtemplate.Document{"UserData": "#!/bin/sh\n", "ImageId": encoded},
		},
		"plain": {
			launchtemplate.Document{"UserData": "#!/bin/sh\n"}, launchtemplate.Document{"UserData": "#!/bin/sh\n"},
		},
		"empty":        {launchtemplate.Document{"UserData": ""}, launchtemplate.Document{"UserData": ""}},
		"no user data": {launchtemplate.Document{"ImageId": "ami-1"}, launchtemplate.Document{"ImageId": "ami-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.data.Clone()
			same(t, "readable data", tc.want, launchtemplate.Readable(tc.data))
			same(t, "the original", before, tc.data)
		})
	}
}

// The difference of a node of another program's launch template names both versions.
func TestSourceDriftNamesBothVersions(t *testing.T) {
	same(t, "differences", []launchtemplate.Difference{{
		Field: "launchTemplateRef", Class: launchtemplate.Dynamic, Action: launchtemplate.Replace,
		Want: "version 7", Have: "version 5",
	}}, launchtemplate.SourceDrift(launchtemplate.Source{Version: "$Latest", Resolved: 7}, 5))
}

// Resources count interfaces by name. An interface of another type than the declared one counts for no label and no
// resource, and the VPC CNI's own interfaces are no resource.
func TestResourcesCountInterfacesOfOneName(t *testing.T) {
	const n3 = launchtemplate.LabelNetworkPrefix + "n3"
	declared := declaring(interfaceIn(0, 0, named("main")), interfaceIn(0, 1, named("n3")), interfaceIn(0, 2, named("n3")),
		interfaceIn(0, 3, named("n6"), forCNI), at(4), interfaceIn(0, 5, named("rdma"), forCNI, ofType(eni.EFAOnly)))
	declared.Layout = launchtemplate.IPOptimized
	r := launchtemplate.Render(declared, of(t, "m5n.24xlarge"), nil)
	n := node(r)
	n.InstanceType = "m5n.24xlarge"
	resources := map[string]int{n3: 2, launchtemplate.LabelNetworkPrefix + "rdma": 1}
	same(t, "resources", resources, declared.NodeResources(r, n))
	want := map[string]string{
		launchtemplate.LabelNodeTemplate: "default", launchtemplate.LabelInterfaces: "6", launchtemplate.LabelEFAs: "1",
		launchtemplate.LabelLayout: "IPOptimized", n3: "true", launchtemplate.LabelNetworkPrefix + "main": "true",
		launchtemplate.LabelNetworkPrefix + "n6": "true", launchtemplate.LabelNetworkPrefix + "rdma": "true",
	}
	same(t, "labels", want, declared.NodeLabels(r, n))
	n.Interfaces[2].Type, n.Interfaces[5].Type = eni.EFA, eni.Standard
	same(t, "resources, with two of another type", map[string]int{n3: 1}, declared.NodeResources(r, n))
	delete(want, launchtemplate.LabelEFAs)
	delete(want, launchtemplate.LabelNetworkPrefix+"rdma")
	want[launchtemplate.LabelInterfaces] = "4"
	same(t, "labels, with two of another type", want, declared.NodeLabels(r, n))
}

// An instance has one hash: that of the first interface with a hash.
func TestHashIsThatOfTheFirstInterfaceWithOne(t *testing.T) {
	tagged := func(hash string) eni.Interface {
		return eni.Interface{Tags: map[string]string{identity.TagTemplateHash: hash}}
	}
	if got := launchtemplate.HashOf([]eni.Interface{tagged(""), tagged("abc"), tagged("def")}); got != "abc" {
		t.Errorf("the hash is %q, want abc", got)
	}
}
