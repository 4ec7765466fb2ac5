// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// References include every launch template from which a fleet or a Spot Fleet request may still launch, even without
// instances.
func TestReferencesOfFleets(t *testing.T) {
	_, api, client := region(t)
	made, err := api.CreateLaunchTemplate(t.Context(), &sdk.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("base"), LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String("ami-0123456789abcdef0"), InstanceType: "m5.large"},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := made.LaunchTemplate.LaunchTemplateId
	byID := &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: id, Version: aws.String("1")}
	byName := &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String("base"), Version: aws.String("$Latest")}
	fleet := func(kind types.FleetType, size int32, specs ...*types.FleetLaunchTemplateSpecificationRequest) string {
		t.Helper()
		in := &sdk.CreateFleetInput{Type: kind, TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: &size}}
		for _, s := range specs {
			in.LaunchTemplateConfigs = append(in.LaunchTemplateConfigs, types.FleetLaunchTemplateConfigRequest{LaunchTemplateSpecification: s})
		}
		out, err := api.CreateFleet(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return *out.FleetId
	}
	empty := fleet(types.FleetTypeMaintain, 0, byID, byName)
	once := fleet(types.FleetTypeRequest, 1, byName)
	fleet(types.FleetTypeInstant, 1, byID)
	over := fleet(types.FleetTypeRequest, 1, byID)
	if _, err := api.DeleteFleets(t.Context(), &sdk.DeleteFleetsInput{FleetIds: []string{over}, TerminateInstances: aws.Bool(false)}); err != nil {
		t.Fatal(err)
	}
	spot := func() string {
		t.Helper()
		out, err := api.RequestSpotFleet(t.Context(), &sdk.RequestSpotFleetInput{SpotFleetRequestConfig: &types.SpotFleetRequestConfigData{
			IamFleetRole: aws.String("arn:aws:iam::123456789012:role/spot"), TargetCapacity: aws.Int32(0),
			LaunchTemplateConfigs: []types.LaunchTemplateConfig{{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecification{LaunchTemplateId: id, Version: aws.String("1")}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return *out.SpotFleetRequestId
	}
	request, cancelled := spot(), spot()
	if _, err := api.CancelSpotFleetRequests(t.Context(), &sdk.CancelSpotFleetRequestsInput{SpotFleetRequestIds: []string{cancelled}, TerminateInstances: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}

	got, err := client.LaunchReferences(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []launchtemplate.Reference{
		{By: "EC2 Fleet " + empty, TemplateID: *id, Version: "1"},
		{By: "EC2 Fleet " + empty, TemplateName: "base", Version: "$Latest"},
		{By: "EC2 Fleet " + once, TemplateName: "base", Version: "$Latest"},
		{By: "Spot Fleet request " + request, TemplateID: *id, Version: "1"},
	}
	byWhom := func(a, b launchtemplate.Reference) int {
		return cmp.Or(cmp.Compare(a.By, b.By), cmp.Compare(a.Version, b.Version))
	}
	slices.SortFunc(got, byWhom)
	slices.SortFunc(want, byWhom)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
