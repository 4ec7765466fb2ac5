// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
)

// The account of all tests: one VPC in two zones, each with a subnet for the nodes, a blue and a green one.
const (
	region = "us-east-1"
	vpcID  = "vpc-00000000000000001"
	group  = "sg-00000000000000001"
)

var zones = []string{"us-east-1a", "us-east-1b"}

// subnet returns the ID of a zone's nodes (0), blue (1) or green (2) subnet.
func subnet(zone, colour int) string { return fmt.Sprintf("subnet-0000000000000%d00%d", zone, colour) }

// fleet is the account with a fleet of instances for each prefix, named PREFIX-0, PREFIX-1 and so on, in the zones by
// turns. An m5.xlarge supports three interfaces in addition to its primary one.
func fleet(prefixes ...string) awssim.World {
	world := awssim.World{World: ec2.World{
		Region:         region,
		VPCs:           []ec2.WorldVPC{{VPCID: vpcID, CIDRBlock: netip.MustParsePrefix("10.0.0.0/16")}},
		SecurityGroups: []ec2.WorldSecurityGroup{{GroupID: group, GroupName: "ours", VPCID: vpcID}},
	}}
	for z, zone := range zones {
		world.AvailabilityZones = append(world.AvailabilityZones, ec2.WorldZone{ZoneName: zone, ZoneID: fmt.Sprintf("use1-az%d", z)})
		for colour := range 3 {
			world.Subnets = append(world.Subnets, ec2.WorldSubnet{
				SubnetID: subnet(z, colour), VPCID: vpcID, AvailabilityZone: zone,
				CIDRBlock: netip.MustParsePrefix(fmt.Sprintf("10.0.%d.0/19", 32*(3*z+colour))),
			})
		}
	}
	for p, prefix := range prefixes {
		for n := range fleetSize {
			world.Instances = append(world.Instances, ec2.WorldInstance{
				InstanceID: instanceID(p, n), Name: nodeName(prefix, n),
				InstanceType: "m5.xlarge", AvailabilityZone: zones[n%2],
			})
		}
	}
	return world
}

// fleetSize is the number of instances of a fleet.
const fleetSize = 8

func instanceID(fleet, n int) string { return fmt.Sprintf("i-0000000000000%d0%02d", fleet, n) }

func nodeName(prefix string, n int) string { return fmt.Sprintf("%s-%d", prefix, n) }

// names returns the names of some nodes of a fleet.
func names(prefix string, from, to int) []string {
	var all []string
	for n := from; n < to; n++ {
		all = append(all, nodeName(prefix, n))
	}
	return all
}

// label is the label of nodes that must have interfaces.
const label = "hostile"

// both asks for a blue and a green interface, at devices 1 and 2.
func both() *v1alpha1.NodeENI {
	return &v1alpha1.NodeENI{
		ObjectMeta: metav1.ObjectMeta{Name: "both"},
		Spec: v1alpha1.NodeENISpec{
			NodeSelector:     map[string]v1alpha1.LabelValue{label: "on"},
			SubnetIDs:        []string{subnet(0, 1), subnet(0, 2), subnet(1, 1), subnet(1, 2)},
			SecurityGroupIDs: []string{group},
			DeviceIndex:      1,
		},
	}
}

// third asks for one more blue interface, at device 3.
func third() *v1alpha1.NodeENI {
	nodeENI := both()
	nodeENI.Name = "third"
	nodeENI.Spec.SubnetIDs = []string{subnet(0, 1), subnet(1, 1)}
	nodeENI.Spec.DeviceIndex = 3
	return nodeENI
}

// wanted lists the interfaces that the NodeENIs ask for on nodes of a fleet; if none is given, those of both.
func wanted(nodes []string, nodeENIs ...*v1alpha1.NodeENI) []string {
	if len(nodeENIs) == 0 {
		nodeENIs = []*v1alpha1.NodeENI{both()}
	}
	var lines []string
	for _, node := range nodes {
		zone := int(node[len(node)-1]-'0') % 2
		for _, nodeENI := range nodeENIs {
			device := int(nodeENI.Spec.DeviceIndex)
			for colour := range 3 {
				if !slices.Contains(nodeENI.Spec.SubnetIDs, subnet(zone, colour)) {
					continue
				}
				lines = append(lines, line(node, subnet(zone, colour), nodeENI.Name, ec2.Attachment{DeviceIndex: device, Status: ec2.Attached, DeleteOnTermination: true}))
				device++
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func line(node, subnetID, nodeENI string, a ec2.Attachment) string {
	return fmt.Sprintf("%s device %d: %s for %s, %s, delete on termination %t", node, a.DeviceIndex, subnetID, nodeENI, a.Status, a.DeleteOnTermination)
}

// held lists a cluster's interfaces in the true state of EC2.
func held(state ec2.State, clusterName string) []string {
	nodes := map[string]string{}
	for _, instance := range state.Instances {
		nodes[instance.InstanceID] = instance.Tags[identity.TagName]
	}
	lines := []string{}
	for _, eni := range state.NetworkInterfaces {
		if eni.Tags[identity.TagCluster] != clusterName {
			continue
		}
		text := fmt.Sprintf("%s: %s for %s, %s", eni.Tags[identity.TagNode], eni.SubnetID, eni.Tags[identity.TagNodeENI], eni.Status)
		if a := eni.Attachment; a != nil {
			text = line(nodes[a.InstanceID], eni.SubnetID, eni.Tags[identity.TagNodeENI], *a)
		}
		lines = append(lines, text)
	}
	slices.Sort(lines)
	return lines
}
