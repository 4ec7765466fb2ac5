// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// Reason is one word of a closed set that says why an interface is not as desired. Reasons become condition reasons,
// event reasons and metric labels.
type Reason string

// Reasons that need a person.
const (
	// SubnetNotFound: a subnet in the NodeENI does not exist.
	SubnetNotFound Reason = "SubnetNotFound"
	// NoSubnetInZone: none of the NodeENI's subnets is in the node's zone.
	NoSubnetInZone Reason = "NoSubnetInZone"
	// SecurityGroupNotFound and SecurityGroupAmbiguous: a group is unknown, or several groups have the name.
	SecurityGroupNotFound  Reason = "SecurityGroupNotFound"
	SecurityGroupAmbiguous Reason = "SecurityGroupAmbiguous"
	// SlotTaken: another interface has the slot that was requested exactly.
	SlotTaken Reason = "SlotTaken"
	// NotImported: an interface without an owner is in the subnet and the slot of the desired one.
	NotImported Reason = "NotImported"
	// NoSuchNetworkCard: the instance type has no network card with that index.
	NoSuchNetworkCard Reason = "NoSuchNetworkCard"
	// NoSuchDeviceIndex: the network card has no slot with the device index that was requested exactly.
	NoSuchDeviceIndex Reason = "NoSuchDeviceIndex"
	// InstanceFull: the instance type supports no more interfaces.
	InstanceFull Reason = "InstanceFull"
	// InstanceOutsideCluster: the instance that the Node names has none of the tags of the cluster's instances.
	InstanceOutsideCluster Reason = "InstanceOutsideCluster"
	// AddressLimit: one interface of the instance type does not support the requested number of addresses.
	AddressLimit Reason = "AddressLimit"
	// SubnetFull: the subnet has no free addresses.
	SubnetFull Reason = "SubnetFull"
	// NoFreePrefix: the subnet has no free block for a prefix. It can have free addresses.
	NoFreePrefix Reason = "NoFreePrefix"
	// LimitReached: EC2 reports a quota of the account or a limit of the instance.
	LimitReached Reason = "LimitReached"
	// Unauthorized: the controller's role does not allow the call.
	Unauthorized Reason = "Unauthorized"
	// RefusedByEC2: EC2 refuses the request.
	RefusedByEC2 Reason = "RefusedByEC2"
	// TooManyUnattached: too many interfaces of the cluster are unattached, so the controller creates no more.
	TooManyUnattached Reason = "TooManyUnattached"
	// AttachedElsewhere: a user or another program attached the interface to another instance.
	AttachedElsewhere Reason = "AttachedElsewhere"
	// AttachStuck: EC2 did not complete several attempts to attach the interface.
	AttachStuck Reason = "AttachStuck"
	// Reverted: EC2 accepted a change of the interface more than once, and another program reverts it.
	Reverted Reason = "Reverted"
	// Drifted: only a replacement can correct the interface, and the NodeENI does not allow one.
	Drifted Reason = "Drifted"
	// Orphaned: the interface's NodeENI does not exist any more; the controller detaches it after a grace period.
	Orphaned Reason = "Orphaned"
)

// Transient reasons.
const (
	// InstanceNotReady: the state of the instance does not allow attachments yet.
	InstanceNotReady Reason = "InstanceNotReady"
	// Throttled: EC2 throttled the last call.
	Throttled Reason = "Throttled"
	// Retrying: the last call failed, and the controller retries.
	Retrying Reason = "Retrying"
	// NotVisible: EC2's last answer omitted the interface; the controller reads it again.
	NotVisible Reason = "NotVisible"
	// InProgress: EC2 is changing the interface.
	InProgress Reason = "InProgress"
	// RemovedExternally: a user or another program removed the interface shortly after its creation. The planner waits
	// before it creates the next one.
	RemovedExternally Reason = "RemovedExternally"
	// Replacing: only a replacement can correct the interface, and it waits for its turn in the rollout.
	Replacing Reason = "Replacing"
	// Removing: the interface is being removed.
	Removing Reason = "Removing"
	// AwaitsTurn: the object is being deleted, its NodeENI still wants an interface there, and maxUnavailable lets others
	// go first.
	AwaitsTurn Reason = "AwaitsTurn"
	// Retained: the interface stays as it is, because its removal is not confirmed.
	Retained Reason = "Retained"
	// AddressesKept: the interface keeps more addresses than its NodeENI asks for, because no record says that multieni
	// requested them.
	AddressesKept Reason = "AddressesKept"
	// AddressesInUse: the interface keeps more addresses than its NodeENI asks for, because pods may use them.
	AddressesInUse Reason = "AddressesInUse"
	// PrefixesLimited: the instance type supports fewer prefixes than the maximum for pods.
	PrefixesLimited Reason = "PrefixesLimited"
	// UnsupportedByType: the instance type does not support an ENA setting of the NodeENI. The interface works without it.
	UnsupportedByType Reason = "UnsupportedByType"
	// InUseByPods: the interface must be removed, and pods or programs may still use it.
	InUseByPods Reason = "InUseByPods"
	// EvictionRefused: the interface must be removed, and the API server refuses to evict a pod that uses it.
	EvictionRefused Reason = "EvictionRefused"
)

// Transient reports whether the reason disappears without an action by a person.
func (r Reason) Transient() bool {
	switch r {
	case InstanceNotReady, Throttled, Retrying, NotVisible, InProgress, RemovedExternally, Replacing, Removing,
		AwaitsTurn, AddressesKept,
		AddressesInUse, PrefixesLimited, UnsupportedByType, InUseByPods, EvictionRefused, "":
		return true
	default:
		return false
	}
}

// Supersedes reports whether a reason takes the place of an earlier one. That a subnet is full does not show that the
// instance has room again: only a read of the instance does.
func (r Reason) Supersedes(earlier Reason, read bool) bool {
	return read || earlier != InstanceFull || r != SubnetFull && r != NoFreePrefix
}
