// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/ownership"
)

// sdk returns AWS's own client of EC2: what an Auto Scaling group does, a person does by hand.
func (s *stage) sdk() *ec2sdk.Client {
	return ec2sdk.New(ec2sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(s.Endpoint), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	})
}

// launchFrom launches an instance from what the status of an AWSNodeTemplate names, in the zone that is given: as an Auto
// Scaling group does, in the first subnet of the zone, where the launch template leaves that open.
func launchFrom(ts *testscript.TestScript, neg bool, args []string) {
	name, instance, instanceType, zone := args[0], args[1], args[2], args[3]
	s, ctx := on(ts), context.Background()
	var object v1alpha1.AWSNodeTemplate
	ts.Check(s.api.Get(ctx, client.ObjectKey{Name: name}, &object))
	at := slices.IndexFunc(object.Status.LaunchTemplates, func(p v1alpha1.PublishedTemplate) bool { return p.Zone == "" || p.Zone == zone })
	if at < 0 {
		ts.Fatalf("AWSNodeTemplate %s offers no launch template for %s", name, zone)
	}
	p := object.Status.LaunchTemplates[at]
	in := &ec2sdk.CreateFleetInput{
		Type: types.FleetTypeInstant, TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: aws.String(p.ID), Version: aws.String(strconv.FormatInt(p.Version, 10))},
			Overrides:                   []types.FleetLaunchTemplateOverridesRequest{{InstanceType: types.InstanceType(instanceType), SubnetId: subnetIn(object, p, zone)}},
		}},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String(instance)}}}},
	}
	out, err := s.sdk().CreateFleet(ctx, in)
	if err == nil && len(out.Errors) > 0 {
		err = fmt.Errorf("%s: %s", aws.ToString(out.Errors[0].ErrorCode), aws.ToString(out.Errors[0].ErrorMessage))
	}
	if (err != nil) != neg {
		ts.Fatalf("launch from %s: %v, and failure was expected: %t", name, err, neg)
	}
}

func subnetIn(object v1alpha1.AWSNodeTemplate, p v1alpha1.PublishedTemplate, zone string) *string {
	for _, z := range object.Status.Zones {
		if p.Zone == "" && z.Name == zone && len(z.Subnets) > 0 {
			return aws.String(z.Subnets[0])
		}
	}
	return nil
}

// born prints the interfaces that an instance was launched with, one per line: slot, type, subnet, groups, what the
// template says of it.
func born(ts *testscript.TestScript, _ bool, args []string) {
	state := on(ts).Simulator.State()
	at := slices.IndexFunc(state.Instances, func(i *ec2.Instance) bool {
		return i.Tags[ownership.TagName] == args[0] && i.State.Name != ec2.Terminated
	})
	if at < 0 {
		ts.Fatalf("there is no instance %s", args[0])
	}
	var lines []string
	for _, i := range state.NetworkInterfaces {
		if i.Attachment == nil || i.Attachment.InstanceID != state.Instances[at].InstanceID {
			continue
		}
		var groups []string
		for _, g := range i.Groups {
			groups = append(groups, g.GroupID)
		}
		line := fmt.Sprintf("card %d device %d: %s in %s, %s, %q", i.Attachment.NetworkCardIndex, i.Attachment.DeviceIndex, i.InterfaceType, i.SubnetID, strings.Join(groups, " "), i.Description)
		if n := len(i.IPv4Prefixes); n > 0 {
			line += fmt.Sprintf(", %d prefixes", n)
		}
		if !i.Attachment.DeleteOnTermination {
			line += ", stays"
		}
		if i.Tags[ownership.TagNoManage] == "true" {
			line += ", unmanaged"
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	fmt.Fprint(ts.Stdout(), strings.Join(lines, ""))
}
