// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/internal/base/cache"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/instancetype"
)

const (
	// typesPerPage is the maximum page size of DescribeInstanceTypes (EC2 API reference).
	typesPerPage = 100
	// limitsTTL is the lifetime of limits from EC2; AWS rarely changes them.
	limitsTTL = 24 * time.Hour
	// limitsErrorTTL is the lifetime of limits from the offline table, until the next call to EC2.
	limitsErrorTTL = 10 * time.Minute
)

// Limits returns the limits of the instance type, from EC2 or, if EC2 does not have them, from the offline table. If
// neither has the type, its limits are not [eni.Limits.Known]; that is an error only if the call failed.
func (c *Client) Limits(ctx context.Context, instanceType string) (eni.Limits, error) {
	return c.types.limits(ctx, instanceType)
}

// describeTypes reads the limits of instance types, and omits types that EC2 does not have.
func (c *Client) describeTypes(ctx context.Context, names []string) (map[string]eni.Limits, error) {
	found := map[string]eni.Limits{}
	pages := ec2.NewDescribeInstanceTypesPaginator(c.api, &ec2.DescribeInstanceTypesInput{
		Filters: []types.Filter{filter("instance-type", names...)}, MaxResults: aws.Int32(typesPerPage),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, toAPIError(err)
		}
		for _, t := range page.InstanceTypes {
			found[string(t.InstanceType)] = limits(t)
		}
	}
	return found, nil
}

// typeCache keeps the limits of instance types.
type typeCache struct {
	asked *batcher[eni.Limits]
	kept  *cache.Cache[eni.Limits]
}

func newTypeCache(describe func(context.Context, []string) (map[string]eni.Limits, error)) *typeCache {
	return &typeCache{asked: newCoalescer(maxFilterValues, describe), kept: cache.New[eni.Limits](time.Now)}
}

func (c *typeCache) limits(ctx context.Context, instanceType string) (eni.Limits, error) {
	return c.kept.Get(ctx, instanceType, func(ctx context.Context) (eni.Limits, time.Duration, error) {
		described, err := c.asked.get(ctx, instanceType)
		if described.Known() {
			return described, limitsTTL, nil
		}
		offline, listed := instancetype.Offline(instanceType)
		if err != nil && !listed {
			return eni.Limits{}, 0, fmt.Errorf("read the limits of instance type %s: %w", instanceType, err)
		}
		return offline, limitsErrorTTL, nil
	})
}
