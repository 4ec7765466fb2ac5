// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"fmt"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// A user wants to know the effect of a NodeENI with two interfaces on an instance that has room for one, and how long a
// thousand of these instances wait because of EC2's rates.
func ExampleSimulate() {
	want := func(ordinal int, subnet string) plan.DesiredInterface {
		return plan.DesiredInterface{
			Ordinal: ordinal, Subnets: []string{subnet}, Slot: eni.Slot{Device: 1 + ordinal},
			Spec: eni.Spec{Groups: []string{"sg-1"}, SourceDestCheck: true, DeleteOnTermination: true},
		}
	}
	desired := render.Declared{Cluster: "prod", Node: "node-1", InstanceID: "i-0123456789abcdef0", Claims: []render.Claim{{
		NodeENI: "storage", Owner: "0bf0a4c2", Mode: render.Ensure, AllResolved: true,
		Interfaces: []plan.DesiredInterface{want(0, "subnet-a"), want(1, "subnet-b")},
	}}}
	attached := &eni.Attachment{InstanceID: desired.InstanceID, Status: eni.AttachmentAttached}
	outcome := forecast.Simulate(desired, forecast.Input{
		Look: eni.InstanceSnapshot{
			Instance:   eni.Instance{ID: desired.InstanceID, Type: "m5.large", State: eni.InstanceRunning},
			Interfaces: []eni.Interface{{ID: "eni-0", Status: eni.InUse, Attachment: attached}},
		},
		Limits: eni.Limits{Cards: []int{2}, Interfaces: 2, IPv4: 10},
	}, time.Unix(1700000000, 0))

	for _, action := range outcome.Actions {
		fmt.Printf("%s: %s\n", forecast.Operation(action), action)
	}
	for _, m := range outcome.Members {
		fmt.Printf("%d ends %s %q\n", m.Ordinal, m.Phase, m.Why.Reason)
	}

	calls := forecast.Calls(outcome.Actions)
	for operation := range calls {
		calls[operation] *= 1000
	}
	least, operation := forecast.MinDuration(calls, map[string]forecast.Rate{
		"CreateNetworkInterface": {Burst: 100, PerSecond: 5}, "AttachNetworkInterface": {Burst: 50, PerSecond: 5},
	})
	fmt.Printf("1000 instances take at least %s, because of %s\n", least, operation)
	// Output:
	// CreateNetworkInterface: create an interface in subnet-a for card 0 device 1
	// AttachNetworkInterface: attach new interface 1 at card 0 device 1
	// ModifyNetworkInterfaceAttribute: set delete on termination true of new interface 1
	// 0 ends Attached ""
	// 1 ends Blocked "InstanceFull"
	// 1000 instances take at least 3m10s, because of AttachNetworkInterface
}
