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

// classes are the classes of work that have a gate, each half as wide as the one before.
var classes = [...]ratelimit.Class{ratelimit.Attach, ratelimit.Removal, ratelimit.Update}

// workers let so many nodes at a time have calls made as EC2's request rates can keep busy, each class of work on its own.
// The nodes that are not let in occupy no worker, hold no look that grows old, and are in an order that the newest comes
// first in.
type workers struct {
	mu      sync.Mutex
	byClass map[ratelimit.Class]*ratelimit.PrioritySemaphore
	sum     int
	// trailing is the gate of work that no reconciliation waits for. Of the nodes for which some is under way, underWay
	// says whether more was asked for meanwhile.
	trailing *ratelimit.PrioritySemaphore
	underWay map[string]bool
}

// newGates returns gates of which that for new nodes has the given width.
func newGates(joining int) *workers {
	g := &workers{byClass: map[ratelimit.Class]*ratelimit.PrioritySemaphore{}, trailing: ratelimit.NewGate(max(1, joining)), underWay: map[string]bool{}}
	for n, class := range classes {
		width := max(1, joining>>n)
		g.byClass[class] = ratelimit.NewGate(width)
		g.sum += width
	}
	return g
}

// width is how many reconciliations may run at a time: those that were let in, and some that have no calls to make.
func (g *workers) width() int { return g.sum + max(1, g.sum/8) }

// workerSlot is one reconciliation's standing at the gates.
type workerSlot struct {
	gates  *workers
	name   string
	inside bool
}

// visit begins a reconciliation.
func (g *workers) visit(name string) *workerSlot {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := &workerSlot{gates: g, name: name, inside: g.trailing.Holders(name)}
	for _, class := range classes {
		v.inside = v.inside || g.byClass[class].Holders(name)
	}
	return v
}

// tryAcquire asks to be let in for some calls, and reports whether they may be made now. The ticket is the context's.
func (v *workerSlot) tryAcquire(ctx context.Context, intents []plan.Action) bool {
	if len(intents) == 0 {
		return true
	}
	rank := ratelimit.FromContext(ctx).Rank
	for _, action := range intents {
		rank.Class = max(rank.Class, executor.ClassOf(action))
	}
	v.gates.mu.Lock()
	defer v.gates.mu.Unlock()
	enter := v.gates.byClass[rank.Class].TryAcquire
	if awaited, _ := splitDeferrable(intents); len(awaited) == 0 {
		enter = v.gates.enterTrailing
	}
	entered := enter(rank)
	v.inside = v.inside || entered
	return entered
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
	v.gates.mu.Lock()
	defer v.gates.mu.Unlock()
	for _, class := range classes {
		admitted = append(admitted, v.gates.byClass[class].Release(v.name)...)
	}
	if _, underWay := v.gates.underWay[v.name]; !underWay {
		admitted = append(admitted, v.gates.trailing.Release(v.name)...)
	}
	return admitted
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
