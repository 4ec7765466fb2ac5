// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AWSNodeTemplateStatus is what came of a node template.
type AWSNodeTemplateStatus struct {
	// observedGeneration is the metadata.generation this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Reconciling, Stalled, Validated and Drifted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// launchTemplates are the launch templates to launch from, by ID and
	// version.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	LaunchTemplates []PublishedTemplate `json:"launchTemplates,omitempty"`

	// zones says for each zone whether nodes can be launched there.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Zones []TemplateZone `json:"zones,omitempty"`

	// instanceTypes says which instance types can carry the interfaces.
	// +optional
	InstanceTypes TemplateInstanceTypes `json:"instanceTypes,omitempty"`

	// source is what launchTemplateRef stands for.
	// +optional
	Source *TemplateSource `json:"source,omitempty"`

	// shadowedFields are the fields that one layer sets and another hides.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=256
	ShadowedFields []string `json:"shadowedFields,omitempty"`

	// warnings are what is legal and seldom meant, and what EC2 had to say.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=1024
	Warnings []string `json:"warnings,omitempty"`

	// nodeLabels are what nodes are labelled with, so that pods can select among
	// node templates.
	// +optional
	// +kubebuilder:validation:MaxProperties=160
	NodeLabels map[string]LabelValue `json:"nodeLabels,omitempty"`

	// nodes is how many nodes were launched from the node template.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Nodes int32 `json:"nodes"`

	// drifted is how many of the nodes differ from the node template as it is
	// now.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Drifted int32 `json:"drifted"`
}

// PublishedTemplate is one launch template to launch from.
type PublishedTemplate struct {
	// id is the ID of the launch template.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`

	// name is the name of the launch template.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`

	// version is the version to launch from.
	// +required
	// +kubebuilder:validation:Minimum=1
	Version int64 `json:"version"`

	// contentHash identifies what the version says.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ContentHash string `json:"contentHash,omitempty"`

	// zone is the zone whose subnets the launch template names; empty when the
	// launcher chooses the subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Zone string `json:"zone,omitempty"`

	// shape is set where a layout gives instance types different interfaces:
	// instanceTypes says which shape a type has.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Shape string `json:"shape,omitempty"`

	// interfaces is how many interfaces an instance is launched with.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Interfaces int32 `json:"interfaces,omitempty"`
}

// TemplateZone is one zone.
type TemplateZone struct {
	// name is the zone, for example us-west-2a.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`

	// eligible is whether nodes can be launched in it.
	// +required
	Eligible bool `json:"eligible"`

	// message says why not.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// subnets are the subnets to launch in, where the launcher chooses; else
	// those of the interfaces, in the order of their slots.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:items:MaxLength=32
	Subnets []string `json:"subnets,omitempty"`
}

// TemplateInstanceTypes is the verdict on all instance types.
type TemplateInstanceTypes struct {
	// eligible is how many of the chosen types can carry the interfaces.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Eligible int32 `json:"eligible"`

	// types are the eligible types, the first 200 in the order of their names.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=200
	Types []EligibleType `json:"types,omitempty"`

	// typesOmitted is how many entries types leaves out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TypesOmitted int32 `json:"typesOmitted,omitempty"`

	// rejected says why the other chosen types cannot, reason by reason.
	// +optional
	// +listType=map
	// +listMapKey=reason
	// +kubebuilder:validation:MaxItems=16
	Rejected []RejectedTypes `json:"rejected,omitempty"`
}

// EligibleType is an instance type that can carry the interfaces.
type EligibleType struct {
	// name is the instance type.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`

	// maxPods is how many pods the VPC CNI has addresses for beside the
	// interfaces it must leave alone: what the kubelet should be told.
	// +required
	// +kubebuilder:validation:Minimum=0
	MaxPods int32 `json:"maxPods"`

	// efas is how many EFA interfaces an instance has: what the EFA device plugin
	// offers as vpc.amazonaws.com/efa.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EFAs int32 `json:"efas,omitempty"`

	// shape is the shape of the launch template for the type.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Shape string `json:"shape,omitempty"`
}

// RejectedTypes are instance types that cannot carry the interfaces.
type RejectedTypes struct {
	// reason is one CamelCase word for why.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// count is how many there are.
	// +required
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`

	// examples are the first three.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:MaxLength=64
	Examples []string `json:"examples,omitempty"`

	// message says it of the first example.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// TemplateSource is what launchTemplateRef stands for.
type TemplateSource struct {
	// id is the ID of the launch template.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`

	// version is the number that the version asked for stands for.
	// +required
	// +kubebuilder:validation:Minimum=1
	Version int64 `json:"version"`

	// resolvedAt is when it was first seen to stand for it. It is read every
	// minute.
	// +required
	ResolvedAt metav1.Time `json:"resolvedAt"`
}
