// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"net/netip"
	"testing"

	"github.com/multieni/multieni/awssim/ec2"
)

const nativeSubnet = "subnet-00000000000000006" // zone a, IPv6-only

// playIPv6Only has the small world with an IPv6-only subnet.
func playIPv6Only(t *testing.T) *scene {
	t.Helper()
	world := smallWorld()
	world.Subnets = append(world.Subnets, ec2.WorldSubnet{
		SubnetID: nativeSubnet, VPCID: world.Subnets[0].VPCID, AvailabilityZone: "us-east-1a",
		IPv6CIDRBlock: netip.MustParsePrefix("2001:db8:0:6::/64"), IPv6Native: true,
	})
	m, call := start(t, world, ec2.Behavior{})
	return &scene{t, m, call}
}

func TestAnIPv6OnlySubnetHasNoIPv4Range(t *testing.T) {
	s := playIPv6Only(t)
	out, err := s.DescribeSubnets(s.call, &ec2.DescribeSubnetsInput{SubnetIDs: []string{nativeSubnet}})
	s.must(err)
	if got := out.Subnets[0]; got.CIDRBlock.IsValid() || !got.IPv6Native || !got.AssignIPv6AddressOnCreation || got.AvailableIPAddressCount != 0 {
		t.Errorf("subnet %+v", got)
	}
}

// EC2 gives an interface of an IPv6-only subnet an IPv6 address in place of a primary IPv4 address.
func TestAnInterfaceInAnIPv6OnlySubnet(t *testing.T) {
	one, two := 1, 2
	prefixed := create(nativeSubnet)
	prefixed.IPv6PrefixCount = &one
	asked := create(nativeSubnet)
	asked.IPv6AddressCount = &two
	for name, tc := range map[string]struct {
		in                  *ec2.CreateNetworkInterfaceInput
		addresses, prefixes int
	}{
		"without a request":  {create(nativeSubnet), 1, 0},
		"with two addresses": {asked, 2, 0},
		"with a prefix":      {prefixed, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := playIPv6Only(t)
			out, err := s.CreateNetworkInterface(s.call, tc.in)
			s.must(err)
			eni := out.NetworkInterface
			if eni.PrivateIPAddress.IsValid() || len(eni.PrivateIPAddresses) > 0 {
				t.Errorf("it has IPv4: %v", eni.PrivateIPAddresses)
			}
			if len(eni.IPv6Addresses) != tc.addresses || len(eni.IPv6Prefixes) != tc.prefixes {
				t.Errorf("IPv6 addresses %v, prefixes %v", eni.IPv6Addresses, eni.IPv6Prefixes)
			}
			_, err = s.DeleteNetworkInterface(s.call, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceID: eni.NetworkInterfaceID})
			s.must(err)
		})
	}
}

func TestIPv4IsRefusedInAnIPv6OnlySubnet(t *testing.T) {
	one := 1
	for name, change := range map[string]func(*ec2.InterfaceSettings){
		"a primary address":   func(i *ec2.InterfaceSettings) { i.PrivateIPAddress = "10.0.0.9" },
		"a secondary address": func(i *ec2.InterfaceSettings) { i.SecondaryPrivateIPAddressCount = &one },
		"a prefix of IPv4":    func(i *ec2.InterfaceSettings) { i.IPv4PrefixCount = &one },
		"an address by its own": func(i *ec2.InterfaceSettings) {
			i.PrivateIPAddresses = []ec2.PrivateIPAddressSpecification{{PrivateIPAddress: "10.0.0.9"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := playIPv6Only(t)
			in := create(nativeSubnet)
			change(&in.InterfaceSettings)
			if _, err := s.CreateNetworkInterface(s.call, in); codeOf(err) != "InvalidParameterValue" {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("an address that is assigned later", func(t *testing.T) {
		s := playIPv6Only(t)
		out, err := s.CreateNetworkInterface(s.call, create(nativeSubnet))
		s.must(err)
		_, err = s.AssignPrivateIPAddresses(s.call, &ec2.AssignPrivateIPAddressesInput{
			NetworkInterfaceID: out.NetworkInterface.NetworkInterfaceID, SecondaryPrivateIPAddressCount: &one,
		})
		if codeOf(err) != "InvalidParameterValue" {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnInstanceInAnIPv6OnlySubnet(t *testing.T) {
	s := playIPv6Only(t)
	in := run(1)
	in.SubnetID = nativeSubnet
	out, err := s.RunInstances(s.call, in)
	s.must(err)
	got := out.Instances[0]
	if got.PrivateIPAddress.IsValid() || !got.IPv6Address.IsValid() || got.PrivateDNSName != got.InstanceID+".ec2.internal" {
		t.Errorf("addresses %s and %s, name %q", got.PrivateIPAddress, got.IPv6Address, got.PrivateDNSName)
	}
}
