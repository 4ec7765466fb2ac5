// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connectivity says whether two pods of a pod network can reach each other, and otherwise which step between
// them fails: the annotation, the definition, EC2's address, the route, or the security groups.
//
// [Examine] takes facts that others have read, and returns a verdict on each step. [Reach] judges packets that were
// sent.
package connectivity

import (
	"net/netip"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/podnet"
)

// Facts are the state of a pod network and of two pods.
type Facts struct {
	Network Network
	Pods    [2]Pod
	// NoMultus is set if the cluster does not know NetworkAttachmentDefinitions.
	NoMultus bool
	// EC2 is EC2's state; nil if it was not read.
	EC2 *EC2
	// Traffic is what security groups must allow, in both directions.
	Traffic []Traffic
}

// Network is a pod network.
type Network struct {
	Name, NodeENI string
	Attachment    podnet.Attachment
	// Link is the alternative name of the network's link, which is the same on every node.
	Link string
}

// Pod is a pod, and what the API server has about its place in the network.
type Pod struct {
	PodName
	// Absent is set if the API server has no such pod. The other fields are empty then.
	Absent bool
	// Node is empty while the pod is not scheduled.
	Node, Phase string
	HostNetwork bool
	// Annotation is the list of networks that the pod requests, and Status what Multus reports about them.
	Annotation, Status string
	// Definitions are the NetworkAttachmentDefinitions that the annotation names; a name that it lacks does not exist.
	Definitions map[PodName]string
	// Report is that of the agent on the pod's node; nil if it reports no such network.
	Report *Report
	// Interface is the interface of the network on the node, as the NetworkInterface has it; nil if it has none.
	Interface *Interface
}

// PodName is the namespace and the name of a pod, or of another object.
type PodName struct{ Namespace, Name string }

func (n PodName) String() string { return n.Namespace + "/" + n.Name }

// Report is what an agent reports about the network on its node.
type Report struct {
	Ready           bool
	Reason, Message string
}

// Interface is the interface of a network on a node.
type Interface struct {
	ID string
	// InstanceID is the instance of the node.
	InstanceID string
	// Subnets are the ranges of its subnet, at most one of each family.
	Subnets []netip.Prefix
	// Routes are the destinations of pods.routes.
	Routes []netip.Prefix
}

// EC2 is EC2's state of the interfaces, and of their security groups, by ID. An ID that it lacks does not exist.
type EC2 struct {
	Interfaces map[string]eni.Interface
	Groups     map[string]eni.GroupRules
}
