// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestEveryRule plans one interface in each situation, with each goal that it can have there. It shows the actions, or
// else the phase and the reason.
func TestEveryRule(t *testing.T) {
	t.Parallel()
	const other = "i-00000000000000002"
	unattached := func(status eni.Status) inventory.Record {
		return inventory.Record{Interface: eni.Interface{ID: "eni-1", SubnetID: "s1", Status: status, SourceDestCheck: true}}
	}
	on := func(instanceID string, status eni.AttachmentStatus) inventory.Record {
		r := unattached(eni.InUse)
		r.Attachment = &eni.Attachment{ID: "a-1", InstanceID: instanceID, Slot: device(1), Status: status}
		return r
	}
	unanswered, missing := unattached(eni.Pending), on(instance, eni.AttachmentAttached)
	unanswered.ID, missing.Missing = "", true
	late := func(r inventory.Record, since time.Duration) inventory.Record {
		r.AttachingSince, r.DetachingSince, r.LastRead = start.Add(-since), start.Add(-since), start
		return r
	}

	ensure, release, retain := plan.Ensure, plan.Release, plan.Retain
	for name, tc := range map[string]struct {
		record *inventory.Record
		want   map[plan.Goal]string
	}{
		"absent":   {nil, map[plan.Goal]string{ensure: "create"}},
		"creating": {&unanswered, map[plan.Goal]string{ensure: "Creating InProgress", release: "Creating InProgress", retain: "Creating InProgress"}},
		"pending": {new(unattached(eni.Pending)), map[plan.Goal]string{
			ensure: "Attaching InProgress", release: "Pending Removing", retain: "Pending Retained",
		}},
		"missing": {&missing, map[plan.Goal]string{ensure: "Attached NotVisible", release: "Attached NotVisible", retain: "Attached NotVisible"}},
		"elsewhere": {new(on(other, eni.AttachmentAttached)), map[plan.Goal]string{
			ensure: "Blocked AttachedElsewhere", release: "Attached Removing", retain: "Attached Retained",
		}},
		"free": {new(unattached(eni.Available)), map[plan.Goal]string{
			ensure: "attach eni-1 at card 0 device 1", release: "delete eni-1: unwanted", retain: "Pending Retained",
		}},
		"attaching": {new(on(instance, eni.AttachmentAttaching)), map[plan.Goal]string{
			ensure: "Attaching InProgress", release: "Attaching Removing", retain: "Attaching Retained",
		}},
		"attaching for too long": {new(late(on(instance, eni.AttachmentAttaching), plan.AttachTimeout)), map[plan.Goal]string{
			ensure: "detach eni-1: EC2 has not attached it within 1m30s", release: "detach eni-1: unwanted", retain: "Attaching Retained",
		}},
		"attached": {new(on(instance, eni.AttachmentAttached)), map[plan.Goal]string{
			ensure: "Attached ", release: "detach eni-1: unwanted", retain: "Attached Retained",
		}},
		"detaching": {new(on(instance, eni.AttachmentDetaching)), map[plan.Goal]string{
			ensure: "Detaching InProgress", release: "Detaching Removing", retain: "Detaching Retained",
		}},
		"detaching for too long": {new(late(on(instance, eni.AttachmentDetaching), plan.ForcedDetachAfter)), map[plan.Goal]string{
			ensure:  "force-detach eni-1: it must be attached again, and a plain detach has not completed since 2026-01-02T02:54:05Z",
			release: "force-detach eni-1: unwanted, and a plain detach has not completed since 2026-01-02T02:54:05Z", retain: "Detaching Retained",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[plan.Goal]string{}
			for goal := range tc.want {
				got[goal] = outcome(goal, tc.record)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("by goal (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheRuleOfALaunchInterface plans a member that a launch interface serves: it has no other goal.
func TestTheRuleOfALaunchInterface(t *testing.T) {
	t.Parallel()
	i := member(plan.Ensure)
	i.Launched = &eni.Interface{ID: "eni-1", SubnetID: "s1", Status: eni.InUse, SourceDestCheck: true,
		Attachment: &eni.Attachment{ID: "a-1", InstanceID: instance, Slot: device(1), Status: eni.AttachmentAttached}}
	i.Interface = i.Launched
	if got := planOf(i); got != "Attached " {
		t.Errorf("got %s, want an attached interface and no action", got)
	}
}

// outcome plans an interface with a goal, and returns its actions or, without any, its phase and reason.
func outcome(goal plan.Goal, record *inventory.Record) string {
	i := member(goal)
	if record != nil {
		r := *record
		r.Tags, r.Member = i.DesiredTags(nil), i.Member.Member
		of := r.Interface
		i.Record, i.Interface = &r, &of
	}
	return planOf(i)
}

// member returns a member with a goal.
func member(goal plan.Goal) plan.Interface {
	m := identity.Member{Cluster: cluster, NodeENI: "n3", Node: "node-1", InstanceID: instance,
		Key: identity.Key{Owner: "uid-1"}, Generation: 1}
	i := plan.Interface{Goal: goal, Member: plan.Member{Member: m, Slot: device(1), RequestedSlot: device(1)}}
	switch goal {
	case plan.Ensure:
		i.Settings = &plan.DesiredInterface{Subnets: []string{"s1"}, Slot: device(1), Spec: eni.Spec{SourceDestCheck: true}}
	case plan.Release:
		i.Why.Message = "unwanted"
	case plan.Retain:
		i.Why.Reason = plan.Retained
	}
	return i
}

// planOf plans one interface, and returns its actions or, without any, its phase and reason.
func planOf(i plan.Interface) string {
	look := &eni.InstanceSnapshot{At: start, Instance: eni.Instance{ID: instance, State: eni.InstanceRunning}}
	p := plan.Compute(plan.Desired{Cluster: cluster, Node: "node-1", InstanceID: instance, Interfaces: []plan.Interface{i}},
		plan.Observed{Snapshot: look, Limits: limits(4), NodeRegistered: true}, start)
	if all := kinds(p); len(all) > 0 {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s %s", p.Members[0].Phase, p.Members[0].Why.Reason)
}
