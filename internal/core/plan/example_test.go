// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// Two objects want an interface on an instance that has room for one. A plan makes no call before a fresh read of the
// instance, and its calls are those that can be made now.
func ExampleCompute() {
	const instance = "i-0123456789abcdef0"
	now := time.Unix(1700000000, 0)
	var want []plan.Interface
	for ordinal, subnet := range []string{"subnet-a", "subnet-b"} {
		key := identity.Interface{
			Cluster: "prod", UID: identity.UID(fmt.Sprintf("uid-%d", ordinal)), Name: identity.ObjectName("storage", instance, ordinal),
			NodeENI: "storage", Node: "node-1", InstanceID: instance, Ordinal: ordinal,
		}
		want = append(want, plan.Interface{Key: key, Goal: plan.Serve, Tags: key.Tags(now, nil), Since: now,
			Settings: eni.Settings{Subnets: []string{subnet}, Slot: eni.Slot{Device: 1 + ordinal}, Spec: eni.Spec{Groups: []string{"sg-1"}}}})
	}
	facts := plan.Facts{Limits: eni.Limits{Cards: []int{2}, Interfaces: 2, IPv4: 10}}
	fmt.Println("needs a read:", plan.Compute(want, facts, now).NeedsRead)

	facts.Snapshot = &eni.InstanceSnapshot{
		Instance:   eni.Instance{ID: instance, Type: "m5.large", State: eni.InstanceRunning},
		At:         now,
		Interfaces: []eni.Interface{{ID: "eni-0", Status: eni.InUse, Attachment: &eni.Attachment{InstanceID: instance, Status: eni.AttachmentAttached}}},
	}
	p := plan.Compute(want, facts, now)
	for _, call := range p.Calls {
		fmt.Println(call.Of().Name, "-", call)
	}
	for _, s := range p.Interfaces {
		fmt.Printf("%d %s %q\n", s.Key.Ordinal, s.Phase, s.Problem.Reason)
	}
	// Output:
	// needs a read: true
	// storage-i-0123456789abcdef0-0 - create an interface in subnet-a for card 0 device 1
	// 0 Creating ""
	// 1 Blocked "InstanceFull"
}
