// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package floatingaddress reconciles FloatingAddresses: it assigns an address that a pod brought up to the interface of
// the pod, and unassigns one that no pod has any more.
//
// Package floating decides about one address. This package gathers what it needs, records an assignment before the
// call, and calls EC2 for all addresses of the same instance that are due.
package floatingaddress

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/base/cache"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/floating"
)

// conflictDelay is the time until the cache has the write that this process or another one made.
const conflictDelay = 100 * time.Millisecond

// Limiter knows the limits of instance types.
type Limiter interface {
	Limits(ctx context.Context, instanceType string) (eni.Limits, error)
}

// Options are what a Reconciler works with.
type Options struct {
	Client client.Client
	// Reader reads from the API server itself, not from a cache.
	Reader   client.Reader
	Observer *observer.Observer
	EC2      executor.Cloud
	Limiter  Limiter
	// Era returns the era of this process.
	Era func() era.Era
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
	// Traces receives spans; nil for none.
	Traces trace.TracerProvider
}

// Reconciler reconciles FloatingAddresses.
type Reconciler struct {
	Options
	// mu guards memories, ended and pace.
	mu       sync.Mutex
	memories map[string]memory
	// ended are the objects to make again, by name: they ended under a pod.
	ended    map[string]*v1alpha1.FloatingAddress
	pace     floating.Pace
	podNames *cache.Cache[string]
}

// memory is what the process remembers of an object of a name.
type memory struct {
	uid types.UID
	floating.Memory
}

// New returns a Reconciler to be set up with a manager.
func New(options Options) *Reconciler {
	return &Reconciler{Options: options, memories: map[string]memory{}, ended: map[string]*v1alpha1.FloatingAddress{},
		podNames: cache.New[string](options.Now)}
}

// Reconcile brings one address to the interface of its holder.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := r.Observer.WaitSynced(ctx); err != nil {
		return reconcile.Result{}, err
	}
	ctx, end := controller.Trace(ctx, r.Traces, "reconcile", attribute.String("multieni.floatingaddress", request.Name))
	at, err := r.reconcile(ctx, request.Name)
	end(err)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// Another holder came, or the cache lacks our own last write. No call was based on it.
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		return reconcile.Result{}, err
	case at.IsZero():
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(at.Sub(r.Now()), leastDelay)}, nil
}

// leastDelay is the least time between two reconciliations of an address without an event.
const leastDelay = 10 * time.Millisecond

// maxRounds bounds the decisions of one reconciliation: a read and a call can follow each other.
const maxRounds = 4

// reconcile decides and acts until the address waits. It returns when to decide again.
func (r *Reconciler) reconcile(ctx context.Context, name string) (at time.Time, err error) {
	var object v1alpha1.FloatingAddress
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &object); err != nil {
		if !apierrors.IsNotFound(err) {
			return time.Time{}, err
		}
		r.forget(name)
		return time.Time{}, r.restore(ctx, name)
	}
	for range maxRounds {
		one, err := r.decide(ctx, &object)
		if err != nil {
			return time.Time{}, err
		}
		switch one.step.Do {
		case floating.Read:
			if err := r.refresh(ctx, append(one.places, one.instanceID)); err != nil {
				return time.Time{}, err
			}
			if after, err := r.decide(ctx, &object); err != nil || after.step.Do == floating.Read {
				return one.step.At, err // EC2 shows the address no better yet
			}
		case floating.Assign, floating.Unassign:
			if until, taken := r.take(one.instanceID); !taken {
				return until, nil // a write of the status now could conflict with that before a joint call
			}
			if err := r.change(ctx, one); err != nil {
				r.giveBack(one.instanceID)
				return time.Time{}, err
			}
		case floating.Delete:
			return time.Time{}, r.delete(ctx, &object)
		case floating.Finish:
			return time.Time{}, r.finish(ctx, &object)
		case floating.Renew:
			return time.Time{}, r.renew(ctx, &object)
		default:
			return one.step.At, r.report(ctx, one)
		}
	}
	return r.Now().Add(floating.MoveInterval), nil
}

// refresh reads instances from EC2, each once.
func (r *Reconciler) refresh(ctx context.Context, instances []string) error {
	slices.Sort(instances)
	for _, id := range slices.Compact(instances) {
		if _, err := r.Observer.RefreshInstance(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) take(instanceID string) (until time.Time, taken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pace.Take(instanceID, r.Now())
}

// done ends a change of the addresses on an instance.
func (r *Reconciler) done(instanceID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pace.Done(instanceID)
}

// giveBack ends the wait after a change that made no call.
func (r *Reconciler) giveBack(instanceID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pace.GiveBack(instanceID)
}

// delete deletes an object without a holder. A write of an agent since the decision is a conflict.
func (r *Reconciler) delete(ctx context.Context, object *v1alpha1.FloatingAddress) error {
	err := r.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion})
	return client.IgnoreNotFound(err)
}

// finish removes the finalizer, and with it the object.
func (r *Reconciler) finish(ctx context.Context, object *v1alpha1.FloatingAddress) error {
	after := object.DeepCopy()
	if controllerutil.RemoveFinalizer(after, v1alpha1.Finalizer) {
		lock := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, after, lock); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// renew removes the finalizer, and makes the object again.
func (r *Reconciler) renew(ctx context.Context, object *v1alpha1.FloatingAddress) error {
	r.mu.Lock()
	r.ended[object.Name] = object
	r.mu.Unlock()
	if err := r.finish(ctx, object); err != nil {
		return err
	}
	return r.restore(ctx, object.Name)
}

// restore makes the object of a name again if it ended under a pod. An agent may make it first.
func (r *Reconciler) restore(ctx context.Context, name string) error {
	r.mu.Lock()
	former := r.ended[name]
	r.mu.Unlock()
	if former == nil {
		return nil
	}
	next := &v1alpha1.FloatingAddress{Spec: former.Spec,
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{v1alpha1.Finalizer}}}
	if err := r.Client.Create(ctx, next); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("create FloatingAddress %s again: %w", name, err)
	}
	return nil
}

// inherit adds the assignment of the former object of the name, until the object has one. The caller holds the lock.
func (r *Reconciler) inherit(d *decision) {
	former := r.ended[d.object.Name]
	switch {
	case former == nil || former.UID == d.object.UID:
	case d.address.Assignment == nil:
		d.address.Assignment = addressOf(former).Assignment
	default:
		delete(r.ended, d.object.Name)
	}
}

// remember returns what the process remembers of an object. The caller holds the lock.
func (r *Reconciler) remember(object *v1alpha1.FloatingAddress) floating.Memory {
	if m := r.memories[object.Name]; m.uid == object.UID {
		return m.Memory
	}
	return floating.Memory{}
}

func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memories, name)
}

// change makes the call for an address, together with those for the other addresses on the instance that are due.
func (r *Reconciler) change(ctx context.Context, one *decision) error {
	defer r.done(one.instanceID)
	calls := map[call][]*decision{}
	var order []call
	due, err := r.due(ctx, one)
	if err != nil {
		return err
	}
	for _, other := range due {
		err := r.prepare(ctx, other)
		switch {
		case err != nil && other == one:
			return err
		case err == nil: // another one that changed meanwhile has a reconciliation of its own
			on := call{other.step.Do, other.step.On}
			if calls[on] == nil {
				order = append(order, on)
			}
			calls[on] = append(calls[on], other)
		}
	}
	for _, do := range []floating.Action{floating.Unassign, floating.Assign} { // both share the limit of an interface
		for _, on := range order {
			if on.do == do {
				r.call(ctx, on, calls[on])
			}
		}
	}
	return nil
}

// due returns the decisions that can share the calls of one.
func (r *Reconciler) due(ctx context.Context, one *decision) ([]*decision, error) {
	all := []*decision{one}
	if one.memory.Alone() {
		return all, nil
	}
	for _, id := range one.siblings {
		objects, err := r.on(ctx, id)
		if err != nil {
			return nil, err
		}
		for n := range objects {
			object := objects[n].DeepCopy()
			if slices.ContainsFunc(all, func(d *decision) bool { return d.object.UID == object.UID }) {
				continue
			}
			other, err := r.decide(ctx, object)
			if err != nil {
				return nil, err
			}
			calls := other.step.Do == floating.Assign || other.step.Do == floating.Unassign
			if calls && other.instanceID == one.instanceID && !other.memory.Alone() {
				all = append(all, other)
			}
		}
	}
	slices.SortFunc(all, func(a, b *decision) int { return a.address.IP.Compare(b.address.IP) })
	return all, nil
}

// prepare makes sure that the decision is about the present holder. The recorded assignment is a write over the version
// of the decision; if the object has it already, a read past the cache shows the version.
func (r *Reconciler) prepare(ctx context.Context, d *decision) error {
	if d.step.Do == floating.Assign && !equality.Semantic.DeepEqual(d.step.Record, d.address.Assignment) {
		if err := r.report(ctx, d); err != nil {
			return err
		}
		d.address.Assignment = d.step.Record
		return nil
	}
	var live v1alpha1.FloatingAddress
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(d.object), &live); err != nil {
		return err
	}
	same := live.UID == d.object.UID && live.Status.Sequence == d.object.Status.Sequence &&
		live.DeletionTimestamp.IsZero() == d.object.DeletionTimestamp.IsZero() &&
		equality.Semantic.DeepEqual(live.Status.Assignment, d.object.Status.Assignment)
	if !same {
		return apierrors.NewConflict(v1alpha1.SchemeGroupVersion.WithResource("floatingaddresses").GroupResource(),
			live.Name, nil)
	}
	return nil
}

// report writes the state of an address, over the version of the decision.
func (r *Reconciler) report(ctx context.Context, d *decision) error {
	if d.step.Reason == "" {
		return nil
	}
	after := d.object.DeepCopy()
	after.Status = v1alpha1.FloatingAddressStatus{Assignment: assignmentOf(d.step.Record)}
	var contended []metav1.Condition
	if message := r.named(ctx, d.address).Contention(); message != "" {
		contended = append(contended, metav1.Condition{Type: v1alpha1.ConditionContended, Status: metav1.ConditionTrue,
			Reason: floating.ReasonContended, Message: message})
	}
	outcome := status.Outcome{Reason: d.step.Reason, Message: d.step.Message}
	outcome.State = map[floating.State]status.State{
		floating.Ready: status.Ready, floating.Stalled: status.Stalled, floating.Progressing: status.Progressing,
	}[d.step.State]
	after.Status.Conditions = status.Summarize(d.object.Status.Conditions, d.object.Generation, outcome, contended...)
	before := v1alpha1.FloatingAddressStatus{
		Assignment: d.object.Status.Assignment, Conditions: d.object.Status.Conditions,
	}
	if equality.Semantic.DeepEqual(before, after.Status) {
		return nil
	}
	if err := status.WriteLocked(ctx, r.Client, v1alpha1.FieldOwnerController, after); err != nil {
		return err
	}
	d.object.ResourceVersion = after.ResourceVersion
	d.object.Status.Assignment, d.object.Status.Conditions = after.Status.Assignment, after.Status.Conditions
	return nil
}

func assignmentOf(record *floating.Assignment) *v1alpha1.AddressAssignment {
	if record == nil {
		return nil
	}
	return &v1alpha1.AddressAssignment{ENIID: record.InterfaceID, Sequence: record.Sequence, Found: record.Found}
}

// podNameTTL is short, because another pod can get the IP address.
const podNameTTL = time.Minute

// named returns an address with the names of its pods for messages, if two have it.
func (r *Reconciler) named(ctx context.Context, a floating.Address) floating.Address {
	if a.Contention() == "" {
		return a
	}
	holder, contender := *a.Holder, *a.Contender
	holder.Pod, contender.Pod = r.podName(ctx, holder.Pod), r.podName(ctx, contender.Pod)
	a.Holder, a.Contender = &holder, &contender
	return a
}

// podName returns how messages name a holder's pod. Of an IP address that is the name of the running pod with it, or
// the address if the API server does not return exactly one pod. A pod that asked for its address has its name already.
func (r *Reconciler) podName(ctx context.Context, ip string) string {
	if ip == "" {
		return ""
	}
	if _, err := netip.ParseAddr(ip); err != nil {
		return "pod " + ip
	}
	unnamed := "the pod with IP address " + ip
	name, err := r.podNames.Get(ctx, ip, func(ctx context.Context) (string, time.Duration, error) {
		pods := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		running := client.MatchingFields{"status.podIP": ip, "status.phase": "Running"}
		// A failure is cached too, so that the next message does not cost another request.
		if err := r.Reader.List(ctx, &pods, running); err == nil && len(pods.Items) == 1 {
			return "pod " + pods.Items[0].Namespace + "/" + pods.Items[0].Name, podNameTTL, nil
		}
		return unnamed, podNameTTL, nil
	})
	if err != nil {
		return unnamed
	}
	return name
}

// on returns the addresses on an interface. Callers must not change them.
func (r *Reconciler) on(ctx context.Context, interfaceID string) ([]v1alpha1.FloatingAddress, error) {
	var list v1alpha1.FloatingAddressList
	err := r.Client.List(ctx, &list, controller.AddressesOn(interfaceID), client.UnsafeDisableDeepCopy)
	return list.Items, err
}
