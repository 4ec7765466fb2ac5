// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeENIStatus is what the controller last saw of a NodeENI.
type NodeENIStatus struct {
	// observedGeneration is the metadata.generation this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Reconciling, Stalled, SubnetsResolved and
	// SecurityGroupsResolved.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// nodes is how many nodes match the node selector.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Nodes int32 `json:"nodes"`

	// desired is how many interfaces are wanted over all matching nodes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Desired int32 `json:"desired"`

	// attached is how many of the desired interfaces EC2 reports as attached.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attached int32 `json:"attached"`

	// ready is how many of the desired interfaces are attached and are in
	// everything as declared.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ready int32 `json:"ready"`

	// blocked is how many of the desired interfaces cannot be delivered as
	// things stand; attachments says why.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Blocked int32 `json:"blocked"`

	// drifted is how many interfaces differ from the spec in a way that cannot
	// be changed in place.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Drifted int32 `json:"drifted"`

	// attachments are the wanted interfaces, one entry for each, at most 100 in
	// the order of node and device index; those that exist in EC2 come before
	// others. The NodeENIState of a node has more, with more detail.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Attachments []Attachment `json:"attachments,omitempty"`

	// attachmentsOmitted is how many entries attachments leaves out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AttachmentsOmitted int32 `json:"attachmentsOmitted,omitempty"`

	// ramp is set while a change of nodeSelector is carried out that reaches
	// far more nodes than before.
	// +optional
	Ramp *Ramp `json:"ramp,omitempty"`

	// subnets are the subnets that the spec's subnet fields stand for, over all
	// zones.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=200
	Subnets []ResolvedSubnet `json:"subnets,omitempty"`

	// securityGroups are the IDs of the groups that the spec's group fields
	// stand for.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=32
	SecurityGroups []string `json:"securityGroups,omitempty"`
}

// Ramp is a wide change under way.
type Ramp struct {
	// since is when it began.
	// +required
	Since metav1.Time `json:"since"`

	// nodes is how many nodes may have interfaces at the beginning; more are
	// let in as time passes.
	// +required
	// +kubebuilder:validation:Minimum=0
	Nodes int32 `json:"nodes"`
}

// Attachment is one wanted interface on one node, in short.
type Attachment struct {
	// nodeID is the name of the node.
	// +required
	// +kubebuilder:validation:MaxLength=253
	NodeID string `json:"nodeID"`

	// instanceID is the EC2 instance of the node.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	InstanceID string `json:"instanceID,omitempty"`

	// eniID is the network interface, once it exists.
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

	// networkCardIndex is the network card the interface is attached to.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NetworkCardIndex int32 `json:"networkCardIndex"`

	// deviceIndex is the device index the interface is attached at, or asks for
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

	// status says how far the interface is: blocked, pending, creating,
	// attaching, attached, detaching or deleting.
	// +required
	Status AttachmentStatus `json:"status"`

	// reason is one CamelCase word for why the interface is blocked or has
	// drifted.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message explains the reason and names the next step.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// AttachmentStatus says how far an interface is, in the lower-case words
// that EC2 itself uses for attachments.
//
// +kubebuilder:validation:Enum=blocked;pending;creating;attaching;attached;detaching;deleting
type AttachmentStatus string

// The words of AttachmentStatus. They are the phases of [InterfaceState] in
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

// ResolvedSubnet is a subnet that a NodeENI stands for.
type ResolvedSubnet struct {
	// id is the subnet ID.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`

	// zone is the availability zone of the subnet, for example us-west-2a.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Zone string `json:"zone"`

	// cidr is the IPv4 range of the subnet. An IPv6-only subnet has none.
	// +optional
	// +kubebuilder:validation:MaxLength=18
	CIDR string `json:"cidr,omitempty"`
}
