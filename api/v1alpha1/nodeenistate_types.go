// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeENIState is the truth about the interfaces of one node, and is named
// as the node. The controller writes it; people read it. It outlives its
// node until EC2 has confirmed that the interfaces are gone.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodeenistates,singular=nodeenistate,scope=Cluster,shortName=nes,categories=multieni
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True when every member is attached as declared"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desired`,description="Interfaces promised to the node"
// +kubebuilder:printcolumn:name="Attached",type=integer,JSONPath=`.status.attached`,description="Promised interfaces that EC2 reports as attached"
// +kubebuilder:printcolumn:name="Instance",type=string,JSONPath=`.spec.instanceID`,description="EC2 instance of the node"
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.zone`,description="Availability zone of the instance"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.instanceType`,priority=1,description="EC2 instance type"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why Ready is what it is"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeENIState struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the ledger: what the controller has promised the node, written
	// before the first call to EC2.
	// +required
	Spec NodeENIStateSpec `json:"spec"`

	// status is what became of the promises.
	// +optional
	Status NodeENIStateStatus `json:"status,omitempty"`
}

// NodeENIStateList is a list of NodeENIStates.
//
// +kubebuilder:object:root=true
type NodeENIStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeENIState `json:"items"`
}

// NodeENIStateSpec is the ledger of one node.
type NodeENIStateSpec struct {
	// instanceID is the EC2 instance that is the node, from spec.providerID of
	// the Node.
	// +required
	// +kubebuilder:validation:MaxLength=19
	// +kubebuilder:validation:Pattern=`^i-[0-9a-f]{8,17}$`
	InstanceID string `json:"instanceID"`

	// nodeUID is the UID of the Node object, which tells a node from a later one
	// of the same name.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	NodeUID types.UID `json:"nodeUID,omitempty"`

	// zone is the availability zone of the instance, from spec.providerID of the
	// Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Zone string `json:"zone"`

	// instanceType is the EC2 instance type, for example c6i.4xlarge.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	InstanceType string `json:"instanceType,omitempty"`

	// members are the interfaces promised to the node.
	// +optional
	// +listType=map
	// +listMapKey=nodeENIUID
	// +listMapKey=ordinal
	// +kubebuilder:validation:MaxItems=128
	Members []Member `json:"members,omitempty"`

	// previousInstances are the ledgers of other instances that were this node.
	// An entry stays while EC2 returns, or may still return, an interface of it.
	// +optional
	// +listType=map
	// +listMapKey=instanceID
	// +kubebuilder:validation:MaxItems=32
	PreviousInstances []PreviousInstance `json:"previousInstances,omitempty"`
}

// PreviousInstance is the ledger of an instance that was the node before, under
// the same name.
type PreviousInstance struct {
	// instanceID is the EC2 instance.
	// +required
	// +kubebuilder:validation:MaxLength=19
	// +kubebuilder:validation:Pattern=`^i-[0-9a-f]{8,17}$`
	InstanceID string `json:"instanceID"`

	// members are the interfaces that were promised to the instance.
	// +required
	// +listType=map
	// +listMapKey=nodeENIUID
	// +listMapKey=ordinal
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Members []Member `json:"members"`
}

// Member is one promised interface. Its tags and its client token in EC2
// derive from these fields, so that it is found again, and never made twice,
// whatever is lost in between.
type Member struct {
	// nodeENI is the name of the NodeENI that wants the interface.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeENI string `json:"nodeENI"`

	// nodeENIUID is the UID of that NodeENI, which tells it from a later one of
	// the same name.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	NodeENIUID types.UID `json:"nodeENIUID"`

	// ordinal is the place of the interface among those of the NodeENI on this
	// node, from 0.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	Ordinal int32 `json:"ordinal"`

	// generation tells the successive interfaces of a member apart. It only ever grows.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=253402300799
	Generation int64 `json:"generation"`
}

// NodeENIStateStatus is what became of the promises.
type NodeENIStateStatus struct {
	// observedGeneration is the metadata.generation this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions holds Ready: True when every member is attached as declared.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// desired is how many interfaces the node is promised.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Desired int32 `json:"desired"`

	// attached is how many of the desired interfaces EC2 reports as attached.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attached int32 `json:"attached"`

	// instanceID is the EC2 instance that this status speaks of.
	// +optional
	// +kubebuilder:validation:MaxLength=19
	InstanceID string `json:"instanceID,omitempty"`

	// nodeENIs says which generation of each NodeENI the interfaces were last
	// judged by. A NodeENI that selects the node and is not listed was not judged
	// yet.
	// +optional
	// +listType=map
	// +listMapKey=nodeENIUID
	// +kubebuilder:validation:MaxItems=512
	NodeENIs []ObservedNodeENI `json:"nodeENIs,omitempty"`

	// interfaces are the interfaces as EC2 reports them, one entry for each
	// member. Of more than 128 those that exist in EC2 come first.
	// +optional
	// +listType=map
	// +listMapKey=nodeENIUID
	// +listMapKey=ordinal
	// +kubebuilder:validation:MaxItems=128
	Interfaces []InterfaceState `json:"interfaces,omitempty"`

	// interfacesOmitted is how many entries interfaces leaves out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	InterfacesOmitted int32 `json:"interfacesOmitted,omitempty"`

	// unverified are interfaces of the instance whose tags name this cluster,
	// while nothing else says that multieni made them: the tags were copied or
	// invented, or the ledger was lost. They are left as they are.
	// +optional
	// +listType=map
	// +listMapKey=eniID
	// +kubebuilder:validation:MaxItems=64
	Unverified []UnverifiedInterface `json:"unverified,omitempty"`

	// links are the links of the interfaces as the agent on the node finds them.
	// The agent writes them, and nothing else; the controller never does.
	// +optional
	// +listType=map
	// +listMapKey=macAddress
	// +kubebuilder:validation:MaxItems=128
	Links []LinkState `json:"links,omitempty"`
}

// MaxInterfaces is how many interfaces a NodeENIState lists, and MaxNodeENIs of how many NodeENIs it speaks.
const (
	MaxInterfaces = 128
	MaxNodeENIs   = 512
)

// ObservedNodeENI is a NodeENI as the node's interfaces were last judged by it.
type ObservedNodeENI struct {
	// nodeENI is the name of the NodeENI.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeENI string `json:"nodeENI"`

	// nodeENIUID is the UID of that NodeENI.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	NodeENIUID types.UID `json:"nodeENIUID"`

	// observedGeneration is the metadata.generation of the NodeENI that the
	// interfaces were judged by.
	// +required
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration"`

	// omitted is how many wanted interfaces of the NodeENI the list of
	// interfaces leaves out. None of them exists in EC2.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Omitted int32 `json:"omitted,omitempty"`

	// blocked is how many of the omitted interfaces cannot be delivered as things
	// stand.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Blocked int32 `json:"blocked,omitempty"`

	// reason is one CamelCase word for why the first of the blocked ones cannot
	// be delivered.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
}

// InterfaceState is one interface as EC2 reports it.
type InterfaceState struct {
	Member `json:",inline"`

	// phase says how far the interface is.
	// +required
	Phase Phase `json:"phase"`

	// eniID is the network interface, once it exists.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ENIID string `json:"eniID,omitempty"`

	// instanceID is the instance that the interface was made for. It differs
	// from the node's while an earlier instance of the node has interfaces.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	InstanceID string `json:"instanceID,omitempty"`

	// unverified is set while nothing but its tags says that the interface is
	// multieni's. It is left as it is.
	// +optional
	Unverified bool `json:"unverified,omitempty"`

	// attachmentID is EC2's ID of the attachment, once it exists.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AttachmentID string `json:"attachmentID,omitempty"`

	// macAddress identifies the link on the node.
	// +optional
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`
	MACAddress string `json:"macAddress,omitempty"`

	// privateIP is the primary private IPv4 address.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	PrivateIP string `json:"privateIP,omitempty"`

	// secondaryPrivateIPs are the private IPv4 addresses beside the primary one.
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

	// subnetID is the subnet of the interface.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	SubnetID string `json:"subnetID,omitempty"`

	// zone is the availability zone of the subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Zone string `json:"zone,omitempty"`

	// securityGroupIDs are the security groups that EC2 has for the interface.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=24
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`

	// networkCardIndex is the network card the interface is attached to.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NetworkCardIndex int32 `json:"networkCardIndex"`

	// deviceIndex is the device index the interface is attached at; the one
	// that is asked for until then.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DeviceIndex int32 `json:"deviceIndex"`

	// requestedDeviceIndex is the device index the NodeENI asks for. It differs
	// from deviceIndex when that one was taken.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RequestedDeviceIndex int32 `json:"requestedDeviceIndex"`

	// deleteOnTermination says whether EC2 deletes the interface together with
	// the instance.
	// +optional
	DeleteOnTermination bool `json:"deleteOnTermination"`

	// mtu is the maximum transmission unit wanted for the link, in bytes. Unset,
	// it is the agent's default.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MTU int32 `json:"mtu,omitempty"`

	// subnetCIDR is the IPv4 range of the subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=18
	SubnetCIDR string `json:"subnetCIDR,omitempty"`

	// addressMode is the NodeENI's: whether the node itself talks over the
	// interface. Unset means None.
	// +optional
	AddressMode AddressMode `json:"addressMode,omitempty"`

	// sysctls are the NodeENI's: kernel settings of the link.
	// +optional
	// +kubebuilder:validation:MaxProperties=10
	Sysctls map[string]SysctlValue `json:"sysctls,omitempty"`

	// required is the NodeENI's: whether the node is unready without the
	// interface. Unset means true.
	// +optional
	Required *bool `json:"required,omitempty"`

	// dpdkDriver is the NodeENI's if it says enableDPDK: the driver that the
	// device shall have instead of the kernel's network driver.
	// +optional
	DPDKDriver DPDKDriver `json:"dpdkDriver,omitempty"`

	// dpdkResourceName is the extended resource that the device is listed under
	// for the SR-IOV network device plugin. Unset, it is not listed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DPDKResourceName string `json:"dpdkResourceName,omitempty"`

	// dpdkPCIAddress is the NodeENI's: where the device is expected.
	// +optional
	// +kubebuilder:validation:MaxLength=12
	DPDKPCIAddress string `json:"dpdkPCIAddress,omitempty"`

	// reason is one CamelCase word for why the interface is blocked or has
	// drifted.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message explains the reason and names the next step.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// drift lists the fields in which the interface differs from its NodeENI.
	// +optional
	// +listType=map
	// +listMapKey=field
	// +kubebuilder:validation:MaxItems=32
	Drift []Drift `json:"drift,omitempty"`
}

// Phase says how far an interface is.
//
// +kubebuilder:validation:Enum=Blocked;Pending;Creating;Attaching;Attached;Detaching;Deleting
type Phase string

const (
	// PhaseBlocked is an interface that cannot be delivered as things stand;
	// reason says why.
	PhaseBlocked Phase = "Blocked"
	// PhasePending is an interface that nothing has been done for yet.
	PhasePending Phase = "Pending"
	// PhaseCreating is an interface that EC2 was asked to create.
	PhaseCreating Phase = "Creating"
	// PhaseAttaching is an interface on its way to the instance.
	PhaseAttaching Phase = "Attaching"
	// PhaseAttached is an interface that EC2 reports as attached.
	PhaseAttached Phase = "Attached"
	// PhaseDetaching is an interface on its way off the instance.
	PhaseDetaching Phase = "Detaching"
	// PhaseDeleting is an interface that is detached and about to be gone.
	PhaseDeleting Phase = "Deleting"
)

// Drift is one field in which an interface differs from its NodeENI.
type Drift struct {
	// field is the field of the NodeENI's spec.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Field string `json:"field"`

	// want is the value the NodeENI declares.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Want string `json:"want,omitempty"`

	// have is the value the interface has.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Have string `json:"have,omitempty"`
}
