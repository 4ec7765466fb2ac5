// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeeni reconciles NodeENI objects: it accepts them, reports the state of the fleet, and removes their
// finalizers once EC2 confirms that none of their interfaces is left. It changes nothing in EC2; the node reconciler
// does.
package nodeeni

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
)

// recheck is the requeue time of a deletion that waits, and of a reconciliation that waits for the first list. A
// deletion that has waited for a long time waits for a user: it is requeued less often, after a tenth of its waiting
// time but at least every mostRecheck.
const recheck, mostRecheck = 5 * time.Second, 10 * time.Minute

// Options are what a Reconciler works with.
type Options struct {
	Client client.Client
	// Reader reads from the API server itself, not from a cache.
	Reader   client.Reader
	Observer *observer.Observer
	Resolver *resolver.Resolver
	InFlight *controller.InFlight
	// Era returns the era of this process.
	Era func() era.Era
	// Refusals holds the reads that EC2 refuses; nil for none. Events emits events; nil emits none.
	Refusals *controller.Refusals
	// RefusedWrites holds the objects that the API server refuses to store.
	RefusedWrites *controller.RejectedWrites
	// Attachments has the states of the NetworkAttachmentDefinitions of each NodeENI; AttachmentsChanged receives the
	// NodeENIs whose state changed.
	Attachments        *controller.AttachmentDefinitions
	AttachmentsChanged <-chan event.GenericEvent
	Events             events.EventRecorder
	// Reresolve is how often subnets and groups are resolved again; ReresolveMissing while some are not found.
	Reresolve, ReresolveMissing time.Duration
	// Concurrency is how many NodeENIs are reconciled at the same time.
	Concurrency int
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
}

// Reconciler reconciles NodeENIs.
type Reconciler struct {
	Options
	marks  deletionMarks
	bursts statusBursts
	// accepted are the UIDs of the NodeENIs that got the finalizer from this process: no process created anything for them
	// before.
	accepted sync.Map
}

// New returns a Reconciler to be set up with a manager.
func New(options Options) *Reconciler {
	if options.Refusals == nil {
		options.Refusals = &controller.Refusals{}
	}
	if options.RefusedWrites == nil {
		options.RefusedWrites = &controller.RejectedWrites{}
	}
	if options.Attachments == nil {
		options.Attachments = &controller.AttachmentDefinitions{}
	}
	return &Reconciler{Options: options}
}

// deletionMarks holds a mark from the first observation of each NodeENI's deletion.
type deletionMarks struct {
	// mu guards when.
	mu   sync.Mutex
	when map[types.UID]uint64
}

// of returns the mark of a NodeENI, made now if there is none.
func (m *deletionMarks) of(uid types.UID, now func() uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.when == nil {
		m.when = map[types.UID]uint64{}
	}
	if _, known := m.when[uid]; !known {
		m.when[uid] = now()
	}
	return m.when[uid]
}

// forget drops the mark of a NodeENI that is gone.
func (m *deletionMarks) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.when, uid)
}

// Reconcile updates one NodeENI's status, and adds or removes its finalizer.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	synced, err := r.synced(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	var nodeENI v1alpha1.NodeENI
	if err := r.Client.Get(ctx, request.NamespacedName, &nodeENI); err != nil {
		if apierrors.IsNotFound(err) {
			r.bursts.forget(request.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !synced {
		return reconcile.Result{RequeueAfter: recheck}, client.IgnoreNotFound(r.reportUnsynced(ctx, &nodeENI))
	}
	deleting := !nodeENI.DeletionTimestamp.IsZero()
	var left []eni.Interface
	if deleting {
		var gone bool
		gone, left, err = r.removeFinalizer(ctx, &nodeENI)
		if gone || err != nil {
			return reconcile.Result{}, err
		}
	} else if err := r.addFinalizer(ctx, &nodeENI); err != nil {
		return reconcile.Result{}, err
	}

	f, unreadable, err := r.gather(ctx, &nodeENI)
	if err != nil {
		return reconcile.Result{}, err
	}
	f.strays, f.unreported = r.strays(left), r.unreported(&nodeENI, f)
	after := report(&nodeENI, f)
	if wait := r.podsDue(&nodeENI, after); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, unreadable
	}
	r.bursts.reported(nodeENI.Name, f.unsettled(&nodeENI), !equality.Semantic.DeepEqual(nodeENI.Status, after),
		after.Nodes, r.Now())
	if err := r.write(ctx, &nodeENI, after); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{RequeueAfter: r.next(&nodeENI, f)}, unreadable
}

// Counts counts interfaces by the name of their NodeENI and by their state, from the statuses.
func (r *Reconciler) Counts() map[string]map[string]int {
	var all v1alpha1.NodeENIList
	if err := r.Client.List(context.Background(), &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil // a cache that is not filled yet has no content
	}
	counts := map[string]map[string]int{}
	for n := range all.Items {
		st := all.Items[n].Status
		counts[all.Items[n].Name] = map[string]int{
			"desired": int(st.Desired), "attached": int(st.Attached), "ready": int(st.Ready),
			"blocked": int(st.Blocked), "drifted": int(st.Drifted),
		}
	}
	return counts
}

// Attached returns the interfaces that nodes have, from the statuses. Interfaces of an instance that had the name of a
// node before are not among them.
func (r *Reconciler) Attached() []AttachedInterface {
	var states v1alpha1.NodeENIStateList
	if err := r.Client.List(context.Background(), &states, client.UnsafeDisableDeepCopy); err != nil {
		return nil // a cache that is not filled yet has no content
	}
	var all []AttachedInterface
	for n := range states.Items {
		state := &states.Items[n]
		for _, i := range state.Status.Interfaces {
			if i.Phase == v1alpha1.PhaseAttached && i.InstanceID == state.Status.InstanceID && i.MACAddress != "" {
				all = append(all, AttachedInterface{Node: state.Name, NodeENI: i.NodeENI, MAC: i.MACAddress, ENI: i.ENIID})
			}
		}
	}
	return all
}

// AttachedInterface is an interface that a node has.
type AttachedInterface struct{ Node, NodeENI, MAC, ENI string }

// Blocked counts the interfaces that are blocked, by reason.
func (r *Reconciler) Blocked() map[string]int {
	var all v1alpha1.NodeENIStateList
	if err := r.Client.List(context.Background(), &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil // a cache that is not filled yet has no content
	}
	counts := map[string]int{}
	for n := range all.Items {
		for _, i := range all.Items[n].Status.Interfaces {
			if i.Phase == v1alpha1.PhaseBlocked {
				counts[i.Reason]++
			}
		}
	}
	return counts
}

func (r *Reconciler) next(nodeENI *v1alpha1.NodeENI, f facts) time.Duration {
	switch {
	case !nodeENI.DeletionTimestamp.IsZero():
		return min(max(recheck, f.now.Sub(nodeENI.DeletionTimestamp.Time)/10), mostRecheck)
	case !f.resolved():
		return r.ReresolveMissing
	default:
		return r.Reresolve
	}
}

// addFinalizer adds the finalizer. Without it the controller creates nothing in EC2 for a NodeENI.
func (r *Reconciler) addFinalizer(ctx context.Context, nodeENI *v1alpha1.NodeENI) error {
	before := nodeENI.DeepCopy()
	if !controllerutil.AddFinalizer(nodeENI, v1alpha1.Finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, nodeENI, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return fmt.Errorf("add the finalizer to NodeENI %s: %w", nodeENI.Name, err)
	}
	r.accepted.Store(nodeENI.UID, true)
	return nil
}

// selected lists the Nodes that a NodeENI selects. They are only read.
func (r *Reconciler) selected(ctx context.Context, nodeENI *v1alpha1.NodeENI) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	selector := client.MatchingLabelsSelector{Selector: controller.Selector(nodeENI.Spec)}
	err := r.Client.List(ctx, &nodes, selector, client.UnsafeDisableDeepCopy)
	return nodes.Items, err
}

// ledgersUndefined reports whether the CustomResourceDefinition of NodeENIStates is missing, regardless of the cache:
// if the definition was deleted, the cache does not learn of the deletion of the last objects.
func (r *Reconciler) ledgersUndefined(ctx context.Context) bool {
	return controller.IsCRDMissing(r.Reader.List(ctx, &v1alpha1.NodeENIStateList{}, client.Limit(1)))
}

// owningNodes returns, for the selected Nodes whose instance belongs to another Node, the name of that one. A Node with
// a state of its own for the instance is not among them.
func (r *Reconciler) owningNodes(ctx context.Context, f facts) (map[string]string, error) {
	instances, owning := map[string]string{}, map[string]string{}
	for n := range f.states {
		instances[f.states[n].Name] = f.states[n].Status.InstanceID
	}
	for _, node := range f.nodes {
		ref, err := eni.ParseProviderID(node.Spec.ProviderID)
		if err != nil || instances[node.Name] == ref.ID {
			continue
		}
		var same corev1.NodeList
		if err := r.Client.List(ctx, &same, controller.OfInstance(ref.ID), client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		if len(same.Items) == 0 { // the cache is about to have it
			continue
		}
		if owner := slices.MinFunc(same.Items, controller.CompareNodes); owner.Name != node.Name {
			owning[node.Name] = owner.Name
		}
	}
	return owning, nil
}

// gather reads the state of the fleet. It returns failed reads of selectors as a separate error, so that the report can
// be written before the error causes a retry.
func (r *Reconciler) gather(ctx context.Context, nodeENI *v1alpha1.NodeENI) (f facts, unreadable, err error) {
	if f.nodes, err = r.selected(ctx, nodeENI); err != nil {
		return f, nil, err
	}
	var states v1alpha1.NodeENIStateList
	if err := r.Client.List(ctx, &states, controller.StatesOf(nodeENI.UID), client.UnsafeDisableDeepCopy); err != nil {
		return f, nil, err
	}
	if f.floating, err = r.floating(ctx, nodeENI, states.Items); err != nil {
		return f, nil, err
	}
	f.attachments.AttachmentResult, f.attachments.known = r.Attachments.Of(nodeENI.Name)
	f.now, f.states, f.unstored = r.Now(), states.Items, map[string]string{}
	f.hidden = r.mayBeInvisible(nodeENI.UID)
	for _, node := range f.nodes {
		if why := r.RefusedWrites.Of(controller.ObjectRef{Kind: "NodeENIState", Name: node.Name}); why != "" {
			f.unstored[node.Name] = why
		}
	}
	if f.owningNodes, err = r.owningNodes(ctx, f); err != nil {
		return f, nil, err
	}
	if r.Refusals.CannotRead() {
		f.refused, f.unlisted = r.Refusals.Message(), r.Refusals.Refused("DescribeNetworkInterfaces")
	}
	f.subnets, f.subnetsErr = r.Resolver.Subnets(ctx, controller.SubnetTerms(nodeENI.Spec))
	f.groups, f.groupsErr = r.Resolver.SecurityGroups(ctx, controller.GroupTerms(nodeENI.Spec))
	if f.subnetsErr != nil {
		return f, f.subnetsErr, nil
	}
	return f, f.groupsErr, nil
}
