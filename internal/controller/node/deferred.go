// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"
	"sync"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/ratelimit"
	"github.com/multieni/multieni/internal/executor"
	"github.com/multieni/multieni/internal/panics"
)

// isDeferrable reports whether nothing waits for an action: an interface is as good before its DeleteOnTermination is set, and before
// its tags are as they are to be.
func isDeferrable(action plan.Action) bool {
	change, _ := action.(plan.Change)
	_, is := change.To.(plan.DeleteOnTermination)
	return is || plan.WritesTags(action)
}

// splitDeferrable parts the actions that something waits for from those that trail behind.
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

// runDeferred has what trails behind carried out beside the reconciliation, which goes on to report. The node is reconciled again
// when there is something to say of the result. A NodeENI that is deleted meanwhile does not wait for these calls, but for
// those that write tags: an interface could come to be its own when it is gone.
func (r *Reconciler) runDeferred(ctx context.Context, s *snapshot, instanceID string, p plan.Plan, trailing []plan.Action) {
	if len(trailing) == 0 || !r.beginDeferred(ratelimit.FromContext(ctx).Rank) {
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
		err := panics.AsError("what trails behind the plan of node "+s.name, func() error {
			ctx, span := r.tracePlan(rest, s.name, instanceID, p)
			defer span.End()
			outcomes = r.Applier.Do(ctx, r.deferredInFlight(trailing))
			r.note(s, instanceID, outcomes)
			return nil
		})
		if err != nil {
			r.Log.Error("what trails behind is left to the node's next reconciliation", "node", s.name, "err", err)
		}
		again, admitted := r.endDeferred(s.name)
		if again || slices.ContainsFunc(outcomes, r.needsReconcile) {
			admitted = append(admitted, s.name)
		}
		r.wakeWaiting(admitted)
	})
}

// deferredInFlight leaves out what has been carried out since it was planned: by what trailed behind an earlier plan of the node.
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

// detached returns a context that does not end with the reconciliation that has the given one. Its deadline holds all the same.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(context.WithoutCancel(ctx), deadline)
	}
	return context.WithCancel(context.WithoutCancel(ctx))
}

// Start implements [manager.Runnable]: it carries out what trails behind reconciliations.
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

// needsReconcile reports whether a node is to be reconciled for an outcome. It need not be while the interface is in
// transition: the observer tells of its end.
func (r *Reconciler) needsReconcile(o executor.Outcome) bool {
	change, is := o.Action.(plan.Change)
	if !is || o.Err != nil {
		return true
	}
	i, known := r.Observer.Interface(change.InterfaceID)
	return known && i.Attachment != nil && i.Attachment.Status == eni.AttachmentAttached
}

// beginDeferred begins a node's deferred work, or reports that it has to wait. The node is reconciled again when it may.
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
