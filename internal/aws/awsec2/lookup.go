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
	"github.com/multieni/multieni/internal/core/identity"
)

// InterfaceCounts are numbers of network interfaces of all owners.
type InterfaceCounts struct {
	Region int
	// ByInstance has the attached interfaces of each instance.
	ByInstance map[string]int
}

// CountInterfaces counts the network interfaces in the region.
func (c *Client) CountInterfaces(ctx context.Context) (InterfaceCounts, error) {
	all, err := c.interfaces(ctx)
	counts := InterfaceCounts{Region: len(all), ByInstance: map[string]int{}}
	for _, i := range all {
		if i.Attachment != nil && i.Attachment.InstanceID != "" {
			counts.ByInstance[i.Attachment.InstanceID]++
		}
	}
	return counts, err
}

// Ping reads one page of interfaces, so that its error says why EC2 cannot be read.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.api.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{
		Filters: []types.Filter{tagFilter(identity.TagCluster, c.cluster)}, MaxResults: aws.Int32(smallestPage)})
	return toAPIError(err)
}

// ListByUIDs lists every interface that was created for one of the objects, by a cluster of any name, sorted by ID.
func (c *Client) ListByUIDs(ctx context.Context, uids []identity.UID) ([]eni.Interface, error) {
	var values []string
	for _, uid := range uids {
		values = append(values, string(uid))
	}
	var all []eni.Interface
	for some := range slices.Chunk(values, maxFilterValues) {
		found, err := c.interfaces(ctx, tagFilter(identity.TagUID, some...))
		if err != nil {
			return nil, fmt.Errorf("list the interfaces of %d objects: %w", len(uids), err)
		}
		all = append(all, found...)
	}
	return distinct(all), nil
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
