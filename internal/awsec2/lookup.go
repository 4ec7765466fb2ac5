// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/internal/core/eni"
)

// CountInterfaces returns the number of network interfaces in the region, of all owners.
func (c *Client) CountInterfaces(ctx context.Context) (int, error) {
	all, err := c.interfaces(ctx)
	return len(all), err
}

// ListTagged lists every interface with all the tags and exactly these values, sorted by ID; without tags, none.
func (c *Client) ListTagged(ctx context.Context, tags map[string]string) ([]eni.Interface, error) {
	if len(tags) == 0 {
		return nil, nil
	}
	var filters []types.Filter
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		filters = append(filters, tagFilter(key, tags[key]))
	}
	return c.interfaces(ctx, filters...)
}

// AttachedTo lists the interfaces attached to an instance, of all owners, sorted by ID.
func (c *Client) AttachedTo(ctx context.Context, instanceID string) ([]eni.Interface, error) {
	all, err := c.interfaces(ctx, filter("attachment.instance-id", instanceID))
	if err != nil {
		return nil, fmt.Errorf("list the interfaces of instance %s: %w", instanceID, err)
	}
	return all, nil
}

// SubnetsOf lists the subnets of a VPC.
func (c *Client) SubnetsOf(ctx context.Context, vpcID string) ([]eni.Subnet, error) {
	var all []eni.Subnet
	pages := ec2.NewDescribeSubnetsPaginator(c.api,
		&ec2.DescribeSubnetsInput{Filters: []types.Filter{filter("vpc-id", vpcID)}, MaxResults: aws.Int32(pageSize)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the subnets of VPC %s: %w", vpcID, toAPIError(err))
		}
		all = append(all, convertAll(page.Subnets, subnet)...)
	}
	return all, nil
}

// SecurityGroupsOf lists the security groups of a VPC.
func (c *Client) SecurityGroupsOf(ctx context.Context, vpcID string) ([]eni.SecurityGroup, error) {
	var all []eni.SecurityGroup
	pages := ec2.NewDescribeSecurityGroupsPaginator(c.api, &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{filter("vpc-id", vpcID)}, MaxResults: aws.Int32(pageSize),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the security groups of VPC %s: %w", vpcID, toAPIError(err))
		}
		all = append(all, convertAll(page.SecurityGroups, securityGroup)...)
	}
	return all, nil
}
