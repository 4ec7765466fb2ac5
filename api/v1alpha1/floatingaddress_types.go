// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FloatingAddress is an IPv4 address within pods.floating that a pod brought up
// itself or asked for in its annotation. The agent of the node writes which interface has the pod, and the
// controller assigns the address to that interface in EC2. Agents create the
// objects. The controller deletes an object one minute after the last pod
// dropped the address.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=floatingaddresses,singular=floatingaddress,scope=Cluster,shortName=fla,categories=multieni
// +kubebuilder:selectablefield:JSONPath=`.status.holder.nodeName`
// +kubebuilder:selectablefield:JSONPath=`.status.contender.nodeName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True when EC2 delivers the address to its holder"
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.holder.nodeName`,description="Node of the pod that has the address"
// +kubebuilder:printcolumn:name="ENI",type=string,JSONPath=`.status.holder.eniID`,description="Interface that the pod uses"
// +kubebuilder:printcolumn:name="Contender",type=string,JSONPath=`.status.contender.nodeName`,description="Another node with a pod that has the address"
// +kubebuilder:printcolumn:name="Held",type=date,JSONPath=`.status.holder.since`,description="Time since the pod brought the address up"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why Ready is what it is"
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.status.holder.pod`,priority=1,description="Pod that asked for the address"
// +kubebuilder:printcolumn:name="Pod-IP",type=string,JSONPath=`.status.holder.podIP`,priority=1,description="Address of the pod in the network of the cluster"
// +kubebuilder:printcolumn:name="Assigned",type=string,JSONPath=`.status.assignment.eniID`,priority=1,description="Interface that the controller assigned the address to last"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.subnetID + '-' + self.spec.address",message="metadata.name must be SUBNET-ADDRESS, so that each address has one object"
// +kubebuilder:validation:XValidation:rule=`(has(self.status) && has(self.status.sequence) ? self.status.sequence : 0) - (has(oldSelf.status) && has(oldSelf.status.sequence) ? oldSelf.status.sequence : 0) == ((has(self.status) && has(self.status.holder) ? self.status.holder.nodeName + " " + self.status.holder.eniID : "") == (has(oldSelf.status) && has(oldSelf.status.holder) ? oldSelf.status.holder.nodeName + " " + oldSelf.status.holder.eniID : "") ? 0 : 1)`,message="status.sequence must grow by one with each change of status.holder, and only then"
type FloatingAddress struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the address, which never changes.
	// +required
	Spec FloatingAddressSpec `json:"spec"`

	// status is the last observed state: the pod with the address, and where EC2
	// delivers it.
	// +optional
	Status FloatingAddressStatus `json:"status,omitempty"`
}

// FloatingAddressList is a list of FloatingAddresses.
//
// +kubebuilder:object:root=true
type FloatingAddressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FloatingAddress `json:"items"`
}

// FloatingAddressSpec names an address.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec must not change: another address has another object"
type FloatingAddressSpec struct {
	// subnetID is the subnet of the address. EC2 moves an address only between
	// interfaces of one subnet.
	// +required
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^subnet-[0-9a-f]{8,17}$`
	SubnetID string `json:"subnetID"`

	// address is the IPv4 address.
	// +required
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$`
	Address string `json:"address"`
}

// FloatingAddressStatus is the observed state of an address. The agents write
// holder, contender and sequence; the controller writes the rest.
type FloatingAddressStatus struct {
	// sequence is the number of changes of the holder.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sequence int64 `json:"sequence,omitempty"`

	// holder is the pod that brought up the address last and still has it. The
	// agent of its node writes it over the version that it has read, so that the
	// last writer is the holder.
	// +optional
	Holder *AddressHolder `json:"holder,omitempty"`

	// contender is another pod that has the address at the same time. It does
	// not get the address while the holder has it.
	// +optional
	Contender *AddressHolder `json:"contender,omitempty"`

	// assignment is the last assignment of the address. The controller writes it
	// before it calls EC2.
	// +optional
	Assignment *AddressAssignment `json:"assignment,omitempty"`

	// conditions are Ready, Reconciling and Stalled, and Contended while pods on
	// two nodes have the address.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AddressHolder is a pod with an address, and the interface that it uses.
type AddressHolder struct {
	// nodeName is the node of the pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`

	// eniID is the interface below the link with the address.
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^eni-[0-9a-f]{8,17}$`
	ENIID string `json:"eniID"`

	// podIP is the first address on the link that connects the pod with its
	// node. It tells which pod it is, but a pod with NET_ADMIN can change it.
	// It is empty if the pod has no such address.
	// +optional
	// +kubebuilder:validation:MaxLength=39
	PodIP string `json:"podIP,omitempty"`

	// pod is NAMESPACE/NAME of a pod that asked for the address in its annotation,
	// so that multieni-ipam gave it to the pod. It is empty for an address that a
	// pod brought up itself.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Pod string `json:"pod,omitempty"`

	// since is the time on the node at which the agent saw the address.
	// +required
	Since metav1.Time `json:"since"`
}

// AddressAssignment is an assignment of an address to an interface.
type AddressAssignment struct {
	// eniID is the interface.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ENIID string `json:"eniID"`

	// sequence is that of the holder for which the controller assigned the
	// address. An assignment for an earlier holder says nothing about the present
	// one.
	// +required
	// +kubebuilder:validation:Minimum=0
	Sequence int64 `json:"sequence"`

	// found says that another program had assigned the address before. The
	// controller does not unassign it.
	// +optional
	Found bool `json:"found,omitempty"`
}

// FloatingAddressName returns the name of the object of an address.
func FloatingAddressName(subnetID, address string) string { return subnetID + "-" + address }

// MaxAddressesOfInterface is the largest number of addresses of pods on one
// interface that an agent reports. An interface takes 64 IPv4 addresses at most,
// with its primary one (EC2 user guide, "Maximum IP addresses per network
// interface").
const MaxAddressesOfInterface = 64
