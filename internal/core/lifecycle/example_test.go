// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

// A lifecycle hook of Auto Scaling waits for a new instance. The event names the instance, the configuration has the
// networks of the instance in its zone, and the result of a plan decides what the hook receives.
func Example() {
	event, err := lifecycle.Decode([]byte(`{
	  "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING", "EC2InstanceId": "i-0123456789abcdef0",
	  "AutoScalingGroupName": "upf", "LifecycleHookName": "multieni"}`))
	fmt.Println(event.Kind, event.InstanceID, err)

	config, err := lifecycle.ParseConfig([]byte(`{
	  "cluster": "prod", "trigger": {"tagKey": "role"}, "hooks": ["multieni"], "onFailure": "ABANDON",
	  "networks": [{"name": "n3", "subnetNames": ["n3"], "securityGroupIDs": ["sg-1"]}]}`))
	fmt.Println("ours:", config.Owns(event.Hook), "on failure:", config.OnFailure, err)

	subnets := []eni.Subnet{{ID: "subnet-a", Name: "n3", Zone: "a"}, {ID: "subnet-b", Name: "n3", Zone: "b"}}
	network := config.Networks[0]
	found := selector.Found{
		Subnets: selector.MatchSubnets(network.SubnetTerms(), subnets),
		Groups:  selector.MatchGroups(network.GroupTerms(), []eni.SecurityGroup{{ID: "sg-1"}}),
	}
	look := eni.InstanceSnapshot{Instance: eni.Instance{ID: event.InstanceID, Zone: "b"}}
	d := config.Desired(look, []selector.Found{found}, nil, nil)
	for _, i := range d.Interfaces {
		fmt.Println(i.Key.NodeENI, i.Settings.Subnets, i.Settings.Slot)
	}

	full := plan.Problem{Reason: plan.SubnetFull, Message: "subnet-b is full"}
	blocked := plan.State{Goal: plan.Serve, Phase: plan.Blocked, Problem: full}
	blocked.Key.NodeENI = "n3"
	p := plan.Plan{Interfaces: []plan.State{blocked}}
	result := config.Evaluate(eni.InstanceRunning, d, p)
	fmt.Println(result.Outcome, "-", result.Why)
	result = config.Expire(result, p)
	fmt.Println(result.Outcome, "-", result.Why)
	// Output:
	// Launching i-0123456789abcdef0 <nil>
	// ours: true on failure: ABANDON <nil>
	// n3 [subnet-b] card 0 device 1
	// Waiting - network n3: subnet-b is full
	// Failed - in the time there was: network n3: subnet-b is full
}
