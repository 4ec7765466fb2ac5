// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

type modifyInput = ec2.ModifyNetworkInterfaceAttributeInput

func modify(eni string, change func(*modifyInput)) call {
	return func(ctx context.Context, ec *endpoint) error {
		in := &modifyInput{NetworkInterfaceId: &eni}
		change(in)
		_, err := ec.ModifyNetworkInterfaceAttribute(ctx, in)
		return err
	}
}

func setDescription(text string) func(*modifyInput) {
	return func(in *modifyInput) { in.Description = &types.AttributeValue{Value: &text} }
}

func setSourceDestCheck(on bool) func(*modifyInput) {
	return func(in *modifyInput) { in.SourceDestCheck = &types.AttributeBooleanValue{Value: &on} }
}

func setGroups(ids ...string) func(*modifyInput) {
	return func(in *modifyInput) { in.Groups = ids }
}

func setDeleteOnTermination(attachment string, on bool) func(*modifyInput) {
	return func(in *modifyInput) {
		in.Attachment = &types.NetworkInterfaceAttachmentChanges{AttachmentId: &attachment, DeleteOnTermination: &on}
	}
}

func setENAExpress(on bool) func(*modifyInput) {
	return func(in *modifyInput) { in.EnaSrdSpecification = &types.EnaSrdSpecification{EnaSrdEnabled: &on} }
}

func setTracking(to types.ConnectionTrackingSpecificationRequest) func(*modifyInput) {
	return func(in *modifyInput) { in.ConnectionTrackingSpecification = &to }
}

// TestConnectionTracking: a call sets the timeouts that it names, from the creation of the interface on.
func TestConnectionTracking(t *testing.T) {
	ec := open(t)
	eni := *ec.eni(t, func(in *createInput) {
		in.ConnectionTrackingSpecification = &types.ConnectionTrackingSpecificationRequest{TcpEstablishedTimeout: aws.Int32(3600)}
	}).NetworkInterfaceId
	has := func(tcp, stream, udp int32) func(types.NetworkInterface) bool {
		return func(e types.NetworkInterface) bool {
			c := e.ConnectionTrackingConfiguration
			return c != nil && aws.ToInt32(c.TcpEstablishedTimeout) == tcp && aws.ToInt32(c.UdpStreamTimeout) == stream &&
				aws.ToInt32(c.UdpTimeout) == udp
		}
	}
	verify(t, ec, []check{
		{name: "is set by the creation", run: func(t *testing.T, ec *endpoint) {
			ec.awaitENI(t, eni, "with a timeout", has(3600, 0, 0))
		}},
		{name: "is changed in place", run: func(t *testing.T, ec *endpoint) {
			ok(t, modify(eni, setTracking(types.ConnectionTrackingSpecificationRequest{
				TcpEstablishedTimeout: aws.Int32(350), UdpStreamTimeout: aws.Int32(120), UdpTimeout: aws.Int32(45),
			}))(t.Context(), ec))
			ec.awaitENI(t, eni, "with other timeouts", has(350, 120, 45))
		}},
		{name: "a TCP timeout out of range", strict: true, run: refused("InvalidParameterValue",
			modify(eni, setTracking(types.ConnectionTrackingSpecificationRequest{TcpEstablishedTimeout: aws.Int32(59)})))},
		{name: "a UDP stream timeout out of range", strict: true, run: refused("InvalidParameterValue",
			modify(eni, setTracking(types.ConnectionTrackingSpecificationRequest{UdpStreamTimeout: aws.Int32(181)})))},
		{name: "a UDP timeout out of range", strict: true, run: refused("InvalidParameterValue",
			modify(eni, setTracking(types.ConnectionTrackingSpecificationRequest{UdpTimeout: aws.Int32(61)})))},
		{name: "none on an interface without", run: func(t *testing.T, ec *endpoint) {
			if c := ec.eni(t).ConnectionTrackingConfiguration; c != nil && c.TcpEstablishedTimeout != nil {
				t.Errorf("a plain interface has the timeout %d", *c.TcpEstablishedTimeout)
			}
		}},
	})
}

func TestModifyNetworkInterfaceAttribute(t *testing.T) {
	ec := open(t)
	host := *ec.instance(t).InstanceId
	eni := *ec.eni(t).NetworkInterfaceId
	attached := *ec.eni(t).NetworkInterfaceId
	attachment := ec.attach(t, attached, host, 0, 1)
	verify(t, ec, []check{
		{name: "the description", run: func(t *testing.T, ec *endpoint) {
			for _, text := range []string{"new words", ""} {
				ok(t, modify(eni, setDescription(text))(t.Context(), ec))
				ec.awaitENI(t, eni, "described as "+text, func(e types.NetworkInterface) bool {
					return aws.ToString(e.Description) == text
				})
			}
		}},
		{name: "the source/dest check", run: func(t *testing.T, ec *endpoint) {
			for _, on := range []bool{false, true} {
				ok(t, modify(eni, setSourceDestCheck(on))(t.Context(), ec))
				ec.awaitENI(t, eni, "changed", func(e types.NetworkInterface) bool { return *e.SourceDestCheck == on })
			}
		}},
		{name: "the groups, which are replaced", run: func(t *testing.T, ec *endpoint) {
			for _, groups := range [][]string{{ec.group, ec.defaultGroup}, {ec.defaultGroup}} {
				slices.Sort(groups)
				ok(t, modify(eni, setGroups(groups...))(t.Context(), ec))
				ec.awaitENI(t, eni, "in its groups", func(e types.NetworkInterface) bool {
					got := groupsOf(e)
					slices.Sort(got)
					return slices.Equal(got, groups)
				})
			}
		}},
		{name: "delete on termination", run: func(t *testing.T, ec *endpoint) {
			for _, on := range []bool{true, false} {
				ok(t, modify(attached, setDeleteOnTermination(attachment, on))(t.Context(), ec))
				ec.awaitENI(t, attached, "changed", func(e types.NetworkInterface) bool {
					return aws.ToBool(e.Attachment.DeleteOnTermination) == on
				})
			}
		}},
		{name: "delete on termination right after the attach call", run: func(t *testing.T, ec *endpoint) {
			eni := *ec.eni(t).NetworkInterfaceId
			out, err := ec.AttachNetworkInterface(t.Context(), attachInput(eni, host, 0, 2))
			ok(t, err)
			ok(t, modify(eni, setDeleteOnTermination(*out.AttachmentId, true))(t.Context(), ec))
			ec.awaitENI(t, eni, "attached and deleted on termination", func(e types.NetworkInterface) bool {
				return isAttached(e) && *e.Attachment.DeleteOnTermination
			})
		}},
		{name: "the source/dest check while attached", run: func(t *testing.T, ec *endpoint) {
			ok(t, modify(attached, setSourceDestCheck(false))(t.Context(), ec))
			ec.awaitENI(t, attached, "changed", func(e types.NetworkInterface) bool { return !*e.SourceDestCheck })
		}},

		{name: "the groups of a primary interface are the instance's", run: func(t *testing.T, ec *endpoint) {
			primary := *ec.awaitInstance(t, host, types.InstanceStateNameRunning).NetworkInterfaces[0].NetworkInterfaceId
			ok(t, modify(primary, setGroups(ec.group))(t.Context(), ec))
			ec.await(t, "the instance to change its groups", func(ctx context.Context) (string, error) {
				out, err := ec.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{host}})
				if err != nil {
					return "", err
				}
				groups := out.Reservations[0].Instances[0].SecurityGroups
				if len(groups) == 1 && *groups[0].GroupId == ec.group {
					return "", nil
				}
				return fmt.Sprint(groups), nil
			})
		}},
	})
}

func TestModifyNetworkInterfaceAttributeRefusals(t *testing.T) {
	ec := open(t)
	eni, attached := *ec.eni(t).NetworkInterfaceId, *ec.eni(t).NetworkInterfaceId
	attachment := ec.attach(t, attached, *ec.instance(t).InstanceId, 0, 1)
	verify(t, ec, []check{
		{name: "two attributes in one call change neither", strict: true, run: func(t *testing.T, ec *endpoint) {
			expectRefusal(t, "InvalidParameterCombination", modify(eni, func(in *modifyInput) {
				setDescription("both")(in)
				setSourceDestCheck(false)(in)
			})(t.Context(), ec))
			now := ec.awaitENI(t, eni, "known", func(types.NetworkInterface) bool { return true })
			if *now.Description == "both" || !*now.SourceDestCheck {
				t.Errorf("description %q, source/dest check %t", *now.Description, *now.SourceDestCheck)
			}
		}},
		{name: "no attribute", strict: true,
			run: refused("MissingParameter|InvalidParameterCombination", modify(eni, func(*modifyInput) {}))},
		{name: "an unknown interface", run: refused("InvalidNetworkInterfaceID.NotFound", modify(noENI, setDescription("x")))},
		{name: "an unknown attachment", run: refused("InvalidAttachmentID.NotFound",
			modify(attached, setDeleteOnTermination(noAttachment, true)))},
		{name: "the attachment of another interface", strict: true, run: refused("InvalidAttachmentID.NotFound|InvalidParameterValue|InvalidParameterCombination",
			modify(eni, setDeleteOnTermination(attachment, true)))},
		{name: "delete on termination without the attachment", strict: true,
			run: refused("MissingParameter|InvalidParameterCombination|InvalidParameterValue", modify(attached, func(in *modifyInput) {
				in.Attachment = &types.NetworkInterfaceAttachmentChanges{DeleteOnTermination: aws.Bool(true)}
			}))},
		{name: "an unknown group", strict: true, run: refused("InvalidGroup.NotFound|InvalidSecurityGroupID.NotFound",
			modify(eni, setGroups(ec.group, noGroup)))},
		{name: "six groups", strict: true, run: func(t *testing.T, ec *endpoint) {
			if len(ec.groups) < 6 {
				need[int](t, ec, nil, "VPC with six security groups")
			}
			refused("SecurityGroupsPerInterfaceLimitExceeded", modify(eni, setGroups(ec.groups[:6]...)))(t, ec)
		}},
		{name: "ENA Express on an interface that is not attached", strict: true, run: func(t *testing.T, ec *endpoint) {
			refusedSomehow(modify(eni, setENAExpress(true)))(t, ec)
		}},
	})
}

// TestENAExpress needs an instance type that has it; the multi-card types do.
func TestENAExpress(t *testing.T) {
	ec := open(t)
	if ec.multiCardType == "" {
		t.Skip("set MULTIENI_CONFORMANCE_MULTI_CARD_TYPE to spend money on it")
	}
	host := *ec.instance(t, ofType(ec.multiCardType)).InstanceId
	enabled := func(e types.NetworkInterface) bool {
		return isAttached(e) && e.Attachment.EnaSrdSpecification != nil && aws.ToBool(e.Attachment.EnaSrdSpecification.EnaSrdEnabled)
	}
	eni := *ec.eni(t).NetworkInterfaceId
	verify(t, ec, []check{
		{name: "is set by attaching, with UDP", run: func(t *testing.T, ec *endpoint) {
			in := attachInput(eni, host, 0, 1)
			in.EnaSrdSpecification = &types.EnaSrdSpecification{
				EnaSrdEnabled:          aws.Bool(true),
				EnaSrdUdpSpecification: &types.EnaSrdUdpSpecification{EnaSrdUdpEnabled: aws.Bool(true)},
			}
			_, err := ec.AttachNetworkInterface(t.Context(), in)
			ok(t, err)
			seen := ec.awaitENI(t, eni, "with ENA Express", enabled)
			if udp := seen.Attachment.EnaSrdSpecification.EnaSrdUdpSpecification; udp == nil || !aws.ToBool(udp.EnaSrdUdpEnabled) {
				t.Error("UDP is off")
			}
		}},
		{name: "is changed while attached", run: func(t *testing.T, ec *endpoint) {
			ok(t, modify(eni, setENAExpress(false))(t.Context(), ec))
			ec.awaitENI(t, eni, "without ENA Express", func(e types.NetworkInterface) bool { return !enabled(e) })
			ok(t, modify(eni, setENAExpress(true))(t.Context(), ec))
			ec.awaitENI(t, eni, "with ENA Express", enabled)
		}},
		{name: "is lost by detaching", run: func(t *testing.T, ec *endpoint) {
			was := ec.awaitENI(t, eni, "attached", isAttached)
			ec.detach(t, eni, *was.Attachment.AttachmentId)
			ec.attach(t, eni, host, 0, 1)
			if now := ec.awaitENI(t, eni, "attached", isAttached); enabled(now) {
				t.Error("ENA Express is on after a plain attach")
			}
		}},
	})
}
