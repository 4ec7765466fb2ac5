// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
)

// The IDs of smallWorld.
const (
	subnetA     = "subnet-0000000000000000a" // zone a
	subnetA2    = "subnet-000000000000000a2" // zone a, too
	subnetB     = "subnet-0000000000000000b" // zone b
	tinySubnet  = "subnet-000000000000000f0" // zone a, 11 addresses
	bigSubnet   = "subnet-00000000000000b16" // zone a, another VPC
	groupA      = "sg-0000000000000000a"
	groupOther  = "sg-00000000000000b16" // of the other VPC
	instanceA   = "i-0000000000000000a"  // m5.xlarge, zone a: 4 interfaces of 15 addresses
	smallA      = "i-000000000000000a2"  // t3.medium, zone a: 3 interfaces of 6 addresses
	cardsA      = "i-000000000000000a4"  // p4d.24xlarge, zone a: 4 cards of 15 interfaces
	instanceB   = "i-0000000000000000b"  // m5.xlarge, zone b
	balancerENI = "eni-00000000000000e1b"
)

var beginning = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func smallWorld() ec2.World {
	const vpc, otherVPC = "vpc-0000000000000000a", "vpc-00000000000000b16"
	cidr := netip.MustParsePrefix
	return ec2.World{
		Region: "us-east-1",
		AvailabilityZones: []ec2.WorldZone{
			{ZoneName: "us-east-1a", ZoneID: "use1-az1"}, {ZoneName: "us-east-1b", ZoneID: "use1-az2"},
		},
		VPCs: []ec2.WorldVPC{
			{VPCID: vpc, CIDRBlock: cidr("10.0.0.0/16"), IPv6CIDRBlock: cidr("2001:db8::/56")},
			{VPCID: otherVPC, CIDRBlock: cidr("10.1.0.0/16")},
		},
		Subnets: []ec2.WorldSubnet{
			{SubnetID: subnetA, VPCID: vpc, AvailabilityZone: "us-east-1a", CIDRBlock: cidr("10.0.0.0/20"), IPv6CIDRBlock: cidr("2001:db8:0:1::/64")},
			{SubnetID: subnetA2, VPCID: vpc, AvailabilityZone: "us-east-1a", CIDRBlock: cidr("10.0.16.0/24"), Tags: ec2.Tags{"Name": "second"}},
			{SubnetID: tinySubnet, VPCID: vpc, AvailabilityZone: "us-east-1a", CIDRBlock: cidr("10.0.17.0/28")},
			{SubnetID: subnetB, VPCID: vpc, AvailabilityZone: "us-east-1b", CIDRBlock: cidr("10.0.32.0/20")},
			{SubnetID: bigSubnet, VPCID: otherVPC, AvailabilityZone: "us-east-1a", CIDRBlock: cidr("10.1.0.0/16")},
		},
		SecurityGroups: []ec2.WorldSecurityGroup{
			{GroupID: groupA, GroupName: "ours", VPCID: vpc, Tags: ec2.Tags{"network": "multus"}},
			{GroupID: groupOther, GroupName: "others", VPCID: otherVPC},
		},
		NetworkInterfaces: []ec2.WorldInterface{
			{NetworkInterfaceID: balancerENI, SubnetID: subnetA, Description: "ELB app/web/1", RequesterManaged: true},
		},
		Instances: []ec2.WorldInstance{
			{InstanceID: instanceA, InstanceType: "m5.xlarge", SubnetID: subnetA, Name: "a"},
			{InstanceID: smallA, InstanceType: "t3.medium", SubnetID: subnetA},
			{InstanceID: cardsA, InstanceType: "p4d.24xlarge", SubnetID: subnetA},
			{InstanceID: instanceB, InstanceType: "m5.xlarge", SubnetID: subnetB},
		},
	}
}

// start returns a model and a call at its beginning.
func start(tb testing.TB, world ec2.World, behavior ec2.Behavior, faults ...fault.Fault) (*ec2.Model, ec2.Call) {
	tb.Helper()
	set := fault.NewSet(1)
	for _, f := range faults {
		if _, err := set.Add(f, beginning); err != nil {
			tb.Fatal(err)
		}
	}
	m, err := ec2.New(ec2.Options{World: world, Behavior: behavior, Faults: set, Seed: 1, Now: beginning})
	if err != nil {
		tb.Fatal(err)
	}
	return m, ec2.Call{Now: beginning}
}

func tag(key, value string) ec2.Tag { return ec2.Tag{Key: key, Value: &value} }

func create(subnet string) *ec2.CreateNetworkInterfaceInput {
	return &ec2.CreateNetworkInterfaceInput{InterfaceSettings: ec2.InterfaceSettings{SubnetID: subnet}}
}

func attach(eni, instance string, card, device int) *ec2.AttachNetworkInterfaceInput {
	return &ec2.AttachNetworkInterfaceInput{
		NetworkInterfaceID: eni, InstanceID: instance, NetworkCardIndex: &card, DeviceIndex: &device,
	}
}

// codeOf is the code of a refusal, "" for success.
func codeOf(err error) string {
	if refused, ok := errors.AsType[*ec2.Error](err); ok {
		return refused.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// scene is a model under test, with calls that must succeed.
type scene struct {
	testing.TB
	*ec2.Model
	call ec2.Call
}

func play(tb testing.TB, behavior ec2.Behavior, faults ...fault.Fault) *scene {
	tb.Helper()
	m, call := start(tb, smallWorld(), behavior, faults...)
	return &scene{tb, m, call}
}

// wait advances the time.
func (s *scene) wait(d time.Duration) { s.call.Now = s.call.Now.Add(d) }

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) create(subnet string) string {
	s.Helper()
	out, err := s.CreateNetworkInterface(s.call, create(subnet))
	s.must(err)
	return out.NetworkInterface.NetworkInterfaceID
}

func (s *scene) attach(eni, instance string, card, device int) (attachmentID string) {
	s.Helper()
	out, err := s.AttachNetworkInterface(s.call, attach(eni, instance, card, device))
	s.must(err)
	return out.AttachmentID
}

func (s *scene) detach(attachment string, force bool) {
	s.Helper()
	_, err := s.DetachNetworkInterface(s.call, &ec2.DetachNetworkInterfaceInput{AttachmentID: attachment, Force: force})
	s.must(err)
}

// eni returns the true state of an interface, nil if it is deleted.
func (s *scene) eni(id string) *ec2.NetworkInterface {
	for _, eni := range s.State(s.call).NetworkInterfaces {
		if eni.NetworkInterfaceID == id {
			return eni
		}
	}
	return nil
}

func (s *scene) instance(id string) *ec2.Instance {
	for _, instance := range s.State(s.call).Instances {
		if instance.InstanceID == id {
			return instance
		}
	}
	return nil
}

// seen returns an interface as a describe call shows it.
func (s *scene) seen(id string) (*ec2.NetworkInterface, error) {
	out, err := s.DescribeNetworkInterfaces(s.call, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIDs: []string{id}})
	if err != nil {
		return nil, err
	}
	return out.NetworkInterfaces[0], nil
}

// free returns a subnet's number of free addresses.
func (s *scene) free(subnet string) int {
	s.Helper()
	out, err := s.DescribeSubnets(s.call, &ec2.DescribeSubnetsInput{SubnetIDs: []string{subnet}})
	s.must(err)
	return out.Subnets[0].AvailableIPAddressCount
}

// status returns the status of an interface and that of its attachment.
func status(eni *ec2.NetworkInterface) string {
	switch {
	case eni == nil:
		return "gone"
	case eni.Attachment == nil:
		return eni.Status
	default:
		return eni.Status + "/" + eni.Attachment.Status
	}
}

// refusal is a row of a table of errors: a call to a new model that takes no time, and the code of the answer.
type refusal struct {
	want string
	do   func(s *scene) error
}

func refusals(t *testing.T, rows map[string]refusal) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			if got := codeOf(row.do(play(t, ec2.Behavior{}))); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func (s *scene) terminate(id string) error {
	_, err := s.TerminateInstances(s.call, &ec2.InstancesInput{InstanceIDs: []string{id}})
	return err
}
