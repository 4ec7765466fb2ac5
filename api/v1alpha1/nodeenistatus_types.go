// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeENIStatus is the last observed state of a NodeENI.
type NodeENIStatus struct {
	// observedGeneration is the metadata.generation that this status is for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Reconciling, Stalled, SubnetsResolved,
	// SecurityGroupsResolved and, with spec.pods, PodNetworkReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// nodes is the number of nodes that match the node selector.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Nodes int32 `json:"nodes"`

	// desired is the number of desired interfaces of all matching nodes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Desired int32 `json:"desired"`

	// attached is the number of desired interfaces that EC2 reports as
	// attached.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attached int32 `json:"attached"`

	// ready is the number of desired interfaces that are attached and entirely
	// as declared.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ready int32 `json:"ready"`

	// blocked is the number of desired interfaces that wait for a person to
	// act; attachments has the reasons.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Blocked int32 `json:"blocked"`

	// drifted is the number of interfaces that differ from the spec in a way
	// that cannot be changed in place.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Drifted int32 `json:"drifted"`

	// turns are the interfaces that are being replaced. The object of a live
	// interface that is still desired is deleted, and loses its interface, only
	// while it is listed. An entry stays until the successor is ready. The
	// entries name at most maxUnavailable instances, or as many as before it was
	// lowered.
	// +optional
	// +listType=map
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=10000
	Turns []Turn `json:"turns,omitempty"`

	// attachments are the desired interfaces, one entry each, at most 100, in
	// the order of node and device index; interfaces that exist in EC2 come
	// first. NetworkInterfaces have all of them, with more detail.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Attachments []Attachment `json:"attachments,omitempty"`

	// attachmentsOmitted is the number of interfaces that attachments does not
	// list.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AttachmentsOmitted int32 `json:"attachmentsOmitted,omitempty"`

	// podNetworks summarizes the pod networks on all nodes. It is set with
	// spec.pods only.
	// +optional
	PodNetworks *PodNetworkCounts `json:"podNetworks,omitempty"`

	// subnets are the subnets that the spec's subnet fields select, in all
	// zones.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=200
	Subnets []ResolvedSubnet `json:"subnets,omitempty"`

	// securityGroups are the IDs of the groups that the spec's group fields
	// select.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=32
	SecurityGroups []string `json:"securityGroups,omitempty"`
}

// Attachment summarizes one desired interface on one node.
type Attachment struct {
	// nodeID is the name of the node.
	// +required
	// +kubebuilder:validation:MaxLength=253
	NodeID string `json:"nodeID"`

	// instanceID is the EC2 instance of the node.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	InstanceID string `json:"instanceID,omitempty"`

	// eniID is the ID of the network interface, once it exists.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ENIID string `json:"eniID,omitempty"`

	// attachmentID is EC2's ID of the attachment, once it exists.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AttachmentID string `json:"attachmentID,omitempty"`

	// subnetID is the subnet of the interface.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	SubnetID string `json:"subnetID,omitempty"`

	// networkCardIndex is the network card of the interface.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NetworkCardIndex int32 `json:"networkCardIndex"`

	// deviceIndex is the device index of the interface, or the requested one
	// while it is not attached.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DeviceIndex int32 `json:"deviceIndex"`

	// macAddress identifies the link on the node.
	// +optional
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`
	MACAddress string `json:"macAddress,omitempty"`

	// privateIP is the primary private IPv4 address.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	PrivateIP string `json:"privateIP,omitempty"`

	// status is the phase of the interface: blocked, pending, creating,
	// attaching, attached, detaching or deleting.
	// +required
	Status AttachmentStatus `json:"status"`

	// reason is one CamelCase word that says why the interface is blocked or
	// has drifted.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message explains the reason and names the next step.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// AttachmentStatus is the phase of an interface, in lower case like EC2's own
// attachment states.
//
// +kubebuilder:validation:Enum=blocked;pending;creating;attaching;attached;detaching;deleting
type AttachmentStatus string

// The values of AttachmentStatus. They are the phases of [InterfaceState] in
// lower case.
const (
	AttachmentBlocked   AttachmentStatus = "blocked"
	AttachmentPending   AttachmentStatus = "pending"
	AttachmentCreating  AttachmentStatus = "creating"
	AttachmentAttaching AttachmentStatus = "attaching"
	AttachmentAttached  AttachmentStatus = "attached"
	AttachmentDetaching AttachmentStatus = "detaching"
	AttachmentDeleting  AttachmentStatus = "deleting"
)

// ResolvedSubnet is a subnet that a NodeENI selects.
type ResolvedSubnet struct {
	// id is the subnet ID.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`

	// zone is the availability zone of the subnet, for example us-west-2a.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Zone string `json:"zone"`

	// cidr is the IPv4 range of the subnet; empty for an IPv6-only subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=18
	CIDR string `json:"cidr,omitempty"`

	// ipv6CIDR is the IPv6 range of the subnet. It is set with spec.pods.ipv6
	// only.
	// +optional
	// +kubebuilder:validation:MaxLength=43
	IPv6CIDR string `json:"ipv6CIDR,omitempty"`
}

// Turn is an interface that is being replaced.
type Turn struct {
	// name is that of the NetworkInterface, and of its successor.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid is that of the NetworkInterface that is replaced.
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`

	// instanceID is that of the node.
	// +kubebuilder:validation:MaxLength=64
	InstanceID string `json:"instanceID"`
}
