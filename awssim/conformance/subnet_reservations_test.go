// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"net/netip"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// noReservation is the ID of a reservation that does not exist.
const noReservation = "scr-0000000000000000f"

func reserveCIDR(subnetID, cidr string, kind types.SubnetCidrReservationType, tags ...types.Tag) call {
	input := &ec2.CreateSubnetCidrReservationInput{SubnetId: &subnetID, Cidr: &cidr, ReservationType: kind}
	if len(tags) > 0 {
		input.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeSubnetCidrReservation, Tags: tags}}
	}
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.CreateSubnetCidrReservation(ctx, input)
		return err
	}
}

func (ec *endpoint) reservation(t *testing.T, cidr string) *types.SubnetCidrReservation {
	t.Helper()
	out, err := ec.GetSubnetCidrReservations(t.Context(), &ec2.GetSubnetCidrReservationsInput{SubnetId: ec.subnet.SubnetId})
	ok(t, err)
	return find(out.SubnetIpv4CidrReservations, func(r types.SubnetCidrReservation) bool { return aws.ToString(r.Cidr) == cidr })
}

func TestSubnetCIDRReservations(t *testing.T) {
	ec := open(t)
	subnet := *ec.subnet.SubnetId
	block := netip.PrefixFrom(lastBlock(cidrOf(ec.subnet)), 28).Masked()
	verify(t, ec, []check{
		{name: "a reservation has its type and its tags", run: func(t *testing.T, ec *endpoint) {
			ok(t, reserveCIDR(subnet, block.String(), types.SubnetCidrReservationTypePrefix, tag("team", "core"))(t.Context(), ec))
			got := ec.reservation(t, block.String())
			if got == nil || got.ReservationType != types.SubnetCidrReservationTypePrefix || tagsOf(got.Tags)["team"] != "core" || *got.SubnetId != subnet {
				t.Errorf("reservation %+v", got)
			}
		}},
		{name: "there is no client token, and a second one overlaps", strict: true,
			run: refused("InvalidParameterValue", reserveCIDR(subnet, block.String(), types.SubnetCidrReservationTypePrefix))},
		{name: "an overlap of another type", strict: true,
			run: refused("InvalidParameterValue", reserveCIDR(subnet, netip.PrefixFrom(block.Addr(), 27).Masked().String(), types.SubnetCidrReservationTypeExplicit))},
		{name: "a block outside of the subnet", strict: true,
			run: refused("InvalidParameterValue", reserveCIDR(subnet, "192.0.2.0/28", types.SubnetCidrReservationTypeExplicit))},
		{name: "an unknown subnet", run: refused("InvalidSubnetID.NotFound", reserveCIDR("subnet-0000000000000000f", block.String(), types.SubnetCidrReservationTypeExplicit))},
		{name: "a deleted one is gone", strict: true, run: func(t *testing.T, ec *endpoint) {
			got := ec.reservation(t, block.String())
			out, err := ec.DeleteSubnetCidrReservation(t.Context(), &ec2.DeleteSubnetCidrReservationInput{SubnetCidrReservationId: got.SubnetCidrReservationId})
			ok(t, err)
			if *out.DeletedSubnetCidrReservation.Cidr != block.String() || ec.reservation(t, block.String()) != nil {
				t.Errorf("deleted %+v", out.DeletedSubnetCidrReservation)
			}
		}},
		{name: "an unknown reservation", strict: true, run: refused("InvalidSubnetCidrReservationID.NotFound", func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DeleteSubnetCidrReservation(ctx, &ec2.DeleteSubnetCidrReservationInput{SubnetCidrReservationId: aws.String(noReservation)})
			return err
		})},
	})
}
