// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// LaunchReferences returns every launch template from which an EC2 Fleet or a Spot Fleet request may still launch, even
// without instances. An instant fleet launches once, and is not included.
func (c *Client) LaunchReferences(ctx context.Context) ([]launchtemplate.Reference, error) {
	fleets, err := c.fleetReferences(ctx)
	if err != nil {
		return nil, err
	}
	requests, err := c.spotFleetReferences(ctx)
	return append(fleets, requests...), err
}

func (c *Client) fleetReferences(ctx context.Context) ([]launchtemplate.Reference, error) {
	var all []launchtemplate.Reference
	pages := ec2.NewDescribeFleetsPaginator(c.launches, &ec2.DescribeFleetsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the EC2 Fleets: %w", toAPIError(err))
		}
		for _, f := range page.Fleets {
			if isOver(string(f.FleetState)) {
				continue
			}
			for _, config := range f.LaunchTemplateConfigs {
				all = append(all, referenceTo("EC2 Fleet "+aws.ToString(f.FleetId), config.LaunchTemplateSpecification)...)
			}
		}
	}
	return all, nil
}

func (c *Client) spotFleetReferences(ctx context.Context) ([]launchtemplate.Reference, error) {
	var all []launchtemplate.Reference
	pages := ec2.NewDescribeSpotFleetRequestsPaginator(c.launches, &ec2.DescribeSpotFleetRequestsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the Spot Fleet requests: %w", toAPIError(err))
		}
		for _, r := range page.SpotFleetRequestConfigs {
			if r.SpotFleetRequestConfig == nil || isOver(string(r.SpotFleetRequestState)) {
				continue
			}
			for _, config := range r.SpotFleetRequestConfig.LaunchTemplateConfigs {
				all = append(all, referenceTo("Spot Fleet request "+aws.ToString(r.SpotFleetRequestId),
					config.LaunchTemplateSpecification)...)
			}
		}
	}
	return all, nil
}

// isOver reports whether a fleet in the state launches no more instances: it failed, or was deleted or cancelled, even
// if its instances continue to run. An unknown state is not over.
func isOver(state string) bool {
	return slices.ContainsFunc([]string{"failed", "deleted", "cancelled"}, func(over string) bool {
		return strings.HasPrefix(state, over)
	})
}

func referenceTo(by string, s *types.FleetLaunchTemplateSpecification) []launchtemplate.Reference {
	if s == nil { // a Spot Fleet request of the old kind, with launch specifications
		return nil
	}
	return []launchtemplate.Reference{{
		By: by, TemplateID: aws.ToString(s.LaunchTemplateId), TemplateName: aws.ToString(s.LaunchTemplateName),
		Version: aws.ToString(s.Version),
	}}
}
