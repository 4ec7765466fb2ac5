// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// errNodeGone ends calls for a node that no longer exists. errPaused ends calls for a node or NodeENI that a user
// paused while they waited in the queue.
var (
	errNodeGone = errors.New("its node is gone, or is another one by now")
	errPaused   = errors.New("its node or a NodeENI that concerns it has been paused")
)

// workerSlot is one reconciliation's use of the semaphores.
type workerSlot struct {
	r    *Reconciler
	name string
	// rank is the priority of the node's calls.
	rank ratelimit.Rank
	// inside is whether the node has a worker.
	inside bool
}

// visit begins a reconciliation.
func (r *Reconciler) visit(name string) *workerSlot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &workerSlot{r: r, name: name, inside: r.workers.Holds(name)}
}

// tryAcquire asks for a worker for some calls, and reports whether the reconciliation may make them now.
func (v *workerSlot) tryAcquire(proposed []plan.Action) bool {
	if len(proposed) == 0 {
		return true
	}
	rank := v.rank
	for _, action := range proposed {
		rank.Class = max(rank.Class, executor.ClassOf(action))
	}
	v.r.mu.Lock()
	defer v.r.mu.Unlock()
	tryAcquire := v.r.workers.TryAcquire
	if awaited, _ := splitDeferrable(proposed); len(awaited) == 0 {
		tryAcquire = v.r.workers.TryAcquireDeferred
	}
	acquired := tryAcquire(rank)
	v.inside = v.inside || acquired
	return acquired
}

// enter asks for a worker for the calls that a plan proposes. If they have to wait, it returns the members that wait:
// their plan is provisional until the instance is read. A node without a state and with only deferrable calls needs no
// worker.
func (v *workerSlot) enter(s *snapshot, p plan.Plan) (entered bool, waiting map[identity.Key]bool) {
	if awaited, _ := splitDeferrable(p.Proposed); s.state == nil && len(awaited) == 0 {
		return true, nil
	}
	if v.tryAcquire(p.Proposed) {
		return true, nil
	}
	waiting = map[identity.Key]bool{}
	for _, action := range p.Proposed {
		if _, update := action.(plan.Change); !update {
			waiting[action.Of().Key] = true
		}
	}
	for _, m := range p.Members {
		if m.Interface == nil {
			waiting[m.Key] = true
		}
	}
	return false, waiting
}

// end ends a reconciliation, and returns the nodes that get its workers. A node that got a worker while this
// reconciliation ran keeps it for the next one.
func (v *workerSlot) end() (admitted []string) {
	if !v.inside {
		return nil
	}
	v.r.mu.Lock()
	defer v.r.mu.Unlock()
	return v.r.workers.Release(v.name)
}

// prioritize sets the priority of the calls for a node. The returned context carries it to the rate limiters.
func (v *workerSlot) prioritize(ctx context.Context, s *snapshot) context.Context {
	request := v.r.requestPriority(ctx, s)
	v.rank = request.Rank
	return ratelimit.WithRequest(ctx, request)
}

// requestPriority returns the priority of the calls for a node, and whether they are still valid: the node exists, and
// no user paused it.
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

// anyPaused reports whether any of the NodeENIs is paused now.
func (r *Reconciler) anyPaused(ctx context.Context, uids map[types.UID]bool) bool {
	var all v1alpha1.NodeENIList
	err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy)
	return err == nil && slices.ContainsFunc(all.Items, func(n v1alpha1.NodeENI) bool {
		return uids[n.UID] && controller.Paused(&n)
	})
}

// isDeferrable reports whether nothing waits for an action: an interface is usable before its DeleteOnTermination and
// its tags are set.
func isDeferrable(action plan.Action) bool {
	change, _ := action.(plan.Change)
	_, is := change.To.(plan.DeleteOnTermination)
	return is || plan.WritesTags(action)
}

// splitDeferrable separates the actions that something waits for from the deferrable ones.
func splitDeferrable(actions []plan.Action) (awaited, trailing []plan.Action) {
	for _, action := range actions {
		if isDeferrable(action) {
			trailing = append(trailing, action)
		} else {
			awaited = append(awaited, action)
		}
	}
	return awaited, trailing
}

// attaches reports whether an action leads to the attachment of an interface.
func attaches(action plan.Action) bool {
	switch action.(type) {
	case plan.Create, plan.Attach:
		return true
	}
	return false
}

// runDeferred starts the deferred calls concurrently with the reconciliation, which goes on to report. The node is
// reconciled again when the result changes its status. The deletion of a NodeENI does not wait for these calls, except
// for those that write tags: they could make an interface its own after the deletion.
func (v *workerSlot) runDeferred(ctx context.Context, s *snapshot, instanceID string, p plan.Plan,
	trailing []plan.Action) {
	r := v.r
	if len(trailing) == 0 || !r.beginDeferred(v.rank) {
		return
	}
	rest, cancel := detached(ctx)
	leave := func() {}
	if slices.ContainsFunc(trailing, plan.WritesTags) {
		leave = r.InFlight.Enter()
	}
	r.Go(func(life context.Context) {
		defer leave()
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		var outcomes []executor.Outcome
		err := panics.AsError("the deferred calls for node "+s.name, func() error {
			ctx, span := r.tracePlan(rest, s.name, instanceID, p)
			defer span.End()
			outcomes = r.Applier.Do(ctx, r.deferredInFlight(trailing))
			r.note(s, instanceID, outcomes)
			return nil
		})
		if err != nil {
			r.Log.Error("the deferred calls are left to the node's next reconciliation", "node", s.name, "err", err)
		}
		again, admitted := r.endDeferred(s.name)
		if again || slices.ContainsFunc(outcomes, r.needsReconcile) {
			admitted = append(admitted, s.name)
		}
		r.wakeWaiting(admitted)
	})
}

// deferredInFlight omits the changes that deferred calls of an earlier plan of the node have completed since.
func (r *Reconciler) deferredInFlight(trailing []plan.Action) []plan.Action {
	return slices.DeleteFunc(slices.Clone(trailing), func(action plan.Action) bool {
		change, is := action.(plan.Change)
		if !is {
			return false
		}
		i, known := r.Observer.Interface(change.InterfaceID)
		return known && change.To.IsSatisfiedBy(i)
	})
}

// detached returns a context that does not end with the reconciliation of the given one, but keeps its deadline.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(context.WithoutCancel(ctx), deadline)
	}
	return context.WithCancel(context.WithoutCancel(ctx))
}

// Start implements [manager.Runnable]: it runs the deferred work of reconciliations.
func (r *Reconciler) Start(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case work := <-r.background:
			all.Go(func() { work(ctx) })
		case <-ctx.Done():
			return nil
		}
	}
}

// needsReconcile reports whether an outcome requires a reconciliation of the node. While the interface is in
// transition, none is required: the observer triggers one at the end.
func (r *Reconciler) needsReconcile(o executor.Outcome) bool {
	change, is := o.Action.(plan.Change)
	if !is || o.Err != nil {
		return true
	}
	i, known := r.Observer.Interface(change.InterfaceID)
	return known && i.Attachment != nil && i.Attachment.Status == eni.AttachmentAttached
}

// beginDeferred begins a node's deferred work, or reports that it has to wait. The node is reconciled again when it
// may.
func (r *Reconciler) beginDeferred(rank ratelimit.Rank) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.workers.BeginDeferred(rank)
}

func (r *Reconciler) endDeferred(node string) (again bool, admitted []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.workers.EndDeferred(node)
}

// note records and logs the outcomes, and emits Events for forced detaches.
func (r *Reconciler) note(s *snapshot, instanceID string, outcomes []executor.Outcome) {
	for _, o := range outcomes {
		r.recordOutcome(instanceID, o)
		log := r.Log.With("node", s.name, "nodeeni", o.Action.Of().NodeENI, "action", o.Action.String())
		if o.Err == nil {
			log.Info("carried out")
			continue
		}
		log.Warn("could not be carried out", "class", eni.ErrorClass(o.Err), "err", o.Err)
	}
	r.announceForce(s, outcomes)
}
