// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// LaunchAPI is exactly the EC2 calls of the launch-time path that are not in [API]. RunInstances is only called with
// DryRun.
type LaunchAPI interface {
	DescribeFleets(context.Context, *ec2.DescribeFleetsInput, ...func(*ec2.Options)) (*ec2.DescribeFleetsOutput, error)
	DescribeImages(context.Context, *ec2.DescribeImagesInput, ...func(*ec2.Options)) (*ec2.DescribeImagesOutput, error)
	DescribeLaunchTemplates(context.Context, *ec2.DescribeLaunchTemplatesInput,
		...func(*ec2.Options)) (*ec2.DescribeLaunchTemplatesOutput, error)
	DescribeLaunchTemplateVersions(context.Context, *ec2.DescribeLaunchTemplateVersionsInput,
		...func(*ec2.Options)) (*ec2.DescribeLaunchTemplateVersionsOutput, error)
	DescribeSpotFleetRequests(context.Context, *ec2.DescribeSpotFleetRequestsInput,
		...func(*ec2.Options)) (*ec2.DescribeSpotFleetRequestsOutput, error)

	CreateLaunchTemplate(context.Context, *ec2.CreateLaunchTemplateInput,
		...func(*ec2.Options)) (*ec2.CreateLaunchTemplateOutput, error)
	CreateLaunchTemplateVersion(context.Context, *ec2.CreateLaunchTemplateVersionInput,
		...func(*ec2.Options)) (*ec2.CreateLaunchTemplateVersionOutput, error)
	DeleteLaunchTemplate(context.Context, *ec2.DeleteLaunchTemplateInput,
		...func(*ec2.Options)) (*ec2.DeleteLaunchTemplateOutput, error)
	DeleteLaunchTemplateVersions(context.Context, *ec2.DeleteLaunchTemplateVersionsInput,
		...func(*ec2.Options)) (*ec2.DeleteLaunchTemplateVersionsOutput, error)
	RunInstances(context.Context, *ec2.RunInstancesInput, ...func(*ec2.Options)) (*ec2.RunInstancesOutput, error)
}

var _ LaunchAPI = (*ec2.Client)(nil)
