// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsautoscaling_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/aws/awsautoscaling"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// region returns a simulated account without delays, with the launch templates "base" and "arm".
func region(t *testing.T) (client *autoscaling.Client, base, arm string) {
	t.Helper()
	world := awssim.ExampleWorld()
	data := ec2.LaunchTemplateData{ImageID: "ami-0123456789abcdef0", InstanceType: "m5.large"}
	world.LaunchTemplates = []ec2.WorldLaunchTemplate{{LaunchTemplateName: "base", LaunchTemplateData: data}, {LaunchTemplateName: "arm", LaunchTemplateData: data}}
	sim, err := awssim.New(awssim.Options{World: world, Behavior: &ec2.Behavior{}, Limits: map[string]awssim.Bucket{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, template := range sim.State().LaunchTemplates {
		if template.LaunchTemplateName == "base" {
			base = template.LaunchTemplateID
		} else {
			arm = template.LaunchTemplateID
		}
	}
	return autoscaling.New(autoscaling.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://aws.simulated"), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		HTTPClient: &http.Client{Transport: sim.Transport()},
	}), base, arm
}

// References finds every way in which a group can name a launch template, on every page.
func TestReferences(t *testing.T) {
	client, base, arm := region(t)
	group := func(name string, size int32, in autoscaling.CreateAutoScalingGroupInput) {
		t.Helper()
		in.AutoScalingGroupName, in.MinSize, in.MaxSize, in.DesiredCapacity = &name, aws.Int32(0), aws.Int32(1), &size
		in.VPCZoneIdentifier = aws.String("subnet-0aa0000000000000a")
		if _, err := client.CreateAutoScalingGroup(t.Context(), &in); err != nil {
			t.Fatal(err)
		}
	}
	byID := func(id string) *types.LaunchTemplateSpecification {
		return &types.LaunchTemplateSpecification{LaunchTemplateId: &id, Version: aws.String("1")}
	}
	byName := &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("base"), Version: aws.String("$Latest")}
	group("a-plain", 0, autoscaling.CreateAutoScalingGroupInput{LaunchTemplate: byID(base)})
	for i := range 100 {
		group(fmt.Sprintf("others-%d", i), 0, autoscaling.CreateAutoScalingGroupInput{LaunchTemplate: byID(base)})
	}
	group("x-mixed", 0, autoscaling.CreateAutoScalingGroupInput{MixedInstancesPolicy: &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
		LaunchTemplateSpecification: byName,
		Overrides:                   []types.LaunchTemplateOverrides{{InstanceType: aws.String("m5.large")}, {LaunchTemplateSpecification: byID(arm)}},
	}}})
	// Its instance began to launch before the group was changed.
	group("y-changed", 1, autoscaling.CreateAutoScalingGroupInput{LaunchTemplate: byID(arm)})
	if _, err := client.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("y-changed"), LaunchTemplate: byName}); err != nil {
		t.Fatal(err)
	}

	all, err := awsautoscaling.Client{API: client}.References(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []launchtemplate.Reference
	for _, r := range all {
		if !strings.Contains(r.By, "others-") {
			got = append(got, r)
		}
	}
	want := []launchtemplate.Reference{
		{By: "Auto Scaling group a-plain", TemplateID: base, TemplateName: "base", Version: "1"},
		{By: "Auto Scaling group x-mixed", TemplateID: base, TemplateName: "base", Version: "$Latest"},
		{By: "Auto Scaling group x-mixed", TemplateID: arm, TemplateName: "arm", Version: "1"},
		{By: "Auto Scaling group y-changed", TemplateID: base, TemplateName: "base", Version: "$Latest"},
		{By: "Auto Scaling group y-changed", TemplateID: arm, TemplateName: "arm", Version: "1"},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(all) != len(want)+100 {
		t.Errorf("%d in all (-want +got):\n%s", len(all), diff)
	}
}
