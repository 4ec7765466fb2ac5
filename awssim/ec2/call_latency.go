// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import "time"

// CallLatencies returns how long calls of EC2 take, by action, for [Behavior.Calls].
//
// AWS publishes no figures. These values follow measurements of operators of Cilium's IPAM inside a region: the
// histograms in the test data of DataDog/integrations-core (cilium/tests/fixtures/operator_metrics.txt, and issue
// 10143), and cilium/cilium#44539. Each action has its measured value in a comment. The samples of changing calls are
// small, so the ranges are wider than they are, and the tails are an assumption. Actions without a measured value have
// the latency of their closest relative.
func CallLatencies() map[string]Latency {
	latencies := map[string]Latency{
		// Mean 0.18 s of 3, all below 0.25 s.
		"CreateNetworkInterface": call(100, 400, 1500),
		// Means 0.81 s of 3 and 0.74 s of 6, all below 1 s and those of the first sample above 0.5 s.
		"AttachNetworkInterface": call(500, 1000, 2000),
		// Mean 0.22 s of 3, all below 0.25 s.
		"ModifyNetworkInterfaceAttribute": call(100, 400, 1500),
		// Mean 0.35 s of 2.
		"AssignPrivateIpAddresses": call(250, 500, 1500),
		// Median 0.15 s and 90 % below 0.19 s in a small account; 0.25 to 1 s for listings of an account.
		"DescribeNetworkInterfaces": call(100, 250, 1000),
	}
	for action, relative := range map[string]string{
		"DetachNetworkInterface":     "AttachNetworkInterface",
		"DeleteNetworkInterface":     "ModifyNetworkInterfaceAttribute",
		"CreateTags":                 "ModifyNetworkInterfaceAttribute",
		"AssignIpv6Addresses":        "AssignPrivateIpAddresses",
		"UnassignPrivateIpAddresses": "AssignPrivateIpAddresses",
		"UnassignIpv6Addresses":      "AssignPrivateIpAddresses",
	} {
		latencies[action] = latencies[relative]
	}
	for _, o := range Operations() {
		switch _, known := latencies[o.Name]; {
		case known:
		case o.IsMutating:
			latencies[o.Name] = latencies["AttachNetworkInterface"]
		default:
			// DescribeSecurityGroups: 33 % of 187 below 50 ms, 79 % below 0.1 s, 98 % below 0.25 s. DescribeSubnets and
			// DescribeVpcs: mean 0.12 s of 11 each.
			latencies[o.Name] = call(50, 200, 500)
		}
	}
	return latencies
}

// slowCalls is the share of calls that take longer than usual.
const slowCalls = 0.02

// call is a latency in milliseconds.
func call(least, most, tail int) Latency {
	const ms = time.Millisecond
	return Latency{Min: time.Duration(least) * ms, Max: time.Duration(most) * ms, Tail: time.Duration(tail) * ms,
		TailShare: slowCalls}
}
