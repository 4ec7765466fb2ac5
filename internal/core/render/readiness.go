// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

// ReadinessIn is what decides about the readiness of one Node.
type ReadinessIn struct {
	In
	// Reports has, by the name of the object, what the controller and the agent say about its interface.
	Reports map[string]InterfaceReport
	// Tainted is set if the Node has the startup taint.
	Tainted bool
	// Listed is set once the interfaces of the cluster were listed after the start of the process.
	Listed bool
}

// InterfaceReport is the status of an object.
type InterfaceReport struct {
	// Ready is set if the interface is as the present spec of the object declares; Reason and Message say why not.
	Ready           bool
	Attached        bool
	Reason, Message string
	MAC             string
	// Link is the link on the node; nil while no agent reports it.
	Link *LinkReport
	// PodsReady is set if pods can attach; nil while no agent reports it.
	Pods *PodsReport
	// CNI is set if the agent reports on the CNI of the node.
	CNI *CNIReport
}

// LinkReport is the link of an interface on the node. Usable says whether pods can use it.
type LinkReport struct {
	State, Reason, Message string
	Name, PCIAddress       string
}

// PodsReport says whether pods can attach.
type PodsReport struct {
	Ready           bool
	Reason, Message string
}

// CNIReport says whether the container runtime of the node uses Multus.
type CNIReport struct {
	Ready   bool
	Message string
}

// NodeReadiness says whether the interfaces of a node are ready, as a Node condition.
type NodeReadiness struct {
	// Status is True, False, or Unknown while no interface is declared for the node.
	Status          string
	Reason, Message string
	// Usable are the interfaces with a usable link, by the name of the link on every node.
	Usable map[string]Usable
}

// Usable is what the annotation of a Node says about one usable interface.
type Usable struct {
	NodeENI    string `json:"nodeENI"`
	ENIID      string `json:"eniID"`
	MAC        string `json:"mac"`
	Name       string `json:"name,omitempty"`
	SubnetID   string `json:"subnetID,omitempty"`
	PCIAddress string `json:"pciAddress,omitempty"`
}

// Readiness says whether every required interface that NodeENIs declare for a node is attached, its link usable and,
// with pods, its network for pods open.
func Readiness(in ReadinessIn) NodeReadiness { return NodeReadiness{} }
