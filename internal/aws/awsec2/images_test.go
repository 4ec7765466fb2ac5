// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

func TestImages(t *testing.T) {
	server := always(reply{body: `<imagesSet>
		<item><imageId>ami-1</imageId><imageState>available</imageState><architecture>x86_64</architecture><imageType>machine</imageType>
			<creationDate>2026-01-01T00:00:00.000Z</creationDate></item>
		<item><imageId>ami-2</imageId><imageState>pending</imageState><architecture>arm64</architecture><imageType>machine</imageType></item>
		<item><imageId>aki-3</imageId><imageState>available</imageState><architecture>i386</architecture><imageType>kernel</imageType></item>
	</imagesSet>`})
	want := []launchtemplate.MachineImage{
		{ID: "ami-1", Architecture: "amd64", State: "available", CreatedAt: "2026-01-01T00:00:00.000Z"},
		{ID: "ami-2", Architecture: "arm64", State: "pending"},
		{ID: "aki-3", Architecture: "i386", State: "available", Kernel: true},
	}
	client := server.client(t, awsec2.Options{})
	got, err := client.Images(t.Context(), map[string]string{"role": "node"})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if values := server.requests[0].filter("tag:role"); len(values) != 1 || values[0] != "node" {
		t.Errorf("filter %q", values)
	}
	one, err := client.ImageByID(t.Context(), "ami-1")
	if one != want[0] || err != nil {
		t.Errorf("by ID: %+v, %v", one, err)
	}
}

func TestAnImageThatEC2DoesNotHave(t *testing.T) {
	server := always(reply{body: `<imagesSet/>`})
	image, err := server.client(t, awsec2.Options{}).ImageByID(t.Context(), "ami-1")
	if image != (launchtemplate.MachineImage{}) || err != nil {
		t.Errorf("%+v, %v", image, err)
	}
}

// A launch from a template without interfaces is tried in the subnet of the call.
func TestATrialOfALaunchTemplateWithoutInterfaces(t *testing.T) {
	_, api, client := region(t)
	for group, refused := range map[string]bool{"sg-0aa00000000000001": false, "sg-0ffffffffffffffff": true} {
		made, err := api.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
			LaunchTemplateName: aws.String(group), LaunchTemplateData: &types.RequestLaunchTemplateData{
				ImageId: aws.String("ami-0123456789abcdef0"), SecurityGroupIds: []string{group},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		err = client.DryRunLaunch(t.Context(), launchtemplate.DryRun{
			TemplateID: *made.LaunchTemplate.LaunchTemplateId, Version: 1, InstanceType: "m5.large", SubnetID: nodesSubnet.ID,
			Data: launchtemplate.Document{"SecurityGroupIds": []any{group}},
		})
		if (err != nil) != refused {
			t.Errorf("with %s: %v", group, err)
		}
	}
}
