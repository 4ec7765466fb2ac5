// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// Stored is what the API server stores about one interface: the records of the controller, and the reports of the agent
// on the node. The zero value is that of an interface about which it stores nothing.
type Stored struct {
	// Requested are the addresses and prefixes that EC2's answers to our calls named. The planner unassigns only these.
	Requested eni.Addresses
	// ENA is what multieni has set of the interface's ENA settings.
	ENA ENA
	// Floating are the addresses that follow the pods which bring them up.
	Floating Floating
	// DeviceInUse is set if a program in user space uses the device, so that the node has not released it. The planner
	// does not detach the interface meanwhile. DeviceMessage says more; it may be empty.
	DeviceInUse   bool
	DeviceMessage string
	// Listed is what the state of the node says about the interface as a network for pods; nil if it lists none.
	Listed *ListedNetwork
	// ListedPrefixes are the prefixes that NodeENIStates list, so that pods may use them.
	ListedPrefixes []netip.Prefix
	// Report is the agent's report about the pods that use the interface; nil without one.
	Report *PodNetwork
	// MayLackReport is set if the interface is older than the record of the agent's reports: a report about it may be
	// lost. If the record does not list it as a network for pods, it is none from the time ReportDue on.
	MayLackReport bool
	ReportDue     time.Time
}

// ListedNetwork is a network for pods as the state of the node lists it for the agent.
type ListedNetwork struct {
	// Draining is set if the node must drain the network.
	Draining bool
	// Opened is set if the agent may have opened the network to pods. Until it reports the network as drained, pods may
	// use the interface: a missing report proves nothing.
	Opened bool
}
