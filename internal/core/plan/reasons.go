// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// Reason is one word of a closed set that says why a member is not as wanted. Reasons become condition reasons, event
// reasons and metric labels.
type Reason string

// Reasons a person must do something about.
const (
	// SubnetNotFound: a subnet the NodeENI names does not exist.
	SubnetNotFound Reason = "SubnetNotFound"
	// NoSubnetInZone: none of the NodeENI's subnets is in the node's zone.
	NoSubnetInZone Reason = "NoSubnetInZone"
	// SecurityGroupNotFound and SecurityGroupAmbiguous: a group is unknown, or a name fits several.
	SecurityGroupNotFound  Reason = "SecurityGroupNotFound"
	SecurityGroupAmbiguous Reason = "SecurityGroupAmbiguous"
	// SlotTaken: another interface holds the slot that was asked for exactly.
	SlotTaken Reason = "SlotTaken"
	// NotImported: an interface without an owner is in the subnet and at the slot of the one that is wanted.
	NotImported Reason = "NotImported"
	// NoSuchNetworkCard: the instance type has no network card of that index.
	NoSuchNetworkCard Reason = "NoSuchNetworkCard"
	// InstanceFull: the instance type carries no more interfaces.
	InstanceFull Reason = "InstanceFull"
	// InstanceOutsideCluster: the instance that the Node names has none of the tags of the cluster's instances.
	InstanceOutsideCluster Reason = "InstanceOutsideCluster"
	// AddressLimit: more addresses are asked for than one interface of the instance type takes.
	AddressLimit Reason = "AddressLimit"
	// SubnetFull: the subnet has no free addresses.
	SubnetFull Reason = "SubnetFull"
	// LimitReached: EC2 reports a limit of the account or the instance.
	LimitReached Reason = "LimitReached"
	// Unauthorized: the controller's role may not make the call.
	Unauthorized Reason = "Unauthorized"
	// RefusedByEC2: EC2 refuses the request as it is.
	RefusedByEC2 Reason = "RefusedByEC2"
	// TooManyUnattached: too many interfaces of the cluster exist without being attached, so no more are made.
	TooManyUnattached Reason = "TooManyUnattached"
	// AttachedElsewhere: somebody attached the interface to another instance.
	AttachedElsewhere Reason = "AttachedElsewhere"
	// AttachStuck: several times EC2 did not get done with attaching the interface.
	AttachStuck Reason = "AttachStuck"
	// Reverted: EC2 accepted a change of the interface more than once and does not keep it: something sets it back.
	Reverted Reason = "Reverted"
	// Drifted: the interface differs in what only a new one can mend, and no new one is made for it.
	Drifted Reason = "Drifted"
	// Orphaned: the interface's NodeENI does not exist any more; it is detached after a while.
	Orphaned Reason = "Orphaned"
)

// Reasons that pass by themselves.
const (
	// InstanceNotReady: the instance is in no state that takes an interface.
	InstanceNotReady Reason = "InstanceNotReady"
	// Throttled: the account's EC2 request budget is spent for the moment.
	Throttled Reason = "Throttled"
	// Retrying: the last call failed and is tried again soon.
	Retrying Reason = "Retrying"
	// NotVisible: EC2 did not show the interface in its last answer; it is looked for again.
	NotVisible Reason = "NotVisible"
	// InProgress: EC2 is at work.
	InProgress Reason = "InProgress"
	// RemovedExternally: somebody else removed the interface shortly after it was made; the next one waits.
	RemovedExternally Reason = "RemovedExternally"
	// Replacing: the interface differs in what only a new one can mend, and waits for its turn to be replaced.
	Replacing Reason = "Replacing"
	// Removing: the interface is being removed.
	Removing Reason = "Removing"
	// WaitingForDeviceRelease: the interface is to be removed, and the node has yet to let go of its device.
	WaitingForDeviceRelease Reason = "WaitingForDeviceRelease"
	// Retained: the interface is left as it is since nothing confirms that it may go.
	Retained Reason = "Retained"
)

// Transient reports whether the reason goes away without anybody doing something.
func (r Reason) Transient() bool {
	switch r {
	case InstanceNotReady, Throttled, Retrying, NotVisible, InProgress, RemovedExternally, Replacing, Removing, WaitingForDeviceRelease, "":
		return true
	default:
		return false
	}
}
