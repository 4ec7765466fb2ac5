// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsautoscaling_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/awsautoscaling"
	"github.com/multieni/multieni/launch"
)

// pages are answers of Auto Scaling, one after the other.
type pages [][]types.AutoScalingGroup

func (p pages) DescribeAutoScalingGroups(_ context.Context, in *autoscaling.DescribeAutoScalingGroupsInput, _ ...func(*autoscaling.Options)) (*autoscaling.DescribeAutoScalingGroupsOutput, error) {
	out := &autoscaling.DescribeAutoScalingGroupsOutput{AutoScalingGroups: p[0]}
	if in.NextToken != nil {
		out.AutoScalingGroups = p[1]
	} else if len(p) > 1 {
		out.NextToken = aws.String("more")
	}
	return out, nil
}

// Every way in which a group can name a launch template is found, on every page.
func TestReferences(t *testing.T) {
	byID := func(id, version string) *types.LaunchTemplateSpecification {
		return &types.LaunchTemplateSpecification{LaunchTemplateId: &id, Version: &version}
	}
	groups := pages{
		{
			{AutoScalingGroupName: aws.String("plain"), LaunchTemplate: byID("lt-1", "3"), DesiredCapacity: aws.Int32(0)},
			{AutoScalingGroupName: aws.String("old"), LaunchConfigurationName: aws.String("none of these")},
		},
		{
			{AutoScalingGroupName: aws.String("mixed"), MixedInstancesPolicy: &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
				LaunchTemplateSpecification: &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("base"), Version: aws.String("$Latest")},
				Overrides:                   []types.LaunchTemplateOverrides{{InstanceType: aws.String("m5.large")}, {LaunchTemplateSpecification: byID("lt-arm", "1")}},
			}}},
			{AutoScalingGroupName: aws.String("changed"), LaunchTemplate: byID("lt-1", "4"), Instances: []types.Instance{{LaunchTemplate: byID("lt-1", "2")}}},
		},
	}
	got, err := awsautoscaling.Client{API: groups}.References(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []launch.Reference{
		{By: "Auto Scaling group plain", TemplateID: "lt-1", Version: "3"},
		{By: "Auto Scaling group mixed", TemplateName: "base", Version: "$Latest"},
		{By: "Auto Scaling group mixed", TemplateID: "lt-arm", Version: "1"},
		{By: "Auto Scaling group changed", TemplateID: "lt-1", Version: "4"},
		{By: "Auto Scaling group changed", TemplateID: "lt-1", Version: "2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
