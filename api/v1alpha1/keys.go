// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Finalizer keeps a NodeENI until all of its interfaces are deleted, an AWSNodeTemplate until its launch templates are
// deleted, a SubnetReservation until its reservations are deleted, and a FloatingAddress until no interface has its
// address.
const Finalizer = "networking.k8s.aws/finalizer"

// InterfaceFinalizer keeps a NetworkInterface until EC2 confirms that its ENI is deleted.
const InterfaceFinalizer = "networking.k8s.aws/eni"

// Labels of a NetworkInterface: its instance, and the name of its NodeENI, cut to 63 characters.
const (
	InstanceLabel = "networking.k8s.aws/instance"
	NodeENILabel  = "networking.k8s.aws/nodeeni"
)

// OnDeleteAnnotation on a NetworkInterface with the value OnDeleteKeep lets its ENI stay when the object is deleted.
const OnDeleteAnnotation = "networking.k8s.aws/on-delete"

// OnDeleteKeep is the value of OnDeleteAnnotation.
const OnDeleteKeep = "Keep"

// FieldOwnerController is the field owner under which the controller writes NetworkInterfaces and every status.
const FieldOwnerController = "multieni-controller"

// PausedAnnotation on a NodeENI, an AWSNodeTemplate, a SubnetReservation or a Node stops every change in EC2 for it,
// regardless of its value.
const PausedAnnotation = "networking.k8s.aws/paused"

// NodeConditionDrifted is the type of the Node condition that says whether a node that was launched from an
// AWSNodeTemplate differs from one that would be launched now.
const NodeConditionDrifted = "networking.k8s.aws/Drifted"

// FieldOwnerAgent is the field owner under which an agent applies status.node of the NetworkInterfaces of its node.
const FieldOwnerAgent = "multieni-agent"

// NetworkInterfacesAnnotation on a Node has the names of the NetworkInterfaces of its instance, separated by commas. The
// agent watches these objects. The controller adds each new object, and may leave the name of one that is gone.
const NetworkInterfacesAnnotation = "networking.k8s.aws/networkinterfaces"

// Keys that the agent writes on its Node.
const (
	// NodeConditionInterfacesReady is the type of the Node condition that is True while every required interface is
	// attached, and its link configured and with carrier.
	NodeConditionInterfacesReady = "networking.k8s.aws/InterfacesReady"
	// NotReadyTaint is the key of the startup taint. Nodes register with it, and the agent removes it when the
	// condition is True.
	NotReadyTaint = "networking.k8s.aws/not-ready"
	// InterfaceLabelPrefix begins a label for each usable interface: the rest is its altname, the value its ENI.
	InterfaceLabelPrefix = "interface.networking.k8s.aws/"
	// AddressesResourcePrefix begins an extended resource in the capacity of a Node for each usable pod network: the rest
	// is the name of the network, the value is how many pods the network can have at once.
	AddressesResourcePrefix = "addresses.networking.k8s.aws/"
	// InterfacesAnnotation holds the usable interfaces by altname, as JSON.
	InterfacesAnnotation = "networking.k8s.aws/interfaces"
)

// Annotations of a Service without selector whose endpoints are the addresses of pods on a pod network.
const (
	// PodNetworkAnnotation names the network: the NodeENI, with two hyphens and the ordinal from the second interface on.
	PodNetworkAnnotation = "networking.k8s.aws/pod-network"
	// PodSelectorAnnotation selects pods in the namespace of the Service, in the syntax of label selectors.
	PodSelectorAnnotation = "networking.k8s.aws/pod-selector"
	// EndpointSliceManager is the value of the label endpointslice.kubernetes.io/managed-by of their EndpointSlices.
	EndpointSliceManager = "podservice.networking.k8s.aws"
)
