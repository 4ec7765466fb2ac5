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

// asItIs is a node template that uses version 3 of a launch template of another program unchanged.
func asItIs(t *testing.T, text string) launchtemplate.NodeTemplate {
	t.Helper()
	return launchtemplate.NodeTemplate{Name: "default", Source: &launchtemplate.Source{
		ID: "lt-1", Version: "$Latest", Resolved: 3, Data: document(t, text),
	}}
}

// complete is the data that an instance needs to join a cluster, with additional data.
func complete(more string) string {
	return `{"ImageId": "ami-7", "UserData": "x", "IamInstanceProfile": {"Name": "nodes"}` + more + `}`
}

// A field of the spec cannot affect a launch template that is used unchanged. The message names each field that is set.
func TestNoFieldAffectsALaunchTemplateThatIsUsedUnchanged(t *testing.T) {
	no := false
	for field, change := range map[string]func(*launchtemplate.NodeTemplate){
		"subnetSelector":        func(n *launchtemplate.NodeTemplate) { n.Network.Subnets = []eni.Subnet{} },
		"securityGroupSelector": func(n *launchtemplate.NodeTemplate) { n.Network.Groups = []string{} },
		"networkInterfaces":     func(n *launchtemplate.NodeTemplate) { n.Interfaces = []launchtemplate.Interface{at(0)} },
		"layout":                func(n *launchtemplate.NodeTemplate) { n.Layout = launchtemplate.IPOptimized },
		"amiFamily":             func(n *launchtemplate.NodeTemplate) { n.Image.Family = launchtemplate.AL2023 },
		"amiSelector":           func(n *launchtemplate.NodeTemplate) { n.Image.ID = "ami-1" },
		"userData":              func(n *launchtemplate.NodeTemplate) { n.UserData = "#!/bin/sh" },
		"instanceProfile":       func(n *launchtemplate.NodeTemplate) { n.InstanceProfile = "nodes" },
		"detailedMonitoring":    func(n *launchtemplate.NodeTemplate) { n.Monitoring = &no },
		"metadataOptions":       func(n *launchtemplate.NodeTemplate) { n.Metadata = &launchtemplate.MetadataOptions{} },
		"blockDeviceMappings": func(n *launchtemplate.NodeTemplate) {
			n.BlockDevices = []launchtemplate.BlockDevice{{DeviceName: "/dev/xvda"}}
		},
		"tags":        func(n *launchtemplate.NodeTemplate) { n.Tags = map[string]string{"team": "net"} },
		"cluster.dns": func(n *launchtemplate.NodeTemplate) { n.Bootstrap.ClusterDNS = "172.20.0.10" },
		"launchTemplateOverride": func(n *launchtemplate.NodeTemplate) {
			n.Override = launchtemplate.Document{"EbsOptimized": true}
		},
		"userData, instanceProfile, tags": func(n *launchtemplate.NodeTemplate) {
			n.Tags, n.InstanceProfile, n.UserData = map[string]string{"team": "net"}, "nodes", "#!/bin/sh"
		},
	} {
		t.Run(field, func(t *testing.T) {
			n := asItIs(t, complete(""))
			change(&n)
			want := []launchtemplate.Problem{{
				Reason: launchtemplate.AutofillOff, Path: "spec.autofill", Message: "the referenced launch template is used " +
					"as it is, and " + field + " would be of no effect; remove it, or set autofill: true",
			}}
			r := launchtemplate.Render(n, of(t, "m5n.24xlarge"), nil) // a type that takes an EFA, for the layout
			if diff := cmp.Diff(want, r.Problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// Fields that only restrict how nodes may be launched, and for which cluster, are possible with an unchanged launch
// template.
func TestFieldsThatGoWithALaunchTemplateThatIsUsedUnchanged(t *testing.T) {
	for name, change := range map[string]func(*launchtemplate.NodeTemplate){
		"the types":              func(n *launchtemplate.NodeTemplate) { n.Types.Include = []string{"m5.*"} },
		"a layout of nothing":    func(n *launchtemplate.NodeTemplate) { n.Layout = launchtemplate.NoLayout },
		"the architecture":       func(n *launchtemplate.NodeTemplate) { n.Image.Architecture = "amd64" },
		"the cluster":            func(n *launchtemplate.NodeTemplate) { n.Bootstrap = blueCluster() },
		"the policy":             func(n *launchtemplate.NodeTemplate) { n.RejectConflicts = true },
		"an override of nothing": func(n *launchtemplate.NodeTemplate) { n.Override = launchtemplate.Document{} },
	} {
		t.Run(name, func(t *testing.T) {
			n := asItIs(t, complete(""))
			change(&n)
			refusedFor(t, n)
		})
	}
}

// Without image, user data or profile no instance joins. An empty value counts as missing.
func TestALaunchTemplateThatIsUsedUnchangedIsComplete(t *testing.T) {
	for name, tc := range map[string]struct{ data, lacks string }{
		"nothing": {`{}`, "ImageId, UserData, IamInstanceProfile"},
		"no image": {
			`{"UserData": "x", "IamInstanceProfile": {"Name": "nodes"}}`, "ImageId",
		},
		"empty user data": {
			`{"ImageId": "ami-7", "UserData": "", "IamInstanceProfile": {"Name": "nodes"}}`, "UserData",
		},
		"a null profile": {`{"ImageId": "ami-7", "UserData": "x", "IamInstanceProfile": null}`, "IamInstanceProfile"},
	} {
		t.Run(name, func(t *testing.T) {
			refusedFor(t, asItIs(t, tc.data), launchtemplate.Problem{
				Reason: launchtemplate.TemplateIncomplete, Path: "spec.launchTemplateRef", Message: "version 3 of the " +
					"launch template lacks " + tc.lacks + ", without which no instance joins the cluster; add it there, " +
					"or set autofill: true",
			})
		})
	}
}

// An unchanged launch template is the source itself. The verdicts are those for its own interfaces.
func TestRenderingOfALaunchTemplateThatIsUsedUnchanged(t *testing.T) {
	const one = `, "SecurityGroupIds": ["sg-1"]`
	const two = `, "NetworkInterfaces": [{"DeviceIndex": 1, "Groups": ["sg-1"]}, {"DeviceIndex": 0, "Groups": ["sg-1"]}]`
	const efa = `, "NetworkInterfaces": [{"DeviceIndex": 0, "InterfaceType": "efa", "Groups": ["sg-1"]},
		{"DeviceIndex": 1, "Groups": ["sg-1"]}]`
	const label, count = launchtemplate.LabelNodeTemplate, launchtemplate.LabelInterfaces
	for name, tc := range map[string]struct {
		data   string
		want   []launchtemplate.TypeVerdict
		labels map[string]string
	}{
		"no interfaces, which EC2 makes one": {
			complete(one),
			[]launchtemplate.TypeVerdict{
				{Name: "c5.large", Interfaces: 1, MaxPods: 29}, {Name: "m5n.24xlarge", Interfaces: 1, MaxPods: 737},
			},
			map[string]string{label: "default", count: "1"},
		},
		"two interfaces, the second is not for pods": {
			complete(two),
			[]launchtemplate.TypeVerdict{
				{Name: "c5.large", Interfaces: 2, MaxPods: 20}, {Name: "m5n.24xlarge", Interfaces: 2, MaxPods: 688},
			},
			map[string]string{label: "default", count: "2"},
		},
		"an EFA": {
			complete(efa),
			[]launchtemplate.TypeVerdict{
				{
					Name: "c5.large", Interfaces: 2, EFAs: 1, Reason: launchtemplate.NoEFA,
					Message: "it takes no Elastic Fabric Adapter",
				},
				{Name: "m5n.24xlarge", Interfaces: 2, EFAs: 1, MaxPods: 688},
			},
			map[string]string{label: "default", count: "2", launchtemplate.LabelEFAs: "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := asItIs(t, tc.data)
			n.Types.Exclude = []string{"t3.*"}
			r := launchtemplate.Render(n, of(t, "t3.large", "m5n.24xlarge", "c5.large"), nil)
			want := launchtemplate.Rendering{
				Source: n.Source, Origins: map[string]launchtemplate.Origin{}, Labels: tc.labels,
				Types: append(tc.want, launchtemplate.TypeVerdict{
					Name: "t3.large", Reason: launchtemplate.Excluded, Message: "spec.instanceTypes does not choose it",
				}),
			}
			if diff := cmp.Diff(want, r); diff != "" {
				t.Errorf("rendering (-want +got):\n%s", diff)
			}
		})
	}
}

// Interfaces of a source that EC2 refuses are reported before a launch, with the path of the reference.
func TestInterfacesOfALaunchTemplateThatIsUsedUnchangedAreChecked(t *testing.T) {
	tooMany := `, "NetworkInterfaces": [{"DeviceIndex": 0}, {"DeviceIndex": 1}, {"DeviceIndex": 2}, {"DeviceIndex": 3},
		{"DeviceIndex": 4}]`
	for name, tc := range map[string]struct {
		data string
		want launchtemplate.Problem
	}{
		"no primary interface": {
			`, "NetworkInterfaces": [{"DeviceIndex": 1}]`,
			launchtemplate.Problem{
				Reason: launchtemplate.NoPrimaryInterface, Path: "spec.launchTemplateRef", Message: "no interface is " +
					"declared at card 0 device 0, which every instance must have; add one with networkCardIndex: 0 and " +
					"deviceIndex: 0",
			},
		},
		"a public address with two interfaces": {
			`, "NetworkInterfaces": [{"DeviceIndex": 0, "AssociatePublicIpAddress": true}, {"DeviceIndex": 1}]`,
			launchtemplate.Problem{
				Reason: launchtemplate.PublicIPRequiresSingleInterface, Path: "spec.launchTemplateRef", Message: "the " +
					"interface at card 0 device 0 is to have a public IP address, which EC2 gives only to an instance " +
					"with one interface, and 2 are declared; remove associatePublicIPAddress, or the other interfaces, " +
					"or associate an elastic IP address after launch",
			},
		},
		"prefixes and addresses": {
			`, "NetworkInterfaces": [{"DeviceIndex": 0, "Ipv4PrefixCount": 1, "SecondaryPrivateIpAddressCount": 2}]`,
			launchtemplate.Problem{
				Reason: launchtemplate.AddressFormsExclude, Path: "NetworkInterfaces[0]", Message: "the interface at " +
					"card 0 device 0 has a count of addresses from one layer and a count of prefixes from another, and " +
					"EC2 takes one of them per family; remove one, or set it to null in the override",
			},
		},
		"more interfaces than the types take": {
			tooMany, launchtemplate.Problem{
				Reason: launchtemplate.NoEligibleInstanceType, Path: "spec.networkInterfaces", Message: "none of the 1 " +
					"chosen instance types can carry the interfaces: 1 for TooManyInterfacesOnCard (m5.xlarge: network " +
					"card 0 takes 4 interfaces, and 5 are declared); declare fewer, or choose larger types",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			refusedFor(t, asItIs(t, complete(tc.data)), tc.want)
		})
	}
}

// EC2 launches nothing from a template with one of these members, or only one instance. Fields of EC2's that are legal
// for one interface, and keys of tags that users may write, stay.
func TestMembersOfALaunchTemplateThatIsUsedUnchangedAreChecked(t *testing.T) {
	const ref = "spec.launchTemplateRef."
	const beside, twoInterfaces = `, "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"]}]`,
		`, "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"]%s}, {"DeviceIndex": 1, "Groups": ["sg-1"]}]`
	own := func(member string) string {
		return `, "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"], ` + member + `}]`
	}
	tagged := func(key string) string {
		return `, "TagSpecifications": [{"ResourceType": "network-interface", "Tags": [{"Key": "` + key + `", "Value": "true"}]}]`
	}
	for name, tc := range map[string]struct{ data, want string }{
		"groups of the instance":         {`, "SecurityGroupIds": ["sg-1"]`, ""},
		"groups in both places":          {`, "SecurityGroupIds": ["sg-1"]` + beside, "ForbiddenMember " + ref + "SecurityGroupIds"},
		"named groups beside interfaces": {`, "SecurityGroups": ["default"]` + beside, "ForbiddenMember " + ref + "SecurityGroups"},
		"no groups of the instance":      {`, "SecurityGroupIds": []` + beside, ""},
		"an interface of its own": {
			own(`"NetworkInterfaceId": "eni-1"`), "ForbiddenMember " + ref + "NetworkInterfaces[0].NetworkInterfaceId",
		},
		"an address of its own": {
			own(`"PrivateIpAddress": "10.0.0.9"`), "ForbiddenMember " + ref + "NetworkInterfaces[0].PrivateIpAddress",
		},
		"a slot twice": {
			`, "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"]}, {"DeviceIndex": 0, "Groups": ["sg-1"]}]`,
			"DuplicateSlot " + ref + "NetworkInterfaces[1]",
		},
		"no device index": {
			`, "NetworkInterfaces": [{"Groups": ["sg-1"]}]`, "InvalidInterface " + ref + "NetworkInterfaces[0].DeviceIndex",
		},
		"a public address for one": {own(`"AssociatePublicIpAddress": true`), ""},
		"none for one":             {own(`"AssociatePublicIpAddress": false`), ""},
		"none for two": {
			fmt.Sprintf(twoInterfaces, `, "AssociatePublicIpAddress": false`),
			"PublicIPRequiresSingleInterface " + ref + "NetworkInterfaces[0].AssociatePublicIpAddress",
		},
		"tags of AWS":           {tagged("aws:team"), "InvalidTags " + ref + "TagSpecifications[0].Tags"},
		"a tag for the VPC CNI": {tagged("node.k8s.amazonaws.com/no_manage"), ""},
		"its own type fits":     {`, "InstanceType": "m5.xlarge"`, ""},
		"its own type takes fewer interfaces": {
			`, "InstanceType": "t3.micro", "NetworkInterfaces": [{"DeviceIndex": 0}, {"DeviceIndex": 1}, {"DeviceIndex": 2}]`,
			"NoEligibleInstanceType " + ref + "InstanceType",
		},
		"a subnet that EC2 does not have": {own(`"SubnetId": "subnet-9"`), "NoSubnets NetworkInterfaces"},
		"subnets of two zones": {
			`, "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": "subnet-a"}, {"DeviceIndex": 1, "SubnetId": "subnet-b"}]`,
			"NoCommonZone spec.networkInterfaces",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := asItIs(t, complete(tc.data))
			n.Named = []eni.Subnet{
				{ID: "subnet-a", Zone: "a", VPCID: "v", FreeIPv4: 9}, {ID: "subnet-b", Zone: "b", VPCID: "v", FreeIPv4: 9},
			}
			var got []string
			for _, p := range launchtemplate.Render(n, of(t, "m5.xlarge", "t3.micro"), nil).Problems {
				got = append(got, string(p.Reason)+" "+p.Path)
			}
			want := []string{tc.want}
			if tc.want == "" {
				want = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// The warnings of a rendered template are those of an unchanged one, too.
func TestWarningsAboutALaunchTemplateThatIsUsedUnchanged(t *testing.T) {
	interfaces := func(members string) string { return `, "NetworkInterfaces": [{"DeviceIndex": 0, ` + members + `}]` }
	for name, tc := range map[string]struct{ data, want string }{
		"nothing to warn of": {interfaces(`"Groups": ["sg-1"]`), ""},
		"an interface that is kept": {
			interfaces(`"Groups": ["sg-1"], "DeleteOnTermination": false`),
			"InvalidInterface the interface at card 0 device 0 outlives its instance",
		},
		"no group": {interfaces(`"Description": "x"`), "NoSecurityGroups the interface at card 0 device 0 has no security"},
		"several interfaces in a public subnet": {
			`, "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": "subnet-p", "Groups": ["sg-1"]},
				{"DeviceIndex": 1, "SubnetId": "subnet-p", "Groups": ["sg-1"]}]`,
			"PublicIPRequiresSingleInterface nodes in subnet-p get no public IP address",
		},
		"its own type is not chosen": {
			`, "SecurityGroupIds": ["sg-1"], "InstanceType": "t3.large"`, "NoEligibleInstanceType the launch template launches t3.large",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := asItIs(t, complete(tc.data))
			n.Named = []eni.Subnet{{ID: "subnet-p", Zone: "a", VPCID: "v", FreeIPv4: 9, MapPublicIP: true}}
			n.Types.Include = []string{"m5.*"}
			r := launchtemplate.Render(n, of(t, "m5.xlarge", "t3.large"), nil)
			if len(r.Problems) > 0 {
				t.Fatal(r.Problems)
			}
			switch {
			case tc.want == "":
				if len(r.Warnings) > 0 {
					t.Error(r.Warnings)
				}
			case len(r.Warnings) != 1 || !strings.HasPrefix(string(r.Warnings[0].Reason)+" "+r.Warnings[0].Message, tc.want) ||
				!strings.HasPrefix(r.Warnings[0].Path, "spec.launchTemplateRef"):
				t.Errorf("got %v, want %s", r.Warnings, tc.want)
			}
		})
	}
}

// All problems of an unchanged launch template are reported at once, together with those of the spec.
func TestProblemsOfALaunchTemplateThatIsUsedUnchangedAreReportedTogether(t *testing.T) {
	n := asItIs(t, `{"NetworkInterfaces": [{"DeviceIndex": 1}]}`)
	n.Tags, n.Types.Include = map[string]string{"aws:x": "1"}, []string{"c5.*"}
	want := []launchtemplate.Reason{
		launchtemplate.AutofillOff, launchtemplate.NoEligibleInstanceType, launchtemplate.TemplateIncomplete,
		launchtemplate.NoPrimaryInterface, launchtemplate.InvalidTags,
	}
	got := reasons(launchtemplate.Render(n, of(t, "m5.xlarge"), nil).Problems)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// A source that multieni completes must not choose the instance type. One that is used unchanged may choose it.
func TestMembersOfASourceAreRefusedOnlyIfItIsCompleted(t *testing.T) {
	n := asItIs(t, complete(`, "InstanceType": "m5.xlarge"`))
	refusedFor(t, n)
	n.Source.Autofill, n.Network, n.UserData = true, plain().Network, ""
	refusedFor(t, n, launchtemplate.Problem{
		Reason: launchtemplate.ForbiddenMember, Path: "spec.launchTemplateRef.InstanceType",
		Message: "the node template chooses instance types: use spec.instanceTypes",
	})
}

// Every layer is checked before the merge, and the problems of all of them are reported together, sorted by path.
func TestProblemsOfAllLayersAreReportedTogether(t *testing.T) {
	const twice = ` is declared twice; give each interface a networkCardIndex and deviceIndex of its own`
	n := plain()
	n.Tags, n.Metadata = map[string]string{"aws:x": "1"}, &launchtemplate.MetadataOptions{HTTPTokens: "maybe"}
	n.Interfaces = []launchtemplate.Interface{at(0), at(0)}
	n.Override = document(t, `{"SecurityGroups": ["default"]}`)
	n.Source = autofilled(t, `{"NetworkInterfaces": [{"DeviceIndex": 1}, {"DeviceIndex": 1}]}`)
	var got []string
	for _, p := range launchtemplate.Render(n, of(t, "m5.xlarge"), nil).Problems {
		got = append(got, string(p.Reason)+" "+p.Error())
	}
	want := []string{
		"ForbiddenMember spec.launchTemplateOverride.SecurityGroups: groups by name are for the default VPC; use " +
			"SecurityGroupIds, or spec.securityGroupSelector",
		"DuplicateSlot spec.launchTemplateRef.NetworkInterfaces[1]: card 0 device 1" + twice,
		`InvalidMetadataOptions spec.metadataOptions.httpTokens: EC2 does not know "maybe"; use required or optional`,
		"DuplicateSlot spec.networkInterfaces[1]: card 0 device 0" + twice,
		`InvalidTags spec.tags: tag "aws:x": keys beginning with aws: belong to AWS; choose another key`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
