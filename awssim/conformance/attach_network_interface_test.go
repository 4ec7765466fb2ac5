// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// tooManyAddresses: in EC2's list of error codes, the first is for launches, the second for single addresses.
const tooManyAddresses = "InvalidInterface.IpAddressLimitExceeded|PrivateIpAddressLimitExceeded|InvalidParameterValue"

var attachmentID = regexp.MustCompile(`^eni-attach-[0-9a-f]{17}$`)

func attach(eni, instance string, card, device int32) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.AttachNetworkInterface(ctx, attachInput(eni, instance, card, device))
		return err
	}
}

func TestAttachNetworkInterface(t *testing.T) {
	ec := open(t)
	host := *ec.instance(t).InstanceId
	first, spare := *ec.eni(t).NetworkInterfaceId, *ec.eni(t).NetworkInterfaceId
	verify(t, ec, []check{
		{name: "an unknown interface", run: refused("InvalidNetworkInterfaceID.NotFound", attach(noENI, host, 0, 1))},
		{name: "an unknown instance", run: refused("InvalidInstanceID.NotFound", attach(spare, noInstance, 0, 1))},
		{name: "the index of the primary interface", run: refused("InvalidParameterValue", attach(spare, host, 0, 0))},
		{name: "a negative index", strict: true, run: refused("InvalidParameterValue", attach(spare, host, 0, -1))},
		{name: "a card that the instance type does not have", strict: true,
			run: refused("InvalidParameterValue", attach(spare, host, 1, 1))},
		{name: "an interface of another zone", run: func(t *testing.T, ec *endpoint) {
			elsewhere := *ec.eni(t, in(ec.otherZone)).NetworkInterfaceId
			refused("InvalidParameterCombination", attach(elsewhere, host, 0, 1))(t, ec)
		}},
		{name: "an interface of another VPC", strict: true, run: func(t *testing.T, ec *endpoint) {
			foreign := *ec.eni(t, in(need(t, ec, ec.otherVPC, "second VPC"))).NetworkInterfaceId
			refusedSomehow(attach(foreign, host, 0, 1))(t, ec)
		}},
		{name: "an Elastic Fabric Adapter to a running instance", strict: true, run: func(t *testing.T, ec *endpoint) {
			efa := ec.eni(t, func(in *createInput) { in.InterfaceType = types.NetworkInterfaceCreationTypeEfa })
			refusedSomehow(attach(*efa.NetworkInterfaceId, host, 0, 1))(t, ec)
		}},
	})
	verify(t, ec, []check{
		{name: "attaches and does not delete on termination", run: func(t *testing.T, ec *endpoint) {
			attaches(t, ec, first, host)
		}},
		{name: "the instance lists it", run: func(t *testing.T, ec *endpoint) {
			ec.await(t, "the instance to list "+first, func(ctx context.Context) (string, error) {
				out, err := ec.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{host}})
				if err != nil {
					return "", err
				}
				listed := find(out.Reservations[0].Instances[0].NetworkInterfaces, func(n types.InstanceNetworkInterface) bool {
					return *n.NetworkInterfaceId == first
				})
				if listed == nil || listed.Attachment == nil || *listed.Attachment.DeviceIndex != 1 || aws.ToInt32(listed.Attachment.NetworkCardIndex) != 0 {
					return "not on card 0 at index 1", nil
				}
				return "", nil
			})
		}},
		{name: "an index that is taken", run: refused("InvalidParameterValue", attach(spare, host, 0, 1))},
		{name: "an interface that is attached already", run: refused("InvalidNetworkInterface.InUse|InvalidParameterValue",
			attach(first, host, 0, 2))},
		{name: "an interface of another subnet of the zone, without naming the card", run: func(t *testing.T, ec *endpoint) {
			neighbour := *ec.eni(t, in(need(t, ec, ec.sameZone, "second subnet in the zone"))).NetworkInterfaceId
			out, err := ec.AttachNetworkInterface(t.Context(), &ec2.AttachNetworkInterfaceInput{
				NetworkInterfaceId: &neighbour, InstanceId: &host, DeviceIndex: aws.Int32(2),
			})
			ok(t, err)
			eni := ec.awaitENI(t, neighbour, "attached", isAttached)
			if aws.ToInt32(out.NetworkCardIndex) != 0 || aws.ToInt32(eni.Attachment.NetworkCardIndex) != 0 {
				t.Errorf("went to card %d", aws.ToInt32(eni.Attachment.NetworkCardIndex))
			}
		}},
		{name: "more interfaces than the instance type takes", run: refused("AttachmentLimitExceeded", attach(spare, host, 0, 3))},
	})
}

// attaches follows one attachment from the answer to its end.
func attaches(t *testing.T, ec *endpoint, eni, instance string) {
	began := time.Now()
	out, err := ec.AttachNetworkInterface(t.Context(), attachInput(eni, instance, 0, 1))
	ok(t, err)
	if !attachmentID.MatchString(*out.AttachmentId) || aws.ToInt32(out.NetworkCardIndex) != 0 {
		t.Errorf("attachment %s on card %d", *out.AttachmentId, aws.ToInt32(out.NetworkCardIndex))
	}
	early := ec.awaitENI(t, eni, "in use", func(e types.NetworkInterface) bool {
		return e.Status == types.NetworkInterfaceStatusInUse && e.Attachment != nil
	})
	if state := early.Attachment.Status; state != types.AttachmentStatusAttaching && state != types.AttachmentStatusAttached {
		t.Errorf("attachment is %s, want attaching or attached", state)
	}
	done := ec.awaitENI(t, eni, "attached", isAttached)
	switch a := done.Attachment; {
	case *a.AttachmentId != *out.AttachmentId, *a.InstanceId != instance, *a.InstanceOwnerId != *done.OwnerId:
		t.Errorf("attachment %s to %s of %s", *a.AttachmentId, *a.InstanceId, *a.InstanceOwnerId)
	case *a.DeviceIndex != 1, aws.ToInt32(a.NetworkCardIndex) != 0:
		t.Errorf("device %d on card %d, want 1 on 0", *a.DeviceIndex, aws.ToInt32(a.NetworkCardIndex))
	case aws.ToBool(a.DeleteOnTermination):
		t.Error("deletes on termination, though an attachment starts without")
	case a.AttachTime == nil, ec.simulated && a.AttachTime.Before(began.Add(-time.Minute)):
		t.Errorf("attach time %v", a.AttachTime)
	}
}

// TestAttachByInstanceState covers the states in which EC2 attaches interfaces: the test above covers running (hot),
// this one stopped (warm).
func TestAttachByInstanceState(t *testing.T) {
	ec := open(t)
	host := *ec.instance(t).InstanceId
	eni := *ec.eni(t).NetworkInterfaceId
	verify(t, ec, []check{
		{name: "stopped: attaches and detaches", run: func(t *testing.T, ec *endpoint) {
			ec.stop(t, host)
			ec.detach(t, eni, ec.attach(t, eni, host, 0, 1))
		}},
		{name: "terminated: refused", run: func(t *testing.T, ec *endpoint) {
			ec.terminate(t, host)
			expectRefusal(t, "IncorrectState|IncorrectInstanceState|InvalidInstanceID.NotFound", attach(eni, host, 0, 1)(t.Context(), ec))
		}},
	})
}

// TestAttachByInstanceType: prefixes need a Nitro type, Elastic Fabric Adapters and ENA Express a type that supports
// them.
func TestAttachByInstanceType(t *testing.T) {
	ec := open(t)
	efa := func(in *createInput) { in.InterfaceType = types.NetworkInterfaceCreationTypeEfa }
	verify(t, ec, []check{
		{name: "a prefix on Xen", strict: true, run: func(t *testing.T, ec *endpoint) {
			host := *ec.instance(t, ofType("t2.medium")).InstanceId
			eni := *ec.eni(t, func(in *createInput) { in.Ipv4PrefixCount = aws.Int32(1) }).NetworkInterfaceId
			refusedSomehow(attach(eni, host, 0, 1))(t, ec)
		}},
		{name: "ENA Express on a type without", strict: true, run: func(t *testing.T, ec *endpoint) {
			in := attachInput(*ec.eni(t).NetworkInterfaceId, *ec.instance(t).InstanceId, 0, 1)
			in.EnaSrdSpecification = &types.EnaSrdSpecification{EnaSrdEnabled: aws.Bool(true)}
			_, err := ec.AttachNetworkInterface(t.Context(), in)
			expectRefusalSomehow(t, err)
		}},
		{name: "an Elastic Fabric Adapter on a stopped instance of a type without", strict: true, run: func(t *testing.T, ec *endpoint) {
			host := *ec.instance(t).InstanceId
			ec.stop(t, host)
			refusedSomehow(attach(*ec.eni(t, efa).NetworkInterfaceId, host, 0, 1))(t, ec)
		}},
		{name: "Elastic Fabric Adapters on a stopped instance, as many as the type takes", strict: true, run: func(t *testing.T, ec *endpoint) {
			if ec.multiCardType == "" {
				t.Skip("set MULTIENI_CONFORMANCE_MULTI_CARD_TYPE to spend money on it")
			}
			host := *ec.instance(t, ofType(ec.multiCardType)).InstanceId
			ec.stop(t, host)
			for card := range int32(2) {
				ec.attach(t, *ec.eni(t, efa).NetworkInterfaceId, host, card, 1)
			}
			refusedSomehow(attach(*ec.eni(t, efa).NetworkInterfaceId, host, 1, 2))(t, ec)
		}},
	})
}

// TestAttachToCards needs an instance type with two network cards. A slot is a card and an index.
func TestAttachToCards(t *testing.T) {
	ec := open(t)
	if ec.multiCardType == "" {
		t.Skip("set MULTIENI_CONFORMANCE_MULTI_CARD_TYPE to spend money on it")
	}
	facts, err := ec.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{
		InstanceTypes: []types.InstanceType{types.InstanceType(ec.multiCardType)},
	})
	ok(t, err)
	perCard := *facts.InstanceTypes[0].NetworkInfo.NetworkCards[1].MaximumNetworkInterfaces
	host := *ec.instance(t, ofType(ec.multiCardType)).InstanceId
	spare := *ec.eni(t).NetworkInterfaceId
	verify(t, ec, []check{
		{name: "the same index on two cards", run: func(t *testing.T, ec *endpoint) {
			ec.attach(t, *ec.eni(t).NetworkInterfaceId, host, 0, 1)
			eni := *ec.eni(t).NetworkInterfaceId
			ec.attach(t, eni, host, 1, 1)
			seen := ec.awaitENI(t, eni, "attached", isAttached)
			if *seen.Attachment.NetworkCardIndex != 1 || *seen.Attachment.DeviceIndex != 1 {
				t.Errorf("is at %d on card %d", *seen.Attachment.DeviceIndex, *seen.Attachment.NetworkCardIndex)
			}
		}},
		{name: "a slot that is taken", run: refused("InvalidParameterValue", attach(spare, host, 1, 1))},
		{name: "a card takes its own maximum", run: func(t *testing.T, ec *endpoint) {
			for device := int32(2); device <= perCard; device++ {
				ec.attach(t, *ec.eni(t).NetworkInterfaceId, host, 1, device)
			}
		}},
		{name: "and no more, though the other card has room", strict: true, run: func(t *testing.T, ec *endpoint) {
			refused("AttachmentLimitExceeded", attach(spare, host, 1, perCard+1))(t, ec)
			ec.attach(t, spare, host, 0, 2)
		}},
	})
}

// TestAttachAddressLimit: the instance type bounds the addresses per interface, and is known only at the attachment.
func TestAttachAddressLimit(t *testing.T) {
	ec := open(t)
	facts, err := ec.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{
		InstanceTypes: []types.InstanceType{types.InstanceType(ec.instanceType)},
	})
	ok(t, err)
	limit := *facts.InstanceTypes[0].NetworkInfo.Ipv4AddressesPerInterface
	host := *ec.instance(t).InstanceId
	verify(t, ec, []check{
		{name: "an interface with as many addresses as the type allows", run: func(t *testing.T, ec *endpoint) {
			eni := *ec.eni(t, withSecondaries(limit-1)).NetworkInterfaceId
			ec.attach(t, eni, host, 0, 1)
			_, err := ec.AssignPrivateIpAddresses(t.Context(), &ec2.AssignPrivateIpAddressesInput{
				NetworkInterfaceId: &eni, SecondaryPrivateIpAddressCount: aws.Int32(1),
			})
			expectRefusal(t, "PrivateIpAddressLimitExceeded", err)
			_, err = ec.AssignPrivateIpAddresses(t.Context(), &ec2.AssignPrivateIpAddressesInput{
				NetworkInterfaceId: &eni, Ipv4PrefixCount: aws.Int32(1),
			})
			expectRefusal(t, "PrivateIpAddressLimitExceeded", err)
		}},
		{name: "an interface with one more", strict: true, run: func(t *testing.T, ec *endpoint) {
			eni := *ec.eni(t, withSecondaries(limit)).NetworkInterfaceId
			refused(tooManyAddresses, attach(eni, host, 0, 2))(t, ec)
		}},
	})
}

// TestAttachRace: many callers compete for fewer slots or interfaces.
func TestAttachRace(t *testing.T) {
	ec := open(t)
	race := func(deviceOf func(i int) int32, winners int) func(*testing.T, *endpoint) {
		return func(t *testing.T, ec *endpoint) {
			host := *ec.instance(t).InstanceId
			rivals := ec.enis(t, 6, mark())
			results := make(chan error, len(rivals))
			for i, eni := range rivals {
				go func() { results <- attach(eni, host, 0, deviceOf(i))(t.Context(), ec) }()
			}
			var codes []string
			for range rivals {
				codes = append(codes, codeOf(<-results))
			}
			if slices.Sort(codes); codes[winners-1] != "" || codes[winners] == "" {
				t.Errorf("codes %q, want %d successes", codes, winners)
			}
		}
	}
	verify(t, ec, []check{
		{name: "one slot: one wins", run: race(func(int) int32 { return 1 }, 1)},
		{name: "more slots than the type has: two fit beside the primary", run: race(func(i int) int32 { return int32(i + 1) }, 2)},
	})
}
