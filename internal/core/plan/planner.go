// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
)

// planner is the state that the steps of one computation share.
type planner struct {
	Facts
	now time.Time
	// cluster and instanceID are those of the objects.
	cluster, instanceID string
	ended               bool
	slots               *Slots
	items               []*item
	// unattached counts the interfaces that exist, or are about to, and still wait for their attachment.
	unattached int
	steps      []step
	plan       Plan
}

// item is an object with the existing interface that serves it.
type item struct {
	Interface
	// record is that interface; nil without one. isLaunched is set if it is a launch interface.
	record     *inventory.Record
	isLaunched bool
	// evidence is set if the object does not record the interface yet.
	evidence Evidence
	// again is an interface that an earlier attempt to create this one made, as its tags say. EC2's answer to a
	// repetition of the call decides.
	again *inventory.Record
	// awaited is the reason to create no interface yet: a read shows one that may be the interface of the object. Likely
	// is that interface if it will be taken over without a person.
	awaited *wait
	likely  *inventory.Record
	// slot is the slot of the interface, or the one that it will get; problem says why it gets none.
	slot    eni.Slot
	problem *Problem
	// unsupported are the declared ENA settings that the instance type does not support.
	unsupported []string
	needsRead   bool
}

func newPlanner(want []Interface, have Facts, now time.Time) *planner {
	p := &planner{Facts: have, now: now, ended: have.Ended(now)}
	p.Interfaces = have.expected()
	for _, l := range have.Launched { // without objects they alone name the instance
		if l.Attachment != nil {
			p.instanceID = l.Attachment.InstanceID
		}
	}
	if have.Snapshot != nil {
		p.instanceID = have.Snapshot.Instance.ID
	}
	for _, i := range want {
		p.cluster, p.instanceID = i.Key.Cluster, i.Key.InstanceID
		m := &item{Interface: i, slot: i.Settings.Slot}
		if p.ended && m.Goal == Serve {
			m.Goal = Release
		}
		p.items = append(p.items, m)
	}
	return p
}
