// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// A NodeENI asks for two interfaces on an instance that has room for one. The first plan needs a snapshot of the
// instance, the second a stored ledger, and the third creates an interface.
func ExampleCompute() {
	now := time.Unix(1700000000, 0)
	want := func(ordinal int, subnet string) plan.DesiredInterface {
		return plan.DesiredInterface{Ordinal: ordinal, Subnets: []string{subnet}, Slot: eni.Slot{Device: 1 + ordinal}, Spec: eni.Spec{Groups: []string{"sg-1"}}}
	}
	declared := render.Declared{Cluster: "prod", Node: "node-1", InstanceID: "i-0123456789abcdef0", Claims: []render.Claim{{
		NodeENI: "storage", Owner: "0bf0a4c2", Mode: render.Ensure, AllResolved: true,
		Interfaces: []plan.DesiredInterface{want(0, "subnet-a"), want(1, "subnet-b")},
	}}}
	observed := plan.Observed{Limits: eni.Limits{Cards: []int{2}, Interfaces: 2, IPv4: 10}}
	next := func() plan.Plan {
		return plan.Compute(render.Interfaces(declared, render.Evidence{}, observed, now).Desired, observed, now)
	}
	fmt.Println("needs a snapshot:", next().NeedsDescribe)

	observed.Snapshot = &eni.InstanceSnapshot{
		Instance:   eni.Instance{ID: declared.InstanceID, Type: "m5.large", State: eni.InstanceRunning},
		At:         now,
		Interfaces: []eni.Interface{{ID: "eni-0", Status: eni.InUse, Attachment: &eni.Attachment{InstanceID: declared.InstanceID, Status: eni.AttachmentAttached}}},
	}
	ledger := next().Ledger
	fmt.Println("members to store before the first call:", len(ledger))

	observed.Ledger = ledger
	p := next()
	for _, action := range p.Actions {
		if create, is := action.(plan.Create); is {
			fmt.Println("create in", create.SubnetID, "for ordinal", create.Member.Ordinal)
		}
	}
	for _, m := range p.Members {
		fmt.Printf("%d %s %q\n", m.Ordinal, m.Phase, m.Why.Reason)
	}
	// Output:
	// needs a snapshot: true
	// members to store before the first call: 1
	// create in subnet-a for ordinal 0
	// 0 Creating ""
	// 1 Blocked "InstanceFull"
}
