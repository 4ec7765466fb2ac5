// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// UnverifiedInterface is an interface that is left alone.
type UnverifiedInterface struct {
	// eniID is the network interface.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	ENIID string `json:"eniID"`

	// copy says that its tags are known to be those of another interface.
	// +optional
	Copy bool `json:"copy,omitempty"`

	// message says why it is left alone, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
