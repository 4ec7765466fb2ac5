// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"slices"
	"sync"

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

// workerSlot is one reconciliation's use of the semaphores.
type workerSlot struct {
	r          *Reconciler
	instanceID string
	// rank is the priority of the instance's calls.
	rank ratelimit.Rank
	// inside is whether the instance has a worker.
	inside bool
}

// visit begins a reconciliation.
func (r *Reconciler) visit(instanceID string) *workerSlot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &workerSlot{r: r, instanceID: instanceID, inside: r.workers.Holds(instanceID)}
}

// tryAcquire asks for a worker for some calls, and reports whether the reconciliation may make them now.
func (v *workerSlot) tryAcquire(proposed []plan.Call) bool {
	if len(proposed) == 0 {
		return true
	}
	rank := v.rank
	for _, call := range proposed {
		rank.Class = max(rank.Class, executor.ClassOf(call))
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

// enter asks for a worker for the calls that a plan proposes. If they have to wait, it returns the objects that wait:
// their plan is provisional until the instance is read.
func (v *workerSlot) enter(p plan.Plan) (entered bool, waiting map[identity.UID]bool) {
	if v.tryAcquire(p.Proposed) {
		return true, nil
	}
	waiting = map[identity.UID]bool{}
	for _, call := range p.Proposed {
		if _, update := call.(plan.Change); !update {
			waiting[call.Of().UID] = true
		}
	}
	for _, s := range p.Interfaces {
		if s.Interface == nil {
			waiting[s.Key.UID] = true
		}
	}
	return false, waiting
}

// end ends a reconciliation, and returns the instances that get its workers. An instance that got a worker while this
// reconciliation ran keeps it for the next one.
func (v *workerSlot) end() (admitted []string) {
	if !v.inside {
		return nil
	}
	v.r.mu.Lock()
	defer v.r.mu.Unlock()
	return v.r.workers.Release(v.instanceID)
}

// prioritize sets the priority of the calls for an instance. The returned context carries it to the rate limiters.
func (v *workerSlot) prioritize(ctx context.Context, g *gathered) context.Context {
	request := v.r.requestPriority(ctx, v.instanceID, g)
	v.rank = request.Rank
	return ratelimit.WithRequest(ctx, request)
}

// requestPriority returns the priority of the calls for an instance, and whether they are still valid: its Node exists,
// and no user paused the Node or a NodeENI.
func (r *Reconciler) requestPriority(ctx context.Context, instanceID string, g *gathered) ratelimit.Request {
	t := ratelimit.Request{Rank: ratelimit.Rank{Name: instanceID}}
	if len(g.nodes) == 0 {
		return t
	}
	t.Since = g.nodes[0].CreationTimestamp.Time
	wasPaused := g.paused()
	t.StillValid = func() error {
		nodes, err := r.nodesOf(ctx, instanceID)
		now := gathered{nodes: nodes}
		switch {
		case err == nil && len(nodes) == 0:
			return errGone
		case !wasPaused && now.paused() || r.anyPaused(ctx, g):
			return errPaused
		default:
			return nil
		}
	}
	return t
}

// anyPaused reports whether any of the NodeENIs that were not paused is paused now.
func (r *Reconciler) anyPaused(ctx context.Context, g *gathered) bool {
	for name, was := range g.nodeENIs {
		if was == nil || controller.Paused(was) {
			continue
		}
		var now v1alpha1.NodeENI
		if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &now); err == nil && controller.Paused(&now) {
			return true
		}
	}
	return false
}

// isDeferrable reports whether nothing waits for a call: an interface is usable before its DeleteOnTermination and
// its tags are set.
func isDeferrable(call plan.Call) bool {
	change, _ := call.(plan.Change)
	_, is := change.To.(plan.DeleteOnTermination)
	return is || plan.WritesTags(call)
}

// splitDeferrable separates the calls that something waits for from the deferrable ones.
func splitDeferrable(calls []plan.Call) (awaited, trailing []plan.Call) {
	for _, call := range calls {
		if isDeferrable(call) {
			trailing = append(trailing, call)
		} else {
			awaited = append(awaited, call)
		}
	}
	return awaited, trailing
}

// attaches reports whether a call leads to the attachment of an interface.
func attaches(call plan.Call) bool {
	switch call.(type) {
	case plan.Create, plan.Attach:
		return true
	}
	return false
}

// runDeferred starts the deferred calls concurrently with the reconciliation, which goes on to report. The instance is
// reconciled again when the result changes a status.
func (v *workerSlot) runDeferred(ctx context.Context, trailing []plan.Call) {
	r := v.r
	if len(trailing) == 0 || !r.beginDeferred(v.rank) {
		return
	}
	rest, cancel := detached(ctx)
	r.Go(func(life context.Context) {
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		var outcomes []executor.Outcome
		err := panics.AsError("the deferred calls for instance "+v.instanceID, func() error {
			ctx, span := r.tracePlan(rest, v.instanceID, trailing)
			defer span.End()
			outcomes = r.Applier.Do(ctx, r.deferredInFlight(trailing))
			r.note(v.instanceID, outcomes)
			return nil
		})
		if err != nil {
			r.Log.Error("the deferred calls are left to the instance's next reconciliation", "instance", v.instanceID,
				"err", err)
		}
		again, admitted := r.endDeferred(v.instanceID)
		if again || slices.ContainsFunc(outcomes, r.needsReconcile) {
			admitted = append(admitted, v.instanceID)
		}
		r.wakeWaiting(admitted)
	})
}

// deferredInFlight omits the changes that deferred calls of an earlier plan of the instance have completed since.
func (r *Reconciler) deferredInFlight(trailing []plan.Call) []plan.Call {
	return slices.DeleteFunc(slices.Clone(trailing), func(call plan.Call) bool {
		change, is := call.(plan.Change)
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

// needsReconcile reports whether an outcome requires a reconciliation of the instance. While the interface is in
// transition, none is required: the observer triggers one at the end.
func (r *Reconciler) needsReconcile(o executor.Outcome) bool {
	change, is := o.Call.(plan.Change)
	if !is || o.Err != nil {
		return true
	}
	i, known := r.Observer.Interface(change.InterfaceID)
	return known && i.Attachment != nil && i.Attachment.Status == eni.AttachmentAttached
}

// beginDeferred begins an instance's deferred work, or reports that it has to wait. The instance is reconciled again
// when it may.
func (r *Reconciler) beginDeferred(rank ratelimit.Rank) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.workers.BeginDeferred(rank)
}

func (r *Reconciler) endDeferred(instanceID string) (again bool, admitted []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.workers.EndDeferred(instanceID)
}
