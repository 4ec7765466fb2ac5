// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// A referenced template and an override have the same checks. Their problems differ in the path.
func TestMembersThatNoLayerOfAUserMaySet(t *testing.T) {
	const address = ": a template is for many instances, and only the first could have it; use a count, or let EC2 choose"
	for name, tc := range map[string]struct {
		layer string
		want  []string
	}{
		"instance types": {`{"InstanceType": "m5.large", "InstanceRequirements": {}}`, []string{
			"ForbiddenMember LAYER.InstanceRequirements: the node template chooses instance types: use spec.instanceTypes",
			"ForbiddenMember LAYER.InstanceType: the node template chooses instance types: use spec.instanceTypes",
		}},
		"groups by name": {`{"SecurityGroups": ["default"]}`, []string{
			"ForbiddenMember LAYER.SecurityGroups: groups by name are for the default VPC; use SecurityGroupIds, or " +
				"spec.securityGroupSelector",
		}},
		"addresses and IDs of one interface": {`{"NetworkInterfaces": [{"DeviceIndex": 0}, {"DeviceIndex": 1,
			"NetworkInterfaceId": "eni-1", "PrivateIpAddress": "10.0.0.9", "PrivateIpAddresses": [{}],
			"Ipv6Addresses": [{}], "Ipv4Prefixes": [{}], "Ipv6Prefixes": [{}]}]}`, []string{
			"ForbiddenMember LAYER.NetworkInterfaces[1].Ipv4Prefixes" + address,
			"ForbiddenMember LAYER.NetworkInterfaces[1].Ipv6Addresses" + address,
			"ForbiddenMember LAYER.NetworkInterfaces[1].Ipv6Prefixes" + address,
			"ForbiddenMember LAYER.NetworkInterfaces[1].NetworkInterfaceId" + address,
			"ForbiddenMember LAYER.NetworkInterfaces[1].PrivateIpAddress" + address,
			"ForbiddenMember LAYER.NetworkInterfaces[1].PrivateIpAddresses" + address,
		}},
		"empty values, as EC2 returns them": {`{"NetworkInterfaces": [{"NetworkInterfaceId": null,
			"PrivateIpAddress": "", "PrivateIpAddresses": [], "Ipv6Addresses": []}]}`, []string{}},
		"a slot twice, once with its card left out": {`{"NetworkInterfaces": [{"DeviceIndex": 0},
			{"DeviceIndex": 1}, {"DeviceIndex": 1, "NetworkCardIndex": 0}]}`, []string{
			"DuplicateSlot LAYER.NetworkInterfaces[2]: card 0 device 1 is declared twice; give each interface a " +
				"networkCardIndex and deviceIndex of its own",
		}},
		"one device on each of two cards": {`{"NetworkInterfaces": [{"DeviceIndex": 0},
			{"DeviceIndex": 1}, {"DeviceIndex": 1, "NetworkCardIndex": 1}]}`, []string{}},
		"a reserved tag of the second resource type": {`{"TagSpecifications": [
			{"ResourceType": "volume", "Tags": [{"Key": "a", "Value": "b"}]},
			{"ResourceType": "instance", "Tags": [{"Key": "aws:x", "Value": "b"}]}]}`, []string{
			`InvalidTags LAYER.TagSpecifications[1].Tags: tag "aws:x": keys beginning with aws: belong to AWS; choose ` +
				"another key",
		}},
	} {
		for path, put := range map[string]func(*launchtemplate.NodeTemplate, launchtemplate.Document){
			"spec.launchTemplateOverride": func(n *launchtemplate.NodeTemplate, d launchtemplate.Document) { n.Override = d },
			"spec.launchTemplateRef": func(n *launchtemplate.NodeTemplate, d launchtemplate.Document) {
				n.Source = &launchtemplate.Source{ID: "lt-1", Autofill: true, Data: d}
			},
		} {
			t.Run(name+" in "+path, func(t *testing.T) {
				n := declaring(at(0), at(1))
				put(&n, document(t, tc.layer))
				want := []string{}
				for _, line := range tc.want {
					want = append(want, strings.ReplaceAll(line, "LAYER", path))
				}
				types := []launchtemplate.InstanceType{sized("m9.large", 4, 4)}
				same(t, "problems", want, textOf(launchtemplate.Render(n, types, nil).Problems))
			})
		}
	}
}

// A referenced template that is used unchanged may set what multieni would choose, if EC2 launches many instances from it.
func TestUnchangedSourceMaySetWhatMultieniWouldChoose(t *testing.T) {
	n := launchtemplate.NodeTemplate{Name: "default", Source: &launchtemplate.Source{Data: document(t, `{
		"ImageId": "ami-7", "UserData": "x", "IamInstanceProfile": {"Name": "nodes"}, "InstanceType": "m5.large",
		"SecurityGroups": ["default"], "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"SnapshotId": "snap-1"}}],
		"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "networking.k8s.aws/x", "Value": "y"}]}]}`)}}
	same(t, "problems", []string{}, textOf(launchtemplate.Render(n, of(t, "m5.large"), nil).Problems))
}

// EC2's limits count characters, and a reserved prefix is reserved in any case of its letters.
func TestTagsThatAreRefused(t *testing.T) {
	reserved := "aws:" + strings.Repeat("k", 125)
	for name, tc := range map[string]struct {
		tags map[string]string
		want []string
	}{
		"no tags":                       {nil, []string{}},
		"key and value at their limits": {map[string]string{strings.Repeat("ü", 128): strings.Repeat("ü", 256)}, []string{}},
		"no value":                      {map[string]string{"k": ""}, []string{}},
		"no key": {map[string]string{"": "v"}, []string{
			`tag "": the key has 0 characters; choose one of 1 to 128`,
		}},
		"a long key": {map[string]string{strings.Repeat("k", 129): "v"}, []string{
			`tag "` + strings.Repeat("k", 129) + `": the key has 129 characters; choose one of 1 to 128`,
		}},
		"a long value": {map[string]string{"k": strings.Repeat("v", 257)}, []string{
			`tag "k": the value has 257 characters; shorten it to 256`,
		}},
		"reserved keys, in their order": {map[string]string{
			"node.k8s.amazonaws.com/no_manage": "true", "networking.k8s.aws/cluster": "x", "AWS:owner": "x",
			"cluster.k8s.amazonaws.com/name": "x",
		}, []string{
			`tag "AWS:owner": keys beginning with aws: belong to AWS; choose another key`,
			`tag "cluster.k8s.amazonaws.com/name": keys beginning with cluster.k8s.amazonaws.com/ belong to the VPC CNI, ` +
				`which would take the interface for its own and delete it; choose another key`,
			`tag "networking.k8s.aws/cluster": keys beginning with networking.k8s.aws/ belong to multieni, which ` +
				`recognises its own by them; choose another key`,
			`tag "node.k8s.amazonaws.com/no_manage": keys beginning with node.k8s.amazonaws.com/ belong to the VPC CNI; ` +
				`choose another key`,
		}},
		"reserved words elsewhere in a key":       {map[string]string{"my-aws:owner": "x", "awsowner": "x"}, []string{}},
		"a reserved word in a value":              {map[string]string{"k": "aws:owner"}, []string{}},
		"keys of Kubernetes that are not ours":    {map[string]string{"kubernetes.io/cluster/blue": "owned"}, []string{}},
		"a key that only begins like one of ours": {map[string]string{"networking.k8s.aws": "x"}, []string{}},
		"a long and reserved key with a long value": {map[string]string{reserved: strings.Repeat("v", 257)}, []string{
			`tag "` + reserved + `": the key has 129 characters; choose one of 1 to 128`,
			`tag "` + reserved + `": the value has 257 characters; shorten it to 256`,
			`tag "` + reserved + `": keys beginning with aws: belong to AWS; choose another key`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var want []launchtemplate.Problem
			for _, message := range tc.want {
				want = append(want, launchtemplate.Problem{Reason: launchtemplate.InvalidTags, Path: "spec.tags", Message: message})
			}
			same(t, "problems", want, launchtemplate.CheckTags(tc.tags, "spec.tags"))
		})
	}
}

// Options of instance metadata are checked before EC2 sees them. Options that are not set are left to the defaults.
func TestMetadataOptionsThatEC2DoesNotHave(t *testing.T) {
	const hops = "is out of range; use 1 to 64"
	for name, tc := range map[string]struct {
		options launchtemplate.MetadataOptions
		want    []string
	}{
		"nothing set": {launchtemplate.MetadataOptions{}, []string{}},
		"all hops":    {launchtemplate.MetadataOptions{HopLimit: 64}, []string{}},
		"a hop too many": {
			launchtemplate.MetadataOptions{HopLimit: 65}, []string{"httpPutResponseHopLimit: a hop limit of 65 " + hops},
		},
		"a negative hop": {
			launchtemplate.MetadataOptions{HopLimit: -1}, []string{"httpPutResponseHopLimit: a hop limit of -1 " + hops},
		},
		"the first words": {
			launchtemplate.MetadataOptions{HTTPEndpoint: "enabled", HTTPTokens: "required", HTTPProtocolIPv6: "enabled"},
			[]string{},
		},
		"the other words": {
			launchtemplate.MetadataOptions{HTTPEndpoint: "disabled", HTTPTokens: "optional", HTTPProtocolIPv6: "disabled"},
			[]string{},
		},
		"words of other options": {launchtemplate.MetadataOptions{
			HTTPEndpoint: "optional", HTTPTokens: "enabled", HTTPProtocolIPv6: "required",
		}, []string{
			`httpEndpoint: EC2 does not know "optional"; use enabled or disabled`,
			`httpProtocolIPv6: EC2 does not know "required"; use enabled or disabled`,
			`httpTokens: EC2 does not know "enabled"; use required or optional`,
		}},
		"letters of another case": {launchtemplate.MetadataOptions{HTTPTokens: "Required"}, []string{
			`httpTokens: EC2 does not know "Required"; use required or optional`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Metadata = &tc.options
			want := []string{}
			for _, line := range tc.want {
				want = append(want, "InvalidMetadataOptions spec.metadataOptions."+line)
			}
			same(t, "problems", want, textOf(launchtemplate.Render(n, of(t, "m5.large"), nil).Problems))
		})
	}
}

// EC2 takes a count of addresses or a count of prefixes per family. Two layers can set one each.
func TestAddressesAndPrefixesOfDifferentLayers(t *testing.T) {
	refused := []string{"AddressFormsExclude NetworkInterfaces[1]: the interface at card 0 device 1 has a count of " +
		"addresses from one layer and a count of prefixes from another, and EC2 takes one of them per family; remove " +
		"one, or set it to null in the override"}
	for name, tc := range map[string]struct {
		v4, v6   int
		override string
		want     []string
	}{
		"IPv4 of both forms":            {1, 0, `"SecondaryPrivateIpAddressCount": 3`, refused},
		"IPv6 of both forms":            {0, 1, `"Ipv6AddressCount": 1`, refused},
		"IPv6 with a primary address":   {0, 1, `"Ipv6AddressCount": 1, "PrimaryIpv6": true`, []string{}},
		"IPv4 prefixes, IPv6 addresses": {1, 0, `"Ipv6AddressCount": 1`, []string{}},
		"IPv6 prefixes, IPv4 addresses": {0, 1, `"SecondaryPrivateIpAddressCount": 3`, []string{}},
		"addresses alone":               {0, 0, `"SecondaryPrivateIpAddressCount": 3, "Ipv6AddressCount": 1`, []string{}},
		"a count of no addresses":       {1, 1, `"SecondaryPrivateIpAddressCount": 0, "Ipv6AddressCount": 0`, []string{}},
		"addresses that an override clears": {
			1, 0, `"SecondaryPrivateIpAddressCount": 3, "Ipv4PrefixCount": null`, []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := declaring(at(0), interfaceIn(0, 1, prefixed(tc.v4, tc.v6)))
			n.Override = document(t, `{"NetworkInterfaces": [{"DeviceIndex": 1, `+tc.override+`}]}`)
			same(t, "problems", tc.want, textOf(launchtemplate.Render(n, of(t, "m5.large"), nil).Problems))
		})
	}
}

// The interfaces of a rendered template are those of all layers together. A name and a management exist only inline.
// EC2 deletes an interface with its instance unless a layer sets otherwise.
func TestInterfacesAreReadFromAllLayers(t *testing.T) {
	yes, no := true, false
	n := declaring(interfaceIn(0, 1, named("n3"), forCNI, prefixed(1, 0)), at(0))
	n.Source = &launchtemplate.Source{ID: "lt-1", Autofill: true, Data: document(t, `{"NetworkInterfaces": [
		{"DeviceIndex": 3, "InterfaceType": "efa", "Description": "theirs", "Groups": ["sg-7"], "Ipv6PrefixCount": 2},
		{"DeviceIndex": 1, "DeleteOnTermination": false, "Groups": ["sg-8", "sg-9"], "AssociateCarrierIpAddress": false}]}`)}
	r := launchtemplate.Render(n, of(t, "m5n.24xlarge"), nil)
	same(t, "problems", []string{}, textOf(r.Problems))
	same(t, "interfaces", []launchtemplate.Interface{
		{
			Slot: eni.Primary, Type: eni.Standard, Groups: []string{"sg-1"}, DeleteOnTermination: true,
			Management: launchtemplate.Unmanaged,
		},
		{
			Name: "n3", Slot: eni.Slot{Device: 1}, Type: eni.Standard, Groups: []string{"sg-8", "sg-9"}, IPv4Prefixes: 1,
			Management: launchtemplate.CNI,
		},
		{
			Slot: eni.Slot{Device: 3}, Type: eni.EFA, Description: "theirs", Groups: []string{"sg-7"}, IPv6Prefixes: 2,
			DeleteOnTermination: true, Management: launchtemplate.Unmanaged,
		},
	}, r.Templates[0].Interfaces)

	single := plain()
	single.Override = document(t, `{"NetworkInterfaces": [{"AssociatePublicIpAddress": false}]}`)
	same(t, "a public address that an override refuses", &no,
		launchtemplate.Render(single, of(t, "m5.large"), nil).Templates[0].Interfaces[0].PublicIP)
	single.Network.Subnets = []eni.Subnet{subnet("subnet-w", wavelength)}
	single.Override = document(t, `{"NetworkInterfaces": [{"AssociateCarrierIpAddress": true}]}`)
	same(t, "a carrier address that an override requests", &yes,
		launchtemplate.Render(single, of(t, "m5.large"), nil).Templates[0].Interfaces[0].CarrierIP)
}
