// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"fmt"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

// A user wants to know the effect of a NodeENI with two interfaces on an instance that has room for one, and how long a
// thousand of these instances wait because of EC2's rates.
func ExampleSimulate() {
	const instance = "i-0123456789abcdef0"
	in := forecast.Input{
		Cluster: "prod",
		Look: eni.InstanceSnapshot{
			Instance: eni.Instance{ID: instance, Type: "m5.large", Zone: "a", VPCID: "vpc-1", State: eni.InstanceRunning},
			Interfaces: []eni.Interface{{ID: "eni-0", Status: eni.InUse,
				Attachment: &eni.Attachment{InstanceID: instance, Status: eni.AttachmentAttached}}},
		},
		Limits: eni.Limits{Cards: []int{2}, Interfaces: 2, IPv4: 10},
		Node: render.In{Instance: eni.InstanceRef{ID: instance, Zone: "a"}, VPCID: "vpc-1",
			Nodes: []render.Registration{{Name: "node-1", Labels: map[string]string{"storage": "true"}}}},
		NodeENIs: []fleet.NodeENI{{NodeENI: render.NodeENI{
			Name: "storage", UID: "0bf0a4c2", Selector: map[string]string{"storage": "true"}, FirstSlot: eni.Slot{Device: 1},
			Template: render.Template{EC2: eni.Spec{SourceDestCheck: true, DeleteOnTermination: true}},
			Found: &selector.Found{
				Subnets: selector.MatchSubnets(selector.SubnetTerms{IDs: []string{"subnet-a", "subnet-b"}}, []eni.Subnet{
					{ID: "subnet-a", Zone: "a", VPCID: "vpc-1"}, {ID: "subnet-b", Zone: "a", VPCID: "vpc-1"}}),
				Groups: selector.MatchGroups(selector.GroupTerms{IDs: []string{"sg-1"}}, []eni.SecurityGroup{{ID: "sg-1", VPCID: "vpc-1"}}),
			},
		}}},
	}
	outcome := forecast.Simulate(in, time.Unix(1700000000, 0))

	for _, call := range outcome.Calls {
		fmt.Printf("%s: %s\n", forecast.Operation(call), call)
	}
	for _, i := range outcome.Interfaces {
		fmt.Printf("%d ends %s %q\n", i.Key.Ordinal, i.Phase, i.Problem.Reason)
	}

	calls := forecast.Calls(outcome.Calls)
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
