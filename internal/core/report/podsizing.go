// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	"github.com/multieni/multieni/internal/core/text"
)

// AddressesPerPrefix is the number of addresses of an IPv4 prefix that EC2 delegates (Amazon EC2 user guide, "Prefix
// delegation for Amazon EC2 network interfaces").
const AddressesPerPrefix = 16

// PodSizing compares the addresses that a pod network has on each node from the start with the pods that a node allows.
// If there are as many, pods need no request of an address: a request keeps autoscalers from launching nodes.
type PodSizing struct {
	NodeENI string `json:"nodeENI"`
	// Prefixes is pods.ipv4.prefixes.min, and Addresses the number of addresses of these prefixes.
	Prefixes  int `json:"prefixes"`
	Addresses int `json:"addresses"`
	// Pods is the most pods that a node of the NodeENI allows.
	Pods int `json:"pods"`
	// Enough is the number of prefixes with an address for each of these pods.
	Enough int `json:"enough"`
}

// NewPodSizing returns the sizing of the pod network of a NodeENI. Prefixes is its pods.ipv4.prefixes.min, and pods the
// most pods that one of its nodes allows.
func NewPodSizing(nodeENI string, prefixes, pods int) PodSizing {
	return PodSizing{
		NodeENI: nodeENI, Prefixes: prefixes, Addresses: prefixes * AddressesPerPrefix, Pods: pods,
		Enough: (pods + AddressesPerPrefix - 1) / AddressesPerPrefix,
	}
}

// String returns the comparison, and the number of prefixes that is enough.
func (s PodSizing) String() string {
	has := fmt.Sprintf("%s: pods.ipv4.prefixes.min: %d gives each node %d × %d = %d addresses from the start, and its "+
		"nodes allow %s", s.NodeENI, s.Prefixes, AddressesPerPrefix, s.Prefixes, s.Addresses, text.Count(s.Pods, "pod"))
	if s.Prefixes >= s.Enough {
		return has + ": pods need no request of an address"
	}
	return has + fmt.Sprintf(": if a node runs more than %d of them on this network, set min: %d, so that pods need no "+
		"request of an address; autoscalers of nodes do not know such a request (docs/autoscaling.md)",
		s.Addresses, s.Enough)
}
