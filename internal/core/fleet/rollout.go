// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// Rollout says how far the rollouts of all NodeENIs have got on one instance.
type Rollout struct {
	// Unsettled are the owners of interfaces that the instance lacks. No interface is replaced meanwhile.
	Unsettled []identity.Owner
	// Candidate is the owner of the interface to replace next; empty if there is none.
	Candidate identity.Owner
	// next is the index of that interface.
	next int
}

// Next selects at most one interface with drift for replacement, and none while the instance lacks another one.
func Next(d plan.Desired, o plan.Observed, now time.Time) Rollout {
	var r Rollout
	var drifted []int
	for n, i := range d.Interfaces {
		switch {
		case i.IsUnsettled(d.InstanceID), isHeldBack(i, d.InstanceID):
			r.Unsettled = append(r.Unsettled, i.Owner)
		case mayBeReplaced(i):
			drifted = append(drifted, n)
		}
	}
	outside := o.Snapshot != nil && plan.OutsideCluster(o.Snapshot.Instance, d.InstanceTags) != nil
	if len(drifted) == 0 || len(r.Unsettled) > 0 || outside {
		return r
	}
	slots := plan.ObservedSlots(d, o, now)
	for _, n := range drifted {
		if slots.FreeFor(d.Interfaces[n]) {
			r.Candidate, r.next = d.Interfaces[n].Owner, n
			break
		}
	}
	return r
}

// isHeldBack reports whether an interface exists and does not reach its instance for now: its NodeENI was paused, or a
// selector lost its answer, after it was detached for a replacement.
func isHeldBack(i plan.Interface, instanceID string) bool {
	return i.Goal == plan.Retain && i.Record != nil && !i.Owner.IsNetwork() &&
		(i.Record.Attachment == nil || i.Record.AttachedTo(instanceID) && !i.Record.Ready())
}

// mayBeReplaced reports whether a live interface with drift may be replaced. The NodeENI allows it, and everything is
// known that a new interface needs: a partial answer to the selectors is no reason to replace one. The interface is in
// no transition, and its tags name its NodeENI: an adopted interface without those tags is retained like any other
// interface in use of a lost NodeENI.
func mayBeReplaced(i plan.Interface) bool {
	return i.Settings != nil && i.Record != nil && len(i.Drift) > 0 && i.ReplaceAllowed && i.AllResolved &&
		i.SecurityGroupProblem == nil && !i.Record.Missing && i.Record.Tags[identity.TagNodeENIUID] == string(i.Owner)
}

// Decide returns the desired state with the decision about the candidate: the interface is released, or it waits.
func (r Rollout) Decide(d plan.Desired, p Permission) plan.Desired {
	if r.Candidate == "" {
		return d
	}
	d.Replacement = plan.Replacement{Owner: r.Candidate, Denied: p.Denied}
	if p.Granted {
		d.Interfaces = slices.Clone(d.Interfaces)
		i := &d.Interfaces[r.next]
		i.Goal, i.Why.Message = plan.Release, "it is replaced: "+i.Drift[0].String()
	}
	return d
}

// Owners returns the owners whose rollout has not ended on the instance: they lack an interface, or replace or remove
// one. A retained interface without an attachment counts as lacking until a user ends the pause.
func (r Rollout) Owners(p plan.Plan) []identity.Owner {
	owners := append(slices.Clone(r.Unsettled), r.Candidate, EvictCandidate(p))
	for _, m := range p.Members {
		if m.Why.Reason == plan.Retained && m.Phase != plan.Attached {
			owners = append(owners, m.Owner)
		}
	}
	return slices.DeleteFunc(owners, func(owner identity.Owner) bool { return owner == "" })
}
