// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// LinkState is the link of one interface on the node.
type LinkState struct {
	// macAddress identifies the link.
	// +required
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`
	MACAddress string `json:"macAddress"`

	// nodeENI is the name of the NodeENI of the interface.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeENI string `json:"nodeENI"`

	// eniID is the ID of the network interface.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ENIID string `json:"eniID,omitempty"`

	// state is the phase of the link.
	// +required
	State LinkPhase `json:"state"`

	// reason is one CamelCase word that says why the link is in this state.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`

	// message explains the reason and names the next step.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// name is the name that the node's operating system gave the link. It
	// differs from node to node.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Name string `json:"name,omitempty"`

	// altName is the alternative name that the agent added to the link. It is
	// the same on every node.
	// +optional
	// +kubebuilder:validation:MaxLength=127
	AltName string `json:"altName,omitempty"`

	// mtu is the maximum transmission unit of the link, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MTU int32 `json:"mtu,omitempty"`

	// addresses are the addresses of the link in the node's network namespace,
	// with their prefix lengths.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=43
	Addresses []string `json:"addresses,omitempty"`

	// driver is the driver of the device.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Driver string `json:"driver,omitempty"`

	// pciAddress is the address of the device on the PCI bus, for example
	// 0000:00:06.0. It stays while the link is in the namespace of a pod.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PCIAddress string `json:"pciAddress,omitempty"`
}

// LinkPhase is the phase of a link.
//
// +kubebuilder:validation:Enum=Missing;Moved;Refused;Configuring;NoCarrier;Ready;Binding;Bound
type LinkPhase string

const (
	// LinkMissing is a link that does not exist on the node.
	LinkMissing LinkPhase = "Missing"
	// LinkMoved is a link in another network namespace, where a pod uses it.
	LinkMoved LinkPhase = "Moved"
	// LinkRefused is a link that cannot be as declared until a person acts.
	LinkRefused LinkPhase = "Refused"
	// LinkConfiguring is a link that is not yet as declared.
	LinkConfiguring LinkPhase = "Configuring"
	// LinkNoCarrier is a link that is as declared, and has no carrier.
	LinkNoCarrier LinkPhase = "NoCarrier"
	// LinkReady is a link that is as declared, with carrier.
	LinkReady LinkPhase = "Ready"
	// LinkBinding is a link whose device the agent binds to a driver for user
	// space, or back to the network driver. The controller does not detach the
	// interface meanwhile.
	LinkBinding LinkPhase = "Binding"
	// LinkBound is a device with a driver for user space, and so without a
	// link. The controller detaches the interface after the agent has bound the
	// device to the network driver.
	LinkBound LinkPhase = "Bound"
)

// CNIState is the CNI configuration that the container runtime of a node uses.
type CNIState struct {
	// ready says whether that is the configuration of Multus. A node with the
	// startup taint keeps it until then.
	// +required
	Ready bool `json:"ready"`

	// message names the configuration that the runtime uses instead.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
