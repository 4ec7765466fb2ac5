// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// The calls with which Terraform, eksctl and scripts look around in an account.
func TestAccount(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "the region is among the regions", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.DescribeRegions(t.Context(), &ec2.DescribeRegionsInput{Filters: []types.Filter{filter("opt-in-status", "opt-in-not-required", "opted-in")}})
			ok(t, err)
			here := find(out.Regions, func(r types.Region) bool { return *r.RegionName == ec.region })
			if here == nil || *here.Endpoint == "" {
				t.Errorf("regions %+v, want %s among them", out.Regions, ec.region)
			}
		}},
		{name: "an unknown region", run: refused("InvalidParameterValue", func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DescribeRegions(ctx, &ec2.DescribeRegionsInput{RegionNames: []string{"xx-nowhere-1"}})
			return err
		})},
		{name: "an attribute of the account", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.DescribeAccountAttributes(t.Context(), &ec2.DescribeAccountAttributesInput{AttributeNames: []types.AccountAttributeName{"supported-platforms"}})
			ok(t, err)
			if a := out.AccountAttributes; len(a) != 1 || *a[0].AttributeValues[0].AttributeValue != "VPC" {
				t.Errorf("attributes %+v", a)
			}
		}},
		{name: "a type is offered in the zone", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.DescribeInstanceTypeOfferings(t.Context(), &ec2.DescribeInstanceTypeOfferingsInput{
				LocationType: types.LocationTypeAvailabilityZone,
				Filters:      []types.Filter{filter("instance-type", ec.instanceType), filter("location", *ec.subnet.AvailabilityZone)},
			})
			ok(t, err)
			if o := out.InstanceTypeOfferings; len(o) != 1 || o[0].LocationType != types.LocationTypeAvailabilityZone {
				t.Errorf("offerings %+v", o)
			}
		}},
		{name: "types of the region, in pages", run: func(t *testing.T, ec *endpoint) {
			pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(ec, &ec2.DescribeInstanceTypeOfferingsInput{
				MaxResults: aws.Int32(5), Filters: []types.Filter{filter("instance-type", "m5.*")},
			})
			var names []string
			for pages.HasMorePages() {
				page, err := pages.NextPage(t.Context())
				ok(t, err)
				for _, o := range page.InstanceTypeOfferings {
					names = append(names, string(o.InstanceType))
				}
			}
			if len(names) < 8 || !slices.Contains(names, "m5.metal") {
				t.Errorf("types %v", names)
			}
		}},
	})
}

func attributeOf(ctx context.Context, ec *endpoint, id string, name types.InstanceAttributeName) (*ec2.DescribeInstanceAttributeOutput, error) {
	return ec.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: &id, Attribute: name})
}

func modifyInstance(id string, change func(*ec2.ModifyInstanceAttributeInput)) call {
	return func(ctx context.Context, ec *endpoint) error {
		in := &ec2.ModifyInstanceAttributeInput{InstanceId: &id}
		change(in)
		_, err := ec.ModifyInstanceAttribute(ctx, in)
		return err
	}
}

func TestInstanceAttributes(t *testing.T) {
	ec := open(t)
	id := *ec.instance(t).InstanceId
	yes, no := &types.AttributeBooleanValue{Value: aws.Bool(true)}, &types.AttributeBooleanValue{Value: aws.Bool(false)}
	protect := func(v *types.AttributeBooleanValue) call {
		return modifyInstance(id, func(in *ec2.ModifyInstanceAttributeInput) { in.DisableApiTermination = v })
	}
	awaitProtection := func(t *testing.T, want bool) {
		t.Helper()
		ec.await(t, "the attribute", func(ctx context.Context) (string, error) {
			out, err := attributeOf(ctx, ec, id, types.InstanceAttributeNameDisableApiTermination)
			if err != nil || *out.DisableApiTermination.Value != want {
				return "another value", err
			}
			return "", nil
		})
	}
	verify(t, ec, []check{
		{name: "type, shutdown behaviour and groups", run: func(t *testing.T, ec *endpoint) {
			kind, err := attributeOf(t.Context(), ec, id, types.InstanceAttributeNameInstanceType)
			ok(t, err)
			shutdown, err := attributeOf(t.Context(), ec, id, types.InstanceAttributeNameInstanceInitiatedShutdownBehavior)
			ok(t, err)
			groups, err := attributeOf(t.Context(), ec, id, types.InstanceAttributeNameGroupSet)
			ok(t, err)
			if *kind.InstanceType.Value != ec.instanceType || *shutdown.InstanceInitiatedShutdownBehavior.Value != "stop" || len(groups.Groups) != 1 {
				t.Errorf("type %s, shutdown %s, groups %+v", *kind.InstanceType.Value, *shutdown.InstanceInitiatedShutdownBehavior.Value, groups.Groups)
			}
		}},
		{name: "no user data is no value", run: func(t *testing.T, ec *endpoint) {
			out, err := attributeOf(t.Context(), ec, id, types.InstanceAttributeNameUserData)
			ok(t, err)
			if out.UserData == nil || out.UserData.Value != nil {
				t.Errorf("user data %+v, want one without a value", out.UserData)
			}
		}},
		{name: "protection from termination", run: func(t *testing.T, ec *endpoint) {
			ok(t, protect(yes)(t.Context(), ec))
			awaitProtection(t, true)
			_, err := ec.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
			expectRefusal(t, "OperationNotPermitted", err)
			ok(t, protect(no)(t.Context(), ec))
			awaitProtection(t, false)
		}},
		{name: "the source/destination check of the only interface", run: func(t *testing.T, ec *endpoint) {
			ok(t, modifyInstance(id, func(in *ec2.ModifyInstanceAttributeInput) { in.SourceDestCheck = no })(t.Context(), ec))
			ec.await(t, "the attribute", func(ctx context.Context) (string, error) {
				out, err := attributeOf(ctx, ec, id, types.InstanceAttributeNameSourceDestCheck)
				if err != nil || *out.SourceDestCheck.Value {
					return "still checked", err
				}
				return "", nil
			})
		}},
		{name: "the type of a running instance", run: refused("IncorrectInstanceState", modifyInstance(id, func(in *ec2.ModifyInstanceAttributeInput) {
			in.InstanceType = &types.AttributeValue{Value: aws.String("m5.large")}
		}))},
		{name: "two attributes", strict: true, run: refusedSomehow(modifyInstance(id, func(in *ec2.ModifyInstanceAttributeInput) {
			in.DisableApiTermination, in.SourceDestCheck = no, yes
		}))},
		{name: "a dry run", run: refused("DryRunOperation", modifyInstance(id, func(in *ec2.ModifyInstanceAttributeInput) {
			in.DisableApiTermination, in.DryRun = yes, aws.Bool(true)
		}))},
		{name: "an unknown instance", run: refused("InvalidInstanceID.NotFound", modifyInstance(noInstance, func(in *ec2.ModifyInstanceAttributeInput) {
			in.DisableApiTermination = yes
		}))},
		{name: "which of two interfaces", run: func(t *testing.T, ec *endpoint) {
			second := *ec.eni(t).NetworkInterfaceId
			ec.attach(t, second, id, 0, 1)
			expectRefusal(t, "InvalidInstanceID", modifyInstance(id, func(in *ec2.ModifyInstanceAttributeInput) { in.SourceDestCheck = yes })(t.Context(), ec))
		}},
	})
}
