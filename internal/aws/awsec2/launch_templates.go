// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// templatesPerPage is the maximum page size for launch templates and their versions (EC2 API reference).
const templatesPerPage = 200

// InstanceTypes returns the limits of every instance type of the region.
func (c *Client) InstanceTypes(ctx context.Context) ([]launchtemplate.InstanceType, error) {
	var all []launchtemplate.InstanceType
	pages := ec2.NewDescribeInstanceTypesPaginator(c.api,
		&ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(typesPerPage)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the instance types: %w", toAPIError(err))
		}
		for _, t := range page.InstanceTypes {
			all = append(all, launchtemplate.InstanceType{Name: string(t.InstanceType), Limits: limits(t)})
		}
	}
	return all, nil
}

// LaunchTemplates returns the launch templates with all the tags, in the order of their names.
func (c *Client) LaunchTemplates(ctx context.Context, tags map[string]string) ([]launchtemplate.Existing, error) {
	var all []launchtemplate.Existing
	pages := ec2.NewDescribeLaunchTemplatesPaginator(c.launches, &ec2.DescribeLaunchTemplatesInput{
		Filters: byTags(tags)[0], MaxResults: aws.Int32(templatesPerPage),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read launch templates: %w", toAPIError(err))
		}
		for _, t := range page.LaunchTemplates {
			all = append(all, launchtemplate.Existing{
				ID: aws.ToString(t.LaunchTemplateId), Name: aws.ToString(t.LaunchTemplateName), Tags: tagMap(t.Tags),
				Latest: aws.ToInt64(t.LatestVersionNumber),
			})
		}
	}
	slices.SortFunc(all, func(a, b launchtemplate.Existing) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// LaunchTemplateVersions returns all versions of a launch template, the oldest first.
func (c *Client) LaunchTemplateVersions(ctx context.Context, templateID string) ([]launchtemplate.Version, error) {
	return c.versions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: aws.String(templateID),
		MaxResults: aws.Int32(templatesPerPage)})
}

// LaunchTemplateVersion returns one version of the launch template with the ID or else the name: a number, $Latest or
// $Default. It resolves parameters that name an image.
func (c *Client) LaunchTemplateVersion(
	ctx context.Context, templateID, name, version string,
) (launchtemplate.Version, error) {
	all, err := c.versions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: unlessEmpty(templateID), LaunchTemplateName: unlessEmpty(name), Versions: []string{version},
		ResolveAlias: aws.Bool(true),
	})
	if err != nil {
		return launchtemplate.Version{}, err
	}
	if len(all) != 1 {
		return launchtemplate.Version{}, &eni.APIError{Class: eni.NotFound, Operation: "DescribeLaunchTemplateVersions",
			Code:    "NotFound",
			Message: fmt.Sprintf("launch template %s has no version %s", templateID+name, version)}
	}
	return all[0], nil
}

func (c *Client) versions(
	ctx context.Context, input *ec2.DescribeLaunchTemplateVersionsInput,
) ([]launchtemplate.Version, error) {
	var all []launchtemplate.Version
	pages := ec2.NewDescribeLaunchTemplateVersionsPaginator(c.launches, input)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the versions of a launch template: %w", toAPIError(err))
		}
		for _, v := range page.LaunchTemplateVersions {
			version, err := launchVersion(v)
			if err != nil {
				return nil, err
			}
			all = append(all, version)
		}
	}
	slices.SortFunc(all, func(a, b launchtemplate.Version) int { return int(a.Number - b.Number) })
	return all, nil
}

func launchVersion(v types.LaunchTemplateVersion) (launchtemplate.Version, error) {
	version := launchtemplate.Version{
		TemplateID: aws.ToString(v.LaunchTemplateId), Number: aws.ToInt64(v.VersionNumber),
		Description: aws.ToString(v.VersionDescription), CreatedAt: aws.ToTime(v.CreateTime), Data: launchtemplate.Document{},
	}
	if v.LaunchTemplateData == nil {
		return version, nil
	}
	data, err := documentOf(v.LaunchTemplateData)
	if err != nil {
		return version, err
	}
	if user, is := data["UserData"].(string); is {
		plain, err := base64.StdEncoding.DecodeString(user)
		if err == nil {
			data["UserData"] = string(plain)
		}
	}
	version.Data = data
	return version, nil
}

// CreateLaunchTemplate creates a launch template, and returns its ID and EC2's warnings.
func (c *Client) CreateLaunchTemplate(
	ctx context.Context, p launchtemplate.NewTemplate,
) (id string, warnings []string, err error) {
	request, err := requestData(p.Data)
	if err != nil {
		return "", nil, err
	}
	out, err := c.launches.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(p.Name), LaunchTemplateData: request, ClientToken: aws.String(p.Token),
		VersionDescription: aws.String(launchtemplate.Describe(p.Hash)),
		TagSpecifications:  []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: tagList(p.Tags)}},
	}, noRetry)
	if err != nil {
		return "", nil, toAPIError(err)
	}
	return aws.ToString(out.LaunchTemplate.LaunchTemplateId), isUncertain(out.Warning), nil
}

// CreateLaunchTemplateVersion creates a version with the hash, and returns its number and EC2's warnings.
func (c *Client) CreateLaunchTemplateVersion(
	ctx context.Context, token, templateID, hash string, data launchtemplate.Document,
) (number int64, warnings []string, err error) {
	request, err := requestData(data)
	if err != nil {
		return 0, nil, err
	}
	out, err := c.launches.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: aws.String(templateID), LaunchTemplateData: request, ClientToken: aws.String(token),
		VersionDescription: aws.String(launchtemplate.Describe(hash)),
	}, noRetry)
	if err != nil {
		return 0, nil, toAPIError(err)
	}
	return aws.ToInt64(out.LaunchTemplateVersion.VersionNumber), isUncertain(out.Warning), nil
}

func isUncertain(warning *types.ValidationWarning) []string {
	if warning == nil {
		return nil
	}
	return convertAll(warning.Errors, func(e types.ValidationError) string {
		return "EC2 warns: " + aws.ToString(e.Code) + ": " + aws.ToString(e.Message)
	})
}

// InstancesLaunchedFrom returns, by instance, the version of a launch template that each running instance was launched
// from. EC2 itself writes that in tags that no other program can write.
func (c *Client) InstancesLaunchedFrom(ctx context.Context, templateID string) (map[string]int64, error) {
	all := map[string]int64{}
	err := c.eachInstance(ctx, tagFilter(tagLaunchedFrom+"id", templateID), func(i types.Instance) {
		if version, err := strconv.ParseInt(tagMap(i.Tags)[tagLaunchedFrom+"version"], 10, 64); err == nil {
			all[aws.ToString(i.InstanceId)] = version
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read the instances launched from %s: %w", templateID, err)
	}
	return all, nil
}

// ImagesOf returns the image that each running instance with the tag was launched with, by instance.
func (c *Client) ImagesOf(ctx context.Context, tag, value string) (map[string]string, error) {
	all := map[string]string{}
	err := c.eachInstance(ctx, tagFilter(tag, value), func(i types.Instance) {
		all[aws.ToString(i.InstanceId)] = aws.ToString(i.ImageId)
	})
	if err != nil {
		return nil, fmt.Errorf("read the instances with tag %s=%s: %w", tag, value, err)
	}
	return all, nil
}

func (c *Client) eachInstance(ctx context.Context, which types.Filter, do func(types.Instance)) error {
	pages := ec2.NewDescribeInstancesPaginator(c.api, &ec2.DescribeInstancesInput{
		Filters:    []types.Filter{which, filter("instance-state-name", "pending", "running", "stopping", "stopped")},
		MaxResults: aws.Int32(pageSize),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return toAPIError(err)
		}
		for _, reservation := range page.Reservations {
			for _, i := range reservation.Instances {
				do(i)
			}
		}
	}
	return nil
}

// tagLaunchedFrom is the prefix of the tags that EC2 writes on instances from a launch template.
const tagLaunchedFrom = "aws:ec2launchtemplate:"

// DeleteLaunchTemplate deletes a launch template with all its versions. An unknown one is no error.
func (c *Client) DeleteLaunchTemplate(ctx context.Context, templateID string) error {
	_, err := c.launches.DeleteLaunchTemplate(ctx,
		&ec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String(templateID)}, noRetry)
	return ignoreNotFound(err)
}

// DeleteLaunchTemplateVersions deletes versions; EC2 accepts 200 per call.
func (c *Client) DeleteLaunchTemplateVersions(ctx context.Context, templateID string, numbers []int64) error {
	for some := range slices.Chunk(numbers, templatesPerPage) {
		_, err := c.launches.DeleteLaunchTemplateVersions(ctx, &ec2.DeleteLaunchTemplateVersionsInput{
			LaunchTemplateId: aws.String(templateID), Versions: convertAll(some, func(n int64) string { return fmt.Sprint(n) }),
		}, noRetry)
		if err != nil {
			return ignoreNotFound(err)
		}
	}
	return nil
}

// DryRunLaunch checks a launch with EC2, without an instance. If the data has no subnet, the call names one for every
// interface, as an Auto Scaling group does, or for the instance if the data has no interface.
func (c *Client) DryRunLaunch(ctx context.Context, t launchtemplate.DryRun) error {
	input := &ec2.RunInstancesInput{
		DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		InstanceType: types.InstanceType(t.InstanceType),
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: aws.String(t.TemplateID),
			Version: aws.String(fmt.Sprint(t.Version))},
	}
	if t.SubnetID != "" {
		interfaces, err := inSubnet(t.Data, t.SubnetID)
		if err != nil {
			return err
		}
		if input.NetworkInterfaces = interfaces; len(interfaces) == 0 {
			input.SubnetId = aws.String(t.SubnetID)
		}
	}
	_, err := c.launches.RunInstances(ctx, input, noRetry)
	err = toAPIError(err)
	if answer := (*eni.APIError)(nil); err == nil || errors.As(err, &answer) && answer.Code == "DryRunOperation" {
		return nil
	}
	return err
}

func inSubnet(data launchtemplate.Document, subnetID string) ([]types.InstanceNetworkInterfaceSpecification, error) {
	var interfaces []types.InstanceNetworkInterfaceSpecification
	list, _ := data["NetworkInterfaces"].([]any)
	for _, e := range list {
		members, _ := e.(map[string]any)
		members = maps.Clone(members)
		members["SubnetId"] = subnetID
		var i types.InstanceNetworkInterfaceSpecification
		if err := convertJSON(members, &i); err != nil {
			return nil, fmt.Errorf("network interfaces: %w", err)
		}
		interfaces = append(interfaces, i)
	}
	return interfaces, nil
}
