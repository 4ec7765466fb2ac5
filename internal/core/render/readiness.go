// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/netattach"
)

// ReadinessIn is what decides about the readiness of one Node.
type ReadinessIn struct {
	// In has the NodeENIs that are not accepted yet among its NodeENIs.
	In
	// Node is the name of the Node.
	Node string
	// Reports has, by the name of the object, what the controller and the agent say about its interface.
	Reports map[string]InterfaceReport
	// Tainted is set if the Node has the startup taint.
	Tainted bool
	// Listed is set once the interfaces of the cluster were listed after the start of the process.
	Listed bool
}

// InterfaceReport is the status of an object.
type InterfaceReport struct {
	// Phase is that of the interface: Attached, or what it lacks. Message explains it.
	Phase, Message string
	MAC            string
	// Link is the link on the node, and Pods the network for pods; nil while no agent reports them.
	Link *LinkReport
	Pods *PodsReport
	// CNI says whether the container runtime uses Multus; nil if the agent does not report it.
	CNI *CNIReport
}

// attached is the phase of an attached interface.
const attached = "Attached"

// LinkReport is the link of an interface on the node. Usable is set if pods can use it, or a pod or a program does.
type LinkReport struct {
	Usable                 bool
	State, Reason, Message string
	Name, PCIAddress       string
}

// PodsReport says whether pods can attach. Draining is set if they cannot because the interface will be removed.
type PodsReport struct {
	Ready, Draining bool
	Reason, Message string
}

// CNIReport says whether the container runtime of the node uses Multus.
type CNIReport struct {
	Ready   bool
	Message string
}

// Truth is the status of a condition.
type Truth string

// The statuses of a condition. A node has Unknown while no interface is declared for it; if it registered with the
// startup taint, it keeps the taint then.
const (
	True    Truth = "True"
	False   Truth = "False"
	Unknown Truth = "Unknown"
)

// NodeReadiness says whether the interfaces of a node are ready, as a Node condition.
type NodeReadiness struct {
	Status          Truth
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

// The reasons of a readiness. An interface that is not attached, a link that is not usable and a pod network that is
// not ready have reasons of their own.
const (
	ReasonReady       = "InterfacesReady"
	ReasonNotDeclared = "NoInterfaces"
	ReasonPending     = "StatusPending"
	ReasonNoMultus    = "MultusNotConfigured"
)

// Readiness says whether every required interface that NodeENIs declare for a node is attached, its link usable and,
// with pods, its network for pods ready. Networks for pods that the agent does not report do not count: it serves none.
func Readiness(in ReadinessIn) NodeReadiness {
	e := evaluation{ReadinessIn: in, serving: map[string]bool{}}
	readiness := e.evaluate()
	readiness.Usable = e.usable()
	if in.Tainted {
		return e.waitForMultus(readiness)
	}
	return readiness
}

// evaluation is the state of one evaluation.
type evaluation struct {
	ReadinessIn
	// serving are the objects that a declared interface has.
	serving map[string]bool
}

func (e evaluation) evaluate() NodeReadiness {
	if len(e.Nodes) == 0 || e.Nodes[0].Name != e.Node {
		return notDeclared()
	}
	if !e.Listed {
		return pending("the controller has not listed the interfaces of the cluster yet")
	}
	waiting := e.awaitObjects()
	if waiting != nil {
		return *waiting
	}
	present := slices.DeleteFunc(slices.Clone(e.Objects), e.removing)
	switch {
	case len(e.Objects) == 0:
		return notDeclared()
	case len(present) == 0:
		return NodeReadiness{Status: Unknown, Reason: ReasonNotDeclared,
			Message: "the controller is removing every interface of this node"}
	}
	return e.judge(present)
}

// judge returns the first fault of a required interface, or that there is none.
func (e evaluation) judge(present []Object) NodeReadiness {
	required, absent := 0, 0
	for _, o := range present {
		report := e.Reports[o.Name]
		fault := cmp.Or(interfaceFault(o, report), podsFault(o, report))
		switch {
		case o.Spec.Required && fault != nil:
			return *fault
		case o.Spec.Required:
			required++
		case fault != nil:
			absent++
		}
	}
	text := fmt.Sprintf("%d required interfaces are attached, up and configured", required)
	if absent > 0 {
		text += fmt.Sprintf("; %d that are not required are not", absent)
	}
	return NodeReadiness{Status: True, Reason: ReasonReady, Message: text}
}

func notDeclared() NodeReadiness {
	return NodeReadiness{Status: Unknown, Reason: ReasonNotDeclared,
		Message: "no NodeENI declares an interface for this node; see the labels of the node and kubectl get nodeenis"}
}

func pending(message string) NodeReadiness {
	return NodeReadiness{Status: False, Reason: ReasonPending, Message: message}
}

// awaitObjects returns that a NodeENI that selects the node lacks an object for it, or nil.
func (e evaluation) awaitObjects() *NodeReadiness {
	for _, n := range e.NodeENIs {
		if n.Deleting || !n.Selects(e.Nodes[0].Labels) {
			continue
		}
		objects := slices.DeleteFunc(slices.Clone(e.Objects), func(o Object) bool {
			return o.Spec.NodeENI.Name != n.Name || o.Spec.NodeENI.UID != n.UID
		})
		if !e.hasObjects(n, objects) {
			missing := pending(fmt.Sprintf("the controller has not created the interfaces of NodeENI %s yet", n.Name))
			return &missing
		}
	}
	return nil
}

// hasObjects reports whether a NodeENI has an object for each declared interface, and notes them. While its selectors
// are not resolved, or nothing may be created, one object is enough: it was created with all others.
func (e evaluation) hasObjects(n NodeENI, objects []Object) bool {
	mode, _ := n.ModeOf(e.Nodes)
	if n.Found == nil || mode != Ensure {
		for _, o := range objects {
			e.serving[o.Name] = true
		}
		return len(objects) > 0
	}
	placed := n.At(e.location())
	found := n.pair(placed.Interfaces, objects)
	for _, i := range found.byWanted {
		e.serving[objects[i].Name] = true
	}
	if len(placed.Interfaces) == 0 {
		return len(objects) > 0
	}
	return len(found.byWanted) == len(placed.Interfaces)
}

// removing reports whether the interface of an object is being removed. One that is still declared is being replaced
// instead, and the node lacks it when it goes.
func (e evaluation) removing(o Object) bool {
	link := e.Reports[o.Name].Link
	closed := o.Spec.Pods != nil && o.Spec.Pods.Closed
	return o.Deleting && !e.serving[o.Name] || closed && (link == nil || !link.Usable)
}

// interfaceFault returns why an interface is not ready, or nil.
func interfaceFault(o Object, report InterfaceReport) *NodeReadiness {
	name, link := o.Spec.NodeENI.Name, report.Link
	switch {
	case report.Phase != attached:
		message := fmt.Sprintf("the interface of NodeENI %s is %s", name, report.Phase)
		if report.Message != "" {
			message += ": " + report.Message
		}
		return &NodeReadiness{Status: False, Reason: "Interface" + report.Phase, Message: message}
	case link == nil:
		return &NodeReadiness{Status: False, Reason: hostnet.ReasonNotFound,
			Message: fmt.Sprintf("the link of NodeENI %s (%s) has not been observed yet", name, o.ENIID)}
	case !link.Usable:
		return &NodeReadiness{Status: False, Reason: link.Reason,
			Message: fmt.Sprintf("the link of NodeENI %s (%s) is %s: %s", name, o.ENIID, link.State, link.Message)}
	default:
		return nil
	}
}

// podsFault returns why pods cannot attach to an interface that is not draining, or nil.
func podsFault(o Object, report InterfaceReport) *NodeReadiness {
	if report.Pods == nil || report.Pods.Ready || report.Pods.Draining {
		return nil
	}
	network := netattach.Network{NodeENI: o.Spec.NodeENI.Name, Ordinal: o.Spec.Ordinal}
	return &NodeReadiness{Status: False, Reason: report.Pods.Reason,
		Message: fmt.Sprintf("pod network %s of NodeENI %s: %s", network.Name(), network.NodeENI, report.Pods.Message)}
}

// usable returns the interfaces with a usable link, by the name of the link on every node.
func (e evaluation) usable() map[string]Usable {
	usable := map[string]Usable{}
	for _, o := range e.Objects {
		report := e.Reports[o.Name]
		if e.removing(o) || report.Link == nil || !report.Link.Usable {
			continue
		}
		named := netattach.Network{NodeENI: o.Spec.NodeENI.Name, Ordinal: o.Spec.Ordinal}
		usable[hostnet.AltName(named.LinkName())] = Usable{NodeENI: named.NodeENI, ENIID: o.ENIID, MAC: report.MAC,
			Name: report.Link.Name, SubnetID: o.SubnetID, PCIAddress: report.Link.PCIAddress}
	}
	return usable
}

// waitForMultus makes a node with the startup taint unready until its container runtime uses Multus. A node without the
// taint already has pods, and the configuration of Multus may be absent for a moment.
func (e evaluation) waitForMultus(v NodeReadiness) NodeReadiness {
	for _, o := range e.Objects {
		cni := e.Reports[o.Name].CNI
		if v.Status != True || cni == nil || cni.Ready {
			continue
		}
		v.Message = fmt.Sprintf("%s; pods would start without Multus, whose configuration is not the first of the node "+
			"yet: %s", v.Message, cni.Message)
		v.Status, v.Reason = False, ReasonNoMultus
		return v
	}
	return v
}
