// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// OperatorAPI is exactly the EC2 calls of `kubectl eni` that [API] does not have.
type OperatorAPI interface {
	DeleteTags(context.Context, *ec2.DeleteTagsInput, ...func(*ec2.Options)) (*ec2.DeleteTagsOutput, error)
}

var _ OperatorAPI = (*ec2.Client)(nil)

// RemoveTags removes tags of an interface, regardless of their values. It needs at least one key: without keys EC2
// would remove all tags (EC2 API reference, DeleteTags). An interface without the tags is no error.
func (c *Client) RemoveTags(ctx context.Context, interfaceID string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	tags := make([]types.Tag, 0, len(keys))
	for _, key := range keys {
		tags = append(tags, types.Tag{Key: aws.String(key)})
	}
	_, err := c.operates.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{interfaceID}, Tags: tags}, noRetry)
	return toAPIError(err)
}
