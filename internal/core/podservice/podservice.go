// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podservice decides which addresses of its pods a Service publishes: those on one pod network.
//
// Multus writes the addresses of a pod into an annotation of the pod, and every principal that may change pods may
// change it. So an address counts only if the state of the pod's node has it for that network.
package podservice

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/connectivity"
)

// Given is what the state of a node says about the addresses that a network gave to pods of the node.
type Given struct {
	// Known is set if the state of the node is known. Without it only published addresses count.
	Known bool
	// Prefixes are the prefixes of the interface, from which pods get addresses.
	Prefixes []netip.Prefix
	// Addresses are single addresses of pods: those of an interface that is a pod's own, and FloatingAddresses.
	Addresses []netip.Addr
}

// Pod is a pod that a Service selects.
type Pod struct {
	// Status is the annotation [connectivity.StatusAnnotation] of the pod.
	Status string
	// Published are the addresses that the Service publishes for the pod.
	Published []netip.Addr
}

// Choice is what a Service publishes for a pod.
type Choice struct {
	// Addresses are the addresses of the pod on the network, at most one of each family: readers of EndpointSlices use
	// the first one only (Kubernetes API, discovery/v1, Endpoint.addresses).
	Addresses []netip.Addr
	// Refused are addresses that the annotation has for the network, and that the network did not give to a pod of the
	// node.
	Refused []netip.Addr
	// Err says why the annotation cannot be read.
	Err error
}

// Choose returns what a Service publishes for a pod on a network. The names of definitions are the users' own if they
// write the definitions, so every entry of the annotation counts whose address the network gave.
func Choose(network string, pod Pod, given Given) Choice {
	entries, err := connectivity.Attachments(pod.Status)
	choice := Choice{Err: err}
	for _, entry := range entries {
		if entry.Default {
			continue
		}
		addresses, err := entry.Addresses()
		if err != nil {
			choice.Err = err
		}
		_, name, qualified := strings.Cut(entry.Name, "/")
		if !qualified {
			name = entry.Name
		}
		for _, address := range addresses {
			address = address.Unmap()
			switch {
			case given.has(address) || !given.Known && slices.Contains(pod.Published, address):
				choice.add(address)
			case given.Known && name == network:
				choice.Refused = append(choice.Refused, address)
			}
		}
	}
	return choice
}

func (g Given) has(address netip.Addr) bool {
	return slices.Contains(g.Addresses, address) ||
		slices.ContainsFunc(g.Prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
}

// add adds the first address of a family.
func (c *Choice) add(address netip.Addr) {
	if !slices.ContainsFunc(c.Addresses, func(a netip.Addr) bool { return a.Is4() == address.Is4() }) {
		c.Addresses = append(c.Addresses, address)
	}
}
