// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/assembly"
	"github.com/multieni/multieni/internal/controller/floatingaddress"
	"github.com/multieni/multieni/internal/controller/instance"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/controller/nodeeni"
	"github.com/multieni/multieni/internal/controller/subnetreservation"
	"github.com/multieni/multieni/internal/controller/unowned"
	"github.com/multieni/multieni/internal/core/plan"
)

// Values that are flags in production.
const (
	resyncPeriod = 5 * time.Minute
	// pollPeriod is longer than in production: each poll is a step of a run, and a run has few steps.
	pollPeriod = 2 * time.Second
	// mostUnattached is the limit of the whole cluster.
	mostUnattached = 4 * plan.MaxUnattached * mostNodes
)

// process is one replica of the controller while it leads. It holds everything in memory: a crash loses it.
type process struct {
	run       *run
	cluster   *cluster
	name      string
	informers informers
	observer  *observer.Observer
	collector *unowned.Collector
	nodes     *node.Reconciler
	instances *instance.Reconciler
	nodeENIs  *nodeeni.Reconciler
	addresses *floatingaddress.Reconciler
	reserver  *subnetreservation.Reconciler
	queues    [queues]*queue
	// refusedWrites are the states that the API server refuses to store.
	refusedWrites *controller.RejectedWrites
	// startAt is when the replica wins the lease.
	startAt time.Time
	// earlier is set on a process of an earlier release.
	earlier bool
	// skew is the error of its clock.
	skew     time.Duration
	pageSize int

	resyncAt, pollAt   time.Time
	resyncing, polling bool
	resyncRetry        time.Duration
	// heldUntil is the time until which events of a kind are delayed; lost says that the process must list the kind
	// then.
	heldUntil [kinds]time.Time
	lost      [kinds]bool

	// depth counts the frames of this process on the stack; views has the lowest version of the API server that each
	// has read.
	depth int
	views []int
	// frames are the pieces of work.
	frames []*frame
	// starts has how many changes of NodeENIs the process had received when each frame began.
	starts []int
	// running is the coroutine that makes calls for an instance.
	running *coroutine
	// paused processes are stopped; expired ones go on after their lease has ended, until they notice; fenced ones have
	// noticed, and their calls fail; dead ones have crashed.
	paused, expired, fenced, dead bool
	// fence reports that its lease may have ended; lease renews it.
	fence *controller.Fence
	lease resourcelock.Interface
	// pausedAt is when the process was stopped.
	pausedAt time.Time
	// crashed is set from a crash on until the process is gone.
	crashed bool
	// doomed makes it crash at the next possible point.
	doomed bool
	// unreported are the call sites that changed something since the process last wrote a status.
	unreported sites
}

// crash is the value with which a process panics.
type crash struct{ p *process }

func (r *run) newProcess(c *cluster, startAt time.Time) *process {
	c.started++
	p := &process{
		run: r, cluster: c, name: fmt.Sprintf("%s/%d", c.name, c.started), startAt: startAt, earlier: c.earlier,
		skew: r.faults.skew(), pageSize: 1000, resyncAt: startAt, resyncRetry: time.Second,
	}
	if r.pick(2) == 0 {
		p.pageSize = 5
	}
	p.informers.api = c.api
	for k := range kinds {
		p.informers.list(k, 0)
	}
	p.fence = &controller.Fence{Deadline: leaseDuration, Now: p.now}
	p.lease = p.fence.Wrap(lock{identity: p.name})
	quiet := slog.New(listener{slog.DiscardHandler, p})
	controllers := assembly.New(assembly.Options{
		Client: kubernetes{p: p}, Reader: directReader{p: p}, Events: discardEvents{}, EC2: cloud{p}, Cluster: c.name,
		Permit:          p.permit,
		ConcurrentNodes: 1, ConcurrentNodeENIs: 1, Members: 64, Removals: 64, MaxUnattached: mostUnattached,
		Resync: resyncPeriod, Poll: pollPeriod, Era: p.fence.Era, Now: p.now, Log: quiet,
		Group: func() executor.Group { return &coroutines{p: p} },
		Go: func(work func(context.Context)) {
			work(context.Background())
			p.enqueueAll(p.instances.Admitted()) // one reconciliation can admit more nodes than the channel has room for
		},
	})
	p.collector, p.observer, p.refusedWrites = controllers.Unowned, controllers.Observer, controllers.RefusedWrites
	p.nodes, p.instances = controllers.Nodes, controllers.Instances
	p.nodeENIs, p.addresses = controllers.NodeENIs, controllers.FloatingAddresses
	p.reserver = subnetreservation.New(subnetreservation.Options{
		Client: kubernetes{p: p}, Reader: directReader{p: p}, Resolver: controllers.Resolver, EC2: reservingCloud{cloud{p}},
		Cluster: c.name, Era: p.fence.Era, Now: p.now, Log: quiet,
	})
	for q := range p.queues {
		p.queues[q] = newQueue()
	}
	for k := range kinds {
		for _, object := range p.informers.known(k) {
			p.handle(k, change{after: object})
		}
	}
	return p
}

// now is the time by the process' clock.
func (p *process) now() time.Time { return p.run.now.Add(p.skew) }

func (p *process) api() *apiServer { return p.cluster.api }

// runs reports whether the process can do anything.
func (p *process) runs() bool {
	return !p.dead && !p.expired && !p.paused && !p.run.now.Before(p.startAt)
}

// reconcile takes one key of a queue and reconciles it.
func (p *process) reconcile(q queueName, key string) {
	queue := p.queues[q]
	queue.take(key)
	p.run.note(p, "reconcile %s %s", q, key)
	p.run.reconciled(p, q, key)
	p.guarded(func() {
		p.work().queue = q
		request := reconcile.Request{NamespacedName: types.NamespacedName{Name: key}}
		var result reconcile.Result
		var err error
		ctx := reconcileContext{context.Background(), p}
		switch q {
		case nodeQueue:
			result, err = p.nodes.Reconcile(ctx, request)
		case instanceQueue:
			result, err = p.instances.Reconcile(ctx, request)
		case nodeENIQueue:
			result, err = p.nodeENIs.Reconcile(ctx, request)
		case addressQueue:
			result, err = p.addresses.Reconcile(ctx, request)
		default:
			result, err = p.reserver.Reconcile(ctx, request)
		}
		queue.done(key, p.run.now, result.RequeueAfter, err)
		if err != nil {
			p.run.note(p, "reconcile %s %s: %v", q, key, err)
		}
	})
	p.handleEC2()
}

// resync lists all interfaces and looks for leaks, as the observer's loop does.
func (p *process) resync() {
	p.run.note(p, "resync")
	p.resyncing = true
	p.guarded(func() {
		wait, first := resyncPeriod, !p.observer.Synced()
		if err := p.observer.ResyncOnce(context.Background()); err != nil {
			wait, p.resyncRetry = p.resyncRetry, min(2*p.resyncRetry, resyncPeriod)
		} else {
			p.resyncRetry = time.Second
			p.handleList(first)
			wait = min(wait, p.collector.Run(context.Background(), p.observer))
		}
		p.resyncAt = p.run.now.Add(wait)
	})
	p.resyncing = false
	p.handleEC2()
}

func (p *process) poll() {
	p.polling = true
	p.guarded(func() {
		if p.observer.PollOnce(context.Background()) {
			p.pollAt = p.run.now.Add(pollPeriod)
		} else {
			p.pollAt = time.Time{}
		}
	})
	p.polling = false
	if again := p.pollAt; !p.dead {
		p.handleEC2()
		p.pollAt = again
	}
}

// guarded runs a part of the product, and ends the process if it crashes there.
func (p *process) guarded(work func()) {
	p.depth++
	p.views = append(p.views, p.informers.version())
	p.frames = append(p.frames, &frame{queue: noQueue})
	p.starts = append(p.starts, p.informers.views[nodeENIs].position)
	defer func() {
		p.depth--
		p.views, p.starts, p.frames = p.views[:p.depth], p.starts[:p.depth], p.frames[:p.depth]
		thrown := recover()
		if p.run.fallen != nil {
			panic(p.run.fallen)
		}
		if thrown == nil && p.crashed {
			thrown = crash{p}
		}
		if thrown != nil {
			if died, isCrash := thrown.(crash); !isCrash || died.p != p {
				panic(thrown)
			}
			p.end("is gone")
		}
		if p.depth == 0 && (p.expired || p.doomed) {
			p.end("ends")
		}
	}()
	work()
}

// end ends the process; another replica wins the lease some time later.
func (p *process) end(how string) {
	if !p.dead {
		p.dead = true
		p.run.note(p, "%s", how)
		p.cluster.replace(p)
	}
}

// handleEC2 enqueues the nodes that the observer reports and those that are admitted, and NodeENIs after refused
// writes, and schedules the poll.
func (p *process) handleEC2() {
	if p.dead {
		return
	}
	// One after the other: a select over two ready channels is not replayable.
	p.enqueueAll(p.observer.Changed())
	p.enqueueAll(p.instances.Admitted())
	p.handleRefusals()
	if p.pollAt.IsZero() {
		p.pollAt = p.run.now
	}
}

// handleList enqueues all Nodes after the first list of EC2, and after each further one those with a new interface of a
// network.
func (p *process) handleList(first bool) {
	names, _ := p.nodes.WithNewNetworks(context.Background())
	if first {
		names = nil
		for _, node := range p.informers.known(nodes) {
			names = append(names, node.GetName())
		}
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		p.enqueue(nodeQueue, name, 0)
	}
}

// handleRefusals enqueues the NodeENIs of objects that the API server began or stopped to refuse.
func (p *process) handleRefusals() {
	for _, name := range slices.Sorted(slices.Values(p.refusedWrites.Changed())) {
		p.enqueue(nodeENIQueue, name, 0)
	}
}

func (p *process) enqueueAll(instances <-chan string) {
	for {
		select {
		case id := <-instances:
			p.queues[instanceQueue].add(id, p.run.now)
		default:
			return
		}
	}
}

// reconcileContext is cancelled when the process has lost its lease. It has no Done channel, since a select over two
// ready channels is not replayable.
type reconcileContext struct {
	context.Context
	p *process
}

// Err implements [context.Context].
func (c reconcileContext) Err() error {
	if c.p.fenced {
		return context.Canceled
	}
	return nil
}

// lead gets the lease, which the replica wins at its start.
func (p *process) lead() {
	if p.fence.Era().Since.IsZero() {
		p.renew()
	}
}

// renew renews the lease, as the elector of a process that is not stopped does all the time.
func (p *process) renew() {
	if err := p.lease.Update(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: p.name}); err != nil {
		panic(err)
	}
}

// lock is a lease whose renewal always succeeds.
type lock struct {
	resourcelock.Interface
	identity string
}

// Identity implements [resourcelock.Interface].
func (l lock) Identity() string { return l.identity }

// Update implements [resourcelock.Interface].
func (lock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return nil }

// listener reports panics that the product turned into errors, since those are bugs all the same. It drops all other
// log lines.
type listener struct {
	slog.Handler
	p *process
}

// Enabled implements [slog.Handler].
func (listener) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements [slog.Handler].
func (l listener) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements [slog.Handler].
func (l listener) WithGroup(string) slog.Handler { return l }

// Handle implements [slog.Handler].
func (l listener) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		err, _ := a.Value.Any().(error)
		if caught := (*panics.Error)(nil); errors.As(err, &caught) && !l.p.crashed && !l.p.dead && l.p.run.fallen == nil {
			l.p.run.violate("panic", "%s", caught)
		}
		return true
	})
	return nil
}

// discardEvents drops the events.
type discardEvents struct{}

// Eventf implements [events.EventRecorder].
func (discardEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
