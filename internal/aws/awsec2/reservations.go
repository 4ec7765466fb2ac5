// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"net/netip"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/reservation"
)

// ReservationAPI is exactly the EC2 calls for SubnetReservations that [API] does not have.
type ReservationAPI interface {
	CreateSubnetCidrReservation(context.Context, *ec2.CreateSubnetCidrReservationInput,
		...func(*ec2.Options)) (*ec2.CreateSubnetCidrReservationOutput, error)
	DeleteSubnetCidrReservation(context.Context, *ec2.DeleteSubnetCidrReservationInput,
		...func(*ec2.Options)) (*ec2.DeleteSubnetCidrReservationOutput, error)
}

var _ ReservationAPI = (*ec2.Client)(nil)

// CreateSubnetReservation reserves a block of a subnet with the tags of its owner, and returns the reservation's ID.
// The EC2 call has no client token. If the block overlaps another reservation, the error has class AddressTaken.
func (c *Client) CreateSubnetReservation(
	ctx context.Context, subnetID string, cidr netip.Prefix, kind eni.ReservationType, owner reservation.Owner,
) (id string, err error) {
	out, err := c.reserves.CreateSubnetCidrReservation(ctx, &ec2.CreateSubnetCidrReservationInput{
		SubnetId: aws.String(subnetID), Cidr: aws.String(cidr.String()),
		ReservationType: types.SubnetCidrReservationType(kind), Description: aws.String(owner.Description()),
		TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeSubnetCidrReservation, Tags: tagList(owner.Tags()),
		}},
	}, noRetry)
	if err != nil {
		return "", toAPIError(err)
	}
	return aws.ToString(out.SubnetCidrReservation.SubnetCidrReservationId), nil
}

// DeleteSubnetReservation deletes a reservation. An unknown one is no error.
func (c *Client) DeleteSubnetReservation(ctx context.Context, id string) error {
	_, err := c.reserves.DeleteSubnetCidrReservation(ctx,
		&ec2.DeleteSubnetCidrReservationInput{SubnetCidrReservationId: aws.String(id)}, noRetry)
	return ignoreNotFound(err)
}
