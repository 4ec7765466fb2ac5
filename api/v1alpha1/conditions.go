// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types. kstatus knows Ready, Reconciling and Stalled, so GitOps tools and `helm --wait` understand the
// objects without configuration.
const (
	// ConditionReady is True when every desired interface is attached as declared.
	ConditionReady = "Ready"
	// ConditionReconciling is present, and True, while the controller works towards the desired state.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is present, and True, while a person has to act before anything changes.
	ConditionStalled = "Stalled"
	// ConditionSubnetsResolved is True when the subnet fields of a NodeENI name subnets that exist.
	ConditionSubnetsResolved = "SubnetsResolved"
	// ConditionSecurityGroupsResolved is True when the group fields of a NodeENI name groups that exist.
	ConditionSecurityGroupsResolved = "SecurityGroupsResolved"
	// ConditionValidated is True when EC2 accepted a launch from the published templates in a dry run.
	ConditionValidated = "Validated"
	// ConditionPodNetworkReady is True when pods can attach to the interfaces of a NodeENI with spec.pods, on every node
	// that has one.
	ConditionPodNetworkReady = "PodNetworkReady"
	// ConditionDrifted is True while a node differs from the AWSNodeTemplate it was launched from.
	ConditionDrifted = "Drifted"
	// ConditionOrphaned is True on a NetworkInterface whose NodeENI does not exist.
	ConditionOrphaned = "Orphaned"
	// ConditionContended is True while pods on two nodes have a FloatingAddress.
	ConditionContended = "Contended"
)

// Reasons of Ready, Reconciling and Stalled.
const (
	// ReasonAttached: every desired interface is attached as declared.
	ReasonAttached = "Attached"
	// ReasonNoNodes: no node matches the node selector, so no interface is desired.
	ReasonNoNodes = "NoNodes"
	// ReasonProgressing: EC2 is changing at least one interface.
	ReasonProgressing = "Progressing"
	// ReasonBlocked: at least one desired interface cannot be provided without a change by a person.
	ReasonBlocked = "Blocked"
	// ReasonDrifted: at least one interface differs from the spec in a way that cannot be changed in place.
	ReasonDrifted = "Drifted"
	// ReasonInstanceHasAnotherNode: a selected node gets no interfaces, because its instance belongs to an older Node.
	ReasonInstanceHasAnotherNode = "InstanceHasAnotherNode"
	// ReasonAwaitsTurn: the interface is to be removed although its NodeENI declares it, and waits for its turn.
	ReasonAwaitsTurn = "AwaitsTurn"
	// ReasonDeleting: the object is being deleted, and so are its interfaces.
	ReasonDeleting = "Deleting"
)

// Reasons of Ready and Reconciling while changes are deferred.
const (
	// ReasonPaused: the paused annotation stops all changes.
	ReasonPaused = "Paused"
)

// ReasonStateRefused says that the API server refuses to store a NetworkInterface or the status of a NodeENI.
const ReasonStateRefused = "StateRefused"

// ReasonResolved says that every named subnet, or group, exists. If one does not, the reason is one of package plan,
// for example SubnetNotFound.
const ReasonResolved = "Resolved"

// Reasons why the controller does nothing for an object.
const (
	// ReasonUnreadable: the controller cannot read from EC2 what it needs.
	ReasonUnreadable = "Unreadable"
	// ReasonOtherClusterName: the cluster has another name in tags of EC2 than the controller is configured with.
	ReasonOtherClusterName = "OtherClusterName"
)

// Reasons of the conditions of an AWSNodeTemplate. If it cannot be rendered, the reason is one of package
// launchtemplate, for example NoCommonZone.
const (
	// ReasonPublished: the launch templates in EC2 are as declared.
	ReasonPublished = "Published"
	// ReasonRefused: EC2 refuses a launch from the rendered template.
	ReasonRefused = "RefusedByEC2"
	// ReasonValid: EC2 accepted a launch in a dry run.
	ReasonValid = "Valid"
	// ReasonNotTried: EC2 could not be asked for a launch in a dry run.
	ReasonNotTried = "NotTried"
	// ReasonAsDeclared: nothing differs from what is declared.
	ReasonAsDeclared = "AsDeclared"
)

// Reasons of a SubnetReservation and of its blocks. If a block cannot be reserved, the reason is one of package
// reservation, for example NoRoom.
const (
	// ReasonReserved: EC2 has every declared reservation.
	ReasonReserved = "Reserved"
	// ReasonReserving: the controller requests a reservation that EC2 does not return yet.
	ReasonReserving = "Reserving"
)

// Reasons of PodNetworkReady. If the network of one node is not ready, the reason is that of the node.
const (
	// ReasonNetworkReady: pods can attach on every node that has an interface.
	ReasonNetworkReady = "NetworkReady"
	// ReasonNoInterfaces: no interface is attached yet, so no pod can attach.
	ReasonNoInterfaces = "NoInterfaces"
	// ReasonNetworkPending: an interface is attached, and its node's agent has not reported the network yet.
	ReasonNetworkPending = "NetworkPending"
	// ReasonNetworkReportMissing: pods may use an interface, and its node's agent no longer reports the network.
	ReasonNetworkReportMissing = "NetworkReportMissing"
	// ReasonPodNetworksDisabled: the agent of a node runs without pod networks. It lets no pod attach, and cannot tell
	// when the last pod is gone.
	ReasonPodNetworksDisabled = "PodNetworksDisabled"
	// ReasonNetworkDraining: the interface of a node will be removed, and no further pod gets an address of it. The
	// condition has this reason only if no interface takes further pods.
	ReasonNetworkDraining = "NetworkDraining"
	// ReasonPodsWithoutLink: pods can attach, but an interface was detached while pods ran, and these pods have lost their
	// link.
	ReasonPodsWithoutLink = "PodsWithoutLink"
	// ReasonAddressesNotObserved: the agent of a node may not observe the addresses of pods, so addresses within
	// pods.floating do not follow them.
	ReasonAddressesNotObserved = "AddressesNotObserved"
	// ReasonAttachmentDefinitionsPending: the controller has not read the NetworkAttachmentDefinitions yet.
	ReasonAttachmentDefinitionsPending = "AttachmentDefinitionsPending"
	// ReasonAttachmentDefinitionsUnavailable: the cluster has no kind NetworkAttachmentDefinition.
	ReasonAttachmentDefinitionsUnavailable = "AttachmentDefinitionsUnavailable"
	// ReasonAttachmentDefinitionsForbidden: the API server refuses the controller's request for a definition.
	ReasonAttachmentDefinitionsForbidden = "AttachmentDefinitionsForbidden"
	// ReasonAttachmentDefinitionTaken: a NetworkAttachmentDefinition of that name exists that multieni did not generate.
	ReasonAttachmentDefinitionTaken = "AttachmentDefinitionTaken"
	// ReasonNamespaceNotFound: spec.pods.namespaces lists a namespace that does not exist.
	ReasonNamespaceNotFound = "NamespaceNotFound"
)
