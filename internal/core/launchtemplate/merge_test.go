// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/launchtemplate"
)

const (
	byTemplate = launchtemplate.FromTemplate
	byOverride = launchtemplate.FromOverride
	ofInline   = launchtemplate.FromInline
)

// hides is the one shadow of a member that the override hides from the source.
func hides(path string) []launchtemplate.Shadow {
	return []launchtemplate.Shadow{{Path: path, By: byOverride, Of: byTemplate}}
}

// layered renders a node template with a source and an override.
func layered(t *testing.T, n launchtemplate.NodeTemplate, source, override string) launchtemplate.Rendering {
	t.Helper()
	n.Source, n.Override = autofilled(t, source), document(t, override)
	r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	return r
}

// TestTheLastLayerWins has every way in which a layer changes a member, with the result and the hidden values.
func TestTheLastLayerWins(t *testing.T) {
	cases := map[string]struct {
		source, override, member string
		want                     any
		origin                   launchtemplate.Origin
		shadows                  []launchtemplate.Shadow
	}{
		"one layer":                {`{"KeyName": "a"}`, `{}`, "KeyName", "a", byTemplate, nil},
		"two layers":               {`{"KeyName": "a"}`, `{"KeyName": "b"}`, "KeyName", "b", byOverride, hides("KeyName")},
		"two layers that agree":    {`{"KeyName": "a"}`, `{"KeyName": "a"}`, "KeyName", "a", byOverride, nil},
		"null removes, and hides":  {`{"KeyName": "a"}`, `{"KeyName": null}`, "KeyName", nil, "", hides("KeyName")},
		"null where nothing is":    {`{}`, `{"KeyName": null}`, "KeyName", nil, "", nil},
		"what is empty is present": {`{"KeyName": "a"}`, `{"KeyName": ""}`, "KeyName", "", byOverride, hides("KeyName")},
		"a value over a default": {
			`{"MetadataOptions": {"HttpTokens": "optional"}}`, `{}`, "MetadataOptions",
			map[string]any{"HttpTokens": "optional"}, byTemplate, nil,
		},
		"null over a default": {`{}`, `{"MetadataOptions": null}`, "MetadataOptions", nil, "", nil},
		"an object is replaced as a whole": {
			`{"CpuOptions": {"CoreCount": 4, "ThreadsPerCore": 2}}`, `{"CpuOptions": {"CoreCount": 2}}`, "CpuOptions",
			map[string]any{"CoreCount": 2.0}, byOverride,
			hides("CpuOptions"),
		},
		"a list without identities is replaced as a whole": {
			`{"LicenseSpecifications": [{"LicenseConfigurationArn": "a"}]}`, `{"LicenseSpecifications": []}`,
			"LicenseSpecifications", []any{}, byOverride,
			hides("LicenseSpecifications"),
		},
		"members of an object in another order": {
			`{"CpuOptions": {"CoreCount": 4, "ThreadsPerCore": 2}}`,
			`{"CpuOptions": {"ThreadsPerCore": 2, "CoreCount": 4}}`,
			"CpuOptions", map[string]any{"CoreCount": 4.0, "ThreadsPerCore": 2.0}, byOverride, nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := layered(t, plain(), tc.source, tc.override)
			got, there := r.Templates[0].Data[tc.member]
			if diff := cmp.Diff(tc.want, got); diff != "" || there != (tc.want != nil) {
				t.Errorf("%s is there: %t (-want +got):\n%s", tc.member, there, diff)
			}
			if got := r.Origins[tc.member]; got != tc.origin {
				t.Errorf("the origin is %q, want %q", got, tc.origin)
			}
			if diff := cmp.Diff(tc.shadows, r.Shadows); diff != "" {
				t.Errorf("shadows (-want +got):\n%s", diff)
			}
		})
	}
}

// Selectors of the spec that match no group set nothing. The groups of a source hide nothing then.
func TestASelectorWithoutGroupsSetsNone(t *testing.T) {
	n := plain()
	n.Network.Groups = []string{}
	r := layered(t, n, `{"SecurityGroupIds": ["sg-theirs"]}`, `{}`)
	if diff := cmp.Diff([]string{"sg-theirs"}, r.Templates[0].Interfaces[0].Groups); diff != "" || len(r.Shadows) > 0 {
		t.Errorf("hidden: %v; groups (-want +got):\n%s", r.Shadows, diff)
	}
}

// Block devices of one name are one device, merged member by member; the others are added in the order of the layers.
func TestBlockDevicesAreMergedByName(t *testing.T) {
	n := plain()
	n.BlockDevices = []launchtemplate.BlockDevice{
		{DeviceName: "/dev/xvda", EBS: &launchtemplate.EBS{SizeGiB: 20}}, {DeviceName: "/dev/xvdb"},
	}
	r := layered(t, n, `{"BlockDeviceMappings": [{"DeviceName": "/dev/xvdc", "VirtualName": "ephemeral0"},
		{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 80}}]}`,
		`{"BlockDeviceMappings": [{"DeviceName": "/dev/xvdc", "VirtualName": null, "NoDevice": ""}]}`)
	want := []any{
		map[string]any{"DeviceName": "/dev/xvda", "Ebs": map[string]any{"VolumeSize": 80.0}},
		map[string]any{"DeviceName": "/dev/xvdb"},
		map[string]any{"DeviceName": "/dev/xvdc", "NoDevice": ""},
	}
	if diff := cmp.Diff(want, r.Templates[0].Data["BlockDeviceMappings"]); diff != "" {
		t.Errorf("block devices (-want +got):\n%s", diff)
	}
	shadows := []launchtemplate.Shadow{
		{Path: "BlockDeviceMappings[/dev/xvda].Ebs", By: byTemplate, Of: ofInline},
		{Path: "BlockDeviceMappings[/dev/xvdc].VirtualName", By: byOverride, Of: byTemplate},
	}
	if diff := cmp.Diff(shadows, r.Shadows); diff != "" {
		t.Errorf("shadows (-want +got):\n%s", diff)
	}
	origins := map[string]launchtemplate.Origin{
		"BlockDeviceMappings":                       ofInline,
		"BlockDeviceMappings[/dev/xvda].DeviceName": byTemplate, "BlockDeviceMappings[/dev/xvda].Ebs": byTemplate,
		"BlockDeviceMappings[/dev/xvdb].DeviceName": ofInline,
		"BlockDeviceMappings[/dev/xvdc].DeviceName": byOverride, "BlockDeviceMappings[/dev/xvdc].NoDevice": byOverride,
	}
	got := maps.Clone(r.Origins)
	maps.DeleteFunc(got, func(path string, _ launchtemplate.Origin) bool { return path[0] != 'B' })
	if diff := cmp.Diff(origins, got); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
}

// Elements without a name, and those that are no objects, reach EC2, which refuses them with a message of its own. They
// do not replace one another.
func TestElementsWithoutIdentityAreKept(t *testing.T) {
	r := layered(t, plain(), `{"BlockDeviceMappings": [{"Ebs": {"VolumeSize": 1}}, "odd"]}`,
		`{"BlockDeviceMappings": [{"Ebs": {"VolumeSize": 2}}, "odd", {"DeviceName": "/dev/xvda"}]}`)
	want := []any{
		map[string]any{"Ebs": map[string]any{"VolumeSize": 1.0}}, "odd",
		map[string]any{"Ebs": map[string]any{"VolumeSize": 2.0}}, "odd", map[string]any{"DeviceName": "/dev/xvda"},
	}
	if diff := cmp.Diff(want, r.Templates[0].Data["BlockDeviceMappings"]); diff != "" {
		t.Errorf("block devices (-want +got):\n%s", diff)
	}
}

// Interfaces of one slot are one interface. An index of 0 can be left out, so that an explicit 0 hides nothing.
func TestInterfacesAreMergedBySlot(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
	n.Interfaces[1].Description = "inline"
	r := layered(t, n,
		`{"NetworkInterfaces": [{"Description": "primary"}, {"DeviceIndex": 1, "InterfaceType": "interface"}]}`,
		`{"NetworkInterfaces": [
			{"NetworkCardIndex": 0, "DeviceIndex": 1, "Description": null, "EnaSrdSpecification": {}}]}`)
	groups := []any{"sg-1"}
	want := []map[string]any{
		{
			"NetworkCardIndex": 0.0, "DeviceIndex": 0.0, "InterfaceType": "interface", "DeleteOnTermination": true,
			"Groups": groups, "Description": "primary",
		},
		{
			"NetworkCardIndex": 0.0, "DeviceIndex": 1.0, "InterfaceType": "interface", "DeleteOnTermination": true,
			"Groups": groups, "EnaSrdSpecification": map[string]any{},
		},
	}
	if diff := cmp.Diff(want, interfaces(t, r.Templates[0])); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
	shadows := []launchtemplate.Shadow{
		{Path: "NetworkInterfaces[card 0 device 1].Description", By: byOverride, Of: ofInline},
	}
	if diff := cmp.Diff(shadows, r.Shadows); diff != "" {
		t.Errorf("shadows (-want +got):\n%s", diff)
	}
}

// An index that is null is 0 to EC2, and the interface is the one of that slot. What identifies an interface hides
// nothing.
func TestAnIndexHidesNothing(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
	r := layered(t, n, `{}`, `{"NetworkInterfaces": [{"NetworkCardIndex": null, "DeviceIndex": 1, "Description": "second"},
		{"NetworkCardIndex": 0, "DeviceIndex": null, "Description": "first"}]}`)
	if len(r.Shadows) > 0 {
		t.Errorf("hidden: %v, want nothing", r.Shadows)
	}
	var got []string
	for _, i := range r.Templates[0].Interfaces {
		got = append(got, i.Slot.String()+" "+i.Description)
	}
	if diff := cmp.Diff([]string{"card 0 device 0 first", "card 0 device 1 second"}, got); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
}

// An element that is not an object is no interface and no tag. It does not become one of the primary slot, or one with
// an empty key.
func TestWhatIsNoObjectIsNothing(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(1)}
	r := layered(t, n, `{"NetworkInterfaces": ["odd", {"Description": "primary"}]}`,
		`{"TagSpecifications": ["odd", {"ResourceType": "volume", "Tags": ["odd", {"Key": "a", "Value": "1"}]}]}`)
	var got []string
	for _, i := range r.Templates[0].Interfaces {
		got = append(got, i.Slot.String()+" "+i.Description)
	}
	if diff := cmp.Diff([]string{"card 0 device 0 primary", "card 0 device 1 "}, got); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
	tags := tagsOf(launchtemplate.Template{Data: launchtemplate.Document{
		"TagSpecifications": slices.DeleteFunc(r.Templates[0].Data["TagSpecifications"].([]any), func(e any) bool {
			return e == "odd"
		}),
	}}, "volume")
	if _, there := tags[""]; there || tags["a"] != "1" {
		t.Errorf("the tags of the volume are %v", tags)
	}
}

// All shadows are reported, sorted by path, regardless of their layers.
func TestShadowsAreSortedByPath(t *testing.T) {
	n := plain()
	n.Tags, n.InstanceProfile = map[string]string{"b": "0", "a": "0"}, "nodes"
	r := layered(t, n, `{"ImageId": "ami-2", "TagSpecifications": [
		{"ResourceType": "volume", "Tags": [{"Key": "b", "Value": "1"}, {"Key": "a", "Value": "1"}]}]}`,
		`{"IamInstanceProfile": {"Name": "other"}}`)
	want := []launchtemplate.Shadow{
		{Path: "IamInstanceProfile", By: byOverride, Of: ofInline},
		{Path: "ImageId", By: byTemplate, Of: ofInline},
		{Path: "TagSpecifications[volume].Tags[a]", By: byTemplate, Of: ofInline},
		{Path: "TagSpecifications[volume].Tags[b]", By: byTemplate, Of: ofInline},
	}
	if diff := cmp.Diff(want, r.Shadows); diff != "" {
		t.Errorf("shadows (-want +got):\n%s", diff)
	}
}

// An interface that only an override has gets the security groups of the template, and its position by slot.
func TestAnOverrideMayAddAnInterface(t *testing.T) {
	r := layered(t, plain(), `{}`,
		`{"NetworkInterfaces": [{"DeviceIndex": 3}, {"DeviceIndex": 2, "Description": "two"}]}`)
	var got []string
	for _, i := range r.Templates[0].Interfaces {
		got = append(got, i.Slot.String()+" "+i.Description)
	}
	if diff := cmp.Diff([]string{"card 0 device 0 ", "card 0 device 2 two", "card 0 device 3 "}, got); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
	var inData []any
	for _, i := range interfaces(t, r.Templates[0]) {
		inData = append(inData, i["DeviceIndex"])
		if diff := cmp.Diff([]any{"sg-1"}, i["Groups"]); diff != "" {
			t.Errorf("groups of the interface at device %v (-want +got):\n%s", i["DeviceIndex"], diff)
		}
	}
	if diff := cmp.Diff([]any{0.0, 2.0, 3.0}, inData); diff != "" {
		t.Errorf("devices in the data (-want +got):\n%s", diff)
	}
}

// Null for the list removes all interfaces: an instance then has none at its primary slot, which is refused.
func TestAnOverrideThatRemovesAllInterfacesIsRefused(t *testing.T) {
	n := plain()
	n.Override = document(t, `{"NetworkInterfaces": null}`)
	got := reasons(launchtemplate.Render(n, of(t, "m5.xlarge"), nil).Problems)
	if !slices.Contains(got, launchtemplate.NoPrimaryInterface) {
		t.Errorf("the reasons are %v, want %s", got, launchtemplate.NoPrimaryInterface)
	}
}

// A tag that two layers give the same value hides nothing, and one that a layer adds stays next to the others.
func TestTagsAreMergedByKey(t *testing.T) {
	r := layered(t, plain(),
		`{"TagSpecifications": [
			{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]}]}`,
		`{"TagSpecifications": [
			{"ResourceType": "instance", "Tags": [{"Key": "b", "Value": "2"}, {"Key": "c", "Value": "3"}]},
			{"ResourceType": "spot-instances-request", "Tags": [{"Key": "a", "Value": "9"}]}]}`)
	if len(r.Shadows) > 0 {
		t.Errorf("hidden: %v, want nothing", r.Shadows)
	}
	for kind, want := range map[string]map[string]string{
		"instance": {"a": "1", "b": "2", "c": "3"}, "spot-instances-request": {"a": "9"}, "volume": {},
	} {
		got := tagsOf(r.Templates[0], kind)
		maps.DeleteFunc(got, func(key, _ string) bool { return len(key) > 1 })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tags of the %s (-want +got):\n%s", kind, diff)
		}
	}
	for path, want := range map[string]launchtemplate.Origin{
		"TagSpecifications[instance].Tags[a]": byTemplate, "TagSpecifications[instance].Tags[b]": byOverride,
		"TagSpecifications[instance].Tags[c]": byOverride,
	} {
		if got := r.Origins[path]; got != want {
			t.Errorf("the origin of %s is %q, want %q", path, got, want)
		}
	}
}

// A layer that repeats another one hides nothing and changes nothing but origins.
func TestALayerThatRepeatsAnotherHidesNothing(t *testing.T) {
	types := of(t, "m5.xlarge")
	rapid.Check(t, func(t *rapid.T) {
		data := documents().Draw(t, "data")
		maps.DeleteFunc(data, func(name string, _ any) bool { return name == "UserData" || name == "ImageId" })
		n := plain()
		n.Source = &launchtemplate.Source{ID: "lt-1", Autofill: true, Data: data}
		once := launchtemplate.Render(n, types, nil)
		n.Override = data.Clone()
		twice := launchtemplate.Render(n, types, nil)
		if len(twice.Shadows) > 0 {
			t.Fatalf("hidden: %v, want nothing", twice.Shadows)
		}
		if diff := cmp.Diff(once.Templates[0], twice.Templates[0]); diff != "" {
			t.Fatalf("the same layer again changes the launch template (-once +twice):\n%s", diff)
		}
	})
}
