// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/timeline"
)

// Behavior has the durations of Auto Scaling, and its behavior where AWS documents none.
type Behavior struct {
	// Hook is the time from an instance's start until its hooks begin: it "completes its startup sequence" and then waits
	// (Amazon EC2 Auto Scaling user guide, "Lifecycle hooks").
	Hook time.Duration
	// HookWhilePending lets hooks begin this long after the launch, when the instance may still be pending in EC2.
	HookWhilePending bool
	// Replace is the time from the end of an instance until the group replaces it.
	Replace time.Duration
	// Retry is how long a group waits after a launch that failed; 0 means a minute.
	Retry time.Duration
}

// WorldGroup is a group that launches from one template, with the parameters of CreateAutoScalingGroup.
type WorldGroup struct {
	AutoScalingGroupName string                      `json:"autoScalingGroupName"`
	LaunchTemplate       LaunchTemplateSpecification `json:"launchTemplate"`
	MinSize              int                         `json:"minSize,omitempty"`
	MaxSize              int                         `json:"maxSize"`
	DesiredCapacity      int                         `json:"desiredCapacity,omitempty"`
	VPCZoneIdentifier    string                      `json:"vpcZoneIdentifier,omitempty"`
	AvailabilityZones    []string                    `json:"availabilityZones,omitempty"`
	Tags                 []Tag                       `json:"tags,omitempty"`
	LifecycleHooks       []HookSpecification         `json:"lifecycleHooks,omitempty"`
}

// Options are what a model starts from.
type Options struct {
	// Groups that exist from the beginning.
	Groups          []WorldGroup
	Behavior        Behavior
	Region, Account string
	Timeline        *timeline.Timeline
	EC2             *ec2.Model
	Seed            uint64
	// Put sends an event to EventBridge.
	Put func(events.Event)
	// Notify sends a message to a notification target, and fails if the target does not exist.
	Notify func(targetARN, body string) error
	// Saved is what the model goes on from, instead of Groups. The caller loads the timeline.
	Saved *Saved
}

// Model is one account's Auto Scaling in one region. Use it from one goroutine at a time.
type Model struct {
	options  Options
	timeline *timeline.Timeline
	ec2      *ec2.Model
	source   *rand.PCG
	random   *rand.Rand // draws from source
	groups   map[string]*Group
	events   eventKinds
}

// New returns a model with the groups of the world, which begin to launch.
func New(o Options) (*Model, error) {
	m := &Model{options: o, timeline: o.Timeline, ec2: o.EC2, source: rand.NewPCG(o.Seed, 0xa5),
		groups: map[string]*Group{}}
	m.random = rand.New(m.source)
	if m.options.Behavior.Retry == 0 {
		m.options.Behavior.Retry = time.Minute
	}
	m.defineEvents()
	o.EC2.Watch(m.watch)
	if o.Saved != nil {
		return m, m.load(*o.Saved)
	}
	for _, g := range o.Groups {
		if _, err := m.CreateAutoScalingGroup(&CreateGroupInput{
			GroupSettings: GroupSettings{
				AutoScalingGroupName: g.AutoScalingGroupName, LaunchTemplate: &g.LaunchTemplate, MinSize: &g.MinSize,
				MaxSize:         &g.MaxSize,
				DesiredCapacity: &g.DesiredCapacity, VPCZoneIdentifier: g.VPCZoneIdentifier, AvailabilityZones: g.AvailabilityZones,
			},
			Tags: g.Tags, LifecycleHooks: g.LifecycleHooks,
		}); err != nil {
			return nil, fmt.Errorf("auto scaling group %s: %w", g.AutoScalingGroupName, err)
		}
	}
	return m, nil
}

// uuid returns a fresh ID.
func (m *Model) uuid() string {
	high, low := m.random.Uint64(), m.random.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", high>>32, high>>16&0xffff, high&0xfff, low>>52, low&0xffffffffffff)
}

func (m *Model) arn(name string) string {
	return fmt.Sprintf("arn:aws:autoscaling:%s:%s:autoScalingGroup:%s:autoScalingGroupName/%s", m.options.Region,
		m.options.Account, m.uuid(), name)
}

// subnets returns the subnets of a group, or one empty name for each of its zones.
func (g *Group) subnets() []string {
	var ids []string
	for id := range strings.SplitSeq(g.VPCZoneIdentifier, ",") {
		if id = strings.TrimSpace(id); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

func (g *Group) find(instanceID string) *Instance {
	if i := slices.IndexFunc(g.Instances, func(i *Instance) bool { return i.InstanceID == instanceID }); i >= 0 {
		return g.Instances[i]
	}
	return nil
}
