// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"cmp"
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Grant says whether the caller has a permission.
type Grant string

// The values of Grant.
const (
	Granted Grant = "granted"
	Denied  Grant = "denied"
	// Unknown means that EC2's answer was neither yes nor no.
	Unknown Grant = "unsure"
)

// Permission is EC2's answer for one action of [API].
type Permission struct {
	// Action is the IAM action, for example "ec2:AttachNetworkInterface".
	Action string
	Grant  Grant
	// Err is EC2's error if the permission is not granted.
	Err error
	// MadeUp is set if EC2 answered that the resource of the dry run does not exist. It seems to check permissions first,
	// but documents no order, so this is a weaker proof.
	MadeUp bool
}

// IDs of resources that do not exist.
const (
	noInterface = "eni-00000000000000000"
	noSubnet    = "subnet-00000000000000000"
	noInstance  = "i-00000000000000000"
)

// Permissions asks EC2, for each action of [API] with a dry run, whether the caller may do it (EC2 API reference,
// "DryRun"). The creation has the tags of a real one, which the policy of [Policy] requires, and is in the given
// subnet: EC2 also checks which subnets a policy allows. If the ID is empty, the subnet is one that does not exist,
// like interfaces and instances always: no check touches those of nodes. EC2 evaluates a policy with conditions on the
// tags of resources for resources that do not exist, so it can deny what it allows for real ones.
//
// If EC2 does not answer the first call, Permissions returns its error and does not wait for the others.
func (c *Client) Permissions(ctx context.Context, subnetID string) ([]Permission, error) {
	var all []Permission
	for n, try := range c.dryRuns(cmp.Or(subnetID, noSubnet)) {
		err := try.call(ctx)
		if f := asAPIError(err); n == 0 && err != nil && f.Code == "" {
			return nil, f
		}
		all = append(all, permission(try.action, err))
	}
	return all, nil
}

func permission(action string, err error) Permission {
	p := Permission{Action: "ec2:" + action, Grant: Unknown, Err: err}
	if err == nil {
		p.Grant = Granted
		return p
	}
	switch f := asAPIError(err); {
	case f.Code == "DryRunOperation":
		p.Grant, p.Err = Granted, nil
	case f.Class == eni.NotFound:
		p.Grant, p.Err, p.MadeUp = Granted, nil, true
	case f.Class == eni.Unauthorized:
		p.Grant, p.Err = Denied, f
	default:
		p.Err = f
	}
	return p
}

type dryRun struct {
	action string
	call   func(context.Context) error
}

// dryRuns are the actions of [API] with a dry run. The actions for addresses have none.
func (c *Client) dryRuns(subnetID string) []dryRun {
	yes, id := aws.Bool(true), aws.String(noInterface)
	tag := []types.Tag{{Key: aws.String("Name"), Value: aws.String("dry-run")}}
	created := identity.Interface{Cluster: c.cluster, UID: "dry-run", NodeENI: "dry-run", Node: "dry-run",
		Name: identity.ObjectName("dry-run", noInstance, 0), InstanceID: noInstance}.Tags(time.Now(), nil)
	reads := []dryRun{
		{"DescribeInstances", dry(c.api.DescribeInstances, &ec2.DescribeInstancesInput{DryRun: yes})},
		{"DescribeInstanceTypes", dry(c.api.DescribeInstanceTypes, &ec2.DescribeInstanceTypesInput{DryRun: yes})},
		{"DescribeNetworkInterfaces", dry(c.api.DescribeNetworkInterfaces, &ec2.DescribeNetworkInterfacesInput{DryRun: yes})},
		{"DescribeSecurityGroups", dry(c.api.DescribeSecurityGroups, &ec2.DescribeSecurityGroupsInput{DryRun: yes})},
		{"DescribeSubnets", dry(c.api.DescribeSubnets, &ec2.DescribeSubnetsInput{DryRun: yes})},
		{"GetSubnetCidrReservations", dry(c.api.GetSubnetCidrReservations, &ec2.GetSubnetCidrReservationsInput{
			DryRun: yes, SubnetId: aws.String(subnetID),
		})},
	}
	return append(reads,
		dryRun{"CreateNetworkInterface", dry(c.api.CreateNetworkInterface,
			&ec2.CreateNetworkInterfaceInput{DryRun: yes, SubnetId: aws.String(subnetID), TagSpecifications: []types.
				TagSpecification{{ResourceType: types.ResourceTypeNetworkInterface, Tags: tagList(created)}}})},
		dryRun{"AttachNetworkInterface", dry(c.api.AttachNetworkInterface, &ec2.AttachNetworkInterfaceInput{
			DryRun: yes, NetworkInterfaceId: id, InstanceId: aws.String(noInstance), DeviceIndex: aws.Int32(1)})},
		dryRun{"DetachNetworkInterface", dry(c.api.DetachNetworkInterface,
			&ec2.DetachNetworkInterfaceInput{DryRun: yes, AttachmentId: aws.String("eni-attach-00000000000000000")})},
		dryRun{"DeleteNetworkInterface",
			dry(c.api.DeleteNetworkInterface, &ec2.DeleteNetworkInterfaceInput{DryRun: yes, NetworkInterfaceId: id})},
		dryRun{"ModifyNetworkInterfaceAttribute",
			dry(c.api.ModifyNetworkInterfaceAttribute, &ec2.ModifyNetworkInterfaceAttributeInput{
				DryRun: yes, NetworkInterfaceId: id, SourceDestCheck: &types.AttributeBooleanValue{Value: aws.Bool(true)}})},
		dryRun{"CreateTags", dry(c.api.CreateTags,
			&ec2.CreateTagsInput{DryRun: yes, Resources: []string{noInterface}, Tags: tag})},
	)
}

// dry makes a dry run of an operation, in a single attempt.
func dry[In, Out any](
	operation func(context.Context, *In, ...func(*ec2.Options)) (*Out, error), input *In,
) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := operation(ctx, input, noRetry)
		return err
	}
}
