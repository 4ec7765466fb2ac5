// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Phase is the phase of an interface.
//
// +kubebuilder:validation:Enum=Blocked;Pending;Creating;Attaching;Attached;Detaching;Deleting
type Phase string

const (
	// PhaseBlocked is an interface that waits for a person to act; reason says
	// why.
	PhaseBlocked Phase = "Blocked"
	// PhasePending is an interface that is not attached, and that no call
	// creates or attaches at present; reason says why.
	PhasePending Phase = "Pending"
	// PhaseCreating is an interface that EC2 is creating.
	PhaseCreating Phase = "Creating"
	// PhaseAttaching is an interface that EC2 is attaching to the instance.
	PhaseAttaching Phase = "Attaching"
	// PhaseAttached is an interface that EC2 reports as attached.
	PhaseAttached Phase = "Attached"
	// PhaseDetaching is an interface that EC2 is detaching from the instance.
	PhaseDetaching Phase = "Detaching"
	// PhaseDeleting is an interface that is detached and not deleted yet.
	PhaseDeleting Phase = "Deleting"
)
