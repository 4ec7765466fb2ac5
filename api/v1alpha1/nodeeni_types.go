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
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True when every wanted interface is attached as declared"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desired`,description="Interfaces wanted over all matching nodes"
// +kubebuilder:printcolumn:name="Attached",type=integer,JSONPath=`.status.attached`,description="Wanted interfaces that EC2 reports as attached"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`,description="Nodes that match the node selector"
// +kubebuilder:printcolumn:name="Blocked",type=integer,JSONPath=`.status.blocked`,priority=1,description="Wanted interfaces that cannot be delivered as things stand"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why Ready is what it is"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeENI struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted. All of it may be changed at any time.
	// +required
	Spec NodeENISpec `json:"spec"`

	// status is what the controller last saw. It is a view: EC2 and the tags on
	// the interfaces are the truth.
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

// NodeENISpec is the interfaces that are wanted.
//
// +kubebuilder:validation:ExactlyOneOf=subnetID;subnetName;subnetIDs;subnetNames;subnetSelector
// +kubebuilder:validation:ExactlyOneOf=securityGroupIDs;securityGroupNames;securityGroupSelector
// +kubebuilder:validation:AtMostOneOf=ipv4PrefixCount;secondaryPrivateIPAddressCount
// +kubebuilder:validation:AtMostOneOf=ipv6AddressCount;ipv6PrefixCount
// +kubebuilder:validation:XValidation:rule="!has(self.enableDPDK) || !self.enableDPDK || !has(self.addressMode) || self.addressMode == 'None'",message="addressMode must be None with enableDPDK: the node cannot talk over a device that a program in a pod drives"
type NodeENISpec struct {
	// nodeSelector chooses nodes by labels: a node gets the interfaces when it
	// carries all of these labels with these values, and loses them when it no
	// longer does. At least one label is required, so that no declaration
	// reaches every node by accident.
	// +required
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="nodeSelector must name at least one label: an empty one would choose every node of the cluster"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="every key of nodeSelector must be a label key such as ng or topology.kubernetes.io/zone"
	NodeSelector map[string]LabelValue `json:"nodeSelector"`

	// subnetID is the one subnet to create the interface in, for example
	// subnet-0f59b4f14737be9ad. Nodes in another zone than this subnet get no
	// interface, and the status says so.
	// +optional
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^subnet-[0-9a-f]{8,17}$`
	SubnetID string `json:"subnetID,omitempty"`

	// subnetName is the value of the Name tag of the subnet to create the
	// interface in. It is compared exactly, within the VPC of the node. Subnets
	// of several zones may share a name: a node gets its interface in the one of
	// its zone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SubnetName string `json:"subnetName,omitempty"`

	// subnetIDs are subnets by ID. A node gets an interface in every listed
	// subnet of its zone, in the listed order: the first at deviceIndex, the
	// second at deviceIndex + 1, and so on. Subnets of other zones do not count
	// for it.
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

	// subnetSelector chooses subnets by tags: those of the node's VPC that carry
	// all of these tags with exactly these values. A node gets one interface, in
	// a chosen subnet of its zone; when that one has no free addresses, in the
	// next.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 128)",message="every key of subnetSelector must be a tag key of 1 to 128 characters"
	SubnetSelector map[string]TagValue `json:"subnetSelector,omitempty"`

	// securityGroupIDs are the security groups of the interfaces, for example
	// sg-05da196f3314d4af8. EC2 allows 5 groups for an interface, and up to 16
	// on request (Amazon VPC quotas).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=20
	// +kubebuilder:validation:items:Pattern=`^sg-[0-9a-f]{8,17}$`
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`

	// securityGroupNames are the security groups by name, within the VPC of the
	// node.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	SecurityGroupNames []string `json:"securityGroupNames,omitempty"`

	// securityGroupSelector chooses security groups by tags: those of the node's
	// VPC that carry all of these tags with exactly these values. Every chosen
	// group is applied.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 128)",message="every key of securityGroupSelector must be a tag key of 1 to 128 characters"
	SecurityGroupSelector map[string]TagValue `json:"securityGroupSelector,omitempty"`

	// deviceIndex is where on the instance the first interface is attached;
	// further subnets take the following indices. 0 is the primary interface and
	// cannot be asked for. Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=127
	DeviceIndex int32 `json:"deviceIndex,omitempty"`

	// deviceIndexPolicy says what happens when the device index is taken, for
	// example by an interface of the VPC CNI. Prefer takes the next free index
	// above and keeps it. Exact waits, and names the interface in the way.
	// Default: Prefer.
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
	// most 255 characters. Each interface has the device index that is asked for
	// it in the place of {deviceIndex}, so that VRF{deviceIndex} becomes VRF1,
	// VRF2 and so on.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f]*$`
	Description string `json:"description,omitempty"`

	// tags are put on the interfaces in the call that creates them. EC2 allows
	// 50 tags on a resource, keys of 128 and values of 256 characters (EC2 user
	// guide, "Tag restrictions"); 15 are kept for the controller's own.
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
	// switch it off. Default: true.
	// +optional
	// +kubebuilder:default=true
	SourceDestCheck *bool `json:"sourceDestCheck,omitempty"`

	// mtu is the maximum transmission unit of the link on the node, in bytes:
	// 9001 is the largest inside a VPC (EC2 user guide, "Network MTU"), 1280 the
	// least that IPv6 works with. The agent on the node sets it. Unset, it is the
	// agent's default, 9001.
	// +optional
	// +kubebuilder:validation:Minimum=1280
	// +kubebuilder:validation:Maximum=9001
	MTU *int32 `json:"mtu,omitempty"`

	// addressMode says whether the node itself talks over the interface. With
	// None the node takes none of its addresses: the interface is for pods. With
	// Primary it takes the primary IPv4 address and the IPv6 addresses, in a route
	// table that only packets from these addresses use. Default: None.
	// +optional
	// +kubebuilder:default=None
	AddressMode AddressMode `json:"addressMode,omitempty"`

	// sysctls are kernel settings of the link alone, by family and name:
	// ipv4.rp_filter: 0 sets net.ipv4.conf.LINK.rp_filter. They come instead of,
	// or beside, those that the agent sets by itself.
	// +optional
	// +kubebuilder:validation:MaxProperties=10
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['ipv4.accept_local', 'ipv4.arp_announce', 'ipv4.arp_filter', 'ipv4.arp_ignore', 'ipv4.arp_notify', 'ipv4.proxy_arp', 'ipv4.rp_filter', 'ipv6.accept_ra', 'ipv6.addr_gen_mode', 'ipv6.autoconf'])",message="every key of sysctls must be one of ipv4.accept_local, ipv4.arp_announce, ipv4.arp_filter, ipv4.arp_ignore, ipv4.arp_notify, ipv4.proxy_arp, ipv4.rp_filter, ipv6.accept_ra, ipv6.addr_gen_mode, ipv6.autoconf: others are not of one link alone"
	Sysctls map[string]SysctlValue `json:"sysctls,omitempty"`

	// required says whether a node without this interface is unready: its
	// condition networking.k8s.aws/InterfacesReady and its startup taint wait for
	// all required interfaces. Default: true.
	// +optional
	// +kubebuilder:default=true
	Required *bool `json:"required,omitempty"`

	// enableDPDK gives the device to programs in user space: the agent on the
	// node takes it from the kernel's network driver and binds it to dpdkDriver.
	// The interface has no link then. It goes back to the network driver before
	// it is detached, which waits for the program that uses it to end.
	// +optional
	EnableDPDK bool `json:"enableDPDK,omitempty"`

	// dpdkDriver is the kernel driver that hands the device to user space with
	// enableDPDK. Its module must be loaded on the node. Unset, it is vfio-pci.
	// +optional
	DPDKDriver DPDKDriver `json:"dpdkDriver,omitempty"`

	// dpdkResourceName is the extended resource by which pods ask for the device,
	// for example intel.com/sriov_net. The agent lists the device under it in the
	// configuration of the SR-IOV network device plugin, with or without
	// enableDPDK. Without a prefix it is intel.com; unset, devices with enableDPDK
	// or dpdkPCIAddress are listed as intel.com/sriov_net, and others are not.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9_]{1,63}$`
	DPDKResourceName string `json:"dpdkResourceName,omitempty"`

	// dpdkPCIAddress is where on the bus the device is expected, for example
	// 0000:00:07.0. The device is found by the MAC address of its interface, so
	// none is needed; where this one differs, the device is left alone and the
	// status says so.
	// +optional
	// +kubebuilder:validation:MaxLength=12
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`
	DPDKPCIAddress string `json:"dpdkPCIAddress,omitempty"`

	// secondaryPrivateIPAddressCount is how many private IPv4 addresses an
	// interface has beside its primary one. The instance type limits it. Not
	// together with ipv4PrefixCount.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	SecondaryPrivateIPAddressCount int32 `json:"secondaryPrivateIPAddressCount,omitempty"`

	// ipv4PrefixCount is how many /28 IPv4 prefixes are delegated to an
	// interface; each counts as one address against the limit of the instance
	// type. Not together with secondaryPrivateIPAddressCount.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	IPv4PrefixCount int32 `json:"ipv4PrefixCount,omitempty"`

	// ipv6AddressCount is how many IPv6 addresses an interface has. The subnet
	// must have an IPv6 range. Not together with ipv6PrefixCount.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	IPv6AddressCount int32 `json:"ipv6AddressCount,omitempty"`

	// ipv6PrefixCount is how many /80 IPv6 prefixes are delegated to an
	// interface. Not together with ipv6AddressCount.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	IPv6PrefixCount int32 `json:"ipv6PrefixCount,omitempty"`

	// ipv4Allocation says who picks the primary IPv4 address. With Auto, EC2
	// does. LowestFree takes the lowest address of the subnet that no interface
	// and no CIDR reservation has, so that the upper part stays free for pods.
	// It counts when an interface is made; existing ones keep their addresses.
	// Default: Auto.
	// +optional
	// +kubebuilder:default=Auto
	IPv4Allocation IPv4Allocation `json:"ipv4Allocation,omitempty"`

	// updatePolicy says what happens to interfaces that exist when a change of
	// this spec cannot be made in place, which is so for subnet, device index,
	// network card and interface type. InPlace keeps them and reports them as
	// drifted. Replace detaches and deletes them and makes new ones, one
	// interface of a node at a time. Default: InPlace.
	// +optional
	// +kubebuilder:default=InPlace
	UpdatePolicy UpdatePolicy `json:"updatePolicy,omitempty"`

	// maxUnavailable is how many nodes at most may be without one of these interfaces while updatePolicy: Replace
	// makes new ones. Nodes that lack one for another reason count as well, so that a change which does not work
	// stops there.
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

// AddressMode says whether the node itself talks over an interface.
//
// +kubebuilder:validation:Enum=None;Primary
type AddressMode string

const (
	// AddressNone keeps the node off the interface's addresses.
	AddressNone AddressMode = "None"
	// AddressPrimary gives the node the primary IPv4 address and the IPv6 addresses.
	AddressPrimary AddressMode = "Primary"
)

// DPDKDriver is a kernel driver that hands a PCI device to user space.
//
// +kubebuilder:validation:Enum=vfio-pci;igb_uio;uio_pci_generic
type DPDKDriver string

// DPDKDriverVFIO isolates the device by the IOMMU where there is one.
const DPDKDriverVFIO DPDKDriver = "vfio-pci"

// DeviceIndexPolicy says what happens when the wanted device index is taken.
//
// +kubebuilder:validation:Enum=Prefer;Exact
type DeviceIndexPolicy string

const (
	// DeviceIndexPrefer takes the next free device index above the wanted one.
	DeviceIndexPrefer DeviceIndexPolicy = "Prefer"
	// DeviceIndexExact waits for the wanted device index.
	DeviceIndexExact DeviceIndexPolicy = "Exact"
)

// InterfaceType is an EC2 interface type. The type has no enum, so that the
// types EC2 knows but cannot attach to a running instance are answered with
// the way that works.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="!(self in ['efa', 'efa-only'])",message="interfaceType efa and efa-only cannot be attached to a running instance: declare EFA interfaces in the launch template of the nodes"
// +kubebuilder:validation:XValidation:rule="self in ['interface', 'efa', 'efa-only']",message="interfaceType must be interface"
type InterfaceType string

// InterfaceTypeInterface is an ordinary network interface.
const InterfaceTypeInterface InterfaceType = "interface"

// IPv4Allocation says who picks IPv4 addresses.
//
// +kubebuilder:validation:Enum=Auto;LowestFree
type IPv4Allocation string

const (
	// IPv4AllocationAuto lets EC2 pick.
	IPv4AllocationAuto IPv4Allocation = "Auto"
	// IPv4AllocationLowestFree takes the lowest address that is free.
	IPv4AllocationLowestFree IPv4Allocation = "LowestFree"
)

// UpdatePolicy says what happens to interfaces that a change of the spec
// cannot reach in place.
//
// +kubebuilder:validation:Enum=InPlace;Replace
type UpdatePolicy string

const (
	// UpdateInPlace keeps them and reports drift.
	UpdateInPlace UpdatePolicy = "InPlace"
	// UpdateReplace makes new ones, one interface of a node at a time.
	UpdateReplace UpdatePolicy = "Replace"
)
