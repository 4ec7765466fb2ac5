// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package awsautoscaling reads which launch templates Auto Scaling groups launch from.
package awsautoscaling

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// groupsPerPage is the most groups of a page (Auto Scaling API reference, DescribeAutoScalingGroups).
const groupsPerPage = 100

// Client reads Auto Scaling groups.
type Client struct {
	// API is the only call that Client makes.
	API autoscaling.DescribeAutoScalingGroupsAPIClient
}

// References returns every launch template that a group of the account names, itself or in its mixed instances policy,
// even if the group is scaled to zero.
func (c Client) References(ctx context.Context) ([]launchtemplate.Reference, error) {
	var all []launchtemplate.Reference
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(c.API,
		&autoscaling.DescribeAutoScalingGroupsInput{MaxRecords: aws.Int32(groupsPerPage)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the Auto Scaling groups: %w", err)
		}
		for _, g := range page.AutoScalingGroups {
			all = append(all, referencesOf(g)...)
		}
	}
	return all, nil
}

func referencesOf(g types.AutoScalingGroup) []launchtemplate.Reference {
	specifications := []*types.LaunchTemplateSpecification{g.LaunchTemplate}
	if m := g.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		specifications = append(specifications, m.LaunchTemplate.LaunchTemplateSpecification)
		for _, override := range m.LaunchTemplate.Overrides {
			specifications = append(specifications, override.LaunchTemplateSpecification)
		}
	}
	for _, i := range g.Instances { // they may be from before the last change of the group
		specifications = append(specifications, i.LaunchTemplate)
	}
	var all []launchtemplate.Reference
	for _, s := range specifications {
		if s != nil {
			all = append(all, launchtemplate.Reference{
				By:         "Auto Scaling group " + aws.ToString(g.AutoScalingGroupName),
				TemplateID: aws.ToString(s.LaunchTemplateId), TemplateName: aws.ToString(s.LaunchTemplateName),
				Version: aws.ToString(s.Version),
			})
		}
	}
	return all
}
