// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gc finds orphans: interfaces whose NodeENI does not exist.
//
// The collector only decides; the node reconciler removes. A NodeENI counts as deleted after two reads of the API
// server, at least [identity.ConfirmInterval] apart. Each read begins after a list of EC2, so that an interface is
// never newer than the absence of its owner. The reads bypass every cache. A failed read does not count as an absence.
//
// If many interfaces in use are orphans at once, the NodeENIs were probably lost. The attached ones then stay for
// [identity.MassLossGrace], and [Collector.MassLoss] reports it. An orphan of a mass loss keeps this grace period after
// the other NodeENIs exist again, so that a user who creates them one by one does not lose the interfaces of the last
// one. A leader that starts after that detects the loss by interfaces that are older than their NodeENIs
// ([identity.IsAdopted]).
package gc

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// Options are the settings of a Collector.
type Options struct {
	// Reader reads from the API server itself, not from a cache.
	Reader client.Reader
	// Period is the time between two passes while no owner is missing.
	Period time.Duration
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
	// Traces receives the spans of passes; nil for no tracing.
	Traces trace.TracerProvider
}

// Collector is safe for concurrent use.
type Collector struct {
	Options
	// mu guards missing and gone.
	mu sync.Mutex
	// missing are the absences of the owners that a list did not have. gone are the owners that a later list did not have
	// either: garbage collection deletes their interfaces.
	missing map[identity.Owner]Missing
	gone    map[identity.Owner]bool
}

// New returns a Collector without missing owners.
func New(options Options) *Collector {
	return &Collector{Options: options, missing: map[identity.Owner]Missing{}, gone: map[identity.Owner]bool{}}
}

// Missing is the absence of a NodeENI.
type Missing struct {
	// Since is when a list first lacked it; Grace is how long from then on its attached interfaces stay.
	Since time.Time
	Grace time.Duration
	// logged is the last grace period in the log.
	logged time.Duration
}

// Gone reports whether two lists have confirmed that the owner does not exist.
func (s *Collector) Gone(owner identity.Owner) (a Missing, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missing[owner], s.gone[owner]
}

// MassLoss reports whether so many orphans were in use at once that their NodeENIs were probably lost, not deleted.
func (s *Collector) MassLoss() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, absence := range s.missing {
		if absence.Grace == identity.MassLossGrace {
			return true
		}
	}
	return false
}

// Leaks returns how many interfaces are known to belong to NodeENIs that do not exist.
func (s *Collector) Leaks(watch *observer.Observer) int {
	return watch.CountOf(func(owner identity.Owner) bool {
		_, gone := s.Gone(owner)
		return gone
	})
}

// Run evaluates all NodeENIs once, right after a list of EC2, and enqueues the nodes with interfaces to remove. It
// returns when to run again.
func (s *Collector) Run(ctx context.Context, watch *observer.Observer) time.Duration {
	ctx, end := controller.Trace(ctx, s.Traces, "sweep")
	next, err := s.pass(ctx, watch)
	if err != nil {
		s.Log.Warn("garbage collection skips this pass", "err", err)
		next = s.Period
	}
	trace.SpanFromContext(ctx).SetAttributes(attribute.Int("multieni.leaked_interfaces", s.Leaks(watch)))
	end(err)
	return next
}

func (s *Collector) pass(ctx context.Context, watch *observer.Observer) (time.Duration, error) {
	// Pre-join interfaces are removed with their instance.
	owners := slices.DeleteFunc(watch.Owners(), identity.Owner.IsNetwork)
	s.forget(owners)
	if len(owners) == 0 {
		return s.Period, nil
	}
	alive, err := s.alive(ctx)
	if err != nil {
		return 0, err
	}
	orphans, grace := s.grace(watch, alive)
	gone, next := s.evaluateAll(owners, alive, grace)
	for _, owner := range gone {
		if !watch.Holds(owner) {
			continue // what is left has only tags as evidence, and stays
		}
		if grace, isNews := s.news(owner); isNews {
			s.Log.Warn("interfaces of a NodeENI that does not exist are removed", "uid", owner, "inUse", orphans,
				"thoseInUseAfter", grace)
		}
		watch.EnqueueOwner(ctx, owner)
	}
	return next, nil
}

// grace returns how many interfaces in use are orphans, and how long they stay. The grace period also counts adopted
// interfaces, which were orphans until then.
func (s *Collector) grace(
	watch *observer.Observer, alive map[identity.Owner]time.Time,
) (orphans int, grace time.Duration) {
	now, takenOver := s.Now(), 0
	attached := watch.Attached(func(r inventory.Record) bool {
		created, there := alive[r.Member.Owner]
		switch {
		case r.Member.Owner.IsNetwork():
		case !there:
			orphans++
		case identity.IsAdopted(r.Tags, created, now):
			takenOver++
		}
		return true
	})
	return orphans, identity.OrphanGrace(orphans+takenOver, attached)
}

// evaluateAll records one list of all NodeENIs. It returns the owners whose interfaces garbage collection deletes, and
// when to list again.
func (s *Collector) evaluateAll(
	owners []identity.Owner, alive map[identity.Owner]time.Time, grace time.Duration,
) (gone []identity.Owner, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = s.Period
	for _, owner := range owners {
		_, there := alive[owner]
		switch isGone, isMissing := s.evaluate(owner, there, grace); {
		case isGone:
			gone = append(gone, owner)
		case isMissing:
			next = min(next, identity.ConfirmInterval)
		}
	}
	return gone, next
}

// evaluate records one read of one NodeENI.
func (s *Collector) evaluate(owner identity.Owner, alive bool, grace time.Duration) (gone, missing bool) {
	now := s.Now()
	if alive {
		delete(s.missing, owner)
		delete(s.gone, owner)
		return false, false
	}
	absence, known := s.missing[owner]
	if !known {
		absence.Since = now
	}
	absence.Grace = max(absence.Grace, grace)
	s.missing[owner] = absence
	if now.Sub(absence.Since) >= identity.ConfirmInterval {
		s.gone[owner] = true
	}
	return s.gone[owner], true
}

// news returns the grace period of a NodeENI's interfaces, and whether the log lacks it.
func (s *Collector) news(owner identity.Owner) (grace time.Duration, isNews bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	absence := s.missing[owner]
	isNews = absence.logged != absence.Grace
	absence.logged = absence.Grace
	s.missing[owner] = absence
	return absence.Grace, isNews
}

// forget drops the state of NodeENIs that have no interface left.
func (s *Collector) forget(owners []identity.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for owner := range s.missing {
		if _, left := slices.BinarySearch(owners, owner); !left {
			delete(s.missing, owner)
			delete(s.gone, owner)
		}
	}
}

// alive returns the creation times of the existing NodeENIs by UID.
func (s *Collector) alive(ctx context.Context) (map[identity.Owner]time.Time, error) {
	var all v1alpha1.NodeENIList
	if err := s.Reader.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list NodeENIs: %w", err)
	}
	alive := make(map[identity.Owner]time.Time, len(all.Items))
	for n := range all.Items {
		alive[identity.Owner(all.Items[n].UID)] = all.Items[n].CreationTimestamp.Time
	}
	return alive, nil
}
