// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/selector"
)

const (
	// maxFilterValues is the largest number of filter values of all filters in a request (EC2 answers
	// FilterLimitExceeded).
	maxFilterValues = 200
	// pageSize is the largest page (EC2 API reference, MaxResults of the Describe actions).
	pageSize = 1000
	// smallestPage is the smallest one of DescribeNetworkInterfaces.
	smallestPage = 5
)

// ListOwned lists every interface with the cluster's tag, sorted by ID. The list is complete, or the result is an
// error. The time is when the list began: it may omit later changes.
func (c *Client) ListOwned(ctx context.Context) ([]eni.Interface, time.Time, error) {
	begun := time.Now()
	all, err := c.interfaces(ctx, tagFilter(identity.TagCluster, c.cluster))
	if err != nil {
		return nil, begun, fmt.Errorf("list the interfaces of cluster %s: %w", c.cluster, err)
	}
	return all, begun, nil
}

// Interfaces describes interfaces by ID, sorted by ID; it omits those that EC2 does not return.
func (c *Client) Interfaces(ctx context.Context, ids []string) ([]eni.Interface, error) {
	var all []eni.Interface
	for some := range slices.Chunk(ids, maxFilterValues) {
		found, err := c.interfaces(ctx, filter("network-interface-id", some...))
		if err != nil {
			return nil, fmt.Errorf("describe %d interfaces: %w", len(ids), err)
		}
		all = append(all, found...)
	}
	return distinct(all), nil
}

// Instances describes instances by ID; it omits those that EC2 does not return.
func (c *Client) Instances(ctx context.Context, ids []string) ([]eni.Instance, error) {
	var all []eni.Instance
	for some := range slices.Chunk(ids, maxFilterValues) {
		found, err := c.instances(ctx, filter("instance-id", some...))
		if err != nil {
			return nil, fmt.Errorf("describe %d instances: %w", len(ids), err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// Subnets returns the subnets that could match the terms, and possibly others; a term without a match is no error.
func (c *Client) Subnets(ctx context.Context, terms selector.SubnetTerms) ([]eni.Subnet, error) {
	questions := slices.Concat(
		chunked("subnet-id", terms.IDs), chunked("tag:"+identity.TagName, patterns(terms.Names)), byTags(terms.Tags))
	var all []eni.Subnet
	for _, filters := range questions {
		pages := ec2.NewDescribeSubnetsPaginator(c.api,
			&ec2.DescribeSubnetsInput{Filters: filters, MaxResults: aws.Int32(pageSize)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("read subnets: %w", toAPIError(err))
			}
			all = append(all, convertAll(page.Subnets, subnet)...)
		}
	}
	return all, nil
}

// SecurityGroups returns the security groups that could match the terms, and possibly others; a term without a match is
// no error.
func (c *Client) SecurityGroups(ctx context.Context, terms selector.GroupTerms) ([]eni.SecurityGroup, error) {
	names := patterns(terms.Names)
	questions := slices.Concat(
		chunked("group-id", terms.IDs), chunked("group-name", names), chunked("tag:"+identity.TagName, names),
		byTags(terms.Tags))
	var all []eni.SecurityGroup
	for _, filters := range questions {
		pages := ec2.NewDescribeSecurityGroupsPaginator(c.api,
			&ec2.DescribeSecurityGroupsInput{Filters: filters, MaxResults: aws.Int32(pageSize)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("read security groups: %w", toAPIError(err))
			}
			all = append(all, convertAll(page.SecurityGroups, securityGroup)...)
		}
	}
	return all, nil
}

// SecurityGroupRules returns the rules of security groups by the group's ID; it omits groups that EC2 does not return.
func (c *Client) SecurityGroupRules(ctx context.Context, ids []string) (map[string]eni.GroupRules, error) {
	rules := map[string]eni.GroupRules{}
	for _, filters := range chunked("group-id", ids) {
		pages := ec2.NewDescribeSecurityGroupsPaginator(c.api,
			&ec2.DescribeSecurityGroupsInput{Filters: filters, MaxResults: aws.Int32(pageSize)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("read the rules of security groups: %w", toAPIError(err))
			}
			for _, g := range page.SecurityGroups {
				rules[aws.ToString(g.GroupId)] = groupRules(g)
			}
		}
	}
	return rules, nil
}

// interfaces reads all pages, sorted by ID. An interface that moves between pages is included once.
func (c *Client) interfaces(ctx context.Context, filters ...types.Filter) ([]eni.Interface, error) {
	var all []eni.Interface
	pages := ec2.NewDescribeNetworkInterfacesPaginator(c.api,
		&ec2.DescribeNetworkInterfacesInput{Filters: filters, MaxResults: aws.Int32(pageSize)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, toAPIError(err)
		}
		all = append(all, convertAll(page.NetworkInterfaces, networkInterface)...)
	}
	return distinct(all), nil
}

func (c *Client) instances(ctx context.Context, filters ...types.Filter) ([]eni.Instance, error) {
	var all []eni.Instance
	pages := ec2.NewDescribeInstancesPaginator(c.api,
		&ec2.DescribeInstancesInput{Filters: filters, MaxResults: aws.Int32(pageSize)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, toAPIError(err)
		}
		for _, reservation := range page.Reservations {
			all = append(all, convertAll(reservation.Instances, instance)...)
		}
	}
	return all, nil
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

func tagFilter(key string, values ...string) types.Filter {
	return filter("tag:"+key, patterns(values)...)
}

// chunked splits the values of one filter into the necessary number of requests.
func chunked(name string, values []string) [][]types.Filter {
	var questions [][]types.Filter
	for some := range slices.Chunk(values, maxFilterValues) {
		questions = append(questions, []types.Filter{filter(name, some...)})
	}
	return questions
}

// byTags filters by all the tags, and sends no request if there are none.
func byTags(tags map[string]string) [][]types.Filter {
	if len(tags) == 0 {
		return nil
	}
	var filters []types.Filter
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		filters = append(filters, tagFilter(key, tags[key]))
	}
	return [][]types.Filter{filters}
}

// maxPattern is the largest length of a filter value, in characters; the value of a tag can be one character longer.
const maxPattern = 255

// wildcards escapes the special characters of filter values (EC2 user guide, "Filter your resources").
var wildcards = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `\`, `\\`)

// patterns converts texts to filter values that match them. A text that is too long becomes a prefix.
func patterns(texts []string) []string {
	values := make([]string, len(texts))
	for n, text := range texts {
		values[n] = pattern([]rune(text))
	}
	return values
}

func pattern(text []rune) string {
	for kept := len(text); ; kept-- {
		value := wildcards.Replace(string(text[:kept]))
		if kept < len(text) {
			value += "*"
		}
		if len([]rune(value)) <= maxPattern {
			return value
		}
	}
}
