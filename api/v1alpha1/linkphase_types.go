// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

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
