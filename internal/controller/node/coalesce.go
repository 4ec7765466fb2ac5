// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/volatile"
)

// How long a NodeENIState may stay as it was last written while interfaces of its node are in transition, so that one write
// tells of all of them: EC2 takes a few seconds to make and attach interfaces, and some more to detach and delete them. What
// a person, an agent or another node waits for is written at once.
const (
	attachStatusDelay = 10 * time.Second
	removeStatusDelay = 30 * time.Second
)

// deferStatus reports whether a write that can wait is put off now. The node is then reconciled again in time.
func (r *Reconciler) deferStatus(s *snapshot, writes *volatile.Deferrals) bool {
	within := removeStatusDelay
	if s.inTransition(func(m plan.Member) bool { return m.Why.Reason != plan.Removing }) {
		within = attachStatusDelay
	}
	r.mu.Lock()
	due := writes.Due(s.name, within, r.Now())
	r.mu.Unlock()
	if !r.Now().Before(due) {
		return false
	}
	s.replacement = sooner(s.replacement, due)
	return true
}

// canWait reports whether nobody waits for a change of the node's status, and more of it is to come.
func (s *snapshot) canWait(before, after v1alpha1.NodeENIStateStatus) bool {
	// Of what waits at a gate the status says what it said before.
	moving := len(s.waiting) > 0 || slices.ContainsFunc(after.Interfaces, inTransition)
	old := byKey(before.Interfaces)
	changed := false
	for _, now := range after.Interfaces {
		was := old[keyOf(now)]
		if equality.Semantic.DeepEqual(was, now) {
			continue
		}
		changed = true
		if s.agentAwaitsStatus(was, now) || s.rolloutAwaitsStatus(was, now) || !onlyTermination(was, now) && !isTransient(was, now, moving) {
			return false
		}
	}
	return changed || moving
}

// isTransient reports whether what is said of an interface changes soon or, once it is attached, can be told with the others. An
// interface that is gone before anybody heard of it would never be told of.
func isTransient(was, now v1alpha1.InterfaceState, moving bool) bool {
	if now.Reason == string(plan.Removing) && was.ENIID == "" {
		return false
	}
	return inTransition(now) || moving && now.Phase == v1alpha1.PhaseAttached && plan.Reason(now.Reason).Transient()
}

// inTransition reports whether what is said of an interface is about to change without anybody's help.
func inTransition(i v1alpha1.InterfaceState) bool {
	reason := plan.Reason(i.Reason)
	rests := i.Phase == v1alpha1.PhaseAttached && reason != plan.Removing
	return !rests && i.Phase != v1alpha1.PhaseBlocked && reason.Transient() && reason != plan.WaitingForDeviceRelease
}

// onlyTermination reports whether nothing but DeleteOnTermination is new: the call that sets it trails behind the attachment.
func onlyTermination(was, now v1alpha1.InterfaceState) bool {
	was.DeleteOnTermination = now.DeleteOnTermination
	return equality.Semantic.DeepEqual(was, now)
}

// lost reports whether an interface was attached and is not any more.
func lost(was, now v1alpha1.InterfaceState) bool {
	return was.Phase == v1alpha1.PhaseAttached && now.Phase != v1alpha1.PhaseAttached
}

// agentAwaitsStatus reports whether the agent on the node has to hear that an interface leaves: before its link vanishes.
func (s *snapshot) agentAwaitsStatus(was, now v1alpha1.InterfaceState) bool {
	return lost(was, now) &&
		slices.ContainsFunc(s.state.Status.Links, func(link v1alpha1.LinkState) bool { return link.ENIID == was.ENIID })
}

// rolloutAwaitsStatus reports whether other nodes have to hear that this one lost an interface that it is to have: they count for
// maxUnavailable, also with a controller that begins now.
func (s *snapshot) rolloutAwaitsStatus(was, now v1alpha1.InterfaceState) bool {
	return lost(was, now) && slices.ContainsFunc(s.plans, func(p plan.Plan) bool {
		return slices.ContainsFunc(p.Members, func(m plan.Member) bool { return m.Key == keyOf(now) && m.Desired })
	})
}

// inTransition reports whether EC2 is at work on any interface of the node that counts.
func (s *snapshot) inTransition(counts func(plan.Member) bool) bool {
	return slices.ContainsFunc(s.plans, func(p plan.Plan) bool {
		return slices.ContainsFunc(p.Members, func(m plan.Member) bool { return inTransition(s.interfaceState(m)) && counts(m) })
	})
}

// shrinks reports whether a ledger changes by nothing but what it does not speak of any more.
func shrinks(from, to v1alpha1.NodeENIStateSpec) bool {
	kept := func(id string, members []v1alpha1.Member) bool {
		before := ledgerOf(from, id)
		return !slices.ContainsFunc(members, func(m v1alpha1.Member) bool { return !slices.Contains(before, m) })
	}
	for _, previous := range to.PreviousInstances {
		if !kept(previous.InstanceID, previous.Members) {
			return false
		}
	}
	if !kept(to.InstanceID, to.Members) {
		return false
	}
	from.Members, from.PreviousInstances, to.Members, to.PreviousInstances = nil, nil, nil, nil
	return equality.Semantic.DeepEqual(from, to)
}
