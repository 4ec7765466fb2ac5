// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// LinkState is the link of one interface on the node.
type LinkState struct {
	// macAddress is by what the link is found.
	// +required
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`
	MACAddress string `json:"macAddress"`

	// nodeENI is the name of the NodeENI that wants the interface.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeENI string `json:"nodeENI"`

	// eniID is the network interface.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ENIID string `json:"eniID,omitempty"`

	// state says how far the link is.
	// +required
	State LinkPhase `json:"state"`

	// reason is one CamelCase word for why the link is in this state.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`

	// message explains the reason and names the next step.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// name is the name that the node's system gave the link. It differs from node
	// to node.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Name string `json:"name,omitempty"`

	// altName is the name that the agent gave the link beside its own. It is the
	// same on every node.
	// +optional
	// +kubebuilder:validation:MaxLength=127
	AltName string `json:"altName,omitempty"`

	// mtu is the maximum transmission unit of the link, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MTU int32 `json:"mtu,omitempty"`

	// addresses are those that the node has on the link, with their prefix
	// lengths.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=43
	Addresses []string `json:"addresses,omitempty"`

	// driver is the driver of the device.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Driver string `json:"driver,omitempty"`

	// pciAddress is where on the bus the device is, for example 0000:00:06.0. It
	// stays known while the link is out of sight in a pod.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PCIAddress string `json:"pciAddress,omitempty"`
}

// LinkPhase says how far a link is.
//
// +kubebuilder:validation:Enum=Missing;Moved;Refused;Configuring;NoCarrier;Ready;Binding;Bound
type LinkPhase string

const (
	// LinkMissing is a link that is not there.
	LinkMissing LinkPhase = "Missing"
	// LinkMoved is a link in another network namespace, where it serves a pod.
	LinkMoved LinkPhase = "Moved"
	// LinkRefused is a link that cannot be as declared until a person changes
	// something.
	LinkRefused LinkPhase = "Refused"
	// LinkConfiguring is a link that is not yet as declared.
	LinkConfiguring LinkPhase = "Configuring"
	// LinkNoCarrier is a link that is as declared, but no packet can pass.
	LinkNoCarrier LinkPhase = "NoCarrier"
	// LinkReady is a link that is as declared and carries packets.
	LinkReady LinkPhase = "Ready"
	// LinkBinding is a link whose device is about to get a driver for user space,
	// or about to be given back. The interface is not detached meanwhile.
	LinkBinding LinkPhase = "Binding"
	// LinkBound is a device with a driver for user space, and so without a link.
	// The interface is not detached before the agent has given the device back.
	LinkBound LinkPhase = "Bound"
)
