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

// InstanceGrace is the time for which the planner waits for an instance that EC2 does not know. Describe calls can omit
// new instances for a while (EC2 API reference, "Eventual consistency").
const InstanceGrace = 2 * time.Minute

// Facts are what is known of one instance besides its objects.
type Facts struct {
	// Snapshot is a fresh read of the instance. Without one there are no calls: a plan with calls sets NeedsRead instead,
	// so that no call depends on cached state alone.
	Snapshot *eni.InstanceSnapshot
	// Interfaces are the interfaces whose tags name the instance, as the inventory has them.
	Interfaces []inventory.Record
	// Launched are the launch interfaces of the instance, as last known.
	Launched []inventory.Record
	// Limits are those of the instance type.
	Limits eni.Limits
	// Attempts are the results of earlier calls, by interface.
	Attempts map[identity.UID]Attempts
	// FullSubnets are the subnets in which a NodeENI temporarily creates no interface.
	FullSubnets map[SubnetDemand]FullSubnet
	// InFlight are the calls of earlier plans without an answer. Their effects are expected, and calls that depend on an
	// answer wait for it.
	InFlight []Call
	// CreationBlocked says why the controller may create no interface in the cluster at present; empty if it may.
	CreationBlocked string
	// MissingSince is the time of EC2's first answer that it does not know the instance; zero if it knows it.
	MissingSince time.Time
	// Era is the era of this process. Calls of earlier leaders may take effect without being known.
	Era era.Era
	// Repairs are differences of launch interfaces to update in place.
	Repairs []InPlaceUpdate
	// InstanceTags are tags; an instance without one of them gets no interface. If empty, every instance gets interfaces.
	InstanceTags []eni.InstanceTag
}

// Ended reports whether the instance has ended, or has been unknown to EC2 for so long that it counts as ended.
func (f Facts) Ended(now time.Time) bool {
	if f.Snapshot == nil {
		return false
	}
	state := f.Snapshot.Instance.State
	return state.Terminating() || state == eni.InstanceMissing && !f.MissingSince.IsZero() &&
		now.Sub(f.MissingSince) >= InstanceGrace
}

// InPlaceUpdate is the desired attributes of a launch interface; nil attributes stay as they are.
type InPlaceUpdate struct {
	InterfaceID string
	// Owner is the AWSNodeTemplate, by name and UID.
	Owner, OwnerUID            string
	Description                *string
	Groups                     []string
	DeleteOnTermination        *bool
	IPv4Prefixes, IPv6Prefixes *int
	// ConnectionTracking and ENAExpress leave as they are what they do not set.
	ConnectionTracking eni.ConnectionTracking
	ENAExpress         eni.ENAExpress
	// Tags are added to those of the interface.
	Tags map[string]string
}

// SubnetDemand is the demand of a NodeENI in a subnet. A subnet can be full for one demand and not for another:
// prefixes need contiguous blocks.
type SubnetDemand struct {
	NodeENI, SubnetID string
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
func DemandOf(nodeENI, subnetID string, spec eni.Spec) SubnetDemand {
	return SubnetDemand{NodeENI: nodeENI, SubnetID: subnetID, Prefixes: hasPrefixes(spec)}
}

func hasPrefixes(spec eni.Spec) bool { return spec.IPv4Prefixes > 0 || spec.IPv6Prefixes > 0 }

// IsFull reports whether a failure of the class says that a subnet has no room.
func IsFull(class eni.Class) bool { return class == eni.NoAddresses || class == eni.NoPrefixes }
