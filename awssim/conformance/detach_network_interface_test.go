// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func detach(attachment string) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{AttachmentId: &attachment})
		return err
	}
}

func TestDetachNetworkInterface(t *testing.T) {
	ec := open(t)
	host := ec.instance(t)
	eni := *ec.eni(t).NetworkInterfaceId
	verify(t, ec, []check{
		{name: "an unknown attachment", run: refused("InvalidAttachmentID.NotFound", detach(noAttachment))},
		{name: "something that is no attachment", strict: true,
			run: refused("InvalidNetworkInterfaceAttachmentId.Malformed", detach("attachment-one"))},
		{name: "the primary interface", run: refused("OperationNotPermitted",
			detach(*host.NetworkInterfaces[0].Attachment.AttachmentId))},
		{name: "what an AWS service manages", strict: true, run: refusedOnSimulator("OperationNotPermitted",
			func(ctx context.Context, ec *endpoint) error {
				managed, err := ec.DescribeNetworkInterfaces(ctx, byID(managedENI))
				if err != nil {
					return err
				}
				return detach(*managed.NetworkInterfaces[0].Attachment.AttachmentId)(ctx, ec)
			})},
		{name: "ends with no attachment and the interface available", run: func(t *testing.T, ec *endpoint) {
			attachment := ec.attach(t, eni, *host.InstanceId, 0, 1)
			ec.detach(t, eni, attachment)
			free := ec.awaitENI(t, eni, "free", func(e types.NetworkInterface) bool { return e.Attachment == nil })
			if free.Status != types.NetworkInterfaceStatusAvailable {
				t.Errorf("status %s without an attachment, want available", free.Status)
			}
			refused("InvalidAttachmentID.NotFound", detach(attachment))(t, ec)
		}},
	})
}

// TestDetachAgain: a second detach call, later or at the same time.
func TestDetachAgain(t *testing.T) {
	ec := open(t)
	host := ec.instance(t)
	eni := *ec.eni(t).NetworkInterfaceId
	verify(t, ec, []check{
		{name: "frees the slot for another", run: func(t *testing.T, ec *endpoint) {
			other := *ec.eni(t).NetworkInterfaceId
			ec.detach(t, other, ec.attach(t, other, *host.InstanceId, 0, 1))
			ec.detach(t, eni, ec.attach(t, eni, *host.InstanceId, 0, 1))
		}},
		{name: "twice is once", strict: true, run: func(t *testing.T, ec *endpoint) {
			eni := *ec.eni(t).NetworkInterfaceId
			attachment := ec.attach(t, eni, *host.InstanceId, 0, 1)
			ok(t, detach(attachment)(t.Context(), ec))
			if err := detach(attachment)(t.Context(), ec); err != nil {
				expectRefusal(t, "IncorrectState|InvalidAttachmentID.NotFound", err)
			}
			ec.awaitENI(t, eni, "available", isAvailable)
		}},
		{name: "while still attaching", strict: true, run: func(t *testing.T, ec *endpoint) {
			eni := *ec.eni(t).NetworkInterfaceId
			out, err := ec.AttachNetworkInterface(t.Context(), attachInput(eni, *host.InstanceId, 0, 1))
			ok(t, err)
			if err := detach(*out.AttachmentId)(t.Context(), ec); err != nil {
				expectRefusal(t, "IncorrectState", err)
				return
			}
			ec.awaitENI(t, eni, "available", isAvailable)
		}},
		{name: "by force", run: func(t *testing.T, ec *endpoint) {
			attachment := ec.attach(t, eni, *host.InstanceId, 0, 2)
			_, err := ec.DetachNetworkInterface(t.Context(), &ec2.DetachNetworkInterfaceInput{
				AttachmentId: &attachment, Force: aws.Bool(true),
			})
			ok(t, err)
			ec.awaitENI(t, eni, "available", isAvailable)
		}},
		{name: "takes the instance's list along", run: func(t *testing.T, ec *endpoint) {
			ec.await(t, "the instance to list its primary alone", func(ctx context.Context) (string, error) {
				out, err := ec.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{*host.InstanceId}})
				if err != nil || len(out.Reservations[0].Instances[0].NetworkInterfaces) == 1 {
					return "", err
				}
				return "more than one", nil
			})
		}},
	})
}

// TestDetaching covers the time in status detaching, which a simulator can extend.
func TestDetaching(t *testing.T) {
	ec := openWith(t, simulator{speed: 300, stuck: true})
	host := *ec.instance(t).InstanceId
	eni := *ec.eni(t).NetworkInterfaceId
	attachment := ec.attach(t, eni, host, 0, 1)
	ok(t, detach(attachment)(t.Context(), ec))
	verify(t, ec, []check{
		{name: "the interface is not available before its attachment is gone", run: func(t *testing.T, ec *endpoint) {
			between := ec.awaitENI(t, eni, "not attached any more", func(e types.NetworkInterface) bool { return !isAttached(e) })
			if between.Attachment != nil && (between.Attachment.Status != types.AttachmentStatusDetaching || isAvailable(between)) {
				t.Errorf("interface %s with attachment %s", between.Status, between.Attachment.Status)
			}
		}},
		{name: "it cannot be deleted", strict: true, run: refusedWhileDetaching(remove(eni))},
		{name: "nor attached elsewhere", strict: true, run: refusedWhileDetaching(attach(eni, host, 0, 2))},
		{name: "its slot is not free", strict: true, run: func(t *testing.T, ec *endpoint) {
			refusedWhileDetaching(attach(*ec.eni(t).NetworkInterfaceId, host, 0, 1))(t, ec)
		}},
		{name: "force ends it", strict: true, run: func(t *testing.T, ec *endpoint) {
			_, err := ec.DetachNetworkInterface(t.Context(), &ec2.DetachNetworkInterfaceInput{
				AttachmentId: &attachment, Force: aws.Bool(true),
			})
			if err != nil {
				expectRefusal(t, "InvalidAttachmentID.NotFound", err)
			}
			ec.awaitENI(t, eni, "available", isAvailable)
		}},
	})
}

// refusedWhileDetaching accepts success on endpoints where a detachment cannot be delayed.
func refusedWhileDetaching(do call) func(*testing.T, *endpoint) {
	return func(t *testing.T, ec *endpoint) {
		err := do(t.Context(), ec)
		if err == nil && !ec.simulated {
			t.Skip("the detach had ended before the call")
		}
		expectRefusal(t, inUse, err)
	}
}
