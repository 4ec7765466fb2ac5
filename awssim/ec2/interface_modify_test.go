// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"strings"
	"testing"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
)

func TestModifyNetworkInterfaceAttribute(t *testing.T) {
	s := play(t, ec2.Behavior{})
	id := s.create(subnetA)
	attachment := s.attach(id, cardsA, 0, 1)
	for _, in := range []*ec2.ModifyNetworkInterfaceAttributeInput{
		{Description: &ec2.StringValue{Value: "changed"}},
		{SourceDestCheck: &ec2.BoolValue{}},
		{Groups: []string{groupA}},
		{Attachment: &ec2.AttachmentChanges{AttachmentID: attachment, DeleteOnTermination: new(true)}},
		{ENASRD: &ec2.ENASRD{}},
	} {
		in.NetworkInterfaceID = id
		in.DryRun = true
		if _, err := s.ModifyNetworkInterfaceAttribute(s.call, in); codeOf(err) != "DryRunOperation" {
			t.Errorf("dry run: %v", err)
		}
		in.DryRun = false
		_, err := s.ModifyNetworkInterfaceAttribute(s.call, in)
		s.must(err)
	}
	got := s.eni(id)
	if got.Description != "changed" || got.SourceDestCheck || got.Groups[0].GroupID != groupA || !got.Attachment.DeleteOnTermination || got.Attachment.ENASRD == nil {
		t.Errorf("interface %+v", got)
	}
}

func TestModifyRefusals(t *testing.T) {
	try := func(in ec2.ModifyNetworkInterfaceAttributeInput) func(*scene) error {
		return func(s *scene) error {
			if in.NetworkInterfaceID == "" {
				in.NetworkInterfaceID = s.create(subnetA)
			}
			_, err := s.ModifyNetworkInterfaceAttribute(s.call, &in)
			return err
		}
	}
	description := &ec2.StringValue{Value: "x"}
	refusals(t, map[string]refusal{
		"nothing":              {"InvalidParameterCombination", try(ec2.ModifyNetworkInterfaceAttributeInput{})},
		"two attributes":       {"InvalidParameterCombination", try(ec2.ModifyNetworkInterfaceAttributeInput{Description: description, Groups: []string{groupA}})},
		"unknown":              {"InvalidNetworkInterfaceID.NotFound", try(ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceID: "eni-0000000000000dead", Description: description})},
		"unknown group":        {"InvalidGroup.NotFound", try(ec2.ModifyNetworkInterfaceAttributeInput{Groups: []string{"sg-0000000000000dead"}})},
		"no attachment":        {"InvalidAttachmentID.NotFound", try(ec2.ModifyNetworkInterfaceAttributeInput{Attachment: &ec2.AttachmentChanges{AttachmentID: "eni-attach-0000000000000dead", DeleteOnTermination: new(true)}})},
		"no attachment ID":     {"MissingParameter", try(ec2.ModifyNetworkInterfaceAttributeInput{Attachment: &ec2.AttachmentChanges{DeleteOnTermination: new(true)}})},
		"no value":             {"MissingParameter", try(ec2.ModifyNetworkInterfaceAttributeInput{Attachment: &ec2.AttachmentChanges{AttachmentID: "x"}})},
		"a service's":          {"OperationNotPermitted", try(ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceID: balancerENI, Description: description})},
		"long description":     {"InvalidParameterValue", try(ec2.ModifyNetworkInterfaceAttributeInput{Description: &ec2.StringValue{Value: strings.Repeat("x", 256)}})},
		"ENA Express detached": {"IncorrectState", try(ec2.ModifyNetworkInterfaceAttributeInput{ENASRD: &ec2.ENASRD{}})},
	})
}

func TestAssignAndUnassign(t *testing.T) {
	s := play(t, ec2.Behavior{})
	id := s.create(subnetA)
	s.attach(id, instanceA, 0, 1)
	free := s.free(subnetA)
	addresses, err := s.AssignPrivateIPAddresses(s.call, &ec2.AssignPrivateIPAddressesInput{NetworkInterfaceID: id, SecondaryPrivateIPAddressCount: new(2)})
	s.must(err)
	prefixes, err := s.AssignPrivateIPAddresses(s.call, &ec2.AssignPrivateIPAddressesInput{NetworkInterfaceID: id, IPv4PrefixCount: new(1)})
	s.must(err)
	six, err := s.AssignIPv6Addresses(s.call, &ec2.AssignIPv6AddressesInput{NetworkInterfaceID: id, IPv6AddressCount: new(2)})
	s.must(err)
	sixPrefixes, err := s.AssignIPv6Addresses(s.call, &ec2.AssignIPv6AddressesInput{NetworkInterfaceID: id, IPv6PrefixCount: new(1)})
	s.must(err)
	if len(addresses.AssignedPrivateIPAddresses) != 2 || len(prefixes.AssignedIPv4Prefixes) != 1 || len(six.AssignedIPv6Addresses) != 2 || len(sixPrefixes.AssignedIPv6Prefixes) != 1 {
		t.Errorf("assigned %v %v %v %v", addresses, prefixes, six, sixPrefixes)
	}
	if got := s.eni(id); len(got.PrivateIPAddresses) != 3 || len(got.IPv4Prefixes) != 1 || len(got.IPv6Addresses) != 2 || got.IPv6Address != six.AssignedIPv6Addresses[0] {
		t.Errorf("interface %+v", got)
	}
	if got := free - s.free(subnetA); got != 18 {
		t.Errorf("%d addresses taken, want 2 and a prefix of 16", got)
	}
	_, err = s.UnassignPrivateIPAddresses(s.call, &ec2.UnassignPrivateIPAddressesInput{
		NetworkInterfaceID: id,
		PrivateIPAddresses: []string{addresses.AssignedPrivateIPAddresses[0].PrivateIPAddress.String()},
		IPv4Prefixes:       []string{prefixes.AssignedIPv4Prefixes[0].IPv4Prefix.String()},
	})
	s.must(err)
	_, err = s.UnassignIPv6Addresses(s.call, &ec2.UnassignIPv6AddressesInput{
		NetworkInterfaceID: id,
		IPv6Addresses:      []string{six.AssignedIPv6Addresses[0].String()},
		IPv6Prefixes:       []string{sixPrefixes.AssignedIPv6Prefixes[0].String()},
	})
	s.must(err)
	if got := s.eni(id); len(got.PrivateIPAddresses) != 2 || len(got.IPv4Prefixes) != 0 || got.IPv6Address != six.AssignedIPv6Addresses[1] || len(got.IPv6Prefixes) != 0 {
		t.Errorf("interface %+v", got)
	}
	if got := free - s.free(subnetA); got != 1 {
		t.Errorf("%d addresses taken, want 1", got)
	}
}

func TestReassignment(t *testing.T) {
	s := play(t, ec2.Behavior{})
	from, to := s.create(subnetA), s.create(subnetA)
	moved := []string{"10.0.1.1"}
	_, err := s.AssignPrivateIPAddresses(s.call, &ec2.AssignPrivateIPAddressesInput{NetworkInterfaceID: from, PrivateIPAddresses: moved})
	s.must(err)
	in := &ec2.AssignPrivateIPAddressesInput{NetworkInterfaceID: to, PrivateIPAddresses: moved}
	if _, err := s.AssignPrivateIPAddresses(s.call, in); codeOf(err) != "InvalidParameterValue" {
		t.Errorf("without AllowReassignment: %v", err)
	}
	in.AllowReassignment = true
	_, err = s.AssignPrivateIPAddresses(s.call, in)
	s.must(err)
	if a, b := len(s.eni(from).PrivateIPAddresses), len(s.eni(to).PrivateIPAddresses); a != 1 || b != 2 {
		t.Errorf("%d and %d addresses, want 1 and 2", a, b)
	}
}

func TestAssignRefusals(t *testing.T) {
	try := func(change func(*scene, *ec2.AssignPrivateIPAddressesInput)) func(*scene) error {
		return func(s *scene) error {
			in := &ec2.AssignPrivateIPAddressesInput{NetworkInterfaceID: s.create(subnetA)}
			s.attach(in.NetworkInterfaceID, smallA, 0, 1)
			change(s, in)
			free := s.free(subnetA)
			_, err := s.AssignPrivateIPAddresses(s.call, in)
			if s.free(subnetA) != free {
				s.Error("a refused call took addresses")
			}
			return err
		}
	}
	refusals(t, map[string]refusal{
		"nothing":       {"MissingParameter", try(func(*scene, *ec2.AssignPrivateIPAddressesInput) {})},
		"more than fit": {"PrivateIpAddressLimitExceeded", try(func(_ *scene, in *ec2.AssignPrivateIPAddressesInput) { in.SecondaryPrivateIPAddressCount = new(6) })},
		"count and prefix": {"InvalidParameterCombination", try(func(_ *scene, in *ec2.AssignPrivateIPAddressesInput) {
			in.SecondaryPrivateIPAddressCount, in.IPv4PrefixCount = new(1), new(1)
		})},
		"count and list": {"InvalidParameterCombination", try(func(_ *scene, in *ec2.AssignPrivateIPAddressesInput) {
			in.SecondaryPrivateIPAddressCount, in.PrivateIPAddresses = new(1), []string{"10.0.1.1"}
		})},
		"subnet full": {"InsufficientFreeAddressesInSubnet", try(func(s *scene, in *ec2.AssignPrivateIPAddressesInput) {
			in.NetworkInterfaceID, in.SecondaryPrivateIPAddressCount = s.create(tinySubnet), new(11)
		})},
		"the primary address is not to be unassigned": {"InvalidParameterValue", func(s *scene) error {
			id := s.create(subnetA)
			_, err := s.UnassignPrivateIPAddresses(s.call, &ec2.UnassignPrivateIPAddressesInput{
				NetworkInterfaceID: id, PrivateIPAddresses: []string{s.eni(id).PrivateIPAddress.String()},
			})
			return err
		}},
		"IPv6 that it does not have": {"InvalidParameterValue", func(s *scene) error {
			_, err := s.UnassignIPv6Addresses(s.call, &ec2.UnassignIPv6AddressesInput{NetworkInterfaceID: s.create(subnetA), IPv6Addresses: []string{"2001:db8:0:1::9"}})
			return err
		}},
		"IPv6 in a subnet without": {"InvalidParameterValue", func(s *scene) error {
			_, err := s.AssignIPv6Addresses(s.call, &ec2.AssignIPv6AddressesInput{NetworkInterfaceID: s.create(subnetA2), IPv6AddressCount: new(1)})
			return err
		}},
		"no room for a prefix in a fragmented subnet": {"InsufficientCidrBlocks", func(s *scene) error {
			for block := range 16 {
				in := create(subnetA2)
				in.PrivateIPAddress = "10.0.16." + []string{"5", "16", "32", "48", "64", "80", "96", "112", "128", "144", "160", "176", "192", "208", "224", "240"}[block]
				_, err := s.CreateNetworkInterface(s.call, in)
				s.must(err)
			}
			in := create(subnetA2)
			in.IPv4PrefixCount = new(1)
			_, err := s.CreateNetworkInterface(s.call, in)
			return err
		}},
	})
}

func TestAssignInAFullSubnet(t *testing.T) {
	s := play(t, ec2.Behavior{}, fault.Fault{Kind: fault.SubnetFull, Action: "AssignPrivateIpAddresses"})
	_, err := s.AssignPrivateIPAddresses(s.call, &ec2.AssignPrivateIPAddressesInput{NetworkInterfaceID: s.create(subnetA), SecondaryPrivateIPAddressCount: new(1)})
	if codeOf(err) != "InsufficientFreeAddressesInSubnet" {
		t.Errorf("got %v", err)
	}
}
