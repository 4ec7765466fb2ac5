// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller/instance"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/instancetype"
	"github.com/multieni/multieni/internal/core/selector"
)

var (
	_ observer.Reader  = cloud{}
	_ resolver.Reader  = cloud{}
	_ instance.Limiter = cloud{}
)

// ListOwned implements [observer.Reader].
func (c cloud) ListOwned(context.Context) ([]eni.Interface, time.Time, error) {
	begun := c.p.now()
	all, err := c.interfaces("list", tagged(identity.TagCluster, c.p.cluster.name))
	return all, begun, err
}

// Interfaces implements [observer.Reader].
func (c cloud) Interfaces(_ context.Context, ids []string) ([]eni.Interface, error) {
	return c.interfaces("poll", ec2.Filter{Name: "network-interface-id", Values: ids})
}

// DescribeInstance implements [observer.Reader]. Each of the three reads can be stale independently.
func (c cloud) DescribeInstance(_ context.Context, instanceID string) (eni.InstanceSnapshot, error) {
	look := eni.InstanceSnapshot{At: c.p.now(), Instance: eni.Instance{ID: instanceID, State: eni.InstanceMissing}}
	err := c.p.call(request{action: "DescribeInstances"}, func(at ec2.Call) error {
		out, err := c.p.run.model.DescribeInstances(at, &ec2.DescribeInstancesInput{Page: ec2.Page{
			Filters: []ec2.Filter{{Name: "instance-id", Values: []string{instanceID}}},
		}})
		if err == nil && len(out.Reservations) > 0 {
			look.Instance = machineOf(out.Reservations[0].Instances[0])
		}
		return err
	})
	if err != nil {
		return eni.InstanceSnapshot{}, err
	}
	attached, err := c.interfaces("look at", ec2.Filter{Name: "attachment.instance-id", Values: []string{instanceID}})
	if err != nil {
		return eni.InstanceSnapshot{}, err
	}
	ours, err := c.interfaces("look for", tagged(identity.TagCluster, c.p.cluster.name),
		tagged(identity.TagInstanceID, instanceID))
	if err != nil {
		return eni.InstanceSnapshot{}, err
	}
	for _, i := range attached {
		if i.Attachment != nil && i.Attachment.InstanceID == instanceID {
			look.Interfaces = append(look.Interfaces, i)
		}
	}
	for _, i := range ours {
		if i.Tags[identity.TagInstanceID] == instanceID {
			look.Interfaces = append(look.Interfaces, i)
		}
	}
	look.Interfaces = distinct(look.Interfaces)
	return look, nil
}

// interfaces reads all pages. They are small, so that the world can change between them.
func (c cloud) interfaces(why string, filters ...ec2.Filter) ([]eni.Interface, error) {
	var all []eni.Interface
	page := ec2.Page{Filters: filters, MaxResults: &c.p.pageSize}
	for {
		var out *ec2.DescribeNetworkInterfacesOutput
		err := c.p.call(request{action: "DescribeNetworkInterfaces " + why}, func(at ec2.Call) (err error) {
			out, err = c.p.run.model.DescribeNetworkInterfaces(at, &ec2.DescribeNetworkInterfacesInput{Page: page})
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, found := range out.NetworkInterfaces {
			all = append(all, c.p.read(networkInterface(found)))
		}
		if out.NextToken == "" {
			return distinct(all), nil
		}
		page.NextToken = out.NextToken
	}
}

func distinct(interfaces []eni.Interface) []eni.Interface {
	slices.SortStableFunc(interfaces, eni.CompareInterfaces)
	return slices.CompactFunc(interfaces, func(a, b eni.Interface) bool { return a.ID == b.ID })
}

// Subnets implements [resolver.Reader]. It runs in a goroutine of the resolver, while everything else waits for it.
func (c cloud) Subnets(_ context.Context, terms selector.SubnetTerms) ([]eni.Subnet, error) {
	var all []eni.Subnet
	for _, filter := range questions("subnet-id", terms.IDs, terms.Names, terms.Tags) {
		err := c.p.quietly("DescribeSubnets", func(at ec2.Call) error {
			out, err := c.p.run.model.DescribeSubnets(at, &ec2.DescribeSubnetsInput{Page: ec2.Page{Filters: filter}})
			if err != nil {
				return err
			}
			for _, found := range out.Subnets {
				all = append(all, subnet(found))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// SecurityGroups implements [resolver.Reader]. It runs in a goroutine of the resolver, while everything else waits for
// it.
func (c cloud) SecurityGroups(_ context.Context, terms selector.GroupTerms) ([]eni.SecurityGroup, error) {
	var all []eni.SecurityGroup
	for _, filter := range questions("group-id", terms.IDs, terms.Names, terms.Tags) {
		err := c.p.quietly("DescribeSecurityGroups", func(at ec2.Call) error {
			out, err := c.p.run.model.DescribeSecurityGroups(at,
				&ec2.DescribeSecurityGroupsInput{Page: ec2.Page{Filters: filter}})
			if err != nil {
				return err
			}
			for _, found := range out.SecurityGroups {
				all = append(all, eni.SecurityGroup{ID: found.GroupID, Name: found.GroupName, VPCID: found.VPCID, Tags: found.Tags})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// questions returns the filters of separate requests: by IDs, by the tag Name and by tags.
func questions(idFilter string, ids, names []string, tags map[string]string) [][]ec2.Filter {
	var all [][]ec2.Filter
	if len(ids) > 0 {
		all = append(all, []ec2.Filter{{Name: idFilter, Values: ids}})
	}
	if len(names) > 0 {
		all = append(all, []ec2.Filter{tagged("Name", names...)})
	}
	if len(tags) > 0 {
		var filters []ec2.Filter
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			filters = append(filters, tagged(key, tags[key]))
		}
		all = append(all, filters)
	}
	return all
}

// Limits implements [instance.Limiter] from the offline table.
func (c cloud) Limits(_ context.Context, instanceType string) (eni.Limits, error) {
	limits, _ := instancetype.Offline(instanceType)
	return limits, nil
}

func tagged(key string, values ...string) ec2.Filter {
	return ec2.Filter{Name: "tag:" + key, Values: values}
}
