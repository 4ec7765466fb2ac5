// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observer keeps the inventory of the cluster's interfaces up to date and tells who is concerned by a change.
//
// Two loops feed it: a resync lists everything the cluster owns once per period, and a poll describes the interfaces
// that EC2 is at work on, and only those, until they are at rest, ever more seldom ([inventory.Patience]). Reconcilers read the inventory without any call to
// EC2; nobody else waits for EC2 to finish something.
package observer

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/ratelimit"
	"github.com/multieni/multieni/internal/panics"
)

// Reader is what observing asks of EC2.
type Reader interface {
	// ListOwned lists every interface with the cluster's tag, in full or with an error, and says when it began.
	ListOwned(context.Context) ([]eni.Interface, time.Time, error)
	// Interfaces describes interfaces by ID; those EC2 does not show are left out.
	Interfaces(ctx context.Context, ids []string) ([]eni.Interface, error)
	// ListByNodeENI lists the interfaces made for a NodeENI.
	ListByNodeENI(ctx context.Context, uid string) ([]eni.Interface, error)
	// DescribeInstance reads everything about one instance.
	DescribeInstance(ctx context.Context, instanceID string) (eni.InstanceSnapshot, error)
}

// Options are the settings of an Observer.
type Options struct {
	// Cluster is the cluster's name in ownership tags.
	Cluster string
	// Resync is the time between two full listings; Poll the time between two readings of what is in transition.
	Resync, Poll time.Duration
	// AfterListing is called after every listing, and may ask for the next one sooner than Resync; it may be nil.
	AfterListing func(context.Context) (next time.Duration)
	// Now tells the time.
	Now func() time.Time
	Log *slog.Logger
}

// Observer is safe for concurrent use.
type Observer struct {
	Options
	reader Reader

	mu          sync.Mutex
	inventory   *inventory.Inventory
	pollBackoff inventory.PollBackoff
	// missing are the instances that EC2 does not know.
	missing map[string]absence
	// since is when the first listing was begun.
	since time.Time

	// changed receives the names of nodes whose interfaces changed.
	changed chan string
	// wake tells the poll that something is in transition.
	wake   chan struct{}
	synced chan struct{}
	once   sync.Once
}

// absence is since when EC2 does not know an instance, and when somebody last asked.
type absence struct{ since, asked time.Time }

// absenceTTL is how long an absence that nobody asks about is remembered.
const absenceTTL = time.Hour

// New returns an Observer that does nothing until it is started.
func New(reader Reader, options Options) *Observer {
	return &Observer{
		Options:   options,
		reader:    reader,
		inventory: inventory.New(options.Cluster),
		missing:   map[string]absence{},
		changed:   make(chan string, 1024),
		wake:      make(chan struct{}, 1),
		synced:    make(chan struct{}),
	}
}

// Changed returns the channel on which the names of concerned nodes are sent.
func (o *Observer) Changed() <-chan string { return o.changed }

// WaitSynced returns when the first full listing is in, or the context ends.
func (o *Observer) WaitSynced(ctx context.Context) error {
	select {
	case <-o.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Synced reports whether the first full listing is in.
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
			o.Log.Error("the cluster's interfaces could not be listed; what is known stays in force", "err", err, "retryIn", retry)
			wait, retry = retry, min(2*retry, o.Resync)
		} else {
			wait, retry = min(wait, next), time.Second
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// ResyncOnce lists everything the cluster owns. An error leaves what is known as it was.
func (o *Observer) ResyncOnce(ctx context.Context) error {
	all, begun, err := o.reader.ListOwned(ctx)
	if err != nil {
		return err
	}
	changed := o.observeList(begun, all)
	o.once.Do(func() { close(o.synced) })
	o.notify(ctx, changed)
	return nil
}

func (o *Observer) observeList(begun time.Time, all []eni.Interface) (changed []identity.Member) {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed = o.inventory.ObserveList(begun, all)
	if o.since.IsZero() {
		o.since = begun
	}
	maps.DeleteFunc(o.missing, func(_ string, a absence) bool { return begun.Sub(a.asked) > absenceTTL })
	return changed
}

// pollLoop describes what is in transition once per poll period, and rests while nothing is. It wakes when something has
// just begun, which EC2 takes longer for than it would take to ask.
func (o *Observer) pollLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		for moving, wait := true, o.Poll; moving && sleep(ctx, wait); {
			begun := o.Now()
			err := panics.AsError("reading interfaces in transition", func() error {
				moving = o.PollOnce(ctx)
				return nil
			})
			if err != nil {
				o.Log.Error("interfaces in transition could not be read", "err", err)
			}
			wait = max(0, o.Poll-o.Now().Sub(begun))
		}
	}
}

// PollOnce reads what is in transition, where EC2 had time for something since it was last asked, and reports whether anything is.
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

// due returns what is in transition and to be read by now, and whether anything is in transition.
func (o *Observer) due(now time.Time) (ids []string, moving bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.inventory.InTransition()
	return o.pollBackoff.Due(now, o.Poll, all), len(all) > 0
}

// observe takes in what was shown of the interfaces that were asked for.
func (o *Observer) observe(begun time.Time, ids []string, shown []eni.Interface) (changed []identity.Member) {
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

// DescribeInstance reads one instance, merges what it shows, and returns it.
func (o *Observer) DescribeInstance(ctx context.Context, instanceID string) (eni.InstanceSnapshot, error) {
	look, err := o.reader.DescribeInstance(ctx, instanceID)
	if err != nil {
		return eni.InstanceSnapshot{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.ObserveInstance(look)
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
	return look, nil
}

// NodeInventory is what is known of one instance without asking EC2.
type NodeInventory struct {
	Owned             []inventory.Record
	UsedGenerations   map[identity.Key]int64
	RemovedExternally map[identity.Key]time.Time
	MissingSince      time.Time
	// Since is when the observer began to know anything.
	Since time.Time
	// Launched are the interfaces the instance was launched with, from a launch template of ours.
	Launched []eni.Interface
}

// Of returns what is known of an instance.
func (o *Observer) Of(instanceID string) NodeInventory {
	o.mu.Lock()
	defer o.mu.Unlock()
	return NodeInventory{
		Owned: o.inventory.Of(instanceID), UsedGenerations: o.inventory.UsedGenerations(instanceID), RemovedExternally: o.inventory.RemovedExternally(instanceID),
		MissingSince: o.missing[instanceID].since, Since: o.since, Launched: o.inventory.Launched(instanceID),
	}
}

// HasAny reports whether any interface is known that was made for an instance, under whatever name.
func (o *Observer) HasAny(instanceID string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.HasAny(instanceID)
}

// InstancesOf returns the instances for which interfaces were made under a node's name, in order.
func (o *Observer) InstancesOf(node string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.InstancesOf(node)
}

// Judged notes which of an instance's interfaces are ours by more than their tags, and which are left alone. It returns those
// of the latter that are news.
func (o *Observer) Judged(now time.Time, instanceID string, ours, denied []string) (newlyDenied []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Judged(now, instanceID, ours, denied)
}

// Denied returns the IDs of the interfaces with the cluster's tags that are left alone, because nothing else says that they are
// ours.
func (o *Observer) Denied() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Denied()
}

// Holds reports whether any interface of a NodeENI is known to exist, or was asked for so shortly before that it may.
func (o *Observer) Holds(nodeENIUID string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Holds(nodeENIUID) || o.inventory.MayHavePendingCreate(o.Now(), nodeENIUID)
}

// IsPastVisibilityWindow reports whether EC2 would show by now whatever existed when the observer began: until then a controller that led
// before may have made what nobody sees.
func (o *Observer) IsPastVisibilityWindow() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.since.IsZero() && !o.Now().Before(o.since.Add(inventory.VisibilityWindow))
}

// ListRemaining asks EC2 which interfaces of a NodeENI are left, and tells their nodes. Those that are left alone whatever their tags
// say do not count: no NodeENI waits for them.
func (o *Observer) ListRemaining(ctx context.Context, nodeENIUID string) ([]eni.Interface, error) {
	begun := o.Now()
	left, err := o.reader.ListByNodeENI(ctx, nodeENIUID)
	if err != nil {
		return nil, err
	}
	o.observe(begun, nil, left)
	denied := o.Denied()
	left = slices.DeleteFunc(left, func(i eni.Interface) bool {
		// One that was detached meanwhile is taken from nobody: its node deletes it.
		return inventory.NeverOwned(i) || i.Attachment != nil && slices.Contains(denied, i.ID)
	})
	var members []identity.Member
	for _, i := range left {
		if m, verdict := identity.Read(o.Cluster, i.Tags); verdict == identity.Owned {
			members = append(members, m)
		}
	}
	o.notify(ctx, members)
	return left, nil
}

// Interface implements the notes of an applier.
func (o *Observer) Interface(id string) (eni.Interface, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Interface(id)
}

// RecentlyCreated implements the notes of an applier.
func (o *Observer) RecentlyCreated(now time.Time, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.RecentlyCreated(now, id)
}

// RecordCall implements the notes of an applier.
func (o *Observer) RecordCall(now time.Time, after eni.Interface, effect inventory.Effect) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.RecordCall(now, after, effect)
	o.pollBackoff.Restart(after.ID)
	o.wakePoll()
}

// RecordChange implements the notes of an applier.
func (o *Observer) RecordChange(now time.Time, id string, change func(eni.Interface) eni.Interface, effect inventory.Effect) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.RecordChange(now, id, change, effect)
	o.pollBackoff.Restart(id)
	o.wakePoll()
}

// RecordUnansweredCreate implements the notes of an applier.
func (o *Observer) RecordUnansweredCreate(now time.Time, nodeENIUID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.RecordUnansweredCreate(now, nodeENIUID)
}

// Deleted implements the notes of an applier.
func (o *Observer) Deleted(now time.Time, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.Deleted(now, id)
}

// wakePoll wakes the poll if it rests.
func (o *Observer) wakePoll() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *Observer) notify(ctx context.Context, changed []identity.Member) {
	nodes := map[string]bool{}
	for _, m := range changed {
		nodes[m.Node] = true
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		select {
		case o.changed <- node:
		case <-ctx.Done():
			return
		}
	}
	o.wakePoll()
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Unattached returns how many interfaces exist without being attached to anything, of those whose NodeENI counts.
func (o *Observer) Unattached(counts func(nodeENIUID string) bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Unattached(counts)
}

// Owners returns the UIDs of the NodeENIs that interfaces are known of.
func (o *Observer) Owners() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Owners()
}

// EnqueueOwner sends the nodes with interfaces of a NodeENI to whoever listens to [Observer.Changed].
func (o *Observer) EnqueueOwner(ctx context.Context, nodeENIUID string) {
	o.mu.Lock()
	members := o.inventory.MembersOf(nodeENIUID)
	o.mu.Unlock()
	o.notify(ctx, members)
}

// CountOf returns how many interfaces of the NodeENIs that count are known.
func (o *Observer) CountOf(counts func(nodeENIUID string) bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, uid := range o.inventory.Owners() {
		if counts(uid) {
			n += o.inventory.CountOf(uid)
		}
	}
	return n
}

// Attached returns how many interfaces are attached to something, of those that count.
func (o *Observer) Attached(counts func(inventory.Record) bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Attached(counts)
}

// Count returns how many interfaces the cluster owns.
func (o *Observer) Count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Len()
}
