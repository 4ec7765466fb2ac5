// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types. Ready, Reconciling and Stalled are the three that kstatus reads, so that GitOps tools and
// `helm --wait` understand our objects without being told about them.
const (
	// ConditionReady is True when every wanted interface is attached as declared.
	ConditionReady = "Ready"
	// ConditionReconciling is present, and True, while the controller works towards the declared state.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is present, and True, while nothing will change until a person changes something.
	ConditionStalled = "Stalled"
	// ConditionSubnetsResolved is True when the subnet fields of a NodeENI stand for subnets that exist.
	ConditionSubnetsResolved = "SubnetsResolved"
	// ConditionSecurityGroupsResolved is True when the group fields of a NodeENI stand for groups that exist.
	ConditionSecurityGroupsResolved = "SecurityGroupsResolved"
	// ConditionValidated is True when EC2 has accepted a launch from the published templates, without one being made.
	ConditionValidated = "Validated"
	// ConditionDrifted is True while a node differs from the AWSNodeTemplate it was launched from.
	ConditionDrifted = "Drifted"
)

// Reasons of Ready, Reconciling and Stalled.
const (
	// ReasonAttached: every wanted interface is attached as declared.
	ReasonAttached = "Attached"
	// ReasonNoNodes: no node matches the node selector, so nothing is wanted.
	ReasonNoNodes = "NoNodes"
	// ReasonProgressing: EC2 is still at work on at least one interface.
	ReasonProgressing = "Progressing"
	// ReasonBlocked: at least one interface cannot be delivered as things stand.
	ReasonBlocked = "Blocked"
	// ReasonDrifted: at least one interface differs from the spec in a way that cannot be changed in place.
	ReasonDrifted = "Drifted"
	// ReasonUnverified: an interface is left alone, because nothing but its tags says that multieni made it.
	ReasonUnverified = "Unverified"
	// ReasonDeleting: the object is being deleted and its interfaces are on their way out.
	ReasonDeleting = "Deleting"
)

// Reasons of Ready and Reconciling while changes are held back on purpose.
const (
	// ReasonPaused: the paused annotation stops all changes.
	ReasonPaused = "Paused"
	// ReasonRampingUp: a change of nodeSelector reaches far more nodes than before, which are let in bit by bit.
	ReasonRampingUp = "RampingUp"
)

// ReasonStateRefused says that the API server refuses to store a NodeENIState of a selected node as it is to be.
const ReasonStateRefused = "StateRefused"

// ReasonResolved says that every subnet, or group, that is named exists. When one does not, the reason is which case it is, in
// the words of package plan, for example SubnetNotFound.
const ReasonResolved = "Resolved"

// ReasonUnreadable says that EC2 could not be asked, so it is not known what the fields stand for.
const ReasonUnreadable = "Unreadable"

// Reasons of the conditions of an AWSNodeTemplate. When it cannot be rendered, the reason is which problem it has, in the
// words of package launch, for example NoCommonZone.
const (
	// ReasonPublished: the launch templates in EC2 are as declared.
	ReasonPublished = "Published"
	// ReasonRefused: EC2 would not launch from what was rendered.
	ReasonRefused = "RefusedByEC2"
	// ReasonValid: EC2 has said that it would launch.
	ReasonValid = "Valid"
	// ReasonAsDeclared: nothing differs from what is declared.
	ReasonAsDeclared = "AsDeclared"
)
