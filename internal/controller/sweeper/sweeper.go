// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sweeper finds interfaces that nothing wants any more: their NodeENI does not exist.
//
// It only convicts; the node reconciler removes. A NodeENI is convicted of not existing after two looks at the API
// server, [ownership.SightingGap] apart, each begun after a listing of EC2: an interface is thus always older news than
// the absence of its owner. The looks bypass every cache. What cannot be read convicts nobody.
package sweeper

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
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/observer"
	"github.com/multieni/multieni/ownership"
)

// Options are what a Sweeper works with.
type Options struct {
	// Reader reads the API server itself, not a cache.
	Reader client.Reader
	// Period is the time between two passes while nothing is suspected.
	Period time.Duration
	// Now tells the time.
	Now func() time.Time
	Log *slog.Logger
	// Traces is where spans of passes go; nowhere if nil.
	Traces trace.TracerProvider
}

// Sweeper is safe for concurrent use.
type Sweeper struct {
	Options
	mu sync.Mutex
	// suspects holds since when a NodeENI's UID is missed; convicts are those found missing again long enough after.
	suspects map[string]time.Time
	convicts map[string]bool
}

// New returns a Sweeper that suspects nothing.
func New(options Options) *Sweeper {
	return &Sweeper{Options: options, suspects: map[string]time.Time{}, convicts: map[string]bool{}}
}

// Gone reports whether it is confirmed that no NodeENI has the UID, and when it was first missed.
func (s *Sweeper) Gone(uid string) (since time.Time, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspects[uid], s.convicts[uid]
}

// Leaks returns how many interfaces are known to belong to NodeENIs that do not exist.
func (s *Sweeper) Leaks(watch *observer.Observer) int {
	return watch.CountOf(func(uid string) bool {
		_, gone := s.Gone(uid)
		return gone
	})
}

// Pass looks once, right after a listing of EC2, tells the nodes that have something to remove, and returns when to
// look again.
func (s *Sweeper) Pass(ctx context.Context, watch *observer.Observer) time.Duration {
	ctx, end := controller.Trace(ctx, s.Traces, "sweep")
	next, err := s.pass(ctx, watch)
	if err != nil {
		s.Log.Warn("no leaks are looked for this time", "err", err)
		next = s.Period
	}
	trace.SpanFromContext(ctx).SetAttributes(attribute.Int("multieni.leaked_interfaces", s.Leaks(watch)))
	end(err)
	return next
}

func (s *Sweeper) pass(ctx context.Context, watch *observer.Observer) (time.Duration, error) {
	// What was made for a network before its instance joined the cluster goes with the instance.
	owners := slices.DeleteFunc(watch.Owners(), ownership.IsNetwork)
	s.forget(owners)
	if len(owners) == 0 {
		return s.Period, nil
	}
	alive, err := s.alive(ctx)
	if err != nil {
		return 0, err
	}
	next := s.Period
	for _, uid := range owners {
		convicted, suspected := s.judge(uid, alive[uid])
		switch {
		case convicted:
			s.Log.Warn("interfaces of a NodeENI that does not exist are removed", "uid", uid)
			watch.TellOwner(ctx, uid)
		case suspected:
			next = min(next, ownership.SightingGap)
		}
	}
	return next, nil
}

// judge takes one look at one NodeENI into account.
func (s *Sweeper) judge(uid string, alive bool) (convicted, suspected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if alive {
		delete(s.suspects, uid)
		delete(s.convicts, uid)
		return false, false
	}
	since, known := s.suspects[uid]
	if !known {
		s.suspects[uid], since = now, now
	}
	if now.Sub(since) >= ownership.SightingGap {
		s.convicts[uid] = true
	}
	return s.convicts[uid], true
}

// forget drops what is remembered of NodeENIs of which no interface is left.
func (s *Sweeper) forget(owners []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid := range s.suspects {
		if _, left := slices.BinarySearch(owners, uid); !left {
			delete(s.suspects, uid)
			delete(s.convicts, uid)
		}
	}
}

func (s *Sweeper) alive(ctx context.Context) (map[string]bool, error) {
	var all v1alpha1.NodeENIList
	if err := s.Reader.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list NodeENIs: %w", err)
	}
	alive := make(map[string]bool, len(all.Items))
	for n := range all.Items {
		alive[string(all.Items[n].UID)] = true
	}
	return alive, nil
}
