// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/volatile"
	"github.com/multieni/multieni/internal/executor"
)

// The methods in this file are the steps on the state that all reconciliations share. Each holds the mutex.

// pastOf is the part of the volatile state that a plan for one instance uses.
type pastOf struct {
	backoffs        map[identity.Key]plan.Backoff
	repeatedUpdates plan.RepeatedUpdates
	subnetFullUntil map[plan.SubnetDemand]time.Time
}

func (r *Reconciler) volatileOf(instanceID string) pastOf {
	r.mu.Lock()
	defer r.mu.Unlock()
	return pastOf{r.state.Backoffs.Of(instanceID), r.state.RepeatedUpdates.Of(instanceID), r.state.FullSubnets.Until(r.Now())}
}

// recordOutcome records the outcome of a call for later plans of the instance and, where a subnet was full, of all.
func (r *Reconciler) recordOutcome(instanceID string, o executor.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	r.state.FullSubnets.Record(o.Action, o.Err, now)
	if o.Err != nil {
		r.state.Backoffs.Failed(instanceID, o.Action, o.Err, now)
		return
	}
	r.state.Backoffs.Succeeded(instanceID, o.Action.Of().Key)
	r.state.RepeatedUpdates.Accepted(instanceID, o.Action, now)
}

// keepVolatile drops what concerns instances and nodes that no longer exist.
func (r *Reconciler) keepVolatile(s *snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.AttachLatency.Keep(s.name, s.instances)
	if s.node == nil {
		r.state.StaleNodes.Forget(s.name)
	}
}

// forgetVolatile drops what concerns a node without interfaces.
func (r *Reconciler) forgetVolatile(s *snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Replacements.Release(s.name)
	for _, id := range s.instances {
		r.state.ForgetInstance(id)
	}
	r.state.LedgerWrites.End(s.name)
	r.state.StatusWrites.End(s.name)
}

func (r *Reconciler) lockInstance(instanceID, node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.InstanceLocks.TryLock(instanceID, node)
}

func (r *Reconciler) unlockInstance(instanceID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.InstanceLocks.Unlock(instanceID)
}

func (r *Reconciler) allowCreates(actions []plan.Action) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.FullSubnets.Allow(actions, r.Now())
}

// beginCreates counts the creates among the actions as in flight until end, unless the cluster has too many unattached
// interfaces. It counts first and asks the observer afterwards. A create of another node that ends meanwhile is thus in the
// count or in the inventory, or in both.
func (r *Reconciler) beginCreates(s *snapshot, actions []plan.Action) (end func(), ok bool) {
	r.mu.Lock()
	creates, before := r.state.Creates.Begin(actions)
	r.mu.Unlock()
	end = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.state.Creates.End(creates)
	}
	if creates > 0 && before+r.unattached(s) >= r.MaxUnattached {
		end()
		return nil, false
	}
	return end, true
}

func (r *Reconciler) mayReplace(nodeENIUID, node string, limit int, unavailable []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Replacements.Acquire(nodeENIUID, node, limit, unavailable)
}

func (r *Reconciler) releaseReplacements(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Replacements.Release(node)
}

func (r *Reconciler) addStale(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.StaleNodes.Add(node)
}

func (r *Reconciler) takeStale(node string) (stale bool, requeueAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.StaleNodes.Take(node, r.Now())
}

func (r *Reconciler) recordLatency(node, instanceID string, members []plan.Member) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.AttachLatency.Record(node, instanceID, members, r.Now())
}

func (r *Reconciler) isNewSkip(node *corev1.Node, nodeENI *v1alpha1.NodeENI, why error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.SkippedNodes.Report(node.Name, volatile.Skip{NodeUID: string(node.UID), NodeENIUID: string(nodeENI.UID), Why: why.Error()})
}

func (r *Reconciler) forgetSkips(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.SkippedNodes.Forget(node)
}

func (r *Reconciler) endDeferral(writes *volatile.Deferrals, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes.End(node)
}

// reconciles is how many reconciliations run at a time: those with a worker, and some without calls.
func (r *Reconciler) reconciles() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	width := r.workers.Width()
	return width + max(1, width/8)
}
