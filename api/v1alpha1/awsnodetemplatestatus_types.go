// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AWSNodeTemplateStatus is the last observed state of an AWSNodeTemplate.
type AWSNodeTemplateStatus struct {
	// observedGeneration is the metadata.generation that this status is for.
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

	// instanceTypes says which instance types support the interfaces.
	// +optional
	InstanceTypes TemplateInstanceTypes `json:"instanceTypes,omitempty"`

	// source is the version that launchTemplateRef resolves to.
	// +optional
	Source *TemplateSource `json:"source,omitempty"`

	// shadowedFields are the fields that one layer sets and another overrides.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=256
	ShadowedFields []string `json:"shadowedFields,omitempty"`

	// warnings name settings that are valid and seldom intended, and have the
	// warnings of EC2.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=1024
	Warnings []string `json:"warnings,omitempty"`

	// nodeLabels are the labels of the nodes. Pods can select nodes of a node
	// template with them.
	// +optional
	// +kubebuilder:validation:MaxProperties=160
	NodeLabels map[string]LabelValue `json:"nodeLabels,omitempty"`

	// nodes is the number of nodes that were launched from the node template.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Nodes int32 `json:"nodes"`

	// drifted is the number of nodes that differ from the present node
	// template.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Drifted int32 `json:"drifted"`
}

// PublishedTemplate is one published launch template.
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

	// contentHash identifies the content of the version.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ContentHash string `json:"contentHash,omitempty"`

	// zone is the zone of the subnets in the launch template; empty if the
	// launcher chooses the subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Zone string `json:"zone,omitempty"`

	// shape is set if a layout gives instance types different interfaces:
	// instanceTypes has the shape of each type.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Shape string `json:"shape,omitempty"`

	// interfaces is the number of interfaces of a launched instance.
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

	// eligible says whether nodes can be launched in the zone.
	// +required
	Eligible bool `json:"eligible"`

	// message says why not.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// subnets are the subnets to choose from, if the launcher chooses;
	// otherwise those of the interfaces, in the order of their slots.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:items:MaxLength=32
	Subnets []string `json:"subnets,omitempty"`
}

// TemplateInstanceTypes says which instance types are eligible.
type TemplateInstanceTypes struct {
	// eligible is the number of selected types that support the interfaces.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Eligible int32 `json:"eligible"`

	// types are the eligible types, the first 200 in the order of their names.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=200
	Types []EligibleType `json:"types,omitempty"`

	// typesOmitted is the number of eligible types that types does not list.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TypesOmitted int32 `json:"typesOmitted,omitempty"`

	// rejected says why the other selected types are not eligible, by reason.
	// +optional
	// +listType=map
	// +listMapKey=reason
	// +kubebuilder:validation:MaxItems=16
	Rejected []RejectedTypes `json:"rejected,omitempty"`
}

// EligibleType is an instance type that supports the interfaces.
type EligibleType struct {
	// name is the instance type.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`

	// maxPods is the number of pods for which the VPC CNI has addresses,
	// without the interfaces that it must not use: the value for the kubelet's
	// maxPods.
	// +required
	// +kubebuilder:validation:Minimum=0
	MaxPods int32 `json:"maxPods"`

	// efas is the number of EFA interfaces of an instance: those that the EFA
	// device plugin offers as vpc.amazonaws.com/efa.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EFAs int32 `json:"efas,omitempty"`

	// shape is the shape of the launch template for the type.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Shape string `json:"shape,omitempty"`
}

// RejectedTypes are instance types that do not support the interfaces.
type RejectedTypes struct {
	// reason is one CamelCase word that says why.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// count is the number of types.
	// +required
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`

	// examples are the first three types.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:MaxLength=64
	Examples []string `json:"examples,omitempty"`

	// message explains the reason for the first example.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// TemplateSource is the version that launchTemplateRef resolves to.
type TemplateSource struct {
	// id is the ID of the launch template.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`

	// version is the number that the requested version resolves to.
	// +required
	// +kubebuilder:validation:Minimum=1
	Version int64 `json:"version"`

	// resolvedAt is the time of the first read with this result. The controller
	// reads it every minute.
	// +required
	ResolvedAt metav1.Time `json:"resolvedAt"`
}
