// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/ratelimit"
	"github.com/multieni/multieni/internal/executor"
)

// errNodeGone keeps calls from being made for a node that left while they waited for their turn, and errPaused where somebody
// wants nothing changed any more.
var (
	errNodeGone = errors.New("its node is gone, or is another one by now")
	errPaused   = errors.New("its node or a NodeENI that concerns it has been paused")
)

// workerSlot is one reconciliation's part in the semaphores.
type workerSlot struct {
	*Reconciler
	name   string
	inside bool
}

// visit begins a reconciliation.
func (r *Reconciler) visit(name string) *workerSlot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &workerSlot{Reconciler: r, name: name, inside: r.workers.Holds(name)}
}

// tryAcquire asks for a worker for some calls, and reports whether they may be made now. The priority is the context's.
func (v *workerSlot) tryAcquire(ctx context.Context, proposed []plan.Action) bool {
	if len(proposed) == 0 {
		return true
	}
	rank := ratelimit.FromContext(ctx).Rank
	for _, action := range proposed {
		rank.Class = max(rank.Class, executor.ClassOf(action))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	tryAcquire := v.workers.TryAcquire
	if awaited, _ := splitDeferrable(proposed); len(awaited) == 0 {
		tryAcquire = v.workers.TryAcquireDeferred
	}
	acquired := tryAcquire(rank)
	v.inside = v.inside || acquired
	return acquired
}

// enter asks to be let in for the calls that a plan intends. If they have to wait, that is noted for the report: of which
// members the plan says no more than what may turn out once the instance was looked at.
// A node of which nothing is known yet, and that has everything already, is looked at and told of at once.
func (s *snapshot) enter(ctx context.Context, p plan.Plan) bool {
	if awaited, _ := splitDeferrable(p.Proposed); s.state == nil && len(awaited) == 0 {
		return true
	}
	if s.workerSlot.tryAcquire(ctx, p.Proposed) {
		return true
	}
	if s.waiting == nil {
		s.waiting = map[identity.Key]bool{}
	}
	for _, action := range p.Proposed {
		if _, mends := action.(plan.Change); !mends {
			s.waiting[action.Of().Key] = true
		}
	}
	for _, m := range p.Members {
		if m.Interface == nil {
			s.waiting[m.Key] = true
		}
	}
	return false
}

// end ends a reconciliation, and returns who is let in for it. A node that was let in while this one ran stays inside,
// for the one that follows.
func (v *workerSlot) end() (admitted []string) {
	if !v.inside {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.workers.Release(v.name)
}

// Admitted returns the channel on which the names of nodes are sent whose turn has come: they are to be reconciled.
func (r *Reconciler) Admitted() <-chan string { return r.admitted }

// wakeWaiting tells nodes that they are let in, or that something is new. It does so whatever has become of the reconciliation: who
// is let in and not told would stay inside for ever. There is room for all of them even while nobody listens.
func (r *Reconciler) wakeWaiting(names []string) {
	for _, name := range names {
		r.admitted <- name
	}
}

// requestPriority says as whom the calls for a node wait for their turn: as long as it is there, and nobody pauses it.
func (r *Reconciler) requestPriority(ctx context.Context, s *snapshot) ratelimit.Request {
	t := ratelimit.Request{Rank: ratelimit.Rank{Name: s.name}}
	if s.node == nil {
		return t
	}
	uid := s.node.UID
	t.Since = s.node.CreationTimestamp.Time
	paused, unpaused := s.paused(), s.unpaused()
	t.StillValid = func() error {
		var now corev1.Node
		err := r.Client.Get(ctx, types.NamespacedName{Name: s.name}, &now)
		switch {
		case apierrors.IsNotFound(err) || err == nil && now.UID != uid:
			return errNodeGone
		case !paused && err == nil && controller.Paused(&now) || r.anyPaused(ctx, unpaused):
			return errPaused
		default:
			return nil
		}
	}
	return t
}

// unpaused returns the UIDs of the NodeENIs that concern the node and are not paused.
func (s *snapshot) unpaused() map[types.UID]bool {
	uids := map[types.UID]bool{}
	for n := range s.nodeENIs {
		nodeENI := &s.nodeENIs[n]
		if !controller.Paused(nodeENI) && (selects(nodeENI, s.node.Labels) || s.served(nodeENI.UID)) {
			uids[nodeENI.UID] = true
		}
	}
	return uids
}

// anyPaused reports whether one of some NodeENIs is paused by now.
func (r *Reconciler) anyPaused(ctx context.Context, uids map[types.UID]bool) bool {
	var all v1alpha1.NodeENIList
	err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy)
	return err == nil && slices.ContainsFunc(all.Items, func(n v1alpha1.NodeENI) bool { return uids[n.UID] && controller.Paused(&n) })
}
