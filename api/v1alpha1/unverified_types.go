// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// UnverifiedInterface is an interface that the controller retains.
type UnverifiedInterface struct {
	// eniID is the network interface.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	ENIID string `json:"eniID"`

	// copy is set if its tags are known to be copies of those of another
	// interface.
	// +optional
	Copy bool `json:"copy,omitempty"`

	// message says why the controller retains it, and names the next step.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
