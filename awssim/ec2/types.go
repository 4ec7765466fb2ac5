// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/awssim/instancetypes"
)

// The types of this file are those of EC2's responses. Their json tags are EC2's names in lower camel case, as in
// /_sim/state; an xml tag has the name in the response if it differs. Values of these types that a method of Model
// returns never change.

// Tags of a resource, by key.
type Tags map[string]string

func (t Tags) keys() []string { return slices.Sorted(maps.Keys(t)) }

// NetworkInterface is an ENI.
type NetworkInterface struct {
	NetworkInterfaceID string             `json:"networkInterfaceId"`
	SubnetID           string             `json:"subnetId"`
	VPCID              string             `json:"vpcId"`
	AvailabilityZone   string             `json:"availabilityZone"`
	AvailabilityZoneID string             `json:"availabilityZoneId"`
	InterfaceType      string             `json:"interfaceType"`
	Description        string             `json:"description"`
	Status             string             `json:"status"`
	MACAddress         string             `json:"macAddress"`
	PrivateIPAddress   netip.Addr         `json:"privateIpAddress,omitzero"`
	PrivateDNSName     string             `json:"privateDnsName,omitempty"`
	PrivateIPAddresses []PrivateIPAddress `json:"privateIpAddresses,omitempty" xml:"privateIpAddressesSet" wire:"always"`
	IPv4Prefixes       []IPv4Prefix       `json:"ipv4Prefixes,omitempty" xml:"ipv4PrefixSet"`
	IPv6Address        netip.Addr         `json:"ipv6Address,omitzero"`
	IPv6Addresses      []IPv6Address      `json:"ipv6Addresses,omitempty" xml:"ipv6AddressesSet" wire:"always"`
	IPv6Prefixes       []IPv6Prefix       `json:"ipv6Prefixes,omitempty" xml:"ipv6PrefixSet"`
	SourceDestCheck    bool               `json:"sourceDestCheck"`
	Groups             []GroupIdentifier  `json:"groups" xml:"groupSet"`
	Attachment         *Attachment        `json:"attachment,omitempty"`
	Association        *Association       `json:"association,omitempty"`
	OwnerID            string             `json:"ownerId"`
	RequesterID        string             `json:"requesterId,omitempty"`
	RequesterManaged   bool               `json:"requesterManaged"`
	// ConnectionTracking are the timeouts that a call has set.
	ConnectionTracking *ConnectionTracking `json:"connectionTrackingConfiguration,omitempty"`
	Operator           Operator            `json:"-" xml:"operator"`
	Tags               Tags                `json:"tags" xml:"tagSet"`
}

// Status of a network interface.
const (
	StatusPending   = "pending"
	StatusAvailable = "available"
	StatusInUse     = "in-use"
	StatusDetaching = "detaching"
)

// Attachment of a network interface to an instance.
type Attachment struct {
	AttachmentID        string    `json:"attachmentId"`
	InstanceID          string    `json:"instanceId,omitempty"`
	InstanceOwnerID     string    `json:"instanceOwnerId"`
	DeviceIndex         int       `json:"deviceIndex"`
	NetworkCardIndex    int       `json:"networkCardIndex"`
	Status              string    `json:"status"`
	AttachTime          time.Time `json:"attachTime"`
	DeleteOnTermination bool      `json:"deleteOnTermination"`
	ENASRD              *ENASRD   `json:"enaSrdSpecification,omitempty"`
}

// ENASRD is the setting of ENA Express, in requests and in answers.
type ENASRD struct {
	ENASRDEnabled bool       `query:"EnaSrdEnabled" json:"enaSrdEnabled"`
	UDP           *ENASRDUDP `query:"EnaSrdUdpSpecification" json:"enaSrdUdpSpecification,omitempty"`
}

// ENASRDUDP is the setting of ENA Express for UDP.
type ENASRDUDP struct {
	ENASRDUDPEnabled bool `query:"EnaSrdUdpEnabled" json:"enaSrdUdpEnabled"`
}

// Status of an attachment.
const (
	Attaching = "attaching"
	Attached  = "attached"
	Detaching = "detaching"
)

// slot returns the slot of an attachment.
func (a *Attachment) slot() slot { return slot{a.NetworkCardIndex, a.DeviceIndex} }

// slot is unique per instance.
type slot struct{ card, device int }

// GroupIdentifier is a security group of an interface.
type GroupIdentifier struct {
	GroupID   string `json:"groupId"`
	GroupName string `json:"groupName"`
}

// PrivateIPAddress is an IPv4 address of an interface.
type PrivateIPAddress struct {
	PrivateIPAddress netip.Addr `json:"privateIpAddress"`
	PrivateDNSName   string     `json:"privateDnsName,omitempty"`
	Primary          bool       `json:"primary"`
}

// Association is a public or carrier address that is mapped to a primary private address.
type Association struct {
	PublicIP      netip.Addr `json:"publicIp,omitzero"`
	PublicDNSName string     `json:"publicDnsName,omitempty"`
	CarrierIP     netip.Addr `json:"carrierIp,omitzero"`
	IPOwnerID     string     `json:"ipOwnerId"`
}

// IPv4Prefix is a /28 delegated to an interface.
type IPv4Prefix struct {
	IPv4Prefix netip.Prefix `json:"ipv4Prefix"`
}

// IPv6Address is an IPv6 address of an interface.
type IPv6Address struct {
	IPv6Address   netip.Addr `json:"ipv6Address"`
	IsPrimaryIPv6 bool       `json:"isPrimaryIpv6"`
}

// IPv6Prefix is a /80 delegated to an interface.
type IPv6Prefix struct {
	IPv6Prefix netip.Prefix `json:"ipv6Prefix"`
}

// Instance is a virtual machine.
type Instance struct {
	InstanceID         string              `json:"instanceId"`
	ReservationID      string              `json:"reservationId" xml:"-"`
	ImageID            string              `json:"imageId"`
	InstanceType       string              `json:"instanceType"`
	State              InstanceState       `json:"state" xml:"instanceState"`
	StateReason        *StateReason        `json:"stateReason,omitempty"`
	LaunchTime         time.Time           `json:"launchTime"`
	AMILaunchIndex     int                 `json:"amiLaunchIndex"`
	ClientToken        string              `json:"clientToken"`
	KeyName            string              `json:"keyName,omitempty"`
	Placement          Placement           `json:"placement"`
	SubnetID           string              `json:"subnetId,omitempty"`
	VPCID              string              `json:"vpcId,omitempty"`
	PrivateIPAddress   netip.Addr          `json:"privateIpAddress,omitzero"`
	PrivateDNSName     string              `json:"privateDnsName"`
	PublicIPAddress    netip.Addr          `json:"publicIpAddress,omitzero" xml:"ipAddress"`
	PublicDNSName      string              `json:"publicDnsName,omitempty" xml:"dnsName" wire:"always"`
	IPv6Address        netip.Addr          `json:"ipv6Address,omitzero"`
	SourceDestCheck    bool                `json:"sourceDestCheck"`
	Architecture       string              `json:"architecture"`
	Hypervisor         string              `json:"hypervisor"`
	VirtualizationType string              `json:"virtualizationType"`
	RootDeviceType     string              `json:"rootDeviceType"`
	IAMInstanceProfile *IAMInstanceProfile `json:"iamInstanceProfile,omitempty"`
	Groups             []GroupIdentifier   `json:"securityGroups" xml:"groupSet"`
	NetworkInterfaces  []*NetworkInterface `json:"networkInterfaces,omitempty" xml:"-"`
	// InstanceNetworkInterfaces are NetworkInterfaces as the answers of DescribeInstances and RunInstances show them.
	InstanceNetworkInterfaces []InstanceNetworkInterface `json:"-" xml:"networkInterfaceSet" wire:"always"`
	UserData                  string                     `json:"userData,omitempty" xml:"-"`
	InstanceLifecycle         string                     `json:"instanceLifecycle,omitempty"`
	MetadataOptions           *MetadataOptions           `json:"metadataOptions"`
	Monitoring                Monitoring                 `json:"monitoring"`
	Tags                      Tags                       `json:"tags" xml:"tagSet"`
	CPUOptions                *InstanceCPUOptions        `json:"cpuOptions,omitempty"`
	// InstanceConstants are the same for every instance.
	InstanceConstants

	internal instanceInternals
}

// instanceInternals are what EC2 does not show of an instance.
type instanceInternals struct {
	CNI           *CNI `json:"cni,omitempty"`
	Protected     bool `json:"protected,omitempty"`     // from TerminateInstances
	StopProtected bool `json:"stopProtected,omitempty"` // from StopInstances
	// Shutdown is what EC2 does when the instance shuts itself down; empty means stop.
	Shutdown         string `json:"shutdown,omitempty"`
	HadPublicAddress bool   `json:"hadPublicAddress,omitempty"` // assigned by EC2, which assigns another at the next start
	Poisoned         []slot `json:"poisoned,omitempty"`         // by a forced detach, until the instance was stopped
}

// InstanceConstants are fields of an instance that EC2 always returns and the simulator does not model. /_sim/state
// omits them.
type InstanceConstants struct {
	Reason              string     `json:"-" xml:"reason"`
	RootDeviceName      string     `json:"-" xml:"rootDeviceName"`
	EBSOptimized        bool       `json:"-" xml:"ebsOptimized"`
	ENASupport          bool       `json:"-" xml:"enaSupport"`
	PlatformDetails     string     `json:"-" xml:"platformDetails"`
	ProductCodes        []struct{} `json:"-" xml:"productCodes"`
	BlockDeviceMappings []struct{} `json:"-" xml:"blockDeviceMapping"`
	UsageOperation      string     `json:"-" xml:"usageOperation"`

	PrivateDNSNameOptions            *PrivateDNSNameOptionsOnLaunch    `json:"-" xml:"privateDnsNameOptions"`
	MaintenanceOptions               *MaintenanceOptions               `json:"-" xml:"maintenanceOptions"`
	CapacityReservationSpecification *CapacityReservationSpecification `json:"-" xml:"capacityReservationSpecification"`
	EnclaveOptions                   *EnclaveOptions                   `json:"-" xml:"enclaveOptions"`
	HibernationOptions               *HibernationOptions               `json:"-" xml:"hibernationOptions"`
	Operator                         Operator                          `json:"-" xml:"operator"`
}

// MaintenanceOptions are what EC2 does with an instance whose host fails.
type MaintenanceOptions struct {
	AutoRecovery    string `json:"autoRecovery"`
	RebootMigration string `json:"rebootMigration"`
}

// CapacityReservationSpecification is which reserved capacity an instance may use.
type CapacityReservationSpecification struct {
	CapacityReservationPreference string `json:"capacityReservationPreference"`
}

// Operator is the service that manages a resource for the account; here none.
type Operator struct {
	Managed bool `json:"managed"`
}

// InstanceCPUOptions are the cores of an instance.
type InstanceCPUOptions struct {
	CoreCount      int `json:"coreCount"`
	ThreadsPerCore int `json:"threadsPerCore"`
}

func cpuOptions(t instancetypes.Type) *InstanceCPUOptions {
	return &InstanceCPUOptions{CoreCount: t.Cores, ThreadsPerCore: t.VCPUs / t.Cores}
}

// The platform of Linux without a licence, and its operation in bills.
const (
	platformLinux = "Linux/UNIX"
	operationRun  = "RunInstances"
)

// constants are what all instances have in common.
var constants = InstanceConstants{
	RootDeviceName: "/dev/xvda", ENASupport: true, PlatformDetails: platformLinux, UsageOperation: operationRun,
	PrivateDNSNameOptions:            &PrivateDNSNameOptionsOnLaunch{HostnameType: hostnameTypeIP},
	MaintenanceOptions:               &MaintenanceOptions{"default", "default"},
	CapacityReservationSpecification: &CapacityReservationSpecification{"open"},
	EnclaveOptions:                   &EnclaveOptions{}, HibernationOptions: &HibernationOptions{},
}

// InstanceState is a state with its number.
type InstanceState struct {
	Code int    `json:"code"`
	Name string `json:"name"`
}

// Name of an instance state.
const (
	Pending      = "pending"
	Running      = "running"
	ShuttingDown = "shutting-down"
	Terminated   = "terminated"
	Stopping     = "stopping"
	Stopped      = "stopped"
)

// state returns the state of that name (EC2 API reference, InstanceState).
func state(name string) InstanceState {
	codes := map[string]int{Pending: 0, Running: 16, ShuttingDown: 32, Terminated: 48, Stopping: 64, Stopped: 80}
	return InstanceState{Code: codes[name], Name: name}
}

// StateReason is the reason of an instance's state.
type StateReason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Monitoring is the state of detailed monitoring.
type Monitoring struct {
	State string `json:"state"`
}

func monitoringState(detailed bool) string {
	if detailed {
		return Enabled
	}
	return Disabled
}

// Placement is the location of an instance.
type Placement struct {
	AvailabilityZone   string `json:"availabilityZone"`
	AvailabilityZoneID string `json:"availabilityZoneId"`
	Tenancy            string `json:"tenancy"`
	// GroupName is empty: placement groups are not modelled.
	GroupName string `json:"groupName"`
}

// IAMInstanceProfile is the role of an instance.
type IAMInstanceProfile struct {
	ARN string `json:"arn"`
	ID  string `json:"id"`
}

// Subnet is a range of addresses in one zone.
type Subnet struct {
	SubnetID                    string            `json:"subnetId"`
	SubnetARN                   string            `json:"subnetArn"`
	VPCID                       string            `json:"vpcId"`
	AvailabilityZone            string            `json:"availabilityZone"`
	AvailabilityZoneID          string            `json:"availabilityZoneId"`
	State                       string            `json:"state"`
	CIDRBlock                   netip.Prefix      `json:"cidrBlock,omitzero"`
	IPv6CIDRBlockAssociations   []IPv6Association `json:"ipv6CidrBlockAssociationSet,omitempty" xml:"ipv6CidrBlockAssociationSet" wire:"always"`
	AvailableIPAddressCount     int               `json:"availableIpAddressCount"`
	DefaultForAZ                bool              `json:"defaultForAz"`
	MapPublicIPOnLaunch         bool              `json:"mapPublicIpOnLaunch"`
	AssignIPv6AddressOnCreation bool              `json:"assignIpv6AddressOnCreation"`
	IPv6Native                  bool              `json:"ipv6Native"`
	OwnerID                     string            `json:"ownerId"`
	Tags                        Tags              `json:"tags" xml:"tagSet"`
	SubnetSettings
}

// SubnetSettings are attributes of a subnet that EC2 always returns and that have no effect in the simulator.
type SubnetSettings struct {
	EnableDNS64                   bool                          `json:"enableDns64"`
	MapCustomerOwnedIPOnLaunch    bool                          `json:"mapCustomerOwnedIpOnLaunch"`
	PrivateDNSNameOptionsOnLaunch PrivateDNSNameOptionsOnLaunch `json:"privateDnsNameOptionsOnLaunch"`
}

// PrivateDNSNameOptionsOnLaunch are the names that instances of a subnet get.
type PrivateDNSNameOptionsOnLaunch struct {
	HostnameType                    string `json:"hostnameType"`
	EnableResourceNameDNSARecord    bool   `json:"enableResourceNameDnsARecord"`
	EnableResourceNameDNSAAAARecord bool   `json:"enableResourceNameDnsAAAARecord"`
}

// IPv6Association is an IPv6 range of a VPC or a subnet.
type IPv6Association struct {
	AssociationID      string         `json:"associationId"`
	IPv6CIDRBlock      netip.Prefix   `json:"ipv6CidrBlock"`
	IPv6CIDRBlockState CIDRBlockState `json:"ipv6CidrBlockState"`
	// IPv6Pool and NetworkBorderGroup are of VPCs only.
	IPv6Pool             string `json:"ipv6Pool,omitempty"`
	NetworkBorderGroup   string `json:"networkBorderGroup,omitempty"`
	IPSource             string `json:"ipSource"`
	IPv6AddressAttribute string `json:"ipv6AddressAttribute"`
}

// CIDRBlockState is the state of a range.
type CIDRBlockState struct {
	State string `json:"state"`
}

// VPC is a virtual network.
type VPC struct {
	VPCID                     string            `json:"vpcId"`
	State                     string            `json:"state"`
	CIDRBlock                 netip.Prefix      `json:"cidrBlock"`
	CIDRBlockAssociations     []IPv4Association `json:"cidrBlockAssociationSet"`
	IPv6CIDRBlockAssociations []IPv6Association `json:"ipv6CidrBlockAssociationSet,omitempty" xml:"ipv6CidrBlockAssociationSet" wire:"always"`
	InstanceTenancy           string            `json:"instanceTenancy"`
	DHCPOptionsID             string            `json:"dhcpOptionsId"`
	IsDefault                 bool              `json:"isDefault"`
	OwnerID                   string            `json:"ownerId"`
	Tags                      Tags              `json:"tags" xml:"tagSet"`

	attributes vpcAttributes
}

// IPv4Association is an IPv4 range of a VPC.
type IPv4Association struct {
	AssociationID  string         `json:"associationId"`
	CIDRBlock      netip.Prefix   `json:"cidrBlock"`
	CIDRBlockState CIDRBlockState `json:"cidrBlockState"`
}

// AvailabilityZone is a zone of the region.
type AvailabilityZone struct {
	ZoneName           string `json:"zoneName"`
	ZoneID             string `json:"zoneId"`
	ZoneType           string `json:"zoneType"`
	ZoneState          string `json:"zoneState"`
	OptInStatus        string `json:"optInStatus"`
	RegionName         string `json:"regionName"`
	GroupName          string `json:"groupName"`
	NetworkBorderGroup string `json:"networkBorderGroup"`
}

// Return is the answer of actions that return no data.
type Return struct {
	Return bool `json:"return"`
}
