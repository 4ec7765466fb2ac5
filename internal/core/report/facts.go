// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// Fleet is the state that was read from a cluster.
type Fleet struct {
	NodeENIs []NodeENI `json:"nodeENIs"`
	Nodes    []Node    `json:"nodes"`
	// WaitingPods are pods that no node has an address for.
	WaitingPods []WaitingPods
}

// Condition is a condition of an object.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// NodeENI has the facts of its object.
type NodeENI struct {
	Name       string            `json:"name"`
	Created    time.Time         `json:"created"`
	Selector   map[string]string `json:"nodeSelector"`
	Generation int64             `json:"-"`
	// Accepted is set once a controller has added its finalizer to the NodeENI.
	Accepted bool `json:"accepted"`
	Deleting bool `json:"deleting,omitempty"`
	// NotObserved is set while no controller has observed the present generation or the deletion.
	NotObserved bool `json:"notObserved,omitempty"`
	Paused      bool `json:"paused,omitempty"`
	// Ready is the condition of that type; the zero Condition while there is none.
	Ready      Condition   `json:"ready"`
	Conditions []Condition `json:"conditions,omitempty"`
	Nodes      int         `json:"nodes"`
	Desired    int         `json:"desired"`
	Attached   int         `json:"attached"`
	Blocked    int         `json:"blocked"`
	Drifted    int         `json:"drifted"`
	Subnets    []string    `json:"subnets,omitempty"`
}

// Node has the facts of a Node, and of the NetworkInterfaces on it.
type Node struct {
	Name       string            `json:"name"`
	InstanceID string            `json:"instanceID,omitempty"`
	Zone       string            `json:"zone,omitempty"`
	Type       string            `json:"instanceType,omitempty"`
	Labels     map[string]string `json:"-"`
	// Absent is set if there are NetworkInterfaces of the node and no Node.
	Absent bool `json:"absent,omitempty"`
	Paused bool `json:"paused,omitempty"`
	// Unserved is why the Node can get no interfaces, for example because it is no EC2 instance; empty if it can.
	Unserved string `json:"unserved,omitempty"`
	// OwningNode is the older Node that the instance belongs to; empty if it belongs to this one.
	OwningNode string `json:"owningNode,omitempty"`
	// Tainted is set while the startup taint keeps pods away.
	Tainted bool `json:"tainted,omitempty"`
	// Ready is the condition InterfacesReady of the Node; the zero Condition while there is none.
	Ready Condition `json:"ready"`
	// Desired and Attached do not count interfaces that are being removed.
	Desired    int         `json:"desired"`
	Attached   int         `json:"attached"`
	Interfaces []Interface `json:"interfaces,omitempty"`
}

// Interface has the facts of a NetworkInterface.
type Interface struct {
	Name    string `json:"name"`
	NodeENI string `json:"nodeENI"`
	Ordinal int    `json:"ordinal"`
	// Node is the name of the Node, or the instance ID if the object names none.
	Node  string     `json:"node,omitempty"`
	Phase plan.Phase `json:"phase"`
	// Reason and Message say why the interface is not as desired; empty if it is.
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
	ENIID     string `json:"eniID,omitempty"`
	SubnetID  string `json:"subnetID,omitempty"`
	PrivateIP string `json:"privateIP,omitempty"`
	// Foreign are the addresses and prefixes that multieni did not request: another program assigned them.
	Foreign []string `json:"foreignAddresses,omitempty"`
	// Followed are the addresses that pods of the node brought up themselves.
	Followed []string `json:"followedAddresses,omitempty"`
	MAC      string   `json:"macAddress,omitempty"`
	Slot     eni.Slot `json:"slot"`
	// Asked is the device index that the NodeENI requests.
	Asked int      `json:"requestedDeviceIndex"`
	Drift []string `json:"drift,omitempty"`
	Link  *Link    `json:"link,omitempty"`
	// Deleting is set once the object is to be deleted.
	Deleting bool `json:"deleting,omitempty"`
	// Held is set while pods or programs can use the interface, so that it is not detached.
	Held bool `json:"held,omitempty"`
	// Unanswered is set while no agent has reported on the ENI.
	Unanswered bool `json:"unanswered,omitempty"`
	// Closed is set if no further pod gets an address of the interface.
	Closed bool `json:"closed,omitempty"`
	// Pods are pods with an address of an interface that is closed or to be deleted, as NAMESPACE/NAME.
	Pods []string `json:"pods,omitempty"`
}

// Link is the state of an interface on the node, as the agent reports it.
type Link struct {
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Name    string `json:"name,omitempty"`
	AltName string `json:"altName,omitempty"`
	MTU     int    `json:"mtu,omitempty"`
}

// ready reports whether nothing of the node is unfinished.
func (n Node) ready() bool {
	return n.concerned() && n.Ready.Status != "False" && n.Attached == n.Desired &&
		!slices.ContainsFunc(n.Interfaces, Interface.unfinished)
}

// concerned reports whether there are NetworkInterfaces of the node.
func (n Node) concerned() bool { return len(n.Interfaces) > 0 }

// unfinished reports whether the interface is not as desired.
func (i Interface) unfinished() bool {
	reason, _ := i.trouble()
	return reason != "" && !works(reason)
}

// Selects reports whether the NodeENI's selector matches the labels of a node.
func (n NodeENI) Selects(labels map[string]string) bool {
	return len(n.Selector) > 0 && len(n.missing(labels)) == 0
}

// unable reports whether the controller says that it can change nothing for the NodeENI, and knows none of its
// interfaces.
func (n NodeENI) unable() bool {
	if n.NotObserved || n.Ready.Status != "False" {
		return false
	}
	unable := []string{reasonUnreadable, reasonOtherName, string(plan.Unauthorized)}
	return !n.Accepted || n.Desired == 0 && slices.Contains(unable, n.Ready.Reason)
}

// missing returns the sorted keys of the selector that are missing in the labels or have another value there.
func (n NodeENI) missing(labels map[string]string) []string {
	var keys []string
	for key, value := range n.Selector {
		if have, ok := labels[key]; !ok || have != value {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Node returns the node of a name.
func (f Fleet) Node(name string) (Node, bool) {
	i := slices.IndexFunc(f.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return Node{}, false
	}
	return f.Nodes[i], true
}

// Interface returns the interface of a name.
func (f Fleet) Interface(name string) (Interface, bool) {
	for _, n := range f.Nodes {
		for _, i := range n.Interfaces {
			if i.Name == name {
				return i, true
			}
		}
	}
	return Interface{}, false
}

// NodeENI returns the NodeENI of a name.
func (f Fleet) NodeENI(name string) (NodeENI, bool) {
	i := slices.IndexFunc(f.NodeENIs, func(n NodeENI) bool { return n.Name == name })
	if i < 0 {
		return NodeENI{}, false
	}
	return f.NodeENIs[i], true
}

// sorted returns the fleet in the order of the report.
func (f Fleet) sorted() Fleet {
	sorted := f
	sorted.NodeENIs, sorted.Nodes = append([]NodeENI{}, f.NodeENIs...), append([]Node{}, f.Nodes...)
	slices.SortFunc(sorted.NodeENIs, func(a, b NodeENI) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(sorted.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return sorted
}
