// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"time"

	"github.com/multieni/multieni/internal/aws/addresses"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
)

// instancesTTL is how long one list of instances serves concurrent callers.
const instancesTTL = 2 * time.Second

// QueueCloud is the part of EC2 that determines the rank of an instance among those that wait for an address.
type QueueCloud interface {
	Cloud
	addresses.Reader
	TaggedInstances(ctx context.Context, key, value string) ([]eni.Instance, error)
}

// NewQueue returns a chooser of addresses for instances that several processes prepare independently.
func NewQueue(config lifecycle.Config, cloud QueueCloud, now func() time.Time) *addresses.Ranked {
	joiner := New(Options{Config: config, Cloud: cloud, Now: now})
	q := &queue{cloud: cloud, reading: make(chan struct{}, 1), Joiner: joiner}
	return addresses.NewRanked(cloud, q.instances, q.wanting, now)
}

type queue struct {
	*Joiner
	cloud QueueCloud

	// reading is held by the caller that reads from EC2. The others wait for its answer until their contexts end.
	reading chan struct{}
	listed  []eni.Instance
	until   time.Time
}

// instances returns the instances with the tag of the trigger.
func (q *queue) instances(ctx context.Context) ([]eni.Instance, error) {
	if q.Config.Trigger.TagKey == "" {
		return nil, nil
	}
	select {
	case q.reading <- struct{}{}:
		defer func() { <-q.reading }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if q.Now().Before(q.until) {
		return q.listed, nil
	}
	listed, err := q.cloud.TaggedInstances(ctx, q.Config.Trigger.TagKey, q.Config.Trigger.TagValue)
	if err != nil {
		return nil, err
	}
	q.listed, q.until = listed, q.Now().Add(instancesTTL)
	return listed, nil
}

// wanting returns the interfaces that an instance gets in a subnet.
func (q *queue) wanting(ctx context.Context, subnetID string, instance eni.Instance) ([]identity.Interface, error) {
	found, err := q.find(ctx)
	if err != nil {
		return nil, err
	}
	var all []identity.Interface
	declared := q.Config.Declared(eni.InstanceSnapshot{Instance: instance}, found)
	for _, n := range declared.NodeENIs {
		for _, w := range n.Interfaces {
			if w.Allows(subnetID) {
				all = append(all, declared.Key(n.Name, w.Ordinal))
			}
		}
	}
	return all, nil
}
