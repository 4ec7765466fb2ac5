// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// LaunchInterface is one network interface that an instance has from its launch
// on.
//
// +kubebuilder:validation:XValidation:rule="self.interfaceType != 'efa-only' || self.networkCardIndex != 0 || self.deviceIndex != 0",message="the primary interface needs an IP address, which efa-only has not: use interface or efa there"
// +kubebuilder:validation:XValidation:rule="self.interfaceType != 'efa-only' || !(has(self.ipv4PrefixCount) && self.ipv4PrefixCount > 0) && !(has(self.ipv6PrefixCount) && self.ipv6PrefixCount > 0) && !(has(self.associatePublicIPAddress) && self.associatePublicIPAddress) && !(has(self.associateCarrierIPAddress) && self.associateCarrierIPAddress)",message="an efa-only interface has no IP addresses: remove its prefix counts and public or carrier address, or use interfaceType: efa"
// +kubebuilder:validation:XValidation:rule="!(has(self.associateCarrierIPAddress) && self.associateCarrierIPAddress) || self.networkCardIndex == 0 && self.deviceIndex == 0",message="associateCarrierIPAddress is possible only on the primary interface"
// +kubebuilder:validation:XValidation:rule="!(has(self.associateCarrierIPAddress) && self.associateCarrierIPAddress) || !(has(self.associatePublicIPAddress) && self.associatePublicIPAddress)",message="an interface cannot have both a public and a carrier IP address"
type LaunchInterface struct {
	// name names the interface in messages, and in the node label
	// network.networking.k8s.aws/NAME. Pods use the label to select nodes with
	// the interface.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// associateCarrierIPAddress associates a carrier IP address with the primary
	// interface, in a subnet of a Wavelength Zone.
	// +optional
	AssociateCarrierIPAddress *bool `json:"associateCarrierIPAddress,omitempty"`

	// associatePublicIPAddress associates a public IPv4 address with the
	// interface, or prevents it in a subnet that associates one by default. It
	// can be true only on an instance with a single interface.
	// +optional
	AssociatePublicIPAddress *bool `json:"associatePublicIPAddress,omitempty"`

	// deleteOnTermination makes EC2 delete the interface together with its
	// instance. Default: true.
	// +optional
	// +kubebuilder:default=true
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`

	// description is the description of the interface in EC2, the same on every
	// node: one line of at most 255 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f]*$`
	Description string `json:"description,omitempty"`

	// deviceIndex is the device index on the network card. 0 on card 0 is the
	// primary interface. Default: 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	DeviceIndex int32 `json:"deviceIndex"`

	// interfaceType is interface, efa (EFA and IP) or efa-only. A network card
	// supports one EFA interface. Default: interface.
	// +optional
	// +kubebuilder:default=interface
	InterfaceType LaunchInterfaceType `json:"interfaceType,omitempty"`

	// networkCardIndex is the network card. Only large instance types have more
	// than card 0. Default: 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	NetworkCardIndex int32 `json:"networkCardIndex"`

	// ipv4PrefixCount is the number of /28 IPv4 prefixes that EC2 delegates to
	// the interface; each counts as one address against the limit of the
	// instance type.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	IPv4PrefixCount int32 `json:"ipv4PrefixCount,omitempty"`

	// ipv6PrefixCount is the number of /80 IPv6 prefixes that EC2 delegates to
	// the interface.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=127
	IPv6PrefixCount int32 `json:"ipv6PrefixCount,omitempty"`

	// connectionTracking sets after which time security groups forget idle
	// connections of the interface. Only instance types that support it can then
	// be launched.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.as) || has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",message="connectionTracking must set at least one timeout"
	// +kubebuilder:validation:XValidation:rule="!has(self.as)",message="connectionTracking.as must not be set in a launch template: declare the timeouts of the primary interface and of this one"
	ConnectionTracking *ConnectionTracking `json:"connectionTracking,omitempty"`

	// enaExpress says for which packets the interface uses ENA Express. Only
	// instance types that support it can then be launched. Default: None.
	// +optional
	ENAExpress ENAExpress `json:"enaExpress,omitempty"`

	// subnetSelector selects the subnets of this interface, in the same way as
	// the node template's. Nodes can then be launched only in zones with a
	// subnet for every interface, from a launch template for each zone.
	// Default: the node template's.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	SubnetSelector map[string]TagValue `json:"subnetSelector,omitempty"`

	// securityGroupSelector selects the security groups of this interface, in
	// the same way as the node template's. Default: the node template's.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	SecurityGroupSelector map[string]TagValue `json:"securityGroupSelector,omitempty"`

	// management says who uses the interface. Unmanaged interfaces have a tag
	// that makes the VPC CNI ignore them; CNI leaves the interface to the VPC
	// CNI. The VPC CNI always uses the primary interface. Default: Unmanaged.
	// +optional
	// +kubebuilder:default=Unmanaged
	Management InterfaceManagement `json:"management,omitempty"`
}

// LaunchInterfaceType is an EC2 interface type that an instance can be
// launched with.
//
// +kubebuilder:validation:Enum=interface;efa;efa-only
type LaunchInterfaceType string

// InterfaceManagement says who uses an interface.
//
// +kubebuilder:validation:Enum=Unmanaged;CNI
type InterfaceManagement string
