// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkInterfaceStatus is the observed state of an interface. The controller
// writes all of it but for node, which the agent of the node writes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.node) || has(self.eniID)",message="status.node needs an eniID: no agent answers before there is an ENI"
// +kubebuilder:validation:XValidation:rule="!has(self.pods) || !has(self.pods.returning) || self.pods.returning.all(p, has(oldSelf.pods) && has(oldSelf.pods.returning) && p in oldSelf.pods.returning || has(oldSelf.node) && has(oldSelf.node.released) && p in oldSelf.node.released)",message="a prefix is returned only after the agent of the node released it"
type NetworkInterfaceStatus struct {
	// observedGeneration is the metadata.generation that this status is for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Reconciling, Stalled and Drifted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase is the phase of the interface; while it changes, the last one that
	// was written.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// eniID is the ID of the network interface, once it exists.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ENIID string `json:"eniID,omitempty"`

	// attachmentID is EC2's ID of the attachment, once it exists.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AttachmentID string `json:"attachmentID,omitempty"`

	// macAddress identifies the link on the node.
	// +optional
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`
	MACAddress string `json:"macAddress,omitempty"`

	// subnetID is the subnet of the interface.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	SubnetID string `json:"subnetID,omitempty"`

	// slot is where the interface is attached.
	// +optional
	Slot *InterfaceSlot `json:"slot,omitempty"`

	// addresses are the addresses and prefixes that EC2 shows.
	// +optional
	Addresses InterfaceAddresses `json:"addresses,omitzero"`

	// securityGroupIDs are the security groups that EC2 shows.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=24
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`

	// evidence says how the controller knows that the ENI is the one of this
	// object.
	// +optional
	Evidence InterfaceEvidence `json:"evidence,omitempty"`

	// requested are the addresses and prefixes that EC2 chose for requests of the
	// controller. It unassigns no others.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=43
	Requested []string `json:"requested,omitempty"`

	// connectionTracking are the timeouts that multieni set.
	// +optional
	ConnectionTracking *ConnectionTracking `json:"connectionTracking,omitempty"`

	// enaExpress is the setting of ENA Express that multieni made.
	// +optional
	ENAExpress ENAExpress `json:"enaExpress,omitempty"`

	// unsupported are the fields that the instance type does not support.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=32
	Unsupported []string `json:"unsupported,omitempty"`

	// drift lists the fields in which the interface differs from its NodeENI.
	// +optional
	// +listType=map
	// +listMapKey=field
	// +kubebuilder:validation:MaxItems=32
	Drift []Drift `json:"drift,omitempty"`

	// pods are the prefixes of the network for pods.
	// +optional
	Pods *PodPrefixes `json:"pods,omitempty"`

	// node is the report of the node's agent. Only the agent writes it.
	// +optional
	Node *NodeReport `json:"node,omitempty"`
}

// InterfaceEvidence says how the controller knows that an ENI is the one of a
// NetworkInterface.
//
// +kubebuilder:validation:Enum=Created;TakenOver;Launched
type InterfaceEvidence string

const (
	// EvidenceCreated is EC2's answer to the client token of the object.
	EvidenceCreated InterfaceEvidence = "Created"
	// EvidenceTakenOver is an ENI that existed before the object.
	EvidenceTakenOver InterfaceEvidence = "TakenOver"
	// EvidenceLaunched is an ENI from the launch template of the instance. The
	// controller never detaches or deletes it.
	EvidenceLaunched InterfaceEvidence = "Launched"
)

// InterfaceAddresses are the addresses and prefixes of an interface.
type InterfaceAddresses struct {
	// privateIP is the primary private IPv4 address.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	PrivateIP string `json:"privateIP,omitempty"`

	// secondaryPrivateIPs are the private IPv4 addresses without the primary one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=15
	SecondaryPrivateIPs []string `json:"secondaryPrivateIPs,omitempty"`

	// ipv4Prefixes are the delegated IPv4 prefixes, /28 each.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=18
	IPv4Prefixes []string `json:"ipv4Prefixes,omitempty"`

	// ipv6Addresses are the IPv6 addresses.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=39
	IPv6Addresses []string `json:"ipv6Addresses,omitempty"`

	// ipv6Prefixes are the delegated IPv6 prefixes, /80 each.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=43
	IPv6Prefixes []string `json:"ipv6Prefixes,omitempty"`
}

// PodPrefixes is the record of EC2's answers and of the controller's calls about
// the prefixes of a network for pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.prefixes) || self.prefixes.all(p, !(has(self.returning) && p in self.returning) && (has(oldSelf.prefixes) && p in oldSelf.prefixes || !(has(oldSelf.returning) && p in oldSelf.returning)))",message="a prefix is granted again only after it left status.pods.returning"
type PodPrefixes struct {
	// prefixes are the granted prefixes: EC2 has them on the interface, and no
	// unassignment can be under way.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=43
	Prefixes []string `json:"prefixes,omitempty"`

	// returning are the prefixes that EC2 was or will be asked to unassign.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=43
	Returning []string `json:"returning,omitempty"`
}

// NodeReport is what the agent of the node says about an interface. Each write
// states all of it, over the version that the agent read.
type NodeReport struct {
	// agent is the process that wrote the report.
	// +required
	Agent AgentProcess `json:"agent"`

	// open is the hold: pods, a program in user space or a CNI plugin of the user
	// use the interface, or can start to use it. The controller detaches and
	// deletes no interface that is open.
	// +optional
	Open bool `json:"open"`

	// released are granted prefixes that no pod uses or can start to use.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=43
	Released []string `json:"released,omitempty"`

	// observedGeneration is the metadata.generation that the report is for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// link is the link of the interface.
	// +optional
	Link *LinkReport `json:"link,omitempty"`

	// cni says whether the container runtime of the node uses Multus. The agent
	// reports it with --wait-for-cni.
	// +optional
	CNI *CNIState `json:"cni,omitempty"`

	// pods is the network for pods.
	// +optional
	Pods *PodsReport `json:"pods,omitempty"`
}

// AgentProcess identifies a process of the agent.
type AgentProcess struct {
	// bootID is the boot of the node.
	// +required
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID"`

	// processID is unique for each process.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ProcessID string `json:"processID"`
}

// LinkReport is the link of an interface on the node.
type LinkReport struct {
	// state is the phase of the link.
	// +required
	State LinkPhase `json:"state"`

	// reason is one CamelCase word that says why the link is in this state.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`

	// message explains the reason and names the next step.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// name is the name that the node's operating system gave the link.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Name string `json:"name,omitempty"`

	// altName is the alternative name that the agent added to the link. It is the
	// same on every node.
	// +optional
	// +kubebuilder:validation:MaxLength=127
	AltName string `json:"altName,omitempty"`

	// mtu is the maximum transmission unit of the link, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MTU int32 `json:"mtu,omitempty"`

	// addresses are the addresses of the link in the node's network namespace, with
	// their prefix lengths.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=43
	Addresses []string `json:"addresses,omitempty"`

	// driver is the driver of the device.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Driver string `json:"driver,omitempty"`

	// pciAddress is the address of the device on the PCI bus, for example
	// 0000:00:06.0.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PCIAddress string `json:"pciAddress,omitempty"`
}

// PodsReport is the network for pods of an interface on the node.
type PodsReport struct {
	// reason is one CamelCase word that says why pods can attach or not.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message explains the reason and names the next step.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// ready says whether pods can attach.
	// +optional
	Ready bool `json:"ready"`

	// wanted is the number of /28 prefixes that the pods of the node need.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Wanted int32 `json:"wanted,omitempty"`

	// capacity is the number of pods that the network can have at once.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Capacity int32 `json:"capacity,omitempty"`

	// used is the number of addresses that pods have.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Used int32 `json:"used"`

	// free is the number of addresses that pods can get now. Addresses beyond 65536
	// are not counted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Free int32 `json:"free"`

	// pods are pods with an address of the network, at most 16, while the interface
	// is closed or being deleted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Pods []PodReference `json:"pods,omitempty"`
}

// Held reports whether pods, a program or a CNI plugin may use the interface. Two
// kinds are held until an agent has answered for their ENI: what was taken over,
// since an earlier object may have been open, and what another CNI plugin attaches
// pods to, since that plugin asks no agent.
func (n *NetworkInterface) Held() bool {
	if n.Status.Node != nil {
		return n.Status.Node.Open
	}
	observed := n.Spec.Pods != nil && n.Spec.Pods.Attachment == PodAttachmentObserved
	return n.Status.ENIID != "" && (n.Status.Evidence != EvidenceCreated || observed)
}

// Final reports whether the interface is being deleted and cannot be held again. Only
// an ENI of a final object is detached and deleted.
func (n *NetworkInterface) Final() bool { return !n.DeletionTimestamp.IsZero() && !n.Held() }

// UsablePrefixes returns the granted prefixes that the agent has not released.
func (n *NetworkInterface) UsablePrefixes() []string {
	var usable []string
	if n.Status.Pods == nil {
		return nil
	}
	for _, prefix := range n.Status.Pods.Prefixes {
		if n.Status.Node == nil || !slices.Contains(n.Status.Node.Released, prefix) {
			usable = append(usable, prefix)
		}
	}
	return usable
}
