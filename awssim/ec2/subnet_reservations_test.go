// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"testing"

	"github.com/multieni/multieni/awssim/ec2"
)

func reserve(subnet, cidr, kind string) *ec2.CreateSubnetCIDRReservationInput {
	return &ec2.CreateSubnetCIDRReservationInput{SubnetID: subnet, CIDR: cidr, ReservationType: kind}
}

func TestReservedAddressesGoToWhoNamesThem(t *testing.T) {
	s := play(t, ec2.Behavior{})
	_, err := s.CreateSubnetCIDRReservation(s.call, reserve(tinySubnet, "10.0.17.4/30", "explicit"))
	s.must(err)
	first, err := s.CreateNetworkInterface(s.call, create(tinySubnet))
	s.must(err)
	if got := first.NetworkInterface.PrivateIPAddress.String(); got != "10.0.17.8" {
		t.Errorf("EC2 assigned %s", got)
	}
	named := create(tinySubnet)
	named.PrivateIPAddress = "10.0.17.5"
	_, err = s.CreateNetworkInterface(s.call, named)
	s.must(err)
	listed, err := s.GetSubnetCIDRReservations(s.call, &ec2.GetSubnetCIDRReservationsInput{SubnetID: tinySubnet})
	s.must(err)
	if len(listed.IPv4) != 1 || len(listed.IPv6) != 0 || listed.IPv4[0].CIDR.String() != "10.0.17.4/30" {
		t.Errorf("listed %+v", listed)
	}
}

func TestPrefixesComeFromTheirReservation(t *testing.T) {
	s := play(t, ec2.Behavior{})
	_, err := s.CreateSubnetCIDRReservation(s.call, reserve(subnetA, "10.0.4.0/24", "prefix"))
	s.must(err)
	in, one := create(subnetA), 1
	in.IPv4PrefixCount = &one
	made, err := s.CreateNetworkInterface(s.call, in)
	s.must(err)
	if got := made.NetworkInterface.IPv4Prefixes[0].IPv4Prefix.String(); got != "10.0.4.0/28" {
		t.Errorf("the prefix is %s", got)
	}
}

func TestReservationsAreFoundByTagAndType(t *testing.T) {
	s := play(t, ec2.Behavior{})
	in := reserve(subnetA, "10.0.4.0/24", "prefix")
	team := "core"
	in.TagSpecifications = []ec2.TagSpecification{{ResourceType: "subnet-cidr-reservation", Tags: []ec2.Tag{{Key: "team", Value: &team}}}}
	_, err := s.CreateSubnetCIDRReservation(s.call, in)
	s.must(err)
	_, err = s.CreateSubnetCIDRReservation(s.call, reserve(subnetA, "10.0.5.0/24", "explicit"))
	s.must(err)
	_, err = s.CreateSubnetCIDRReservation(s.call, reserve(subnetB, "10.0.32.0/28", "explicit"))
	s.must(err)
	for name, tc := range map[string]struct {
		filters []ec2.Filter
		want    int
	}{
		"all of the subnet": {nil, 2},
		"by tag":            {[]ec2.Filter{{Name: "tag:team", Values: []string{"core"}}}, 1},
		"by tag key":        {[]ec2.Filter{{Name: "tag-key", Values: []string{"te*"}}}, 1},
		"by type":           {[]ec2.Filter{{Name: "reservationType", Values: []string{"explicit"}}}, 1},
	} {
		out, err := s.GetSubnetCIDRReservations(s.call, &ec2.GetSubnetCIDRReservationsInput{SubnetID: subnetA, Page: ec2.Page{Filters: tc.filters}})
		s.must(err)
		if len(out.IPv4) != tc.want {
			t.Errorf("%s: %d reservations, want %d", name, len(out.IPv4), tc.want)
		}
	}
}

func TestADeletedReservationLeavesItsAddresses(t *testing.T) {
	s := play(t, ec2.Behavior{})
	made, err := s.CreateSubnetCIDRReservation(s.call, reserve(tinySubnet, "10.0.17.4/30", "explicit"))
	s.must(err)
	named := create(tinySubnet)
	named.PrivateIPAddress = "10.0.17.5"
	_, err = s.CreateNetworkInterface(s.call, named)
	s.must(err)
	gone := &ec2.DeleteSubnetCIDRReservationInput{SubnetCIDRReservationID: made.SubnetCIDRReservation.SubnetCIDRReservationID}
	_, err = s.DeleteSubnetCIDRReservation(s.call, gone)
	s.must(err)
	if _, err = s.DeleteSubnetCIDRReservation(s.call, gone); err == nil {
		t.Error("it was deleted twice")
	}
	for _, want := range []string{"10.0.17.4", "10.0.17.6"} {
		made, err := s.CreateNetworkInterface(s.call, create(tinySubnet))
		s.must(err)
		if got := made.NetworkInterface.PrivateIPAddress.String(); got != want {
			t.Errorf("EC2 assigned %s, want %s", got, want)
		}
	}
}

func TestTheSubnetOfAnotherAccountIsNotReserved(t *testing.T) {
	world := smallWorld()
	world.Subnets[0].OwnerID = "210987654321"
	m, call := start(t, world, ec2.Behavior{})
	_, err := m.CreateSubnetCIDRReservation(call, reserve(subnetA, "10.0.4.0/24", "explicit"))
	if got := codeOf(err); got != "UnauthorizedOperation" {
		t.Errorf("EC2 answered %v", err)
	}
}

func TestReservationRefusals(t *testing.T) {
	s := play(t, ec2.Behavior{})
	_, err := s.CreateSubnetCIDRReservation(s.call, reserve(subnetA, "10.0.4.0/24", "explicit"))
	s.must(err)
	for name, in := range map[string]*ec2.CreateSubnetCIDRReservationInput{
		"another subnet's range": reserve(subnetA, "10.0.16.0/28", "explicit"),
		"no network address":     reserve(subnetA, "10.0.5.1/24", "explicit"),
		"an overlap":             reserve(subnetA, "10.0.4.16/28", "prefix"),
		"another type":           reserve(subnetA, "10.0.6.0/24", "none"),
		"an unknown subnet":      reserve("subnet-00000000000000bad", "10.0.6.0/24", "explicit"),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.CreateSubnetCIDRReservation(s.call, in); err == nil {
				t.Error("it was made")
			}
		})
	}
}
