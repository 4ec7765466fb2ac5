// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/timeline"
)

// Saved is all that a model holds, as it is saved.
type Saved struct {
	Random []byte       `json:"random"`
	Groups []savedGroup `json:"groups"`
}

// savedGroup is a group with what Auto Scaling does not show of it.
type savedGroup struct {
	Group      *Group             `json:"group"`
	Hooks      []*Hook            `json:"hooks"`
	Activities []*Activity        `json:"activities"`
	History    []*LifecycleAction `json:"history"`
	Retry      time.Time          `json:"retry,omitzero"`
	Deleting   bool               `json:"deleting"`
	// Members are the group's instances, in its order.
	Members []savedInstance `json:"members"`
}

type savedInstance struct {
	Subnet  string        `json:"subnet"`
	Running bool          `json:"running"`
	Actions []savedAction `json:"actions"`
}

type savedAction struct {
	// Token names the action in the group's history.
	Token    string    `json:"token"`
	Hook     Hook      `json:"hook"`
	Deadline time.Time `json:"deadline"`
	Last     time.Time `json:"last"`
}

// Save returns all that the model holds. It shares memory with the model: encode it before the next call.
func (m *Model) Save() (Saved, error) {
	random, err := m.source.MarshalBinary()
	saved := Saved{Random: random, Groups: []savedGroup{}}
	for _, name := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[name]
		s := savedGroup{Group: g, Hooks: g.hooks, Activities: g.activities, History: g.history, Retry: g.retry,
			Deleting: g.deleting, Members: []savedInstance{}}
		for _, i := range g.Instances {
			member := savedInstance{Subnet: i.subnet, Running: i.running, Actions: []savedAction{}}
			for _, a := range i.actions {
				member.Actions = append(member.Actions, savedAction{a.LifecycleActionToken, a.hook, a.deadline, a.last})
			}
			s.Members = append(s.Members, member)
		}
		saved.Groups = append(saved.Groups, s)
	}
	return saved, err
}

// load fills a model that holds nothing.
func (m *Model) load(saved Saved) error {
	for _, s := range saved.Groups {
		if s.Group == nil || len(s.Members) != len(s.Group.Instances) {
			return fmt.Errorf("saved Auto Scaling: a group is incomplete")
		}
		g := s.Group
		g.hooks, g.activities, g.history, g.retry, g.deleting = s.Hooks, s.Activities, s.History, s.Retry, s.Deleting
		for i, member := range s.Members {
			instance := g.Instances[i]
			instance.subnet, instance.running = member.Subnet, member.Running
			for _, a := range member.Actions {
				at := slices.IndexFunc(g.history, func(l *LifecycleAction) bool { return l.LifecycleActionToken == a.Token })
				if at < 0 {
					return fmt.Errorf("saved Auto Scaling: group %s: there is no lifecycle action %q",
						g.AutoScalingGroupName, a.Token)
				}
				instance.actions = append(instance.actions,
					&action{LifecycleAction: g.history[at], hook: a.Hook, deadline: a.Deadline, last: a.Last})
			}
		}
		m.groups[g.AutoScalingGroupName] = g
	}
	if err := m.source.UnmarshalBinary(saved.Random); err != nil {
		return fmt.Errorf("saved Auto Scaling: random: %w", err)
	}
	return nil
}

// eventKinds are the kinds of events that Auto Scaling plans.
type eventKinds struct {
	balance  timeline.Kind[string] // a group, by its ARN
	follow   timeline.Kind[member] // an instance has changed its state
	replace  timeline.Kind[member] // an instance is unhealthy
	hooks    timeline.Kind[member] // the launch hooks of an instance begin
	end      timeline.Kind[string] // an instance, by its ID
	deadline timeline.Kind[deadline]
}

// member is an instance of a group with a state of EC2. The ARN is unique, also among groups that use a name in turn.
type member struct {
	GroupARN   string `json:"groupArn"`
	InstanceID string `json:"instanceId"`
	State      string `json:"state"`
}

// deadline is the time at which a lifecycle action ends without a heartbeat.
type deadline struct {
	GroupARN   string    `json:"groupArn"`
	InstanceID string    `json:"instanceId"`
	Token      string    `json:"token"`
	At         time.Time `json:"at"`
}

func (m *Model) defineEvents() {
	t := m.timeline
	ofMember := func(name string, do func(*Group, *Instance)) timeline.Kind[member] {
		return timeline.Define(t, name, func(who member) {
			if g, instance := m.member(who.GroupARN, who.InstanceID); instance != nil {
				do(g, instance)
			}
		})
	}
	m.events = eventKinds{
		balance: timeline.Define(t, "autoscaling.balance", func(arn string) {
			if g := m.byARN(arn); g != nil {
				m.balance(g)
			}
		}),
		follow: timeline.Define(t, "autoscaling.follow", func(who member) {
			if g := m.byARN(who.GroupARN); g != nil {
				m.follow(g, who.InstanceID, who.State)
			}
		}),
		replace: ofMember("autoscaling.replace", func(g *Group, instance *Instance) {
			m.terminate(g, instance, "an instance was taken out of service in response to an EC2 health check")
		}),
		hooks: ofMember("autoscaling.hooks", m.beginLaunchHooks),
		end: timeline.Define(t, "autoscaling.end", func(id string) {
			// An instance that is already terminated is no error.
			_, _ = m.ec2.TerminateInstances(ec2.Call{Now: t.Now()}, &ec2.InstancesInput{InstanceIDs: []string{id}})
		}),
		deadline: timeline.Define(t, "autoscaling.deadline", m.timeOut),
	}
}

// timeOut ends a lifecycle action, unless a heartbeat has extended its time.
func (m *Model) timeOut(d deadline) {
	g, instance := m.member(d.GroupARN, d.InstanceID)
	if instance == nil {
		return
	}
	for _, a := range instance.actions {
		if a.LifecycleActionToken == d.Token && a.deadline.Equal(d.At) {
			m.complete(g, instance, a, a.hook.DefaultResult, ByTimeout)
			return
		}
	}
}

func (m *Model) byARN(arn string) *Group {
	for _, g := range m.groups {
		if g.AutoScalingGroupARN == arn {
			return g
		}
	}
	return nil
}

// member returns an instance with its group, or nil.
func (m *Model) member(groupARN, instanceID string) (*Group, *Instance) {
	g := m.byARN(groupARN)
	if g == nil {
		return nil, nil
	}
	return g, g.find(instanceID)
}
