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

// TestDryRun: a dry run always ends in an error, DryRunOperation when the request would have succeeded.
// Assign* and Unassign* have no dry run.
func TestDryRun(t *testing.T) {
	ec := open(t)
	host := ec.instance(t)
	id := *host.InstanceId
	eni, attached := *ec.eni(t, tagged(tag("a", "1"))).NetworkInterfaceId, *ec.eni(t).NetworkInterfaceId
	attachment := ec.attach(t, attached, id, 0, 1)

	var rows []check
	for name, do := range dryRuns(id, eni, attachment) {
		rows = append(rows, check{name: name, run: refused("DryRunOperation", do)})
	}
	verify(t, ec, rows)
	verify(t, ec, []check{
		{name: "nothing has changed", run: func(t *testing.T, ec *endpoint) {
			ec.awaitInstance(t, id, types.InstanceStateNameRunning)
			ec.awaitENI(t, attached, "attached", isAttached)
			untouched := ec.awaitENI(t, eni, "available", isAvailable)
			if aws.ToString(untouched.Description) != "" || len(untouched.TagSet) != 1 {
				t.Errorf("description %q, tags %v", *untouched.Description, untouched.TagSet)
			}
		}},
		{name: "an invalid request says why", strict: true, run: func(t *testing.T, ec *endpoint) {
			refused("InvalidSubnetID.NotFound", create(func(in *createInput) {
				in.DryRun, in.SubnetId = aws.Bool(true), aws.String(noSubnet)
			}))(t, ec)
			refused("InvalidParameterCombination", launch(withInterfaces(ec.spec(0, 0)), inSubnet(&ec.subnet), func(in *runInput) {
				in.DryRun = aws.Bool(true)
			}))(t, ec)
			refused("InvalidNetworkInterfaceID.NotFound", modify(noENI, func(in *modifyInput) {
				setDescription("never")(in)
				in.DryRun = aws.Bool(true)
			}))(t, ec)
		}},
	})
}

// dryRuns would all succeed, given an instance, an interface that is available and an attachment.
func dryRuns(id, eni, attachment string) map[string]call {
	dry := aws.Bool(true)
	return map[string]call{
		"RunInstances":           launch(func(in *runInput) { in.DryRun = dry }),
		"CreateNetworkInterface": create(func(in *createInput) { in.DryRun = dry }),
		"StartInstances": func(ctx context.Context, ec *endpoint) error {
			_, err := ec.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}, DryRun: dry})
			return err
		},
		"StopInstances": func(ctx context.Context, ec *endpoint) error {
			_, err := ec.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}, DryRun: dry})
			return err
		},
		"TerminateInstances": func(ctx context.Context, ec *endpoint) error {
			_, err := ec.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}, DryRun: dry})
			return err
		},
		"AttachNetworkInterface": func(ctx context.Context, ec *endpoint) error {
			in := attachInput(eni, id, 0, 2)
			in.DryRun = dry
			_, err := ec.AttachNetworkInterface(ctx, in)
			return err
		},
		"DetachNetworkInterface": func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{AttachmentId: &attachment, DryRun: dry})
			return err
		},
		"DeleteNetworkInterface": func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &eni, DryRun: dry})
			return err
		},
		"ModifyNetworkInterfaceAttribute": modify(eni, func(in *modifyInput) {
			setDescription("never")(in)
			in.DryRun = dry
		}),
		"CreateTags": func(ctx context.Context, ec *endpoint) error {
			_, err := ec.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{eni}, Tags: []types.Tag{tag("b", "2")}, DryRun: dry})
			return err
		},
		"DeleteTags": func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{eni}, Tags: []types.Tag{tag("a", "1")}, DryRun: dry})
			return err
		},
		"DescribeNetworkInterfaces": describe(&ec2.DescribeNetworkInterfacesInput{DryRun: dry}),
		"DescribeInstances":         describeInstances(&ec2.DescribeInstancesInput{DryRun: dry}),
		"DescribeInstanceTypes":     describeTypes(&ec2.DescribeInstanceTypesInput{DryRun: dry}),
		"DescribeSubnets": func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{DryRun: dry})
			return err
		},
		"DescribeSecurityGroups": func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{DryRun: dry})
			return err
		},
		"DescribeAvailabilityZones": func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{DryRun: dry})
			return err
		},
		"DescribeVpcs": func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{DryRun: dry})
			return err
		},
	}
}
