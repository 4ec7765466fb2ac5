// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// describeBatchSize is the number of instances in a batch: as many as one request can name in addition to the cluster's
// tag.
const describeBatchSize = maxFilterValues - 1

// DescribeInstance reads everything that EC2 returns about an instance. The state of an unknown instance is
// [eni.InstanceMissing], without an error. Concurrent callers share the calls.
func (c *Client) DescribeInstance(ctx context.Context, instanceID string) (eni.InstanceSnapshot, error) {
	look, err := c.looks.get(ctx, instanceID)
	if err != nil {
		return eni.InstanceSnapshot{}, fmt.Errorf("read instance %s: %w", instanceID, err)
	}
	// Callers for the same instance share the answer.
	look.Interfaces = clones(look.Interfaces)
	return look, nil
}

// describeInstances reads the given instances, their interfaces, and the interfaces with our tags for them.
func (c *Client) describeInstances(ctx context.Context, ids []string) (map[string]eni.InstanceSnapshot, error) {
	at := time.Now()
	var instances []eni.Instance
	var attached, tagged []eni.Interface
	group, ctx := errgroup.WithContext(ctx)
	read := func(what string, work func() error) {
		group.Go(func() error { return panics.AsError(what+" "+strings.Join(ids, ", "), work) })
	}
	read("reading instances", func() (err error) {
		instances, err = c.instances(ctx, filter("instance-id", ids...))
		return err
	})
	read("reading what is attached to instances", func() (err error) {
		attached, err = c.interfaces(ctx, filter("attachment.instance-id", ids...))
		return err
	})
	read("reading what is tagged for instances", func() (err error) {
		tagged, err = c.interfaces(ctx, tagFilter(identity.TagCluster, c.cluster), tagFilter(identity.TagInstanceID, ids...))
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return assemble(at, ids, instances, attached, tagged), nil
}

// assemble sorts the results by instance. An interface that only one of two reads returns as attached counts as
// attached, which is the safer of the two.
func assemble(
	at time.Time, ids []string, instances []eni.Instance, attached, tagged []eni.Interface,
) map[string]eni.InstanceSnapshot {
	looks := make(map[string]eni.InstanceSnapshot, len(ids))
	for _, id := range ids {
		looks[id] = eni.InstanceSnapshot{At: at, Instance: eni.Instance{ID: id, State: eni.InstanceMissing}}
	}
	for _, instance := range instances {
		looks[instance.ID] = eni.InstanceSnapshot{At: at, Instance: instance}
	}
	add := func(instanceID string, i eni.Interface) {
		if look, wanted := looks[instanceID]; wanted {
			look.Interfaces = append(look.Interfaces, i)
			looks[instanceID] = look
		}
	}
	for _, i := range attached {
		// EC2's filters can lag behind the interfaces that they return.
		if i.Attachment != nil {
			add(i.Attachment.InstanceID, i)
		}
	}
	for _, i := range tagged {
		add(i.Tags[identity.TagInstanceID], i)
	}
	for id, look := range looks {
		look.Interfaces = distinct(look.Interfaces)
		looks[id] = look
	}
	return looks
}

// distinct sorts by ID and keeps the first of each.
func distinct(interfaces []eni.Interface) []eni.Interface {
	slices.SortStableFunc(interfaces, eni.CompareInterfaces)
	return slices.CompactFunc(interfaces, func(a, b eni.Interface) bool { return a.ID == b.ID })
}

func clones(interfaces []eni.Interface) []eni.Interface {
	copies := make([]eni.Interface, len(interfaces))
	for n, i := range interfaces {
		copies[n] = i.Clone()
	}
	return copies
}
