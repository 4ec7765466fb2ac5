// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
)

func TestCreateNetworkInterface(t *testing.T) {
	s := play(t, ec2.Behavior{})
	in := create(subnetA2)
	in.Groups, in.Description = []string{groupA}, "one of ours"
	in.TagSpecifications = []ec2.TagSpecification{{ResourceType: "network-interface", Tags: []ec2.Tag{tag("team", "red")}}}
	in.SecondaryPrivateIPAddressCount = new(1)
	before := s.free(subnetA2)
	out, err := s.CreateNetworkInterface(s.call, in)
	s.must(err)

	if out.NetworkInterface.Status != ec2.StatusPending {
		t.Errorf("the answer says %s, want pending", out.NetworkInterface.Status)
	}
	got := *s.eni(out.NetworkInterface.NetworkInterfaceID)
	got.NetworkInterfaceID, got.MACAddress = "", ""
	want := ec2.NetworkInterface{
		SubnetID: subnetA2, VPCID: "vpc-0000000000000000a", AvailabilityZone: "us-east-1a", AvailabilityZoneID: "use1-az1",
		InterfaceType: "interface", Description: "one of ours", Status: ec2.StatusAvailable,
		PrivateIPAddress: netip.MustParseAddr("10.0.16.4"), PrivateDNSName: "ip-10-0-16-4.ec2.internal",
		PrivateIPAddresses: []ec2.PrivateIPAddress{
			{PrivateIPAddress: netip.MustParseAddr("10.0.16.4"), PrivateDNSName: "ip-10-0-16-4.ec2.internal", Primary: true},
			{PrivateIPAddress: netip.MustParseAddr("10.0.16.5"), PrivateDNSName: "ip-10-0-16-5.ec2.internal"},
		},
		SourceDestCheck: true, Groups: []ec2.GroupIdentifier{{GroupID: groupA, GroupName: "ours"}},
		OwnerID: "123456789012", Tags: ec2.Tags{"team": "red"},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("interface (-want +got):\n%s", diff)
	}
	if taken := before - s.free(subnetA2); taken != 2 {
		t.Errorf("%d addresses taken, want 2", taken)
	}
}

func TestDefaultGroup(t *testing.T) {
	s := play(t, ec2.Behavior{})
	if got := s.eni(s.create(subnetA)).Groups; len(got) != 1 || got[0].GroupName != "default" {
		t.Errorf("groups %v, want the default group of the VPC", got)
	}
}

func TestCreateNetworkInterfaceRefusals(t *testing.T) {
	rows := map[string]refusal{}
	for name, row := range map[string]struct {
		want   string
		change func(*ec2.CreateNetworkInterfaceInput)
	}{
		"no subnet":          {"MissingParameter", func(in *ec2.CreateNetworkInterfaceInput) { in.SubnetID = "" }},
		"unknown subnet":     {"InvalidSubnetID.NotFound", func(in *ec2.CreateNetworkInterfaceInput) { in.SubnetID = "subnet-0000000000000dead" }},
		"no subnet's ID":     {"InvalidSubnetID.Malformed", func(in *ec2.CreateNetworkInterfaceInput) { in.SubnetID = "subnet-0000" }},
		"unknown group":      {"InvalidSecurityGroupID.NotFound", func(in *ec2.CreateNetworkInterfaceInput) { in.Groups = []string{"sg-0000000000000dead"} }},
		"no group's ID":      {"InvalidSecurityGroupId.Malformed", func(in *ec2.CreateNetworkInterfaceInput) { in.Groups = []string{"sg-1"} }},
		"a token of 65":      {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) { in.ClientToken = strings.Repeat("t", 65) }},
		"a token with ü":     {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) { in.ClientToken = "ü" }},
		"group of other VPC": {"InvalidParameter", func(in *ec2.CreateNetworkInterfaceInput) { in.Groups = []string{groupOther} }},
		"six groups": {"SecurityGroupsPerInterfaceLimitExceeded", func(in *ec2.CreateNetworkInterfaceInput) {
			in.Groups = slices.Repeat([]string{groupA}, 6)
		}},
		"unknown type": {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) { in.InterfaceType = "quantum" }},
		"trunk":        {"UnknownParameter", func(in *ec2.CreateNetworkInterfaceInput) { in.InterfaceType = "trunk" }},
		"EFA-only addresses": {"InvalidParameterCombination", func(in *ec2.CreateNetworkInterfaceInput) {
			in.InterfaceType, in.PrivateIPAddress = "efa-only", "10.0.0.9"
		}},
		"reserved address": {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) { in.PrivateIPAddress = "10.0.0.2" }},
		"foreign address":  {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) { in.PrivateIPAddress = "10.9.0.9" }},
		"address in use":   {"InvalidIPAddress.InUse", func(in *ec2.CreateNetworkInterfaceInput) { in.PrivateIPAddress = "10.0.0.4" }},
		"counted and prefix": {"InvalidParameterCombination", func(in *ec2.CreateNetworkInterfaceInput) {
			in.SecondaryPrivateIPAddressCount, in.IPv4PrefixCount = new(1), new(1)
		}},
		"IPv6 where there is none": {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) {
			in.SubnetID, in.IPv6AddressCount = subnetA2, new(1)
		}},
		"fragmented subnet": {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) {
			in.SubnetID, in.IPv4PrefixCount = tinySubnet, new(1)
		}},
		"too many secondaries": {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) {
			in.SubnetID, in.SecondaryPrivateIPAddressCount = tinySubnet, new(11)
		}},
		"reserved tag": {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) {
			in.TagSpecifications = []ec2.TagSpecification{{ResourceType: "network-interface", Tags: []ec2.Tag{tag("aws:x", "")}}}
		}},
		"tags for another type": {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) {
			in.TagSpecifications = []ec2.TagSpecification{{ResourceType: "instance", Tags: []ec2.Tag{tag("x", "")}}}
		}},
		"dry run": {"DryRunOperation", func(in *ec2.CreateNetworkInterfaceInput) { in.DryRun = true }},
	} {
		rows[name] = refusal{row.want, func(s *scene) error {
			in := create(subnetA)
			row.change(in)
			before := len(s.State(s.call).NetworkInterfaces)
			free := s.free(subnetA) + s.free(subnetA2) + s.free(tinySubnet)
			_, err := s.CreateNetworkInterface(s.call, in)
			if len(s.State(s.call).NetworkInterfaces) != before || s.free(subnetA)+s.free(subnetA2)+s.free(tinySubnet) != free {
				s.Error("a refused call left something behind")
			}
			return err
		}}
	}
	refusals(t, rows)
}

func TestSubnetFillsUp(t *testing.T) {
	s := play(t, ec2.Behavior{})
	var last string
	for range 11 {
		last = s.create(tinySubnet)
	}
	if _, err := s.CreateNetworkInterface(s.call, create(tinySubnet)); codeOf(err) != "InsufficientFreeAddressesInSubnet" {
		t.Errorf("the 12th of 11 addresses: %v", err)
	}
	_, err := s.DeleteNetworkInterface(s.call, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceID: last})
	s.must(err)
	s.create(tinySubnet)
}

func TestQuota(t *testing.T) {
	world := smallWorld()
	world.Quotas.NetworkInterfaces = 6 // the primaries and the balancer's are 5
	m, call := start(t, world, ec2.Behavior{})
	_, first := m.CreateNetworkInterface(call, create(subnetA))
	_, second := m.CreateNetworkInterface(call, create(subnetA))
	if codeOf(first) != "" || codeOf(second) != "NetworkInterfaceLimitExceeded" {
		t.Errorf("got %v and %v", first, second)
	}
}

func TestClientToken(t *testing.T) {
	withToken := func(description string) *ec2.CreateNetworkInterfaceInput {
		in := create(subnetA)
		in.ClientToken, in.Description = "token", description
		return in
	}
	s := play(t, ec2.Behavior{})
	first, err := s.CreateNetworkInterface(s.call, withToken("x"))
	s.must(err)
	id := first.NetworkInterface.NetworkInterfaceID
	s.attach(id, instanceA, 0, 1)
	again, err := s.CreateNetworkInterface(s.call, withToken("x"))
	s.must(err)
	if again.NetworkInterface.NetworkInterfaceID != id || status(again.NetworkInterface) != "in-use/attached" {
		t.Errorf("the same token gave %s (%s), want %s as it is now", again.NetworkInterface.NetworkInterfaceID, status(again.NetworkInterface), id)
	}
	if _, err := s.CreateNetworkInterface(s.call, withToken("y")); codeOf(err) != "IdempotentParameterMismatch" {
		t.Errorf("other parameters: %v", err)
	}
	s.wait(25 * time.Hour)
	if _, err := s.CreateNetworkInterface(s.call, withToken("y")); err != nil {
		t.Errorf("after a day the token should be forgotten: %v", err)
	}
}

func TestClientTokenAfterDelete(t *testing.T) {
	for name, forget := range map[string]bool{"burnt": false, "forgotten": true} {
		t.Run(name, func(t *testing.T) {
			s := play(t, ec2.Behavior{ForgetTokenOnDelete: forget})
			in := create(subnetA)
			in.ClientToken = "token"
			out, err := s.CreateNetworkInterface(s.call, in)
			s.must(err)
			_, err = s.DeleteNetworkInterface(s.call, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceID: out.NetworkInterface.NetworkInterfaceID})
			s.must(err)
			_, err = s.CreateNetworkInterface(s.call, in)
			if refused := codeOf(err) == "IdempotentParameterMismatch"; refused == forget {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDeleteNetworkInterfaceRefusals(t *testing.T) {
	remove := func(s *scene, id string) error {
		_, err := s.DeleteNetworkInterface(s.call, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceID: id})
		return err
	}
	refusals(t, map[string]refusal{
		"no ID":     {"MissingParameter", func(s *scene) error { return remove(s, "") }},
		"malformed": {"InvalidNetworkInterfaceId.Malformed", func(s *scene) error { return remove(s, "eni-1") }},
		"unknown":   {"InvalidNetworkInterfaceID.NotFound", func(s *scene) error { return remove(s, "eni-0000000000000dead") }},
		"in use": {"InvalidParameterValue", func(s *scene) error {
			id := s.create(subnetA)
			s.attach(id, instanceA, 0, 1)
			return remove(s, id)
		}},
		"twice": {"InvalidNetworkInterfaceID.NotFound", func(s *scene) error {
			id := s.create(subnetA)
			s.must(remove(s, id))
			return remove(s, id)
		}},
		"a service's": {"OperationNotPermitted", func(s *scene) error { return remove(s, balancerENI) }},
	})
}

func TestFaultsOfCreation(t *testing.T) {
	for name, row := range map[string]struct {
		fault fault.Fault
		want  string
	}{
		"quota":       {fault.Fault{Kind: fault.Quota}, "NetworkInterfaceLimitExceeded"},
		"subnet full": {fault.Fault{Kind: fault.SubnetFull, Resource: subnetA}, "InsufficientFreeAddressesInSubnet"},
	} {
		t.Run(name, func(t *testing.T) {
			row.fault.Count = 1
			s := play(t, ec2.Behavior{}, row.fault)
			_, first := s.CreateNetworkInterface(s.call, create(subnetA))
			_, second := s.CreateNetworkInterface(s.call, create(subnetA))
			if codeOf(first) != row.want || second != nil {
				t.Errorf("got %v, then %v", first, second)
			}
		})
	}
}

func TestHideNew(t *testing.T) {
	s := play(t, ec2.Behavior{}, fault.Fault{Kind: fault.HideNew, Age: time.Minute, Count: 1})
	id := s.create(subnetA)
	_, seen := s.seen(id)
	_, attached := s.AttachNetworkInterface(s.call, attach(id, instanceA, 0, 1))
	if codeOf(seen) != "InvalidNetworkInterfaceID.NotFound" || codeOf(attached) != "InvalidNetworkInterfaceID.NotFound" {
		t.Errorf("hidden: describe %v, attach %v", seen, attached)
	}
	s.wait(time.Minute)
	if _, err := s.seen(id); err != nil {
		t.Errorf("after a minute: %v", err)
	}
}

func TestForgetToken(t *testing.T) {
	s := play(t, ec2.Behavior{}, fault.Fault{Kind: fault.ForgetToken})
	in := create(subnetA)
	in.ClientToken = "token"
	first, err := s.CreateNetworkInterface(s.call, in)
	s.must(err)
	second, err := s.CreateNetworkInterface(s.call, in)
	s.must(err)
	if first.NetworkInterface.NetworkInterfaceID == second.NetworkInterface.NetworkInterfaceID {
		t.Error("the token was not forgotten")
	}
}
