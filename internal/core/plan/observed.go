// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// Observed is the observed state of one instance.
type Observed struct {
	// Owned are the interfaces that were created for this instance, as the inventory has them.
	Owned []inventory.Record
	// Launched are the launch interfaces of the instance, as last known.
	Launched []eni.Interface
	// Snapshot is a fresh read of the instance. Without one there are no actions: a plan with calls sets NeedsDescribe
	// instead, so that no call depends on cached state alone.
	Snapshot *eni.InstanceSnapshot
	// NodeRegistered is set if the API server has a Node for the instance: its kubelet and so the instance runs, although
	// EC2 may return the state running a second or two later.
	NodeRegistered bool
	// Limits are those of the instance type.
	Limits eni.Limits
	// Ledger holds the stored generation of each member.
	Ledger identity.Generations
	// Requested has, by interface ID, the addresses and prefixes that EC2's answers to our calls named. The planner
	// unassigns only these.
	Requested map[string]eni.Addresses
	// UsedGenerations has the highest generation of each member that cannot be used again.
	UsedGenerations identity.Generations
	// RemovedExternally has the times at which interfaces of members disappeared without a call of ours.
	RemovedExternally map[identity.Key]time.Time
	// Era is the era of this process. Calls of earlier leaders may take effect without being known.
	Era era.Era
	// CreationBlocked says why the controller may create no interface in the cluster at present; empty if it may.
	CreationBlocked string
	// Backoffs are the last failures of each member.
	Backoffs map[identity.Key]Backoff
	// MissingSince is the time of EC2's first answer that it does not know the instance; zero if it knows it.
	MissingSince time.Time
	// InFlight are the calls of earlier plans without an answer. Their effects are expected (see [Observed.Expected]), and
	// actions that depend on an answer wait for it.
	InFlight []Action
	// DetachBlocked says, by interface ID, why the node has not released an interface yet: a program in user space uses
	// its device. The planner does not detach it meanwhile.
	DetachBlocked map[string]string
	// PodNetworks has, by interface ID, the agent's report about the pods that use an interface.
	PodNetworks map[string]PodNetwork
	// ListedPrefixes has, by interface ID, the prefixes that NodeENIStates list, so that pods may use them.
	ListedPrefixes map[string][]netip.Prefix
	// PodsDraining has, by interface ID, the interfaces that are networks for pods on the node. The value is true if the
	// node must drain the network.
	PodsDraining map[string]bool
	// PodsOpened has, by interface ID, the networks that the agent may have opened to pods. Until it reports such a
	// network as drained, pods may use the interface: a missing report proves nothing.
	PodsOpened map[string]bool
	// Floating has, by interface ID, the addresses that follow the pods which bring them up.
	Floating map[string]Floating
	// ReportsLost has, by ID, the interfaces that are older than the record of the agent's reports: a report about them
	// may be lost. An interface that the record does not list as a network for pods by the given time is none.
	ReportsLost map[string]time.Time
	// RepeatedUpdates are the changes that EC2 accepted.
	RepeatedUpdates RepeatedUpdates
	// FullSubnets are the subnets in which a NodeENI temporarily creates no interface.
	FullSubnets map[SubnetDemand]FullSubnet
}

// Ended reports whether the instance has ended, or has been unknown to EC2 for so long that it counts as ended.
func (o Observed) Ended(now time.Time) bool {
	if o.Snapshot == nil {
		return false
	}
	state := o.Snapshot.Instance.State
	return state.Terminating() || state == eni.InstanceMissing && !o.MissingSince.IsZero() &&
		now.Sub(o.MissingSince) >= InstanceGrace
}

// SubnetDemand is the demand of a NodeENI in a subnet. A subnet can be full for one demand and not for another:
// prefixes need contiguous blocks.
type SubnetDemand struct {
	Owner    identity.Owner
	SubnetID string
	// Prefixes is set if the interface is created with prefixes.
	Prefixes bool
}

// FullSubnet is a subnet without room for a demand.
type FullSubnet struct {
	// Until is the time before which the NodeENI creates no interface in the subnet.
	Until time.Time
	// Class says what the subnet lacks: [eni.NoAddresses] or [eni.NoPrefixes].
	Class eni.Class
}

// DemandOf returns the demand of an interface to create.
func DemandOf(owner identity.Owner, subnetID string, spec eni.Spec) SubnetDemand {
	return SubnetDemand{Owner: owner, SubnetID: subnetID, Prefixes: hasPrefixes(spec)}
}

func hasPrefixes(spec eni.Spec) bool { return spec.IPv4Prefixes > 0 || spec.IPv6Prefixes > 0 }

// IsFull reports whether a failure of the class says that a subnet has no room.
func IsFull(class eni.Class) bool { return class == eni.NoAddresses || class == eni.NoPrefixes }

// isHeld reports whether the node has not released the device of an interface yet.
func (o Observed) isHeld(id string) bool {
	_, is := o.DetachBlocked[id]
	return is
}
