// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package message_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/message"
)

// TestMessages shows each message that has several forms.
func TestMessages(t *testing.T) {
	const minutes = 2 * time.Minute
	attached := eni.Interface{ID: "eni-1", Status: eni.InUse, Attachment: &eni.Attachment{Status: eni.AttachmentAttaching}}
	holders := map[eni.Slot]string{
		{Card: 0, Device: 1}: message.Planned("data"), {}: "eni-0 (the primary interface)",
	}
	for _, tc := range []struct{ got, want string }{
		{message.InProgress(eni.Interface{ID: "eni-1", Status: eni.Pending}), "EC2 reports eni-1 as pending"},
		{message.InProgress(attached), "EC2 reports eni-1 as attaching"},
		{
			message.OutsideCluster("i-1", []eni.InstanceTag{{Key: "a", Value: "b"}, {Key: "c", AnyValue: true}}),
			"instance i-1 lacks the tag a=b or c, which the cluster's instances have; correct the Node's providerID or, if " +
				"that is right, add the tag to the instance",
		},
		{message.Tags(nil), "none of them"},
		{message.Tags(map[string]string{"b": "2", "a": "1"}), "a=1,b=2"},
		{
			message.UnsupportedByType([]string{"connectionTracking", "enaExpress"}),
			"the instance type does not support connectionTracking and enaExpress, or EC2 did not say that it does; the " +
				"interface works without; remove the field from the NodeENI, or use an instance type that supports it",
		},
		{message.Removing("eni-1", false), "eni-1 is being removed: its NetworkInterface is being deleted"},
		{message.Removing("eni-1", true), "eni-1 is being removed: its instance is gone"},
		{
			message.Detaching("eni-1", 10*time.Minute), message.Removing("eni-1", false) +
				"; if EC2 has not detached it 10m0s after the request, multieni forces the detach",
		},
		{
			message.InUseByPods("eni-1", false), "eni-1 will be removed (its NetworkInterface is being deleted), and is not " +
				"detached while the agent of the node has not reported that no pod and no program can use it; delete or move " +
				"the pods; if the node has no agent any more, start it, terminate the instance, or run kubectl eni release",
		},
		{
			message.InUseByPods("eni-1", true), "eni-1 is a launch interface, and stays with its instance; its " +
				"NetworkInterface is not deleted while the agent of the node has not reported that no pod and no program can " +
				"use it; delete or move the pods; if the node has no agent any more, start it, terminate the instance, or run " +
				"kubectl eni release",
		},
		{
			message.TooManyIPv4(15, 14, "m5.large", false), "15 IPv4 addresses and prefixes are declared in addition to the " +
				"primary address, and an interface of m5.large takes 14; lower secondaryPrivateIPAddressCount or " +
				"ipv4PrefixCount, or use a larger instance type",
		},
		{
			message.TooManyIPv4(15, 14, "m5.large", true), "15 IPv4 addresses and prefixes are declared in addition to the " +
				"primary address, and an interface of m5.large takes 14; lower pods.ipv4.prefixes.min, or use a larger " +
				"instance type",
		},
		{
			message.AddressesKept("eni-1", message.IPv4Prefixes, 2, 4, 1), "eni-1 keeps its 4 IPv4 prefixes, although its " +
				"NodeENI asks for 2: multieni has a record of requesting only 1, and the others may be in use; unassign those " +
				"that nothing uses with aws ec2 unassign-private-ip-addresses --network-interface-id eni-1",
		},
		{
			message.AddressesKept("eni-1", message.IPv6, 2, 4, 1), "eni-1 keeps its 4 IPv6 addresses, although its NodeENI " +
				"asks for 2: multieni has a record of requesting only 1, and the others may be in use; unassign those that " +
				"nothing uses with aws ec2 unassign-ipv6-addresses --network-interface-id eni-1",
		},
		{
			message.Counts(eni.AddressCounts{SecondaryIPv4: 1, IPv6Prefixes: 2}),
			"1 secondary IPv4 addresses, 0 IPv4 prefixes, 0 IPv6 addresses and 2 IPv6 prefixes",
		},
		{
			message.SubnetFull([]string{"a", "b"}, eni.AddressCounts{}, minutes), "EC2 has no free address in a, b; free " +
				"some, or add a subnet; whether there are some again is tried every 2 minutes, by one node at a time",
		},
		{
			message.SubnetFull([]string{"a"}, eni.AddressCounts{SecondaryIPv4: 2}, minutes), "EC2 has fewer than the 3 free " +
				"addresses that the interface needs in a; free some, or add a subnet; whether there are some again is tried " +
				"every 2 minutes, by one node at a time",
		},
		{
			message.SubnetFull([]string{"a"}, eni.AddressCounts{IPv4Prefixes: 2}, minutes), "EC2 has fewer than the 33 free " +
				"addresses that the interface needs, 16 of them in a free block for each prefix (kubectl eni subnets shows " +
				"the blocks) in a; free some, or add a subnet; whether there are some again is tried every 2 minutes, by one " +
				"node at a time",
		},
		{
			message.InstanceFull("m5.large", 2, holders, false), "m5.large takes 2 interfaces and all are in use: eni-0 (the " +
				"primary interface) at card 0 device 0, NodeENI data at card 0 device 1; use a larger instance type, or ask " +
				"for fewer interfaces",
		},
		{
			message.InstanceFull("m5.large", 2, holders, true), "m5.large takes 2 interfaces and all are in use: eni-0 (the " +
				"primary interface) at card 0 device 0, NodeENI data at card 0 device 1; use a larger instance type, ask for " +
				"fewer interfaces, or let the VPC CNI keep fewer warm ENIs",
		},
	} {
		if tc.got != tc.want {
			t.Errorf("got  %s\nwant %s", tc.got, tc.want)
		}
	}
}

// TestFailed shows the advice for each class of errors that has one.
func TestFailed(t *testing.T) {
	for _, tc := range []struct {
		class eni.Class
		wait  time.Duration
		want  string
	}{
		{eni.Throttled, 30 * time.Second, "attach eni-1; it is tried again at least every 30 seconds"},
		{eni.NotFound, time.Minute, "attach eni-1; it is tried again at least every minute"},
		{
			eni.NoAddresses, 10 * time.Minute, "attach eni-1; free addresses of the subnet, or add another subnet; it is tried " +
				"again at least every 10 minutes",
		},
		{
			eni.NoPrefixes, 10 * time.Minute, "attach eni-1; declare a prefix reservation in an unused part of the subnet (aws " +
				"ec2 create-subnet-cidr-reservation --reservation-type prefix), or add a subnet; kubectl eni subnets shows the " +
				"free addresses and blocks; it is tried again at least every 10 minutes",
		},
		{
			eni.LimitExceeded, time.Hour, "attach eni-1; delete what is not needed, or raise the quota in Service Quotas; it is " +
				"tried again at least every 60 minutes",
		},
		{
			eni.Unauthorized, time.Hour, "attach eni-1; give the controller's role the permissions of " +
				"deploy/iam/controller.json, which `kubectl eni doctor` tries one by one; it is tried again at least every " +
				"60 minutes",
		},
		{eni.Invalid, time.Hour, "attach eni-1; correct the NodeENI; it is tried again at least every 60 minutes"},
		{eni.WrongZone, time.Hour, "attach eni-1; correct the NodeENI; it is tried again at least every 60 minutes"},
	} {
		if got := message.Failed("attach eni-1", tc.class, tc.wait); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

// TestHolder lists the probable owners of an interface. The first one that applies counts.
func TestHolder(t *testing.T) {
	i := eni.Interface{
		ID: "eni-1", RequesterManaged: true, Attachment: &eni.Attachment{},
		Tags: map[string]string{
			identity.TagNodeENI: "data", identity.TagNodeTemplate: "blue", "node.k8s.amazonaws.com/instance_id": "i-1",
		},
	}
	for _, next := range []struct {
		want  string
		other func()
	}{
		{"eni-1 (the primary interface)", func() { i.Attachment.Slot.Device = 1 }},
		{"eni-1 (NodeENI data)", func() { delete(i.Tags, identity.TagNodeENI) }},
		{"eni-1 (AWSNodeTemplate blue)", func() { delete(i.Tags, identity.TagNodeTemplate) }},
		{"eni-1 (the VPC CNI)", func() { i.Tags = nil }},
		{"eni-1 (an AWS service)", func() { i.RequesterManaged = false }},
		{"eni-1 (not managed by multieni)", func() {}},
	} {
		got, cni := message.Holder(i)
		if got != next.want || cni != (got == "eni-1 (the VPC CNI)") {
			t.Errorf("got %s and VPC CNI %t, want %s", got, cni, next.want)
		}
		next.other()
	}
}
