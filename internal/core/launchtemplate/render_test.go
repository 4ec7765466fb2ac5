// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"encoding/base64"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/instancetype"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/userdata"
)

// subnet has room for a thousand interfaces.
func subnet(id, zone string) eni.Subnet {
	return eni.Subnet{ID: id, Zone: zone, VPCID: "vpc-1", FreeIPv4: 1000, HasIPv6: true}
}

// of returns instance types with the limits of the offline table.
func of(t *testing.T, names ...string) []launchtemplate.InstanceType {
	t.Helper()
	var types []launchtemplate.InstanceType
	for _, name := range names {
		limits, known := instancetype.Offline(name)
		if !known {
			t.Fatalf("no instance type %s", name)
		}
		types = append(types, launchtemplate.InstanceType{Name: name, Limits: limits})
	}
	return types
}

// plain is the seed's example without optional fields, on a custom image.
func plain() launchtemplate.NodeTemplate {
	return launchtemplate.NodeTemplate{
		Name: "default", UID: "uid-1", Cluster: "blue",
		Network: launchtemplate.Network{Subnets: []eni.Subnet{subnet("subnet-a", "us-east-1a"), subnet("subnet-b", "us-east-1b")}, Groups: []string{"sg-1"}},
		Image:   launchtemplate.Image{ID: "ami-1"}, UserData: "#!/bin/sh\njoin",
	}
}

// at is a declared interface of card 0 and default settings.
func at(device int) launchtemplate.Interface {
	return launchtemplate.Interface{Slot: eni.Slot{Device: device}, DeleteOnTermination: true, Management: launchtemplate.Unmanaged}
}

func reasons(problems []launchtemplate.Problem) []launchtemplate.Reason {
	var all []launchtemplate.Reason
	for _, p := range problems {
		all = append(all, p.Reason)
	}
	return slices.Compact(all)
}

func verdicts(r launchtemplate.Rendering) map[string]launchtemplate.TypeReason {
	all := map[string]launchtemplate.TypeReason{}
	for _, v := range r.Types {
		all[v.Name] = v.Reason
	}
	return all
}

func interfaces(t *testing.T, template launchtemplate.Template) []map[string]any {
	t.Helper()
	list, _ := template.Data["NetworkInterfaces"].([]any)
	var all []map[string]any
	for _, e := range list {
		all = append(all, e.(map[string]any))
	}
	return all
}

func TestOneTemplateForAllZonesWithoutSubnetsOfTheirOwn(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(1), at(0)}
	r := launchtemplate.Render(n, of(t, "m5.large"), nil)
	if len(r.Problems) > 0 || len(r.Templates) != 1 {
		t.Fatalf("%d templates, problems %v", len(r.Templates), r.Problems)
	}
	got := interfaces(t, r.Templates[0])
	want := []map[string]any{
		{"NetworkCardIndex": 0.0, "DeviceIndex": 0.0, "InterfaceType": "interface", "DeleteOnTermination": true, "Groups": []any{"sg-1"}},
		{"NetworkCardIndex": 0.0, "DeviceIndex": 1.0, "InterfaceType": "interface", "DeleteOnTermination": true, "Groups": []any{"sg-1"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
	if _, beside := r.Templates[0].Data["SecurityGroupIds"]; beside {
		t.Error("groups stand beside the interfaces, which EC2 refuses")
	}
	var zones []string
	for _, z := range r.Zones {
		zones = append(zones, z.Zone+" "+strings.Join(z.Subnets[eni.Primary], ","))
	}
	if diff := cmp.Diff([]string{"us-east-1a subnet-a", "us-east-1b subnet-b"}, zones); diff != "" {
		t.Errorf("zones (-want +got):\n%s", diff)
	}
}

func TestOneTemplatePerZoneWithSubnetsOfTheirOwn(t *testing.T) {
	n := plain()
	second := at(1)
	second.Subnets = []eni.Subnet{subnet("subnet-n3a", "us-east-1a"), subnet("subnet-n3c", "us-east-1c")}
	second.Groups = []string{"sg-n3"}
	n.Interfaces = []launchtemplate.Interface{at(0), second}
	r := launchtemplate.Render(n, of(t, "m5.large"), nil)
	if len(r.Problems) > 0 || len(r.Templates) != 1 {
		t.Fatalf("%d templates, problems %v", len(r.Templates), r.Problems)
	}
	if got := r.Templates[0]; got.Zone != "us-east-1a" || n.TemplateName(got) != "multieni/"+strings.Split(n.TemplateName(got), "/")[1]+"/default/us-east-1a" {
		t.Errorf("template %s of zone %s", n.TemplateName(got), got.Zone)
	}
	got := interfaces(t, r.Templates[0])
	if got[0]["SubnetId"] != "subnet-a" || got[1]["SubnetId"] != "subnet-n3a" || !cmp.Equal(got[1]["Groups"], []any{"sg-n3"}) {
		t.Errorf("interfaces %v", got)
	}
	ineligible := map[string]string{}
	for _, z := range r.Zones {
		if !z.Eligible {
			ineligible[z.Zone] = z.Message
		}
	}
	if len(ineligible) != 2 || ineligible["us-east-1b"] == "" || ineligible["us-east-1c"] == "" {
		t.Errorf("zones without a subnet for each interface: %v", ineligible)
	}
}

func TestTheSubnetWithMostAddressesIsChosenAndKept(t *testing.T) {
	n := plain()
	big, small := subnet("subnet-big", "us-east-1a"), subnet("subnet-small", "us-east-1a")
	small.FreeIPv4 = 50
	second := at(1)
	second.Subnets = []eni.Subnet{small, big}
	n.Interfaces = []launchtemplate.Interface{at(0), second}
	chosen := func(choices launchtemplate.Choices) any {
		r := launchtemplate.Render(n, of(t, "m5.large"), choices)
		return interfaces(t, r.Templates[0])[1]["SubnetId"]
	}
	if got := chosen(nil); got != "subnet-big" {
		t.Errorf("chose %v", got)
	}
	before := launchtemplate.Choices{"us-east-1a": {eni.Slot{Device: 1}: "subnet-small"}}
	if got := chosen(before); got != "subnet-small" {
		t.Errorf("a choice that still holds was given up for %v", got)
	}
	second.IPv4Prefixes = 4
	n.Interfaces[1] = second
	if got := chosen(before); got != "subnet-big" {
		t.Errorf("%v is too small for a primary address and 4 prefixes of 16", got)
	}
}

func TestTheSeedsExampleOfFourInterfaces(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), at(1), at(2), at(3)}
	r := launchtemplate.Render(n, launchtemplate.Offline(), nil)
	got := verdicts(r)
	if got["m5.large"] != launchtemplate.TooManyInterfacesOnCard || got["m5.xlarge"] != "" {
		t.Errorf("m5.large: %q, m5.xlarge: %q", got["m5.large"], got["m5.xlarge"])
	}
	for _, v := range r.Types {
		limits, _ := instancetype.Offline(v.Name)
		if fits := limits.MaxOnCard(0) >= 4; fits != v.Eligible() {
			t.Errorf("%s takes %d interfaces on card 0, verdict %q", v.Name, limits.MaxOnCard(0), v.Reason)
		}
		if v.Name == "m5.xlarge" && v.MaxPods != 16 {
			t.Errorf("m5.xlarge has one interface left for pods, 14 addresses and 2 host pods; got %d", v.MaxPods)
		}
	}
	if len(r.Types) < 1400 {
		t.Errorf("only %d types were judged", len(r.Types))
	}
}

func TestWhyATypeCannotCarryTheInterfaces(t *testing.T) {
	card := func(card, device int, kind eni.Type) launchtemplate.Interface {
		return launchtemplate.Interface{Slot: eni.Slot{Card: card, Device: device}, Type: kind, DeleteOnTermination: true}
	}
	prefixes := func(v4, v6 int) launchtemplate.Interface {
		i := at(0)
		i.IPv4Prefixes, i.IPv6Prefixes = v4, v6
		return i
	}
	cases := map[string]struct {
		kind       string
		interfaces []launchtemplate.Interface
		want       launchtemplate.TypeReason
	}{
		"too many on its one card":     {"m5.large", []launchtemplate.Interface{at(0), at(1), at(2), at(3)}, launchtemplate.TooManyInterfacesOnCard},
		"as many as it takes":          {"m5.large", []launchtemplate.Interface{at(0), at(1), at(2)}, ""},
		"sparse indices":               {"m5.xlarge", []launchtemplate.Interface{at(0), at(3)}, ""},
		"an index behind the last":     {"m5.xlarge", []launchtemplate.Interface{at(0), at(4)}, launchtemplate.NoSuchDeviceIndex},
		"the last index of a card":     {"p5.48xlarge", []launchtemplate.Interface{at(0), card(2, 1, eni.EFAOnly)}, ""},
		"an index behind it on a card": {"p5.48xlarge", []launchtemplate.Interface{at(0), card(2, 2, eni.EFAOnly)}, launchtemplate.NoSuchDeviceIndex},
		"no second card":               {"m5.24xlarge", []launchtemplate.Interface{at(0), card(1, 1, eni.Standard)}, launchtemplate.NoSuchNetworkCard},
		"a second card":                {"c6in.32xlarge", []launchtemplate.Interface{at(0), card(1, 1, eni.Standard)}, ""},
		"no EFA":                       {"m5.large", []launchtemplate.Interface{at(0), card(0, 1, eni.EFAOnly)}, launchtemplate.NoEFA},
		"EFAs not known offline":       {"m9g.48xlarge", []launchtemplate.Interface{at(0), card(0, 1, eni.EFAOnly)}, launchtemplate.UnknownEFAs},
		"fewer EFAs than cards":        {"m5n.24xlarge", []launchtemplate.Interface{at(0), card(0, 1, eni.EFAOnly)}, ""},
		"more EFAs than it takes":      {"p6-b300.48xlarge", append([]launchtemplate.Interface{at(0)}, efaOnEveryCard(17)...), launchtemplate.TooManyEFAs},
		"prefixes up to the addresses": {"m5.large", []launchtemplate.Interface{prefixes(9, 0)}, ""},
		"one prefix too many":          {"m5.large", []launchtemplate.Interface{prefixes(10, 0)}, launchtemplate.TooManyIPv4Addresses},
		"one IPv6 prefix too many":     {"m5.large", []launchtemplate.Interface{prefixes(0, 11)}, launchtemplate.TooManyIPv6Addresses},
		"prefixes on Xen":              {"m4.large", []launchtemplate.Interface{prefixes(1, 0)}, launchtemplate.PrefixesUnsupported},
		"a plain interface on Xen":     {"m4.large", []launchtemplate.Interface{at(0)}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Interfaces = tc.interfaces
			r := launchtemplate.Render(n, of(t, tc.kind), nil)
			if got := verdicts(r)[tc.kind]; got != tc.want {
				t.Fatalf("got %q (%v), want %q", got, r.Problems, tc.want)
			}
			if tc.want != "" && !slices.Contains(reasons(r.Problems), launchtemplate.NoEligibleInstanceType) {
				t.Errorf("nobody is told: %v", r.Problems)
			}
		})
	}
}

func efaOnEveryCard(cards int) []launchtemplate.Interface {
	var all []launchtemplate.Interface
	for card := range cards {
		all = append(all, launchtemplate.Interface{Slot: eni.Slot{Card: card, Device: 1}, Type: eni.EFAOnly, DeleteOnTermination: true})
	}
	return all
}

func TestTypesAreChosenByPattern(t *testing.T) {
	n := plain()
	n.Types = launchtemplate.TypeFilter{Include: []string{"m5.*", "c6in.*"}, Exclude: []string{"*.metal"}}
	n.Image.Architecture = "amd64"
	r := launchtemplate.Render(n, of(t, "m5.large", "m5.metal", "m6i.large", "c6in.large"), nil)
	want := map[string]launchtemplate.TypeReason{"m5.large": "", "m5.metal": launchtemplate.Excluded, "m6i.large": launchtemplate.Excluded, "c6in.large": ""}
	if diff := cmp.Diff(want, verdicts(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	n.Image.Architecture = "arm64"
	if got := verdicts(launchtemplate.Render(n, of(t, "m5.large"), nil)); got["m5.large"] != launchtemplate.OtherArchitecture {
		t.Errorf("m5.large for an arm64 image: %q", got["m5.large"])
	}
}

func TestWhatTheVPCCNIMayUseIsNotTagged(t *testing.T) {
	tagged := func(interfaces ...launchtemplate.Interface) bool {
		n := plain()
		n.Interfaces = interfaces
		r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
		return tagsOf(r.Templates[0], "network-interface")[identity.TagNoManage] == "true"
	}
	shared := at(1)
	shared.Management = launchtemplate.CNI
	if tagged(at(0)) || tagged(at(0), shared) {
		t.Error("an interface for the CNI is tagged to be left alone")
	}
	if !tagged(at(0), at(1)) || !tagged(at(0), shared, at(2)) {
		t.Error("an interface that is not for the CNI is not tagged to be left alone")
	}
}

func tagsOf(template launchtemplate.Template, kind string) map[string]string {
	tags := map[string]string{}
	specs, _ := template.Data["TagSpecifications"].([]any)
	for _, e := range specs {
		spec := e.(map[string]any)
		if spec["ResourceType"] != kind {
			continue
		}
		for _, tag := range spec["Tags"].([]any) {
			pair := tag.(map[string]any)
			tags[pair["Key"].(string)] = pair["Value"].(string)
		}
	}
	return tags
}

func TestUserDataIsMergedForTheFamily(t *testing.T) {
	n := plain()
	n.Image = launchtemplate.Image{Family: launchtemplate.AL2023, KubernetesVersion: "1.35"}
	n.Bootstrap = userdata.Cluster{ClusterName: "blue", Endpoint: "https://x", CA: "Q0E=", ServiceCIDR: "172.20.0.0/16", ClusterDNS: "172.20.0.10"}
	n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
	r := launchtemplate.Render(n, of(t, "m5.large"), nil)
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	raw, err := base64.StdEncoding.DecodeString(r.Templates[0].Data["UserData"].(string))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"Content-Type: application/node.eks.aws", "apiServerEndpoint: \"https://x\"", "(default_enis - 1)", "- \"172.20.0.10\"",
		"networking.k8s.aws/nodetemplate=default", "Content-Type: text/x-shellscript\n\n#!/bin/sh\njoin",
	} {
		if !strings.Contains(string(raw), part) {
			t.Errorf("lacks %q:\n%s", part, raw)
		}
	}
	if got := r.Templates[0].Data["ImageId"]; got != "resolve:ssm:/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id" {
		t.Errorf("image %v", got)
	}
}

func TestTheHashTellsRenderingsApart(t *testing.T) {
	hash := func(change func(*launchtemplate.NodeTemplate)) string {
		n := plain()
		n.Interfaces = []launchtemplate.Interface{at(0), at(1), at(2)}
		change(&n)
		r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
		if len(r.Templates) != 1 {
			t.Fatalf("problems %v", r.Problems)
		}
		return r.Templates[0].Hash
	}
	same := hash(func(*launchtemplate.NodeTemplate) {})
	if got := hash(func(n *launchtemplate.NodeTemplate) { slices.Reverse(n.Interfaces) }); got != same {
		t.Error("the order of the interfaces changes the hash")
	}
	if got := hash(func(n *launchtemplate.NodeTemplate) { n.Types.Include = []string{"m5.*"} }); got != same {
		t.Error("the choice of types changes the hash")
	}
	yes := true
	seen := map[string]string{same: "nothing"}
	for name, change := range map[string]func(*launchtemplate.NodeTemplate){
		"description": func(n *launchtemplate.NodeTemplate) { n.Interfaces[1].Description = "n3" },
		"slot":        func(n *launchtemplate.NodeTemplate) { n.Interfaces[1].Slot.Device = 3 },
		"termination": func(n *launchtemplate.NodeTemplate) { n.Interfaces[1].DeleteOnTermination = false },
		"prefixes":    func(n *launchtemplate.NodeTemplate) { n.Interfaces[1].IPv4Prefixes = 1 },
		"number":      func(n *launchtemplate.NodeTemplate) { n.Interfaces = n.Interfaces[:2] },
		"groups":      func(n *launchtemplate.NodeTemplate) { n.Interfaces[1].Groups = []string{"sg-2"} },
		"image":       func(n *launchtemplate.NodeTemplate) { n.Image.ID = "ami-2" },
		"user data":   func(n *launchtemplate.NodeTemplate) { n.UserData += "\n" },
		"tags":        func(n *launchtemplate.NodeTemplate) { n.Tags = map[string]string{"team": "net"} },
		"monitoring":  func(n *launchtemplate.NodeTemplate) { n.Monitoring = &yes },
		"metadata":    func(n *launchtemplate.NodeTemplate) { n.Metadata = &launchtemplate.MetadataOptions{HopLimit: 2} },
		"block devices": func(n *launchtemplate.NodeTemplate) {
			n.BlockDevices = []launchtemplate.BlockDevice{{DeviceName: "/dev/xvda"}}
		},
		"profile":  func(n *launchtemplate.NodeTemplate) { n.InstanceProfile = "nodes" },
		"override": func(n *launchtemplate.NodeTemplate) { n.Override = launchtemplate.Document{"EbsOptimized": true} },
	} {
		got := hash(change)
		if other, taken := seen[got]; taken {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[got] = name
	}
}

// TestTheInterfacesOfALaunchTemplateAreTheDeclaredOnes compares every field: drift is computed from the interfaces of a
// rendering, and a lost or additional field makes all nodes drift.
func TestTheInterfacesOfALaunchTemplateAreTheDeclaredOnes(t *testing.T) {
	types := of(t, "p5en.48xlarge")
	rapid.Check(t, func(t *rapid.T) {
		n := plain()
		n.Interfaces = declared(t)
		r := launchtemplate.Render(n, types, nil)
		for _, template := range r.Templates {
			want := slices.Clone(n.Interfaces)
			if len(want) == 0 {
				want = []launchtemplate.Interface{{DeleteOnTermination: true}} // the primary one
			}
			slices.SortFunc(want, func(a, b launchtemplate.Interface) int { return eni.CompareSlots(a.Slot, b.Slot) })
			for i := range want {
				want[i].Subnets = nil // These are in Template.Subnets.
				if want[i].Type == "" {
					want[i].Type = eni.Standard
				}
				if want[i].Groups == nil {
					want[i].Groups = []string{"sg-1"}
				}
				if len(want) > 1 {
					want[i].PublicIP = nil // EC2 implies false, and refuses it when it is explicit.
				}
			}
			if diff := cmp.Diff(want, template.Interfaces); diff != "" {
				t.Fatalf("interfaces (-declared +rendered):\n%s", diff)
			}
		}
	})
}

// The hash is that of the data without the tag that holds it, on every resource: a node is compared by that tag.
func TestTheHashIsOnEveryResourceAndNotPartOfItself(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{zonal(0, "us-east-1a", "us-east-1b")}
	n.Override = document(t, `{"TagSpecifications": [{"ResourceType": "spot-instances-request", "Tags": []}]}`)
	r := launchtemplate.Render(n, of(t, "m5.large"), nil)
	if len(r.Templates) != 2 {
		t.Fatalf("%d launch templates, problems %v", len(r.Templates), r.Problems)
	}
	for _, template := range r.Templates {
		data := template.Data.Clone()
		for _, kind := range []string{"instance", "volume", "network-interface", "spot-instances-request"} {
			if got := tagsOf(template, kind)[identity.TagTemplateHash]; got != template.Hash {
				t.Errorf("the tag of the %s is %q, want %s", kind, got, template.Hash)
			}
		}
		for _, spec := range data["TagSpecifications"].([]any) {
			spec := spec.(map[string]any)
			spec["Tags"] = slices.DeleteFunc(spec["Tags"].([]any), func(tag any) bool {
				return tag.(map[string]any)["Key"] == identity.TagTemplateHash
			})
		}
		if got := data.Hash(); got != template.Hash {
			t.Errorf("the data without the tag has the hash %s, want %s", got, template.Hash)
		}
	}
}

// Groups next to the interfaces are those of each interface without its own, and their origin moves along.
func TestGroupsHaveTheirOrigin(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), at(1), at(2)}
	n.Interfaces[1].Groups = []string{"sg-own"}
	n.Override = document(t, `{"SecurityGroupIds": ["sg-over"]}`)
	r := launchtemplate.Render(n, of(t, "m5.large"), nil)
	want := map[string]launchtemplate.Origin{
		"NetworkInterfaces[card 0 device 0].Groups": launchtemplate.FromOverride,
		"NetworkInterfaces[card 0 device 1].Groups": launchtemplate.FromInline,
		"NetworkInterfaces[card 0 device 2].Groups": launchtemplate.FromOverride,
		"SecurityGroupIds":                          "",
	}
	for path, origin := range want {
		if got := r.Origins[path]; got != origin {
			t.Errorf("the origin of %s is %q, want %q", path, got, origin)
		}
	}
	if diff := cmp.Diff([]any{"sg-over"}, interfaces(t, r.Templates[0])[0]["Groups"]); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// The data of a source and of an override belongs to the caller, who renders it several times.
func TestRenderDoesNotChangeItsInput(t *testing.T) {
	input := func() launchtemplate.NodeTemplate {
		no := false
		n := plain()
		n.Interfaces = []launchtemplate.Interface{at(1), zonal(0, "us-east-1b", "us-east-1a")}
		n.Interfaces[0].PublicIP, n.Tags = &no, map[string]string{"b": "1", "a": "2"}
		n.Source = autofilled(t, `{"UserData": "x", "NetworkInterfaces": [{"DeviceIndex": 2, "AssociatePublicIpAddress": false}],
			"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "NoDevice": ""}],
			"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "1"}]}]}`)
		n.Named = []eni.Subnet{subnet("subnet-other", "us-east-1b"), subnet("subnet-x", "us-east-1b")}
		n.Override = document(t, `{"SecurityGroupIds": ["sg-9"],
			"NetworkInterfaces": [{"DeviceIndex": 1, "SubnetId": "subnet-x"}],
			"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "NoDevice": null}]}`)
		return n
	}
	n, types := input(), of(t, "m5.large", "c5.large")
	first := launchtemplate.Render(n, types, nil)
	if len(first.Problems) > 0 {
		t.Fatal(first.Problems)
	}
	comparePrefixes := cmpopts.EquateComparable(netip.Prefix{})
	if diff := cmp.Diff(input(), n, comparePrefixes); diff != "" {
		t.Errorf("Render changed the declaration (-before +after):\n%s", diff)
	}
	if types[0].Name != "m5.large" {
		t.Error("Render sorted the instance types of the caller")
	}
	if diff := cmp.Diff(first, launchtemplate.Render(n, types, nil), comparePrefixes); diff != "" {
		t.Errorf("Render is not the same the second time (-first +second):\n%s", diff)
	}
}
