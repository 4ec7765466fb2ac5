// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeENIState is the record of the interfaces of one node, and has the name of
// the node. The controller writes it. It outlives its node until EC2 confirms
// that the interfaces are deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodeenistates,singular=nodeenistate,scope=Cluster,shortName=nes,categories=multieni
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True when every member is attached as declared"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desired`,description="Desired interfaces of the node"
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

	// spec is the ledger: the interfaces of the node, stored before the first
	// call to EC2.
	// +required
	Spec NodeENIStateSpec `json:"spec"`

	// status is the observed state of the interfaces.
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

	// nodeUID is the UID of the Node object, which distinguishes it from a
	// later Node with the same name.
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

	// members are the desired interfaces of the node.
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

	// earlierInterfaces are the IDs of interfaces that existed before this object
	// named them: an earlier object of the node, and with it the report that
	// pods use an interface, can be lost.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=32
	EarlierInterfaces []string `json:"earlierInterfaces,omitempty"`
}

// PreviousInstance is the ledger of an instance that was the node of this name
// before.
type PreviousInstance struct {
	// instanceID is the EC2 instance.
	// +required
	// +kubebuilder:validation:MaxLength=19
	// +kubebuilder:validation:Pattern=`^i-[0-9a-f]{8,17}$`
	InstanceID string `json:"instanceID"`

	// members are the interfaces of that instance.
	// +required
	// +listType=map
	// +listMapKey=nodeENIUID
	// +listMapKey=ordinal
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Members []Member `json:"members"`
}

// Member is one desired interface. Its tags and its client token in EC2 derive
// from these fields, so that the controller finds it again, and never creates
// it twice, even after a loss of all other state.
type Member struct {
	// nodeENI is the name of the NodeENI of the interface.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeENI string `json:"nodeENI"`

	// nodeENIUID is the UID of that NodeENI, which distinguishes it from a
	// later one with the same name.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	NodeENIUID types.UID `json:"nodeENIUID"`

	// ordinal is the number of the interface among those of the NodeENI on this
	// node, from 0.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	Ordinal int32 `json:"ordinal"`

	// generation distinguishes the successive interfaces of a member. It only
	// grows.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=253402300799
	Generation int64 `json:"generation"`
}

// NodeENIStateStatus is the observed state of a node's interfaces.
type NodeENIStateStatus struct {
	// observedGeneration is the metadata.generation that this status is for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions holds Ready: True when every member is attached as declared.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// desired is the number of desired interfaces of the node.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Desired int32 `json:"desired"`

	// attached is the number of desired interfaces that EC2 reports as
	// attached.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attached int32 `json:"attached"`

	// instanceID is the EC2 instance that this status is for.
	// +optional
	// +kubebuilder:validation:MaxLength=19
	InstanceID string `json:"instanceID,omitempty"`

	// nodeENIs has, for each NodeENI, the generation that this status takes
	// into account. A NodeENI that selects the node and is not listed is not
	// taken into account yet.
	// +optional
	// +listType=map
	// +listMapKey=nodeENIUID
	// +kubebuilder:validation:MaxItems=512
	NodeENIs []ObservedNodeENI `json:"nodeENIs,omitempty"`

	// interfaces are the interfaces as EC2 reports them, one entry for each member.
	// If there are more than 128, those that exist in EC2 come first.
	// +optional
	// +listType=map
	// +listMapKey=nodeENIUID
	// +listMapKey=ordinal
	// +kubebuilder:validation:MaxItems=128
	Interfaces []InterfaceState `json:"interfaces,omitempty"`

	// interfacesOmitted is the number of members that interfaces does not list.
	// +optional
	// +kubebuilder:validation:Minimum=0
	InterfacesOmitted int32 `json:"interfacesOmitted,omitempty"`

	// unverified are interfaces of the instance with this cluster's tags, and
	// without other evidence that multieni created them: the tags were copied
	// or invented, or the ledger was lost. The controller does not change them.
	// +optional
	// +listType=map
	// +listMapKey=eniID
	// +kubebuilder:validation:MaxItems=64
	Unverified []UnverifiedInterface `json:"unverified,omitempty"`

	// links are the links of the interfaces on the node. Only the agent of the
	// node writes them.
	// +optional
	// +listType=map
	// +listMapKey=macAddress
	// +kubebuilder:validation:MaxItems=128
	Links []LinkState `json:"links,omitempty"`

	// podNetworks are the pod networks of the interfaces on the node, at most
	// one of each interface. Only the agent of the node writes them.
	// +optional
	// +listType=map
	// +listMapKey=eniID
	// +kubebuilder:validation:MaxItems=128
	PodNetworks []PodNetworkState `json:"podNetworks,omitempty"`

	// cni says whether the container runtime of the node uses Multus. Only the
	// agent of the node writes it, with --wait-for-cni.
	// +optional
	CNI *CNIState `json:"cni,omitempty"`
}

// MaxInterfaces and MaxNodeENIs are the largest numbers of interfaces and
// NodeENIs that a NodeENIState lists.
const (
	MaxInterfaces = 128
	MaxNodeENIs   = 512
)

// ObservedNodeENI is the generation of a NodeENI that a status takes into
// account.
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

	// observedGeneration is the metadata.generation of the NodeENI that this
	// status takes into account.
	// +required
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration"`

	// omitted is the number of desired interfaces of the NodeENI that
	// interfaces does not list. None of them exists in EC2.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Omitted int32 `json:"omitted,omitempty"`

	// blocked is the number of omitted interfaces that wait for a person to
	// act.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Blocked int32 `json:"blocked,omitempty"`

	// reason is one CamelCase word that says why the first blocked interface is
	// blocked.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
}

// InterfaceState is one interface as EC2 reports it.
type InterfaceState struct {
	Member `json:",inline"`

	// phase is the phase of the interface.
	// +required
	Phase Phase `json:"phase"`

	// eniID is the ID of the network interface, once it exists.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ENIID string `json:"eniID,omitempty"`

	// instanceID is the instance that the interface was created for. It differs
	// from the node's while a previous instance of the node has interfaces.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	InstanceID string `json:"instanceID,omitempty"`

	// unverified is set while only its tags say that multieni created the
	// interface. The controller does not change it.
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

	// secondaryPrivateIPs are the private IPv4 addresses without the primary
	// one.
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

	// requestedAddresses are the addresses and prefixes of the interface, without
	// the primary address, that EC2 chose for the counts of the NodeENI. The
	// controller unassigns no others: another program assigned them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=43
	RequestedAddresses []string `json:"requestedAddresses,omitempty"`

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

	// networkCardIndex is the network card of the interface.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NetworkCardIndex int32 `json:"networkCardIndex"`

	// deviceIndex is the device index of the interface, or the requested one
	// while it is not attached.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DeviceIndex int32 `json:"deviceIndex"`

	// requestedDeviceIndex is the device index that the NodeENI requests. It
	// differs from deviceIndex if that one was taken.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RequestedDeviceIndex int32 `json:"requestedDeviceIndex"`

	// deleteOnTermination says whether EC2 deletes the interface together with
	// the instance.
	// +optional
	DeleteOnTermination bool `json:"deleteOnTermination"`

	// connectionTracking are the timeouts of connection tracking that multieni set
	// for the NodeENI. With as: Primary and no timeouts, the primary interface has
	// those of the instance type.
	// +optional
	ConnectionTracking *ConnectionTracking `json:"connectionTracking,omitempty"`

	// enaExpress is the setting of ENA Express that multieni made for the NodeENI.
	// +optional
	ENAExpress ENAExpress `json:"enaExpress,omitempty"`

	// unsupported are the fields of the NodeENI that the instance type does not
	// support. The interface works without them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=32
	Unsupported []string `json:"unsupported,omitempty"`

	// mtu is the desired maximum transmission unit of the link, in bytes.
	// Default: the agent's.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MTU int32 `json:"mtu,omitempty"`

	// subnetCIDR is the IPv4 range of the subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=18
	SubnetCIDR string `json:"subnetCIDR,omitempty"`

	// addressMode is that of the NodeENI: whether the node itself uses the
	// addresses of the interface. Default: None.
	// +optional
	AddressMode AddressMode `json:"addressMode,omitempty"`

	// sysctls are those of the NodeENI: kernel settings of the link.
	// +optional
	// +kubebuilder:validation:MaxProperties=11
	Sysctls map[string]SysctlValue `json:"sysctls,omitempty"`

	// required is that of the NodeENI: whether the node is unready without the
	// interface. Default: true.
	// +optional
	Required *bool `json:"required,omitempty"`

	// dpdkDriver is that of a NodeENI with enableDPDK: the desired driver of
	// the device instead of the kernel's network driver.
	// +optional
	DPDKDriver DPDKDriver `json:"dpdkDriver,omitempty"`

	// dpdkResourceName is the extended resource under which the agent lists the
	// device for the SR-IOV network device plugin. If it is not set, the agent
	// does not list the device.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DPDKResourceName string `json:"dpdkResourceName,omitempty"`

	// dpdkPCIAddress is that of the NodeENI: the expected PCI address of the
	// device.
	// +optional
	// +kubebuilder:validation:MaxLength=12
	DPDKPCIAddress string `json:"dpdkPCIAddress,omitempty"`

	// pods has the settings of a NodeENI with pods that the agent needs.
	// +optional
	Pods *InterfacePods `json:"pods,omitempty"`

	// reason is one CamelCase word that says why the interface is blocked or
	// has drifted.
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
