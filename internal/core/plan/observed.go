// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
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
	// Stored has, by interface ID, what the API server stores about interfaces.
	Stored map[string]Stored
	// UsedGenerations has the highest generation of each member that cannot be used again.
	UsedGenerations identity.Generations
	// RemovedExternally has the times at which interfaces of members disappeared without a call of ours.
	RemovedExternally map[identity.Key]time.Time
	// Era is the era of this process. Calls of earlier leaders may take effect without being known.
	Era era.Era
	// CreationBlocked says why the controller may create no interface in the cluster at present; empty if it may.
	CreationBlocked string
	// Attempts are the results of earlier calls.
	Attempts
	// MissingSince is the time of EC2's first answer that it does not know the instance; zero if it knows it.
	MissingSince time.Time
	// InFlight are the calls of earlier plans without an answer. Their effects are expected (see [Observed.Expected]), and
	// actions that depend on an answer wait for it.
	InFlight []Action
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
