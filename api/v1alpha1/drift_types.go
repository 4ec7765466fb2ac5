// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Drift is one field in which an interface differs from its NodeENI.
type Drift struct {
	// field is the field of the NodeENI's spec.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Field string `json:"field"`

	// want is the declared value.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Want string `json:"want,omitempty"`

	// have is the observed value.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Have string `json:"have,omitempty"`
}
