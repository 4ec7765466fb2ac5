// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NetworkInterface is one interface of one node. It has at most one ENI in its
// whole life. The controller creates it for each interface that a NodeENI
// declares on a node. Deleting it replaces the interface.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=networkinterfaces,singular=networkinterface,scope=Cluster,shortName=eni,categories=multieni
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`,description="Node of the interface"
// +kubebuilder:printcolumn:name="NodeENI",type=string,JSONPath=`.spec.nodeENI.name`,description="NodeENI that declares the interface"
// +kubebuilder:printcolumn:name="ENI",type=string,JSONPath=`.status.eniID`,description="Network interface in EC2"
// +kubebuilder:printcolumn:name="Device",type=integer,JSONPath=`.status.slot.deviceIndex`,description="Device index of the attachment"
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.addresses.privateIP`,description="Primary private IPv4 address"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True when the interface is attached as declared"
// +kubebuilder:printcolumn:name="Link",type=string,JSONPath=`.status.node.link.state`,description="State of the link on the node"
// +kubebuilder:printcolumn:name="Instance",type=string,JSONPath=`.spec.instanceID`,priority=1,description="EC2 instance of the node"
// +kubebuilder:printcolumn:name="Subnet",type=string,JSONPath=`.status.subnetID`,priority=1,description="Subnet of the interface"
// +kubebuilder:printcolumn:name="Card",type=integer,JSONPath=`.status.slot.networkCardIndex`,priority=1,description="Network card of the attachment"
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.status.node.pods.wanted`,priority=1,description="IPv4 prefixes that the pods of the node need"
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.node.pods.free`,priority=1,description="Addresses that pods can get now"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why Ready is what it is"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.eniID) || has(self.status) && has(self.status.eniID) && self.status.eniID == oldSelf.status.eniID",message="status.eniID is set once: another ENI is another NetworkInterface"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.eniID) || (has(self.spec.subnets) ? self.spec.subnets : []).filter(s, !has(oldSelf.status.subnetID) || s.id != oldSelf.status.subnetID) == (has(oldSelf.spec.subnets) ? oldSelf.spec.subnets : []).filter(s, !has(oldSelf.status.subnetID) || s.id != oldSelf.status.subnetID)",message="spec.subnets is fixed once there is an ENI, but for the subnet of the ENI: EC2 binds an ENI to its subnet"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.attachmentID) || self.spec.slot == oldSelf.spec.slot",message="spec.slot is fixed once there is an attachment: EC2 binds an attachment to its slot"
type NetworkInterface struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the interface as rendered from its NodeENI and its Node.
	// +required
	Spec NetworkInterfaceSpec `json:"spec"`

	// status is the interface as EC2 and the agent of its node show it.
	// +optional
	Status NetworkInterfaceStatus `json:"status,omitzero"`
}

// NetworkInterfaceList is a list of NetworkInterfaces.
//
// +kubebuilder:object:root=true
type NetworkInterfaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NetworkInterface `json:"items"`
}

// NetworkInterfaceSpec is the desired interface. The controller renders it; an
// edit of it does not last.
type NetworkInterfaceSpec struct {
	// instanceID is the EC2 instance of the interface.
	// +required
	// +kubebuilder:validation:MaxLength=19
	// +kubebuilder:validation:Pattern=`^i-[0-9a-f]{8,17}$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="instanceID never changes"
	InstanceID string `json:"instanceID"`

	// zone is the availability zone of the instance.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="zone never changes"
	Zone string `json:"zone"`

	// ordinal is the number of the interface among those of its NodeENI on the
	// instance, from 0.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ordinal never changes"
	Ordinal int32 `json:"ordinal"`

	// origin says why the object exists: Declared by a NodeENI, or Network for an
	// interface that a lifecycle hook or the boot of the instance made and that no
	// NodeENI declares.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf || self == 'Declared'",message="origin may only change to Declared"
	Origin InterfaceOrigin `json:"origin"`

	// nodeName is the Node of the instance.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`

	// nodeENI is the NodeENI that the object was rendered from.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.uid != oldSelf.uid || self.generation >= oldSelf.generation",message="nodeENI.generation never decreases: the spec was rendered from an older NodeENI"
	NodeENI NodeENIReference `json:"nodeENI"`

	// revision is a hash of what the object was rendered from: fields of the
	// NodeENI, and matches of its selectors in the zone.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`

	// subnets are the subnets that the interface may be in, the preferred one
	// first. They are fixed once there is an ENI, but for the subnet of the ENI
	// itself: it is added if it is missing, and gets its ranges.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Subnets []InterfaceSubnet `json:"subnets,omitempty"`

	// problem says why the interface cannot be created at present.
	// +optional
	Problem *InterfaceProblem `json:"problem,omitempty"`

	// securityGroupIDs are the security groups of the interface.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=32
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`

	// slot is where the interface belongs on the instance. It is fixed once there
	// is an attachment.
	// +required
	Slot InterfaceSlot `json:"slot"`

	// exactSlot accepts only this slot.
	// +optional
	ExactSlot bool `json:"exactSlot,omitempty"`

	// interfaceType is the EC2 interface type.
	// +optional
	InterfaceType InterfaceType `json:"interfaceType,omitempty"`

	// description is the description of the ENI.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Description string `json:"description,omitempty"`

	// tags are the tags of the NodeENI.
	// +optional
	// +kubebuilder:validation:MaxProperties=35
	Tags map[string]TagValue `json:"tags,omitempty"`

	// sourceDestCheck makes EC2 drop packets that are neither from nor to an
	// address of the interface.
	// +optional
	SourceDestCheck bool `json:"sourceDestCheck"`

	// deleteOnTermination makes EC2 delete the interface with its instance.
	// +optional
	DeleteOnTermination bool `json:"deleteOnTermination"`

	// ipv4Allocation says who allocates the primary IPv4 address.
	// +optional
	IPv4Allocation IPv4Allocation `json:"ipv4Allocation,omitempty"`

	// counts are the numbers of further addresses and prefixes.
	// +optional
	Counts AddressCounts `json:"counts,omitzero"`

	// connectionTracking are the timeouts of connection tracking.
	// +optional
	ConnectionTracking *ConnectionTracking `json:"connectionTracking,omitempty"`

	// enaExpress says for which packets the interface uses ENA Express.
	// +optional
	ENAExpress ENAExpress `json:"enaExpress,omitempty"`

	// required says whether the node is unready without the interface.
	// +optional
	Required bool `json:"required"`

	// link are the settings of the link on the node. It is not set for a device
	// that a program in user space drives.
	// +optional
	Link *LinkSettings `json:"link,omitempty"`

	// dpdk makes the device available to programs in user space.
	// +optional
	DPDK *DPDKSettings `json:"dpdk,omitempty"`

	// pods makes the interface a network for pods.
	// +optional
	Pods *PodSettings `json:"pods,omitempty"`
}

// InterfaceOrigin says why a NetworkInterface exists.
//
// +kubebuilder:validation:Enum=Declared;Network
type InterfaceOrigin string

const (
	// OriginDeclared is an interface that a NodeENI declares.
	OriginDeclared InterfaceOrigin = "Declared"
	// OriginNetwork is an interface that a lifecycle hook or the boot of its
	// instance made, and that no NodeENI declares.
	OriginNetwork InterfaceOrigin = "Network"
)

// NodeENIReference names the NodeENI of an interface, and the generation that the
// object was rendered from.
type NodeENIReference struct {
	// name is the name of the NodeENI, or of the network with origin Network.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodeENI.name never changes"
	Name string `json:"name"`

	// uid is the UID of the NodeENI. It changes when a NodeENI is created again.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	UID types.UID `json:"uid"`

	// generation is the metadata.generation of the NodeENI in the last rendering
	// that changed something.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation"`
}

// InterfaceSubnet is a subnet that an interface may be in.
type InterfaceSubnet struct {
	// id is the subnet ID.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`

	// cidr is the IPv4 range of the subnet; empty for an IPv6-only subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=18
	CIDR string `json:"cidr,omitempty"`

	// ipv6CIDR is the IPv6 range of the subnet; empty for a subnet without one.
	// +optional
	// +kubebuilder:validation:MaxLength=43
	IPv6CIDR string `json:"ipv6CIDR,omitempty"`
}

// InterfaceProblem says why an interface cannot be created.
type InterfaceProblem struct {
	// reason is one CamelCase word.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`

	// message explains the reason and names the next step.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// InterfaceSlot is the place of an interface on an instance.
type InterfaceSlot struct {
	// networkCardIndex is the network card.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NetworkCardIndex int32 `json:"networkCardIndex"`

	// deviceIndex is the device index.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DeviceIndex int32 `json:"deviceIndex"`
}

// AddressCounts are numbers of addresses and prefixes in addition to the primary
// address.
type AddressCounts struct {
	// secondaryIPv4 is the number of private IPv4 addresses without the primary
	// one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SecondaryIPv4 int32 `json:"secondaryIPv4,omitempty"`

	// ipv4Prefixes is the number of /28 IPv4 prefixes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	IPv4Prefixes int32 `json:"ipv4Prefixes,omitempty"`

	// ipv6 is the number of IPv6 addresses.
	// +optional
	// +kubebuilder:validation:Minimum=0
	IPv6 int32 `json:"ipv6,omitempty"`

	// ipv6Prefixes is the number of /80 IPv6 prefixes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	IPv6Prefixes int32 `json:"ipv6Prefixes,omitempty"`
}

// LinkSettings are the settings of a link on the node.
type LinkSettings struct {
	// mtu is the maximum transmission unit, in bytes. Default: the agent's.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MTU int32 `json:"mtu,omitempty"`

	// addressMode says whether the node itself uses the addresses.
	// +optional
	AddressMode AddressMode `json:"addressMode,omitempty"`

	// sysctls are kernel settings of the link.
	// +optional
	// +kubebuilder:validation:MaxProperties=11
	Sysctls map[string]SysctlValue `json:"sysctls,omitempty"`
}

// DPDKSettings are the settings of a device for the SR-IOV network device plugin
// and for programs in user space.
type DPDKSettings struct {
	// driver is the driver for programs in user space. If it is not set, the
	// device keeps the kernel's network driver.
	// +optional
	Driver DPDKDriver `json:"driver,omitempty"`

	// resourceName is the extended resource under which the agent lists the
	// device. If it is not set, the agent does not list the device.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResourceName string `json:"resourceName,omitempty"`

	// pciAddress is the expected PCI address of the device.
	// +optional
	// +kubebuilder:validation:MaxLength=12
	PCIAddress string `json:"pciAddress,omitempty"`
}

// PodSettings are the settings of a network for pods.
type PodSettings struct {
	// attachment says how a pod attaches.
	// +required
	Attachment PodAttachment `json:"attachment"`

	// closed says that no further pod may attach. It can be taken back; a deletion
	// cannot.
	// +optional
	Closed bool `json:"closed,omitempty"`

	// onRemoval says what happens to pods that use an interface to be removed.
	// +optional
	OnRemoval PodsOnRemoval `json:"onRemoval,omitempty"`

	// ipv4 are the numbers of /28 prefixes.
	// +optional
	IPv4 *PodPrefixSettings `json:"ipv4,omitempty"`

	// ipv6Prefixes is the number of /80 prefixes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	IPv6Prefixes int32 `json:"ipv6Prefixes,omitempty"`

	// routes are the destinations of routes in the pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=43
	Routes []string `json:"routes,omitempty"`

	// floating are the ranges of addresses that pods bring up themselves.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=43
	Floating []string `json:"floating,omitempty"`
}

// PodPrefixSettings are the numbers of /28 prefixes of an interface.
type PodPrefixSettings struct {
	// min is the number of prefixes that the interface always has.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Min int32 `json:"min"`

	// max is the number of prefixes that the interface has at most.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Max int32 `json:"max"`

	// spare is the number of free addresses below which the agent asks for another
	// prefix.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Spare int32 `json:"spare"`
}
