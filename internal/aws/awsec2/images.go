// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"cmp"
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// Images returns the images with all the tags, in any state. An image of another account counts only if it is shared
// with ours.
func (c *Client) Images(ctx context.Context, tags map[string]string) ([]launchtemplate.MachineImage, error) {
	return c.images(ctx, byTags(tags)[0])
}

// ImageByID returns an image in any state, and one without an ID if EC2 does not have it.
func (c *Client) ImageByID(ctx context.Context, imageID string) (launchtemplate.MachineImage, error) {
	found, err := c.images(ctx, []types.Filter{filter("image-id", imageID)})
	if err != nil || len(found) == 0 {
		return launchtemplate.MachineImage{}, err
	}
	return found[0], nil
}

func (c *Client) images(ctx context.Context, filters []types.Filter) ([]launchtemplate.MachineImage, error) {
	var all []launchtemplate.MachineImage
	pages := ec2.NewDescribeImagesPaginator(c.launches, &ec2.DescribeImagesInput{Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read images: %w", toAPIError(err))
		}
		all = append(all, convertAll(page.Images, machineImage)...)
	}
	return all, nil
}

// kubernetesArchitecture are the names of Kubernetes for EC2's architectures.
var kubernetesArchitecture = map[types.ArchitectureValues]string{
	types.ArchitectureValuesArm64: "arm64", types.ArchitectureValuesX8664: "amd64",
}

func machineImage(i types.Image) launchtemplate.MachineImage {
	return launchtemplate.MachineImage{
		ID:           aws.ToString(i.ImageId),
		Architecture: cmp.Or(kubernetesArchitecture[i.Architecture], string(i.Architecture)),
		State:        string(i.State), Kernel: i.ImageType != "" && i.ImageType != types.ImageTypeValuesMachine,
		CreatedAt: aws.ToString(i.CreationDate),
	}
}
