// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"testing"

	"github.com/multieni/multieni/awssim/ec2"
)

func given(addresses ...string) (specs []ec2.PrivateIPAddressSpecification) {
	for i, address := range addresses {
		specs = append(specs, ec2.PrivateIPAddressSpecification{PrivateIPAddress: address, Primary: i == 0})
	}
	return specs
}

func TestGivenAddresses(t *testing.T) {
	s := play(t, ec2.Behavior{})
	in := create(subnetA)
	in.PrivateIPAddresses = given("10.0.1.1", "10.0.1.2")
	in.IPv6Addresses = []ec2.IPv6AddressSpecification{{IPv6Address: "2001:db8:0:1::99"}}
	first, err := s.CreateNetworkInterface(s.call, in)
	s.must(err)
	in = create(subnetA)
	in.IPv4Prefixes = []ec2.IPv4PrefixSpecification{{IPv4Prefix: "10.0.2.16/28"}}
	in.IPv6Prefixes = []ec2.IPv6PrefixSpecification{{IPv6Prefix: "2001:db8:0:1:7::/80"}}
	second, err := s.CreateNetworkInterface(s.call, in)
	s.must(err)
	a, b := first.NetworkInterface, second.NetworkInterface
	if a.PrivateIPAddress.String() != "10.0.1.1" || len(a.PrivateIPAddresses) != 2 || a.IPv6Address.String() != "2001:db8:0:1::99" {
		t.Errorf("addresses %+v, %s", a.PrivateIPAddresses, a.IPv6Address)
	}
	if b.IPv4Prefixes[0].IPv4Prefix.String() != "10.0.2.16/28" || b.IPv6Prefixes[0].IPv6Prefix.String() != "2001:db8:0:1:7::/80" {
		t.Errorf("prefixes %v, %v", b.IPv4Prefixes, b.IPv6Prefixes)
	}
}

func TestGivenAddressesRefusals(t *testing.T) {
	rows := map[string]refusal{}
	for name, row := range map[string]struct {
		want   string
		change func(*ec2.CreateNetworkInterfaceInput)
	}{
		"two primaries": {"InvalidParameterCombination", func(in *ec2.CreateNetworkInterfaceInput) {
			in.PrivateIPAddress, in.PrivateIPAddresses = "10.0.1.5", given("10.0.1.6")
		}},
		"an address twice":       {"InvalidIPAddress.InUse", func(in *ec2.CreateNetworkInterfaceInput) { in.PrivateIPAddresses = given("10.0.1.5", "10.0.1.5") }},
		"an address of a prefix": {"InvalidIPAddress.InUse", func(in *ec2.CreateNetworkInterfaceInput) { in.PrivateIPAddress = "10.0.2.17" }},
		"a prefix with an address": {"InvalidIPAddress.InUse", func(in *ec2.CreateNetworkInterfaceInput) {
			in.IPv4Prefixes = []ec2.IPv4PrefixSpecification{{IPv4Prefix: "10.0.1.0/28"}}
		}},
		"a prefix of another size": {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) {
			in.IPv4Prefixes = []ec2.IPv4PrefixSpecification{{IPv4Prefix: "10.0.3.0/27"}}
		}},
		"an IPv6 address in use": {"InvalidIPAddress.InUse", func(in *ec2.CreateNetworkInterfaceInput) {
			in.IPv6Addresses = []ec2.IPv6AddressSpecification{{IPv6Address: "2001:db8:0:1::99"}}
		}},
		"an IPv6 address of a prefix": {"InvalidIPAddress.InUse", func(in *ec2.CreateNetworkInterfaceInput) {
			in.IPv6Addresses = []ec2.IPv6AddressSpecification{{IPv6Address: "2001:db8:0:1:7::1"}}
		}},
		"an IPv6 prefix in use": {"InvalidIPAddress.InUse", func(in *ec2.CreateNetworkInterfaceInput) {
			in.IPv6Prefixes = []ec2.IPv6PrefixSpecification{{IPv6Prefix: "2001:db8:0:1:7::/80"}}
		}},
		"an IPv6 prefix with an address": {"InvalidIPAddress.InUse", func(in *ec2.CreateNetworkInterfaceInput) {
			in.IPv6Prefixes = []ec2.IPv6PrefixSpecification{{IPv6Prefix: "2001:db8:0:1::/80"}}
		}},
		"an IPv6 address elsewhere": {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) {
			in.IPv6Addresses = []ec2.IPv6AddressSpecification{{IPv6Address: "2001:db8:9::1"}}
		}},
		"a primary IPv6 address": {"UnknownParameter", func(in *ec2.CreateNetworkInterfaceInput) {
			in.IPv6Addresses = []ec2.IPv6AddressSpecification{{IPv6Address: "2001:db8:0:1::5", IsPrimaryIPv6: true}}
		}},
		"a negative count": {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) { in.IPv6PrefixCount = new(-1) }},
		"dry run without room": {"InvalidParameterValue", func(in *ec2.CreateNetworkInterfaceInput) {
			in.SubnetID, in.SecondaryPrivateIPAddressCount, in.DryRun = tinySubnet, new(11), true
		}},
	} {
		rows[name] = refusal{row.want, func(s *scene) error {
			taken := create(subnetA)
			taken.PrivateIPAddresses = given("10.0.1.1", "10.0.1.2")
			taken.IPv6Addresses = []ec2.IPv6AddressSpecification{{IPv6Address: "2001:db8:0:1::99"}}
			_, err := s.CreateNetworkInterface(s.call, taken)
			s.must(err)
			taken = create(subnetA)
			taken.IPv4Prefixes = []ec2.IPv4PrefixSpecification{{IPv4Prefix: "10.0.2.16/28"}}
			taken.IPv6Prefixes = []ec2.IPv6PrefixSpecification{{IPv6Prefix: "2001:db8:0:1:7::/80"}}
			_, err = s.CreateNetworkInterface(s.call, taken)
			s.must(err)
			free := s.free(subnetA)
			in := create(subnetA)
			row.change(in)
			_, err = s.CreateNetworkInterface(s.call, in)
			if s.free(subnetA) != free {
				s.Error("a refused call took addresses")
			}
			return err
		}}
	}
	refusals(t, rows)
}

func TestRefusedReassignmentMovesNothing(t *testing.T) {
	s := play(t, ec2.Behavior{})
	from, to := s.create(subnetA), s.create(subnetA)
	_, err := s.AssignPrivateIPAddresses(s.call, &ec2.AssignPrivateIPAddressesInput{NetworkInterfaceID: from, PrivateIPAddresses: []string{"10.0.1.1"}})
	s.must(err)
	primary := s.eni(from).PrivateIPAddress.String()
	_, err = s.AssignPrivateIPAddresses(s.call, &ec2.AssignPrivateIPAddressesInput{
		NetworkInterfaceID: to, PrivateIPAddresses: []string{"10.0.1.1", primary}, AllowReassignment: true,
	})
	if codeOf(err) != "InvalidParameterValue" {
		t.Errorf("a primary address moved: %v", err)
	}
	in := create(subnetA)
	in.PrivateIPAddress = "10.0.1.1"
	if _, err := s.CreateNetworkInterface(s.call, in); codeOf(err) != "InvalidIPAddress.InUse" || len(s.eni(from).PrivateIPAddresses) != 2 {
		t.Errorf("the address was not kept: %v, %+v", err, s.eni(from).PrivateIPAddresses)
	}
}

func TestElasticFabricAdapters(t *testing.T) {
	efa := func(s *scene) string {
		in := create(subnetA)
		in.InterfaceType = "efa"
		out, err := s.CreateNetworkInterface(s.call, in)
		s.must(err)
		return out.NetworkInterface.NetworkInterfaceID
	}
	s := play(t, ec2.Behavior{})
	_, err := s.StopInstances(s.call, &ec2.StopInstancesInput{InstancesInput: ec2.InstancesInput{InstanceIDs: []string{cardsA, instanceA}}})
	s.must(err)
	for card := range 4 { // as many as a p4d supports
		s.attach(efa(s), cardsA, card, 1)
	}
	if _, err := s.AttachNetworkInterface(s.call, attach(efa(s), cardsA, 0, 2)); codeOf(err) != "AttachmentLimitExceeded" {
		t.Errorf("the fifth: %v", err)
	}
	if _, err := s.AttachNetworkInterface(s.call, attach(efa(s), instanceA, 0, 1)); codeOf(err) != "UnsupportedOperation" {
		t.Errorf("on a type without: %v", err)
	}
}

func TestPrefixesWithTagsFail(t *testing.T) {
	s := play(t, ec2.Behavior{PrefixesWithTagsFail: true})
	in := create(subnetA)
	in.IPv4PrefixCount = new(1)
	in.TagSpecifications = []ec2.TagSpecification{{ResourceType: "network-interface", Tags: []ec2.Tag{tag("a", "b")}}}
	if _, err := s.CreateNetworkInterface(s.call, in); codeOf(err) != "InternalError" {
		t.Errorf("got %v", err)
	}
}
