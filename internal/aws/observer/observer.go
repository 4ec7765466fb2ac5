// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observer keeps the inventory of the cluster's interfaces current, and reports the instances that a change
// affects.
//
// Two loops feed it. A resync lists all interfaces that the cluster owns, once per period. A poll describes the
// interfaces that EC2 is changing, and only those, with growing backoff ([inventory.PollBackoff]) until EC2 is done.
// Reconcilers read the inventory without a call to EC2; no other component waits for EC2.
package observer

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/multieni/multieni/internal/base/clock"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// Reader is the part of EC2 that the Observer reads.
type Reader interface {
	// ListOwned lists every interface with the cluster's tag, and returns when the list began. The list is complete, or
	// the result is an error.
	ListOwned(context.Context) ([]eni.Interface, time.Time, error)
	// Interfaces describes interfaces by ID, and omits those that EC2 does not return.
	Interfaces(ctx context.Context, ids []string) ([]eni.Interface, error)
	// DescribeInstance reads one instance with all its interfaces.
	DescribeInstance(ctx context.Context, instanceID string) (eni.InstanceSnapshot, error)
}

// Options are the settings of an Observer.
type Options struct {
	// Cluster is the cluster's name in ownership tags.
	Cluster string
	// Resync is the time between two full lists; Poll is the time between two reads of interfaces in transition.
	Resync, Poll time.Duration
	// BeforeListing runs before every list until one has succeeded; its error keeps the Observer from listing. It may be
	// nil.
	BeforeListing func(context.Context) error
	// AfterListing runs after every list, and may request the next list before Resync; it may be nil.
	AfterListing func(context.Context) (next time.Duration)
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
}

// Observer is safe for concurrent use.
type Observer struct {
	Options
	reader Reader

	// mu guards inventory, pollBackoff, missing, looks, since and failure.
	mu          sync.Mutex
	inventory   *inventory.Inventory
	pollBackoff inventory.PollBackoff
	// missing are the instances that EC2 does not return.
	missing map[string]absence
	// looks are those of [Observer.FirstLook] that no plan has used.
	looks map[string]eni.InstanceSnapshot
	// since is when the first list began.
	since time.Time
	// failure is why there is no first list yet.
	failure Failure

	// changed receives the instances whose interfaces changed.
	changed chan string
	// wake signals the poll that an interface is in transition.
	wake   chan struct{}
	synced chan struct{}
	once   sync.Once
}

// absence is since when EC2 does not return an instance, and when a caller last read it.
type absence struct{ since, asked time.Time }

// absenceTTL is how long the Observer keeps an absence after the last read.
const absenceTTL = time.Hour

// Failure is why the Observer has no first list yet: the error of the last attempt, and when the first one failed. The
// zero Failure means that no attempt has failed, or that there is a list.
type Failure struct {
	Err   error
	Since time.Time
}

// longestRetry is the longest time between two attempts at the first list. Nothing works before it, and its failure is
// often a mistake of the installation that a user is correcting.
const longestRetry = 30 * time.Second

// An Observer polls only every startPoll during its first startPhase, if the period of its options is shorter. A start
// reads all interfaces of the cluster, so nodes that joined meanwhile need few reads: EC2 attaches an interface in 1 to
// 5 s.
const (
	startPhase = 30 * time.Second
	startPoll  = 3 * time.Second
)

// New returns an Observer that does nothing until it is started.
func New(reader Reader, options Options) *Observer {
	return &Observer{
		Options:   options,
		reader:    reader,
		inventory: inventory.New(options.Cluster),
		missing:   map[string]absence{},
		looks:     map[string]eni.InstanceSnapshot{},
		changed:   make(chan string, 1024),
		wake:      make(chan struct{}, 1),
		synced:    make(chan struct{}),
	}
}

// Changed returns the channel that receives the IDs of affected instances.
func (o *Observer) Changed() <-chan string { return o.changed }

// WaitSynced returns after the first full list, or when the context ends.
func (o *Observer) WaitSynced(ctx context.Context) error {
	select {
	case <-o.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Synced reports whether the first full list is complete.
func (o *Observer) Synced() bool {
	select {
	case <-o.synced:
		return true
	default:
		return false
	}
}

// Start runs until the context ends.
func (o *Observer) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { o.resyncLoop(ctx) })
	wg.Go(func() { o.pollLoop(ctx) })
	wg.Wait()
	return nil
}

// Failure returns why there is no first list yet.
func (o *Observer) Failure() Failure {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failure
}

// noteFailure records the result of an attempt at the first list.
func (o *Observer) noteFailure(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil || o.Synced() {
		o.failure = Failure{}
		return
	}
	o.failure.Err = err
	if o.failure.Since.IsZero() {
		o.failure.Since = o.Now()
	}
}

// longestWait returns the longest time between two attempts to list.
func (o *Observer) longestWait() time.Duration {
	if o.Synced() {
		return o.Resync
	}
	return min(o.Resync, longestRetry)
}

func (o *Observer) resyncLoop(ctx context.Context) {
	retry := time.Second
	for {
		wait := o.Resync
		next := o.Resync
		err := panics.AsError("listing the interfaces of cluster "+o.Cluster, func() error {
			err := o.ResyncOnce(ctx)
			if err == nil && o.AfterListing != nil {
				next = o.AfterListing(ctx)
			}
			return err
		})
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			o.Log.Error("the cluster's interfaces could not be listed; the inventory stays as it is", "err", err,
				"retryIn", retry)
			wait, retry = retry, min(2*retry, o.longestWait())
		} else {
			wait, retry = min(wait, next), time.Second
		}
		if !clock.Sleep(ctx, wait) {
			return
		}
	}
}

// ResyncOnce lists all interfaces that the cluster owns. An error leaves the inventory unchanged.
func (o *Observer) ResyncOnce(ctx context.Context) error {
	err := o.list(ctx)
	o.noteFailure(err)
	return err
}

func (o *Observer) list(ctx context.Context) error {
	if o.BeforeListing != nil && !o.Synced() {
		if err := o.BeforeListing(ctx); err != nil {
			return err
		}
	}
	all, begun, err := o.reader.ListOwned(ctx)
	if err != nil {
		return err
	}
	changed := o.observeList(begun, all)
	o.once.Do(func() { close(o.synced) })
	o.notify(ctx, changed)
	return nil
}

func (o *Observer) observeList(begun time.Time, all []eni.Interface) (changed []identity.Interface) {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed = o.inventory.ObserveList(begun, all)
	if o.since.IsZero() {
		o.since = begun
	}
	maps.DeleteFunc(o.missing, func(_ string, a absence) bool { return begun.Sub(a.asked) > absenceTTL })
	return changed
}

// pollLoop describes the interfaces in transition once per poll period, and sleeps while there is none. A recorded call
// wakes it; EC2 takes longer for the change than the poll takes to read it.
func (o *Observer) pollLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		for moving, wait := true, o.pollPeriod(); moving && clock.Sleep(ctx, wait); {
			begun := o.Now()
			err := panics.AsError("reading interfaces in transition", func() error {
				moving = o.PollOnce(ctx)
				return nil
			})
			if err != nil {
				o.Log.Error("interfaces in transition could not be read", "err", err)
			}
			wait = max(0, o.pollPeriod()-o.Now().Sub(begun))
		}
	}
}

// PollOnce reads the interfaces in transition that are due, and reports whether any interface is in transition.
func (o *Observer) PollOnce(ctx context.Context) bool {
	begun := o.Now()
	ids, moving := o.due(begun)
	if len(ids) == 0 {
		return moving
	}
	// Nodes wait for the answer.
	shown, err := o.reader.Interfaces(ratelimit.In(ctx, ratelimit.Attach), ids)
	if err != nil {
		if ctx.Err() == nil {
			o.Log.Warn("interfaces in transition could not be read", "count", len(ids), "err", err)
		}
		return true
	}
	o.notify(ctx, o.observe(begun, ids, shown))
	return true
}

// due returns the interfaces in transition whose next read is due, and whether any interface is in transition.
func (o *Observer) due(now time.Time) (ids []string, moving bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.inventory.InTransition()
	return o.pollBackoff.Due(now, o.pollPeriodAt(now), all), len(all) > 0
}

// pollPeriod returns the current time between two polls.
func (o *Observer) pollPeriod() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pollPeriodAt(o.Now())
}

// pollPeriodAt returns the time between two polls at a time. Callers hold the lock.
func (o *Observer) pollPeriodAt(now time.Time) time.Duration {
	if now.Sub(o.since) < startPhase {
		return max(o.Poll, startPoll)
	}
	return o.Poll
}

// observe merges a read of the given interfaces.
func (o *Observer) observe(begun time.Time, ids []string, shown []eni.Interface) (changed []identity.Interface) {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed = o.inventory.ObserveInterfaces(begun, shown...)
	for _, id := range ids {
		if !slices.ContainsFunc(shown, func(i eni.Interface) bool { return i.ID == id }) {
			changed = append(changed, o.inventory.ObserveAbsence(begun, id)...)
		}
	}
	return changed
}

// DescribeInstance reads one instance, merges the result, and returns it. The caller plans for the instance, so
// [Observer.Changed] does not get it. All others call [Observer.RefreshInstance]: else no plan would use what changed.
// A first look of a moment ago is the result, once.
func (o *Observer) DescribeInstance(ctx context.Context, instanceID string) (eni.InstanceSnapshot, error) {
	if look, fresh := o.takeLook(instanceID); fresh {
		return look, nil
	}
	look, _, err := o.readInstance(ctx, instanceID)
	return look, err
}

// lookReuse is the age until which a first look is that of the first plan.
const lookReuse = time.Second

// FirstLook refreshes an instance like [Observer.RefreshInstance]. It is for an instance that gets its first objects:
// the plan for them, which follows, needs no further read.
func (o *Observer) FirstLook(ctx context.Context, instanceID string) (eni.InstanceSnapshot, error) {
	look, err := o.RefreshInstance(ctx, instanceID)
	if err != nil {
		return look, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.looks, func(_ string, old eni.InstanceSnapshot) bool { return o.Now().Sub(old.At) > lookReuse })
	o.looks[instanceID] = look
	return look, nil
}

// takeLook returns the first look of an instance, if it is fresh. A call of this process ends it.
func (o *Observer) takeLook(instanceID string) (eni.InstanceSnapshot, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	look, is := o.looks[instanceID]
	delete(o.looks, instanceID)
	return look, is && o.Now().Sub(look.At) <= lookReuse
}

// RefreshInstance reads one instance, merges the result, and returns it. It enqueues the instances of the interfaces
// that changed.
func (o *Observer) RefreshInstance(ctx context.Context, instanceID string) (eni.InstanceSnapshot, error) {
	look, changed, err := o.readInstance(ctx, instanceID)
	o.notify(ctx, changed)
	return look, err
}

// readInstance reads one instance and merges the result. It also returns the identities of the interfaces that
// changed.
func (o *Observer) readInstance(ctx context.Context, instanceID string) (
	look eni.InstanceSnapshot, changed []identity.Interface, err error,
) {
	if look, err = o.reader.DescribeInstance(ctx, instanceID); err != nil {
		return eni.InstanceSnapshot{}, nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	changed = o.inventory.ObserveInstance(look)
	if look.Instance.State == eni.InstanceMissing {
		a := o.missing[instanceID]
		if a.since.IsZero() {
			a.since = look.At
		}
		a.asked = look.At
		o.missing[instanceID] = a
	} else {
		delete(o.missing, instanceID)
	}
	o.wakePoll()
	return look, changed, nil
}

// wakePoll wakes the poll if it sleeps.
func (o *Observer) wakePoll() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// notify sends the instances of interfaces that changed.
func (o *Observer) notify(ctx context.Context, changed []identity.Interface) {
	instances := map[string]bool{}
	for _, is := range changed {
		instances[is.InstanceID] = true
	}
	for _, instanceID := range slices.Sorted(maps.Keys(instances)) {
		o.Enqueue(ctx, instanceID)
	}
	o.wakePoll()
}

// Enqueue sends an instance to the receiver of [Observer.Changed].
func (o *Observer) Enqueue(ctx context.Context, instanceID string) {
	select {
	case o.changed <- instanceID:
	case <-ctx.Done():
	}
}
