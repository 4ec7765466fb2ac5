// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/multieni/multieni/internal/core/eni"
)

// SubnetInterfaces lists all interfaces of a subnet, of all owners, sorted by ID.
func (c *Client) SubnetInterfaces(ctx context.Context, subnetID string) ([]eni.Interface, error) {
	all, err := c.interfaces(ctx, filter("subnet-id", subnetID))
	if err != nil {
		return nil, fmt.Errorf("list the interfaces of %s: %w", subnetID, err)
	}
	return all, nil
}

// SubnetReservations lists the CIDR reservations of a subnet, of both types and families. EC2 allows few of these
// requests: a burst of 5 and one more per second (EC2 developer guide, "Request throttling for the Amazon EC2 API").
func (c *Client) SubnetReservations(ctx context.Context, subnetID string) ([]eni.SubnetReservation, error) {
	var all []eni.SubnetReservation
	input := &ec2.GetSubnetCidrReservationsInput{SubnetId: aws.String(subnetID)}
	for {
		page, err := c.api.GetSubnetCidrReservations(ctx, input)
		if err != nil {
			return nil, fmt.Errorf("list the CIDR reservations of %s: %w", subnetID, toAPIError(err))
		}
		for _, r := range append(page.SubnetIpv4CidrReservations, page.SubnetIpv6CidrReservations...) {
			all = append(all, eni.SubnetReservation{
				ID: aws.ToString(r.SubnetCidrReservationId), CIDR: prefix(r.Cidr), Type: eni.ReservationType(r.ReservationType),
				Description: aws.ToString(r.Description), Tags: tagMap(r.Tags),
			})
		}
		if aws.ToString(page.NextToken) == "" {
			return all, nil
		}
		input.NextToken = page.NextToken
	}
}

// TaggedInstances lists the pending and running instances with a tag. An empty value matches any value.
func (c *Client) TaggedInstances(ctx context.Context, key, value string) ([]eni.Instance, error) {
	tagged := filter("tag-key", key)
	if value != "" {
		tagged = tagFilter(key, value)
	}
	all, err := c.instances(ctx, tagged,
		filter("instance-state-name", string(eni.InstancePending), string(eni.InstanceRunning)))
	if err != nil {
		return nil, fmt.Errorf("list the instances with tag %s: %w", key, err)
	}
	return all, nil
}
