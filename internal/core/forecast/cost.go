// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"time"

	"github.com/multieni/multieni/internal/core/plan"
)

// Operation returns the name of the EC2 action of a call.
func Operation(call plan.Call) string {
	switch a := call.(type) {
	case plan.Create:
		return "CreateNetworkInterface"
	case plan.Attach:
		return "AttachNetworkInterface"
	case plan.Detach:
		return "DetachNetworkInterface"
	case plan.Delete:
		return "DeleteNetworkInterface"
	case plan.Change:
		return changeOperation(a.To)
	default:
		return ""
	}
}

func changeOperation(to plan.Attribute) string {
	switch a := to.(type) {
	case plan.Tags:
		return "CreateTags"
	case plan.AssignAddresses:
		if a.Family == plan.IPv6 {
			return "AssignIpv6Addresses"
		}
		return "AssignPrivateIpAddresses"
	case plan.UnassignAddresses:
		if a.Family == plan.IPv6 {
			return "UnassignIpv6Addresses"
		}
		return "UnassignPrivateIpAddresses"
	default:
		return "ModifyNetworkInterfaceAttribute"
	}
}

// Calls counts calls by their operation.
func Calls(all []plan.Call) map[string]int {
	calls := map[string]int{}
	for _, call := range all {
		calls[Operation(call)]++
	}
	return calls
}

// Rate is the rate limit of one operation: Burst calls at once, and PerSecond more calls each second.
type Rate struct {
	Burst     int
	PerSecond float64
}

// MinDuration returns the least time in which the calls can be made under the rates, and the operation that needs it.
// EC2 limits each operation separately (EC2 developer guide, "Request throttling for the Amazon EC2 API"), so the
// slowest one decides. Operations without a rate take no time.
func MinDuration(calls map[string]int, rates map[string]Rate) (least time.Duration, operation string) {
	for name, count := range calls {
		rate, limited := rates[name]
		if !limited || rate.PerSecond <= 0 || count <= rate.Burst {
			continue
		}
		takes := time.Duration(float64(count-rate.Burst) / rate.PerSecond * float64(time.Second))
		if takes > least || takes == least && name < operation {
			least, operation = takes, name
		}
	}
	return least, operation
}
