// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SubnetReservation reserves a part of subnets, as subnet CIDR reservations in
// EC2: for delegated prefixes, which need whole free /28 blocks, or for
// addresses that programs request explicitly. EC2 assigns no other address from
// the reserved part.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=subnetreservations,singular=subnetreservation,scope=Cluster,shortName=snr,categories=multieni
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True when EC2 has every declared reservation"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`,description="What the addresses are reserved for"
// +kubebuilder:printcolumn:name="Blocks",type=integer,JSONPath=`.status.blocks`,description="Declared blocks of all selected subnets"
// +kubebuilder:printcolumn:name="Reserved",type=integer,JSONPath=`.status.reserved`,description="Blocks that EC2 has reserved"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why Ready is what it is"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 220",message="metadata.name must have at most 220 characters: it becomes a part of the description in EC2"
type SubnetReservation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state. Every field may be changed at any time.
	// +required
	Spec SubnetReservationSpec `json:"spec"`

	// status is the last observed state.
	// +optional
	Status SubnetReservationStatus `json:"status,omitempty"`
}

// SubnetReservationList is a list of SubnetReservations.
//
// +kubebuilder:object:root=true
type SubnetReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SubnetReservation `json:"items"`
}

// SubnetReservationSpec declares the subnets and their reserved part.
//
// +kubebuilder:validation:ExactlyOneOf=subnetIDs;subnetNames;subnetSelector
// +kubebuilder:validation:ExactlyOneOf=prefixLength;cidrs
// +kubebuilder:validation:XValidation:rule="self.type != 'Prefix' || !has(self.cidrs) || self.cidrs.all(c, int(c.split('/')[1]) <= 28)",message="cidrs must be /28 or larger with type Prefix: EC2 delegates /28 prefixes"
type SubnetReservationSpec struct {
	// subnetIDs are subnets by ID.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=24
	// +kubebuilder:validation:items:Pattern=`^subnet-[0-9a-f]{8,17}$`
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="subnetIDs must not list a subnet twice"
	SubnetIDs []string `json:"subnetIDs,omitempty"`

	// subnetNames are subnets by the value of their Name tag, in all zones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="subnetNames must not list a name twice"
	SubnetNames []string `json:"subnetNames,omitempty"`

	// subnetSelector selects subnets by tags, in all zones: those that have all
	// of these tags with exactly these values. It may select at most 64 subnets.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 128)",message="every key of subnetSelector must be a tag key of 1 to 128 characters"
	SubnetSelector map[string]TagValue `json:"subnetSelector,omitempty"`

	// type says what the addresses are reserved for. With Prefix EC2 assigns
	// delegated prefixes from the reserved part only, and nothing else from it.
	// With Explicit EC2 assigns an address of the reserved part only to a request
	// that names the address.
	// +required
	Type SubnetReservationType `json:"type"`

	// prefixLength is the size of the reserved block of each subnet: the
	// highest block of that size that is wholly free, for example 25 for 128
	// addresses. The block never moves afterwards. Not together with cidrs.
	// +optional
	// +kubebuilder:validation:Minimum=17
	// +kubebuilder:validation:Maximum=28
	PrefixLength *int32 `json:"prefixLength,omitempty"`

	// cidrs are the reserved IPv4 blocks, each in the subnet that contains it.
	// Not together with prefixLength.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=18
	// +kubebuilder:validation:items:Pattern=`^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])/(1[6-9]|2[0-9]|3[0-2])$`
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="cidrs must not list a block twice"
	CIDRs []string `json:"cidrs,omitempty"`

	// deletionPolicy says what happens to reservations that multieni created
	// and that are not declared any more, because the SubnetReservation is
	// deleted or was changed. Delete deletes them; interfaces keep their
	// addresses and prefixes. Retain leaves them. Default: Delete.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// SubnetReservationType says what addresses are reserved for.
//
// +kubebuilder:validation:Enum=Prefix;Explicit
type SubnetReservationType string

// The types of reservations.
const (
	SubnetReservationPrefix   SubnetReservationType = "Prefix"
	SubnetReservationExplicit SubnetReservationType = "Explicit"
)

// DeletionPolicy says whether a resource in EC2 is deleted together with its
// declaration.
//
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

// The deletion policies.
const (
	DeletionPolicyDelete DeletionPolicy = "Delete"
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// SubnetReservationStatus is the last observed state of a SubnetReservation.
type SubnetReservationStatus struct {
	// observedGeneration is the metadata.generation that this status is for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// blocks is the number of declared blocks.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Blocks int32 `json:"blocks,omitempty"`

	// reserved is the number of blocks that EC2 has reserved.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Reserved int32 `json:"reserved,omitempty"`

	// reservations are the blocks of each subnet. The controller writes a block
	// here before it requests the reservation, because EC2 has no client token that
	// makes this request idempotent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Reservations []ReservedBlock `json:"reservations,omitempty"`
}

// ReservedBlock is one block of one subnet.
type ReservedBlock struct {
	// subnetID is the subnet; empty if no selected subnet contains the block.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	SubnetID string `json:"subnetID,omitempty"`

	// zone is the availability zone of the subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Zone string `json:"zone,omitempty"`

	// cidr is the block; empty if the subnet has no free block of the size.
	// +optional
	// +kubebuilder:validation:MaxLength=18
	CIDR string `json:"cidr,omitempty"`

	// id is EC2's ID of the reservation.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id,omitempty"`

	// owned is true for a reservation that multieni created. The controller uses
	// other reservations as well, and never deletes them.
	// +optional
	Owned bool `json:"owned"`

	// reason is one CamelCase word that says why the block is not reserved.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message explains the reason and names the next step.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
