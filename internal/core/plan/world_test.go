// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

const (
	cluster  = "cluster-1"
	nodeName = "node-1"
	instance = "i-00000000000000001"
	another  = "i-00000000000000002"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func device(n int) eni.Slot { return eni.Slot{Device: n} }

func limits(n int) eni.Limits { return eni.Limits{Cards: []int{n}, Interfaces: n, IPv4: 15, IPv6: 15} }

func key(nodeENI string, ordinal int, uid identity.UID) identity.Interface {
	return identity.Interface{Cluster: cluster, UID: uid, NodeENI: nodeENI, Node: nodeName, InstanceID: instance,
		Name: identity.ObjectName(nodeENI, instance, ordinal), Ordinal: ordinal}
}

// object returns an object of NodeENI a, a day old, at a device index and with an interface; "" for none.
func object(goal plan.Goal, ordinal, index int, eniID string) plan.Interface {
	of := key("a", ordinal, identity.UID(fmt.Sprintf("uid-%d", ordinal)))
	i := plan.Interface{Key: of, Goal: goal, ENIID: eniID, Since: start.Add(-24 * time.Hour), Registered: true,
		Settings: eni.Settings{Subnets: []string{"s1"}, Slot: device(index),
			Spec: eni.Spec{Description: "d", Groups: []string{"sg-1"}, SourceDestCheck: true}}}
	i.Tags = of.Tags(i.Since, nil)
	if goal == plan.Keep {
		i.Problem = &plan.Problem{Reason: plan.Retained, Message: "paused"}
	}
	return i
}

// unattached returns the record of an interface of an object, as the object declares it.
func unattached(id string, of plan.Interface) inventory.Record {
	return inventory.Record{Tagged: of.Key, LastRead: start, Interface: eni.Interface{ID: id, Type: eni.Standard,
		Status: eni.Available, SubnetID: "s1", Description: "d", Groups: []string{"sg-1"}, SourceDestCheck: true,
		Tags: of.Tags}}
}

// on returns the record of an attached interface of an object.
func on(instanceID string, id string, index int, of plan.Interface) inventory.Record {
	r := unattached(id, of)
	r.Status = eni.InUse
	r.Attachment = &eni.Attachment{ID: "attach-" + id, InstanceID: instanceID, Slot: device(index),
		Status: eni.AttachmentAttached}
	return r
}

func withStatus(r inventory.Record, status eni.AttachmentStatus) inventory.Record {
	r.Interface = r.Clone()
	r.Attachment.Status = status
	return r
}

func withInstance(r inventory.Record, instanceID string) inventory.Record {
	r.Interface = r.Clone()
	r.Attachment.InstanceID = instanceID
	return r
}

// facts returns what a fresh read of a running instance with the interfaces shows. The process leads for an hour.
func facts(records ...inventory.Record) plan.Facts {
	f := plan.Facts{Interfaces: records, Limits: limits(8), Era: era.Era{Since: start.Add(-time.Hour)}, Snapshot: &eni.InstanceSnapshot{At: start,
		Instance: eni.Instance{ID: instance, Type: "m5.xlarge", State: eni.InstanceRunning}}}
	for _, r := range records {
		f.Snapshot.Interfaces = append(f.Snapshot.Interfaces, r.Interface)
	}
	return f
}

// words returns the calls of a plan or, without any, the phase and the reason of the first object. Then follow what is
// gone and spent.
func words(p plan.Plan) string {
	var all []string
	for _, call := range p.Calls {
		all = append(all, call.String())
	}
	if len(all) == 0 {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s", p.Interfaces[0].Phase, p.Interfaces[0].Problem.Reason)))
	}
	if len(p.Spent) > 0 {
		all = append(all, "spent")
	}
	if len(p.Gone) > 0 {
		all = append(all, "gone")
	}
	return strings.Join(all, ", ")
}
