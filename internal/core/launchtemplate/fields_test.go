// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// TestAFieldBecomesItsMemberOfTheData compares the whole member of EC2's data that comes from each field of the spec.
func TestAFieldBecomesItsMemberOfTheData(t *testing.T) {
	yes, no := true, false
	cases := map[string]struct {
		change func(*launchtemplate.NodeTemplate)
		member string
		want   any
	}{
		"an instance profile by name": {
			func(n *launchtemplate.NodeTemplate) { n.InstanceProfile = "nodes" },
			"IamInstanceProfile", map[string]any{"Name": "nodes"},
		},
		"an instance profile by ARN": {
			func(n *launchtemplate.NodeTemplate) { n.InstanceProfile = "arn:aws:iam::1:instance-profile/nodes" },
			"IamInstanceProfile", map[string]any{"Arn": "arn:aws:iam::1:instance-profile/nodes"},
		},
		"an instance profile whose name only contains arn:": {
			func(n *launchtemplate.NodeTemplate) { n.InstanceProfile = "my-arn:" },
			"IamInstanceProfile", map[string]any{"Name": "my-arn:"},
		},
		"no instance profile": {func(*launchtemplate.NodeTemplate) {}, "IamInstanceProfile", nil},
		"detailed monitoring": {
			func(n *launchtemplate.NodeTemplate) { n.Monitoring = &yes },
			"Monitoring", map[string]any{"Enabled": true},
		},
		"monitoring that is explicitly off": {
			func(n *launchtemplate.NodeTemplate) { n.Monitoring = &no },
			"Monitoring", map[string]any{"Enabled": false},
		},
		"monitoring that EC2 decides": {func(*launchtemplate.NodeTemplate) {}, "Monitoring", nil},
		"no block devices":            {func(*launchtemplate.NodeTemplate) {}, "BlockDeviceMappings", nil},
		"metadata by default: with a session, not from pods": {
			func(*launchtemplate.NodeTemplate) {}, "MetadataOptions",
			map[string]any{"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 1.0},
		},
		"all options of metadata": {
			func(n *launchtemplate.NodeTemplate) {
				n.Metadata = &launchtemplate.MetadataOptions{
					HTTPEndpoint: "disabled", HTTPTokens: "optional", HTTPProtocolIPv6: "enabled", HopLimit: 2,
				}
			},
			"MetadataOptions", map[string]any{
				"HttpEndpoint": "disabled", "HttpTokens": "optional", "HttpProtocolIpv6": "enabled",
				"HttpPutResponseHopLimit": 2.0,
			},
		},
		"one option of metadata, which leaves the others to EC2": {
			func(n *launchtemplate.NodeTemplate) { n.Metadata = &launchtemplate.MetadataOptions{HopLimit: 2} },
			"MetadataOptions", map[string]any{"HttpPutResponseHopLimit": 2.0},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			tc.change(&n)
			if diff := cmp.Diff(tc.want, only(t, n).Data[tc.member]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.member, diff)
			}
		})
	}
}

// A volume has the declared members; EC2 chooses the others. An explicit false is a declaration.
func TestABlockDeviceHasTheDeclaredMembers(t *testing.T) {
	yes, no := true, false
	cases := map[string]struct {
		device launchtemplate.BlockDevice
		want   map[string]any
	}{
		"a device without a volume": {
			launchtemplate.BlockDevice{DeviceName: "/dev/xvdb"}, map[string]any{"DeviceName": "/dev/xvdb"},
		},
		"a volume of EC2's defaults": {
			launchtemplate.BlockDevice{DeviceName: "/dev/xvda", EBS: &launchtemplate.EBS{}},
			map[string]any{"DeviceName": "/dev/xvda", "Ebs": map[string]any{}},
		},
		"a volume with all members": {
			launchtemplate.BlockDevice{DeviceName: "/dev/xvda", EBS: &launchtemplate.EBS{
				DeleteOnTermination: &yes, Encrypted: &yes, SizeGiB: 80, IOPS: 4000, Throughput: 250,
				VolumeType: "gp3", KMSKeyID: "key-1", SnapshotID: "snap-1",
			}},
			map[string]any{"DeviceName": "/dev/xvda", "Ebs": map[string]any{
				"DeleteOnTermination": true, "Encrypted": true, "VolumeSize": 80.0, "Iops": 4000.0,
				"Throughput": 250.0, "VolumeType": "gp3", "KmsKeyId": "key-1", "SnapshotId": "snap-1",
			}},
		},
		"a volume that outlives its instance, without encryption": {
			launchtemplate.BlockDevice{DeviceName: "/dev/xvda", EBS: &launchtemplate.EBS{
				DeleteOnTermination: &no, Encrypted: &no,
			}},
			map[string]any{"DeviceName": "/dev/xvda", "Ebs": map[string]any{
				"DeleteOnTermination": false, "Encrypted": false,
			}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.BlockDevices = []launchtemplate.BlockDevice{tc.device}
			if diff := cmp.Diff([]any{tc.want}, only(t, n).Data["BlockDeviceMappings"]); diff != "" {
				t.Errorf("block devices (-want +got):\n%s", diff)
			}
		})
	}
}

// ENA Express is rendered for types that support it, as EC2 says.
func TestENAExpressOfAnInterface(t *testing.T) {
	for setting, udp := range map[eni.ENAExpress]bool{eni.ENAExpressTCP: false, eni.ENAExpressTCPAndUDP: true} {
		t.Run(string(setting), func(t *testing.T) {
			n := plain()
			n.Interfaces = []launchtemplate.Interface{at(0)}
			n.Interfaces[0].ENAExpress = setting
			kind := sized("m9.x", 2)
			kind.Limits.ENAExpress = true
			r := launchtemplate.Render(n, []launchtemplate.InstanceType{kind}, nil)
			if len(r.Templates) != 1 {
				t.Fatal(r.Problems)
			}
			want := map[string]any{"EnaSrdEnabled": true, "EnaSrdUdpSpecification": map[string]any{"EnaSrdUdpEnabled": udp}}
			if diff := cmp.Diff(want, interfaces(t, r.Templates[0])[0]["EnaSrdSpecification"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Every member of an interface that EC2 would choose by the kind of launch is explicit: slot, type and termination.
func TestAnInterfaceHasTheDeclaredMembers(t *testing.T) {
	yes, no := true, false
	cases := map[string]struct {
		change func(*launchtemplate.Interface)
		want   map[string]any
	}{
		"no type, which is the standard one": {
			func(i *launchtemplate.Interface) { i.Type = "" }, map[string]any{"InterfaceType": "interface"},
		},
		"a description": {
			func(i *launchtemplate.Interface) { i.Description = "n3 of upf" },
			map[string]any{"Description": "n3 of upf"},
		},
		"a name, which EC2 does not know": {
			func(i *launchtemplate.Interface) { i.Name = "n3" }, nil,
		},
		"an interface that outlives its instance": {
			func(i *launchtemplate.Interface) { i.DeleteOnTermination = false },
			map[string]any{"DeleteOnTermination": false},
		},
		"prefixes of both families": {
			func(i *launchtemplate.Interface) { i.IPv4Prefixes, i.IPv6Prefixes = 2, 3 },
			map[string]any{"Ipv4PrefixCount": 2.0, "Ipv6PrefixCount": 3.0},
		},
		"timeouts of connection tracking": {
			func(i *launchtemplate.Interface) {
				i.ConnectionTracking = eni.ConnectionTracking{TCPEstablished: 3600, UDP: 45}
			},
			map[string]any{"ConnectionTrackingSpecification": map[string]any{"TcpEstablishedTimeout": 3600.0, "UdpTimeout": 45.0}},
		},
		"no ENA Express": {
			func(i *launchtemplate.Interface) { i.ENAExpress = eni.ENAExpressNone },
			map[string]any{"EnaSrdSpecification": map[string]any{
				"EnaSrdEnabled": false, "EnaSrdUdpSpecification": map[string]any{"EnaSrdUdpEnabled": false},
			}},
		},
		"a public address": {
			func(i *launchtemplate.Interface) { i.PublicIP = &yes },
			map[string]any{"AssociatePublicIpAddress": true},
		},
		"no public address, although the subnet would assign one": {
			func(i *launchtemplate.Interface) { i.PublicIP = &no },
			map[string]any{"AssociatePublicIpAddress": false},
		},
		"no carrier address, which EC2 refuses outside of Wavelength Zones": {
			func(i *launchtemplate.Interface) { i.CarrierIP = &no }, nil,
		},
		"a carrier address in a Wavelength Zone": {
			func(i *launchtemplate.Interface) {
				i.CarrierIP = &yes
				i.Subnets = []eni.Subnet{subnet("subnet-w", "us-east-1-wl1-bos-wlz-1")}
			},
			map[string]any{"AssociateCarrierIpAddress": true, "SubnetId": "subnet-w"},
		},
		"groups of its own, in the order of the declaration": {
			func(i *launchtemplate.Interface) { i.Groups = []string{"sg-9", "sg-2"} },
			map[string]any{"Groups": []any{"sg-9", "sg-2"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Interfaces = []launchtemplate.Interface{at(0)}
			tc.change(&n.Interfaces[0])
			want := map[string]any{
				"NetworkCardIndex": 0.0, "DeviceIndex": 0.0, "InterfaceType": "interface", "DeleteOnTermination": true,
				"Groups": []any{"sg-1"},
			}
			for member, value := range tc.want {
				want[member] = value
			}
			if diff := cmp.Diff([]map[string]any{want}, interfaces(t, only(t, n))); diff != "" {
				t.Errorf("interfaces (-want +got):\n%s", diff)
			}
		})
	}
}

// All resources of an instance have the tags of the spec, next to the tags that identify them for multieni.
func TestEveryResourceOfALaunchIsTagged(t *testing.T) {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
	n.Tags = map[string]string{"team": "net", "cost-center": "7"}
	template := only(t, n)
	want := map[string]string{
		"team": "net", "cost-center": "7", identity.TagCluster: "blue", identity.TagNodeTemplate: "default",
		identity.TagNodeTemplateUID: "uid-1", identity.TagTemplateHash: template.Hash,
	}
	for _, kind := range []string{"instance", "volume"} {
		if diff := cmp.Diff(want, tagsOf(template, kind)); diff != "" {
			t.Errorf("tags of the %s (-want +got):\n%s", kind, diff)
		}
	}
	want[identity.TagNoManage] = "true" // The VPC CNI reads this tag on interfaces alone.
	if diff := cmp.Diff(want, tagsOf(template, "network-interface")); diff != "" {
		t.Errorf("tags of the network-interface (-want +got):\n%s", diff)
	}
	if specs := template.Data["TagSpecifications"].([]any); len(specs) != 3 {
		t.Errorf("%d tag specifications, want one for each of 3 kinds", len(specs))
	}
	if diff := cmp.Diff(map[string]string{"team": "net", "cost-center": "7"}, n.Tags); diff != "" {
		t.Errorf("Render changed the tags of the declaration (-before +after):\n%s", diff)
	}
}

// EC2 keeps the order of tags, so that an unsorted list would publish another version each time.
func TestTagsAreSortedByKey(t *testing.T) {
	n := plain()
	n.Tags = map[string]string{"z": "1", "a": "2", "m": "3"}
	spec := only(t, n).Data["TagSpecifications"].([]any)[1].(map[string]any)
	var keys []string
	for _, tag := range spec["Tags"].([]any) {
		keys = append(keys, tag.(map[string]any)["Key"].(string))
	}
	want := []string{
		"a", "m", identity.TagCluster, identity.TagNodeTemplate, identity.TagNodeTemplateUID, identity.TagTemplateHash, "z",
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

// An override overrides all other layers, tags included: the launched resource has the tag of the override.
func TestATagOfALaterLayerWins(t *testing.T) {
	const override = `{"TagSpecifications": [
		{"ResourceType": "volume", "Tags": [{"Key": "team", "Value": "storage"}, {"Key": "backup", "Value": "daily"}]}]}`
	n := plain()
	n.Tags, n.Override = map[string]string{"team": "net"}, document(t, override)
	r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	ours := map[string]string{
		identity.TagCluster: "blue", identity.TagNodeTemplate: "default", identity.TagNodeTemplateUID: "uid-1",
		identity.TagTemplateHash: r.Templates[0].Hash,
	}
	for kind, more := range map[string]map[string]string{
		"volume": {"team": "storage", "backup": "daily"}, "instance": {"team": "net"},
	} {
		want := map[string]string{}
		for _, tags := range []map[string]string{ours, more} {
			for key, value := range tags {
				want[key] = value
			}
		}
		if diff := cmp.Diff(want, tagsOf(r.Templates[0], kind)); diff != "" {
			t.Errorf("tags of the %s (-want +got):\n%s", kind, diff)
		}
	}
	want := []launchtemplate.Shadow{{
		Path: "TagSpecifications[volume].Tags[team]", By: launchtemplate.FromOverride, Of: launchtemplate.FromInline,
	}}
	if diff := cmp.Diff(want, r.Shadows); diff != "" {
		t.Errorf("shadows (-want +got):\n%s", diff)
	}
	for path, want := range map[string]launchtemplate.Origin{
		"TagSpecifications[volume].Tags[team]":   launchtemplate.FromOverride,
		"TagSpecifications[volume].Tags[backup]": launchtemplate.FromOverride,
		"TagSpecifications[instance].Tags[team]": launchtemplate.FromInline,
	} {
		if got := r.Origins[path]; got != want {
			t.Errorf("the origin of %s is %q, want %q", path, got, want)
		}
	}
}
