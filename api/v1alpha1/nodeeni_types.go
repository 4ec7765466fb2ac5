// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeENI declares network interfaces (ENIs) for nodes: which nodes get
// them, in which subnets, with which security groups, at which device index.
// Every matching node gets one interface for each listed subnet in its own
// availability zone, so that one NodeENI serves nodes in any number of
// zones.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodeenis,singular=nodeeni,scope=Cluster,shortName=neni,categories=multieni
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True when every desired interface is attached as declared"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desired`,description="Desired interfaces of all matching nodes"
// +kubebuilder:printcolumn:name="Attached",type=integer,JSONPath=`.status.attached`,description="Desired interfaces that EC2 reports as attached"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`,description="Nodes that match the node selector"
// +kubebuilder:printcolumn:name="Blocked",type=integer,JSONPath=`.status.blocked`,priority=1,description="Desired interfaces that wait for a person to act"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why Ready is what it is"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.pods) || self.metadata.name.size() <= 59 && !self.metadata.name.contains('.')",message="the name of a NodeENI with pods must have at most 59 characters and no dot: Multus and the names of extended resources take no others"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.pods) || !self.metadata.name.matches('--[0-9]+$')",message="the name of a NodeENI with pods must not end with two hyphens and a number: NAME--1 is the network of the second interface of NodeENI NAME"
type NodeENI struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state. Every field may be changed at any time.
	// +required
	Spec NodeENISpec `json:"spec"`

	// status is the last observed state. EC2 and the tags of the interfaces are
	// authoritative.
	// +optional
	Status NodeENIStatus `json:"status,omitempty"`
}

// NodeENIList is a list of NodeENIs.
//
// +kubebuilder:object:root=true
type NodeENIList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeENI `json:"items"`
}

// NodeENISpec is the desired interfaces.
//
// +kubebuilder:validation:ExactlyOneOf=subnetID;subnetName;subnetIDs;subnetNames;subnetSelector
// +kubebuilder:validation:ExactlyOneOf=securityGroupIDs;securityGroupNames;securityGroupSelector
// +kubebuilder:validation:AtMostOneOf=ipv4PrefixCount;secondaryPrivateIPAddressCount
// +kubebuilder:validation:AtMostOneOf=ipv6AddressCount;ipv6PrefixCount
// +kubebuilder:validation:XValidation:rule="!has(self.enableDPDK) || !self.enableDPDK || !has(self.addressMode) || self.addressMode == 'None'",message="addressMode must be None with enableDPDK: the node cannot talk over a device that a program in a pod drives"
// +kubebuilder:validation:XValidation:rule="!has(self.pods) || !has(self.enableDPDK) || !self.enableDPDK",message="pods must not be set with enableDPDK: a device that a program in user space drives has no link for pods"
// +kubebuilder:validation:XValidation:rule="!has(self.pods) || self.pods.attachment != 'HostDevice' || !has(self.addressMode) || self.addressMode == 'None'",message="addressMode must be None with pods.attachment HostDevice: the interface and its addresses move into the pod"
// +kubebuilder:validation:XValidation:rule="!has(self.pods) || !has(self.pods.ipv4) || !has(self.secondaryPrivateIPAddressCount) && !has(self.ipv4PrefixCount)",message="secondaryPrivateIPAddressCount and ipv4PrefixCount must not be set with pods.ipv4: pods.ipv4.prefixes is the number of prefixes"
// +kubebuilder:validation:XValidation:rule="!has(self.pods) || !has(self.pods.ipv6) || !has(self.ipv6AddressCount) && !has(self.ipv6PrefixCount)",message="ipv6AddressCount and ipv6PrefixCount must not be set with pods.ipv6: pods.ipv6.prefixes is the number of prefixes"
type NodeENISpec struct {
	// nodeSelector selects nodes by labels: a node gets the interfaces when it
	// has all of these labels with these values, and loses them when it does
	// not. At least one label is required, so that no NodeENI selects all nodes
	// by accident.
	// +required
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="nodeSelector must name at least one label: an empty one would choose every node of the cluster"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="every key of nodeSelector must be a label key such as ng or topology.kubernetes.io/zone"
	NodeSelector map[string]LabelValue `json:"nodeSelector"`

	// subnetID is the ID of the subnet of the interface, for example
	// subnet-0f59b4f14737be9ad. Nodes in another zone than this subnet get no
	// interface, and the status says so.
	// +optional
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^subnet-[0-9a-f]{8,17}$`
	SubnetID string `json:"subnetID,omitempty"`

	// subnetName is the value of the Name tag of the interface's subnet. It is
	// compared exactly, within the VPC of the node. Subnets of several zones
	// may share a name: a node gets its interface in the subnet of its zone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SubnetName string `json:"subnetName,omitempty"`

	// subnetIDs are subnets by ID. A node gets an interface in every listed
	// subnet of its zone, in the listed order: the first at deviceIndex, the
	// second at deviceIndex + 1, and so on. Subnets of other zones are ignored.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=24
	// +kubebuilder:validation:items:Pattern=`^subnet-[0-9a-f]{8,17}$`
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="subnetIDs must not list a subnet twice: each entry is one interface"
	SubnetIDs []string `json:"subnetIDs,omitempty"`

	// subnetNames are subnets by the value of their Name tag, with the meaning
	// and order of subnetIDs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="subnetNames must not list a name twice: each entry is one interface"
	SubnetNames []string `json:"subnetNames,omitempty"`

	// subnetSelector selects subnets by tags: those of the node's VPC that have
	// all of these tags with exactly these values. A node gets one interface,
	// in one of the selected subnets of its zone. If that subnet has no free
	// addresses, the controller uses the next one.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 128)",message="every key of subnetSelector must be a tag key of 1 to 128 characters"
	SubnetSelector map[string]TagValue `json:"subnetSelector,omitempty"`

	// securityGroupIDs are the security groups of the interfaces, for example
	// sg-05da196f3314d4af8. EC2 allows 5 groups for an interface, and up to 16
	// on request (Amazon VPC quotas).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=20
	// +kubebuilder:validation:items:Pattern=`^sg-[0-9a-f]{8,17}$`
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="securityGroupIDs must not list a group twice"
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`

	// securityGroupNames are the security groups by name, within the VPC of the
	// node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="securityGroupNames must not list a name twice"
	SecurityGroupNames []string `json:"securityGroupNames,omitempty"`

	// securityGroupSelector selects security groups by tags: those of the
	// node's VPC that have all of these tags with exactly these values. The
	// interfaces get every selected group.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 128)",message="every key of securityGroupSelector must be a tag key of 1 to 128 characters"
	SecurityGroupSelector map[string]TagValue `json:"securityGroupSelector,omitempty"`

	// deviceIndex is the device index of the first interface on the instance;
	// further subnets use the following indices. 0 is the primary interface and
	// not allowed. Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=127
	DeviceIndex int32 `json:"deviceIndex,omitempty"`

	// deviceIndexPolicy says what happens when the device index is taken, for
	// example by an interface of the VPC CNI. With Prefer the controller uses
	// the next free index above, or below if none above is free, and the
	// interface keeps it. With Exact it waits, and the status names the other
	// interface. Default: Prefer.
	// +optional
	// +kubebuilder:default=Prefer
	DeviceIndexPolicy DeviceIndexPolicy `json:"deviceIndexPolicy,omitempty"`

	// networkCardIndex is the network card to attach to. Only large instance
	// types have more than card 0. Default: 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	NetworkCardIndex int32 `json:"networkCardIndex,omitempty"`

	// interfaceType is the EC2 interface type. Only interface can be attached to
	// a running instance; efa and efa-only exist from launch, so they are
	// declared in the launch template of the nodes. Default: interface.
	// +optional
	// +kubebuilder:default=interface
	InterfaceType InterfaceType `json:"interfaceType,omitempty"`

	// deleteOnTermination makes EC2 delete the interface together with its
	// instance. Default: true.
	// +optional
	// +kubebuilder:default=true
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`

	// description is the description of the interfaces in EC2: one line of at
	// most 255 characters. {deviceIndex} is replaced by the requested device
	// index of each interface, so that VRF{deviceIndex} becomes VRF1, VRF2 and
	// so on.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f]*$`
	Description string `json:"description,omitempty"`

	// tags are the tags of the interfaces, from their creation on. EC2 allows
	// 50 tags on a resource, keys of 128 and values of 256 characters (EC2 user
	// guide, "Tag restrictions"); 15 are reserved for the controller's own.
	// +optional
	// +kubebuilder:validation:MaxProperties=35
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 128)",message="every key of tags must have 1 to 128 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('aws:') && !k.startsWith('AWS:'))",message="tags must not use keys beginning with aws: they are reserved by AWS"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('networking.k8s.aws/'))",message="tags must not use keys beginning with networking.k8s.aws/: they record who owns an interface and are set by the controller"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('node.k8s.amazonaws.com/'))",message="tags must not use keys beginning with node.k8s.amazonaws.com/: they belong to the VPC CNI, and no_manage is set by the controller"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('cluster.k8s.amazonaws.com/'))",message="tags must not use keys beginning with cluster.k8s.amazonaws.com/: with them the VPC CNI would take the interface for its own and delete it"
	Tags map[string]TagValue `json:"tags,omitempty"`

	// sourceDestCheck makes EC2 drop packets that are neither from nor to an
	// address of the interface. Routers, firewalls and other network functions
	// need false. Default: true.
	// +optional
	// +kubebuilder:default=true
	SourceDestCheck *bool `json:"sourceDestCheck,omitempty"`

	// connectionTracking sets after which time security groups forget idle
	// connections of the interface. The interface works without it on an instance
	// type that does not support it, and the status says so. Without it multieni
	// leaves the timeouts as they are; if you remove it, multieni sets the defaults
	// of the instance type once.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.as) || has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",message="connectionTracking must set at least one timeout, or as: Primary"
	// +kubebuilder:validation:XValidation:rule="!has(self.as) || !has(self.tcpEstablishedTimeout) && !has(self.udpStreamTimeout) && !has(self.udpTimeout)",message="connectionTracking.as must be set alone: Primary copies all timeouts of the primary interface"
	ConnectionTracking *ConnectionTracking `json:"connectionTracking,omitempty"`

	// enaExpress says for which packets the interface uses ENA Express. Both ends
	// must use it, on instance types that support it; on others the interface works
	// without it, and the status says so. Without it multieni attaches the
	// interface without ENA Express, and leaves an existing setting as it is; if
	// you remove it, multieni sets None once.
	// +optional
	ENAExpress ENAExpress `json:"enaExpress,omitempty"`

	// mtu is the maximum transmission unit of the link on the node, in bytes:
	// 9001 is the largest inside a VPC (EC2 user guide, "Network MTU"), 1280
	// the least for IPv6. The agent on the node sets it. Default: the agent's,
	// 9001.
	// +optional
	// +kubebuilder:validation:Minimum=1280
	// +kubebuilder:validation:Maximum=9001
	MTU *int32 `json:"mtu,omitempty"`

	// addressMode says whether the node itself uses the addresses of the
	// interface. With None it does not: the interface is for pods. With Primary
	// the agent adds the primary IPv4 address and the IPv6 addresses to the
	// link, and a route table for packets from these addresses. Default: None.
	// +optional
	// +kubebuilder:default=None
	AddressMode AddressMode `json:"addressMode,omitempty"`

	// sysctls are kernel settings of this link, by family and name:
	// ipv4.rp_filter: 0 sets net.ipv4.conf.LINK.rp_filter. They override the
	// agent's own settings, and add to them.
	// +optional
	// +kubebuilder:validation:MaxProperties=11
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['ipv4.accept_local', 'ipv4.arp_announce', 'ipv4.arp_filter', 'ipv4.arp_ignore', 'ipv4.arp_notify', 'ipv4.force_igmp_version', 'ipv4.proxy_arp', 'ipv4.rp_filter', 'ipv6.accept_ra', 'ipv6.addr_gen_mode', 'ipv6.autoconf'])",message="every key of sysctls must be one of ipv4.accept_local, ipv4.arp_announce, ipv4.arp_filter, ipv4.arp_ignore, ipv4.arp_notify, ipv4.force_igmp_version, ipv4.proxy_arp, ipv4.rp_filter, ipv6.accept_ra, ipv6.addr_gen_mode, ipv6.autoconf: others are not of one link alone"
	Sysctls map[string]SysctlValue `json:"sysctls,omitempty"`

	// required says whether a node without this interface is unready: its
	// condition networking.k8s.aws/InterfacesReady and its startup taint wait for
	// all required interfaces. Default: true.
	// +optional
	// +kubebuilder:default=true
	Required *bool `json:"required,omitempty"`

	// enableDPDK makes the device available to programs in user space: the agent on
	// the node unbinds it from the kernel's network driver and binds it to
	// dpdkDriver. The interface has no link then. Before the controller detaches
	// it, the agent binds it to the network driver again. The agent waits until the
	// program that uses the device has ended.
	// +optional
	EnableDPDK bool `json:"enableDPDK,omitempty"`

	// dpdkDriver is the kernel driver for enableDPDK, which gives programs in
	// user space access to the device. Its module must be loaded on the node.
	// Default: vfio-pci.
	// +optional
	DPDKDriver DPDKDriver `json:"dpdkDriver,omitempty"`

	// dpdkResourceName is the name of the extended resource in pods' requests,
	// for example intel.com/sriov_net. The agent lists the device under it in
	// the configuration of the SR-IOV network device plugin, with or without
	// enableDPDK. Without a prefix it is in intel.com. If it is not set, the
	// agent lists devices with enableDPDK or dpdkPCIAddress as
	// intel.com/sriov_net, and no others.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9_]{1,63}$`
	DPDKResourceName string `json:"dpdkResourceName,omitempty"`

	// dpdkPCIAddress is the expected PCI address of the device, for example
	// 0000:00:07.0. The agent finds the device by the MAC address of its
	// interface, so the field is optional; if the address differs, the agent
	// does not change the device, and the status says so.
	// +optional
	// +kubebuilder:validation:MaxLength=12
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`
	DPDKPCIAddress string `json:"dpdkPCIAddress,omitempty"`

	// secondaryPrivateIPAddressCount is the number of private IPv4 addresses of
	// an interface in addition to its primary one. The instance type limits it.
	// Not together with ipv4PrefixCount.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	SecondaryPrivateIPAddressCount int32 `json:"secondaryPrivateIPAddressCount,omitempty"`

	// ipv4PrefixCount is the number of /28 IPv4 prefixes that EC2 delegates to
	// an interface; each counts as one address against the limit of the
	// instance type. Not together with secondaryPrivateIPAddressCount.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	IPv4PrefixCount int32 `json:"ipv4PrefixCount,omitempty"`

	// ipv6AddressCount is the number of IPv6 addresses of an interface. The
	// subnet must have an IPv6 range. Not together with ipv6PrefixCount.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	IPv6AddressCount int32 `json:"ipv6AddressCount,omitempty"`

	// ipv6PrefixCount is the number of /80 IPv6 prefixes that EC2 delegates to
	// an interface. Not together with ipv6AddressCount.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	IPv6PrefixCount int32 `json:"ipv6PrefixCount,omitempty"`

	// ipv4Allocation says who allocates the primary IPv4 address. With Auto,
	// EC2 does. With LowestFree the controller uses the lowest address of the
	// subnet that no interface and no CIDR reservation has, so that the upper
	// part stays free for pods. Existing interfaces keep their addresses.
	// Default: Auto.
	// +optional
	// +kubebuilder:default=Auto
	IPv4Allocation IPv4Allocation `json:"ipv4Allocation,omitempty"`

	// pods makes the interfaces a network for pods: a pod attaches with the
	// Multus annotation k8s.v1.cni.cncf.io/networks, and gets an address that
	// EC2 delivers to the interface. Without it the interfaces are not
	// connected to pods.
	// +optional
	Pods *NodeENIPods `json:"pods,omitempty"`

	// updatePolicy says what happens to existing interfaces when a change of
	// this spec cannot be made in place: a change of subnet, device index,
	// network card or interface type. InPlace keeps them and reports them as
	// drifted. Replace deletes them and creates new ones, one interface of a
	// node at a time. Default: InPlace.
	// +optional
	// +kubebuilder:default=InPlace
	UpdatePolicy UpdatePolicy `json:"updatePolicy,omitempty"`

	// maxUnavailable is the largest number of nodes that may be without one of
	// these interfaces while the controller replaces them for updatePolicy:
	// Replace. Nodes that lack one for another reason count as well, so that a
	// change that does not work affects no further nodes. An interface that is
	// stalled, and that its replacement corrects, waits only for those that are
	// being replaced.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`
}

// LabelValue is the value of a node label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
type LabelValue string

// TagValue is the value of an EC2 tag.
//
// +kubebuilder:validation:MaxLength=256
type TagValue string

// SysctlValue is the value of a kernel setting.
//
// +kubebuilder:validation:Minimum=0
// +kubebuilder:validation:Maximum=8
type SysctlValue int32

// AddressMode says whether the node itself uses the addresses of an interface.
//
// +kubebuilder:validation:Enum=None;Primary
type AddressMode string

const (
	// AddressNone leaves the interface's addresses to pods.
	AddressNone AddressMode = "None"
	// AddressPrimary gives the node the primary IPv4 address and the IPv6 addresses.
	AddressPrimary AddressMode = "Primary"
)

// DPDKDriver is a kernel driver that gives programs in user space access to a
// PCI device.
//
// +kubebuilder:validation:Enum=vfio-pci;igb_uio;uio_pci_generic
type DPDKDriver string

// DPDKDriverVFIO isolates the device by the IOMMU if the machine has one.
const DPDKDriverVFIO DPDKDriver = "vfio-pci"

// DeviceIndexPolicy says what happens when the requested device index is taken.
//
// +kubebuilder:validation:Enum=Prefer;Exact
type DeviceIndexPolicy string

const (
	// DeviceIndexPrefer uses the next free device index above the requested
	// one, or below if none above is free.
	DeviceIndexPrefer DeviceIndexPolicy = "Prefer"
	// DeviceIndexExact waits for the requested device index.
	DeviceIndexExact DeviceIndexPolicy = "Exact"
)

// InterfaceType is an EC2 interface type. It is not an enum: for types that EC2
// cannot attach to a running instance, a CEL rule names the alternative.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="!(self in ['efa', 'efa-only'])",message="interfaceType efa and efa-only cannot be attached to a running instance: declare EFA interfaces in the launch template of the nodes"
// +kubebuilder:validation:XValidation:rule="self in ['interface', 'efa', 'efa-only']",message="interfaceType must be interface"
type InterfaceType string

// InterfaceTypeInterface is an ordinary network interface.
const InterfaceTypeInterface InterfaceType = "interface"

// IPv4Allocation says who allocates IPv4 addresses.
//
// +kubebuilder:validation:Enum=Auto;LowestFree
type IPv4Allocation string

const (
	// IPv4AllocationAuto lets EC2 allocate the address.
	IPv4AllocationAuto IPv4Allocation = "Auto"
	// IPv4AllocationLowestFree uses the lowest free address.
	IPv4AllocationLowestFree IPv4Allocation = "LowestFree"
)

// UpdatePolicy says what happens to existing interfaces when a change of the
// spec cannot be made in place.
//
// +kubebuilder:validation:Enum=InPlace;Replace
type UpdatePolicy string

const (
	// UpdateInPlace keeps them and reports drift.
	UpdateInPlace UpdatePolicy = "InPlace"
	// UpdateReplace replaces them, one interface of a node at a time.
	UpdateReplace UpdatePolicy = "Replace"
)
