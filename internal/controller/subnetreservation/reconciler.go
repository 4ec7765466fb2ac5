// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subnetreservation reconciles SubnetReservation objects: it creates and deletes subnet CIDR reservations in
// EC2, and reports the blocks of each subnet.
//
// Package reservation decides. This package reads its inputs, writes the blocks to the status before it requests them,
// makes the calls, and reports. EC2 allows one of these calls per second, so one object is reconciled at a time.
package subnetreservation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/reservation"
)

const (
	// rereadInterval is the time between two reads of EC2 while everything is as declared, recheckInterval while a user
	// must act, and requestInterval while a request is not confirmed.
	rereadInterval  = 10 * time.Minute
	recheckInterval = time.Minute
	requestInterval = 5 * time.Second
)

// EC2 is what the reconciler needs from EC2 itself.
type EC2 interface {
	SubnetReservations(ctx context.Context, subnetID string) ([]eni.SubnetReservation, error)
	SubnetInterfaces(ctx context.Context, subnetID string) ([]eni.Interface, error)
	// CreateSubnetReservation returns an error of class AddressTaken if the block overlaps another reservation.
	CreateSubnetReservation(
		ctx context.Context, subnetID string, cidr netip.Prefix, kind eni.ReservationType, owner reservation.Owner,
	) (id string, err error)
	// DeleteSubnetReservation deletes a reservation; an unknown one is no error.
	DeleteSubnetReservation(ctx context.Context, id string) error
}

// Options are what a Reconciler works with.
type Options struct {
	Client client.Client
	// Reader reads from the API server itself, not from a cache: the reconciler must not miss a recorded block.
	Reader   client.Reader
	Resolver *resolver.Resolver
	EC2      EC2
	// Cluster is the cluster's name in ownership tags. Permit returns an error while it is not confirmed; nil for a name
	// that needs no confirmation.
	Cluster string
	Permit  func() error
	// Era returns the era of this process.
	Era func() era.Era
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
	// Traces receives the spans; nil for no tracing.
	Traces trace.TracerProvider
}

// Reconciler reconciles SubnetReservations.
type Reconciler struct {
	Options
	// expected are the reservations that this process created in the last two minutes, by subnet: EC2 may not return
	// them yet.
	expected map[string][]expectation
	// leavingSince is when this process first observed that an unconfirmed block is not declared any more.
	leavingSince map[unconfirmed]time.Time
	// deletingSince is when this process first observed the deletion of an object, by name. The API server's deletion
	// timestamp is from another clock.
	deletingSince map[string]time.Time
	// accepted are the UIDs of the objects that got the finalizer from this process, by name: no earlier leader created
	// anything for them.
	accepted map[string]types.UID
}

type expectation struct {
	eni.SubnetReservation
	until time.Time
}

// New returns a Reconciler to be set up with a manager.
func New(options Options) *Reconciler {
	return &Reconciler{
		Options: options, expected: map[string][]expectation{}, leavingSince: map[unconfirmed]time.Time{},
		deletingSince: map[string]time.Time{}, accepted: map[string]types.UID{},
	}
}

// SetupWithManager connects the reconciler to SubnetReservations.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("subnetreservation").
		For(&v1alpha1.SubnetReservation{}, builder.WithPredicates(controller.SpecOrLifeChanged())).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: 1, RateLimiter: controller.Backoff()}).
		Complete(r)
}

// Reconcile updates the reservations of one SubnetReservation.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ctx, end := controller.Trace(ctx, r.Traces, "reconcile", attribute.String("multieni.subnetreservation", request.Name))
	result, err := r.reconcile(ctx, request)
	end(err)
	if apierrors.IsConflict(err) { // it changed meanwhile
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var object v1alpha1.SubnetReservation
	if err := r.Reader.Get(ctx, request.NamespacedName, &object); err != nil {
		if apierrors.IsNotFound(err) {
			delete(r.deletingSince, request.Name)
			delete(r.accepted, request.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if r.Permit != nil {
		if err := r.Permit(); err != nil {
			return reconcile.Result{RequeueAfter: requestInterval}, r.write(ctx, &object, object.Status.Reservations,
				controller.Unsynced(err))
		}
	}
	if !object.DeletionTimestamp.IsZero() {
		if _, known := r.deletingSince[object.Name]; !known {
			r.deletingSince[object.Name] = r.Now()
		}
		return r.remove(ctx, &object)
	}
	delete(r.deletingSince, object.Name)
	if err := r.addFinalizer(ctx, &object); err != nil {
		return reconcile.Result{}, err
	}
	if controller.Paused(&object) {
		return reconcile.Result{}, r.write(ctx, &object, object.Status.Reservations, paused())
	}
	s, err := r.observe(ctx, &object)
	if err != nil {
		return reconcile.Result{}, errors.Join(err, r.write(ctx, &object, object.Status.Reservations, unreadable(err)))
	}
	if err := r.write(ctx, &object, s.blocks(), s.outcome()); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	failed := r.apply(ctx, &s)
	r.settle(&s)
	// The status has the IDs, so it is written even if the calls used all the time of the reconciliation.
	if err := r.write(context.WithoutCancel(ctx), &object, s.blocks(), s.outcome()); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{RequeueAfter: s.requeueAfter()}, failed
}

// apply makes the calls. It returns the errors after which a retry can succeed.
func (r *Reconciler) apply(ctx context.Context, s *snapshot) error {
	var failed []error
	remove := func(id string) {
		if err := s.note(r.delete(ctx, id)); err != nil {
			failed = append(failed, err)
			return
		}
		s.deleted[id] = true
	}
	for _, id := range s.released {
		remove(id)
	}
	for n := range s.subnets {
		subnet := &s.subnets[n]
		for _, id := range subnet.plan.Delete {
			remove(id)
		}
		for _, cidr := range subnet.plan.Create {
			id, err := r.EC2.CreateSubnetReservation(ctx, subnet.Subnet.ID, cidr, s.desired.Type, s.desired.Owner)
			if class := eni.ErrorClass(err); err != nil && (class == eni.Throttled || class == eni.Transient) {
				failed = append(failed, err)
			}
			subnet.created(cidr, id, err)
			if err == nil {
				r.expect(subnet.Subnet.ID, s.desired.Owner.Reservation(id, cidr, s.desired.Type))
				r.Log.Info("reserved", "subnetreservation", s.desired.Owner.Name, "subnet", subnet.Subnet.ID,
					"cidr", cidr.String(), "id", id)
			}
		}
	}
	return errors.Join(failed...)
}

// delete deletes a reservation. An unknown one is no error.
func (r *Reconciler) delete(ctx context.Context, id string) error {
	if err := r.EC2.DeleteSubnetReservation(ctx, id); err != nil {
		return err
	}
	for subnetID, all := range r.expected {
		r.expected[subnetID] = slices.DeleteFunc(all, func(e expectation) bool { return e.ID == id })
	}
	return nil
}

// expect stores a new reservation until EC2 certainly returns it.
func (r *Reconciler) expect(subnetID string, made eni.SubnetReservation) {
	r.expected[subnetID] = append(r.expected[subnetID], expectation{made, r.Now().Add(inventory.VisibilityWindow)})
}

// reservations returns EC2's reservations of a subnet and the expected ones.
func (r *Reconciler) reservations(ctx context.Context, subnetID string) ([]eni.SubnetReservation, error) {
	all, err := r.EC2.SubnetReservations(ctx, subnetID)
	if err != nil {
		return nil, err
	}
	r.expected[subnetID] = slices.DeleteFunc(r.expected[subnetID], func(e expectation) bool {
		return !r.Now().Before(e.until)
	})
	if len(r.expected[subnetID]) == 0 {
		delete(r.expected, subnetID)
	}
	for _, e := range r.expected[subnetID] {
		if !slices.ContainsFunc(all, func(visible eni.SubnetReservation) bool { return visible.ID == e.ID }) {
			all = append(all, e.SubnetReservation)
		}
	}
	return all, nil
}

// remove deletes the reservations, and removes the finalizer.
func (r *Reconciler) remove(ctx context.Context, object *v1alpha1.SubnetReservation) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(object, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	if controller.Paused(object) {
		return reconcile.Result{}, r.write(ctx, object, object.Status.Reservations, paused())
	}
	if err := r.release(ctx, object); err != nil {
		return reconcile.Result{}, errors.Join(err, r.write(ctx, object, object.Status.Reservations, undeleted(err)))
	}
	if left := r.invisibleUntil(object).Sub(r.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, r.write(ctx, object, object.Status.Reservations, status.Outcome{
			State: status.Progressing, Reason: v1alpha1.ReasonDeleting,
			Message: "EC2 gets two minutes to return a reservation whose request was not answered, or that an earlier leader " +
				"requested",
		})
	}
	before := object.DeepCopy()
	controllerutil.RemoveFinalizer(object, v1alpha1.Finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, object, patch,
		client.FieldOwner(v1alpha1.FieldOwnerController)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("remove the finalizer from SubnetReservation %s: %w", object.Name, err)
	}
	return reconcile.Result{}, nil
}

// invisibleUntil returns the time until which EC2 may have a reservation of an object that is being deleted and not
// return it; zero for none. The record has the requests of an earlier leader only until this one replaces it.
func (r *Reconciler) invisibleUntil(object *v1alpha1.SubnetReservation) (until time.Time) {
	if object.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		return time.Time{}
	}
	if accepted, is := r.accepted[object.Name]; !is || accepted != object.UID {
		until = r.Era().VisibleAt()
	}
	if unanswered := r.deletingSince[object.Name].Add(inventory.VisibilityWindow); mayBeInvisible(object) &&
		unanswered.After(until) {
		until = unanswered
	}
	return until
}

// release deletes every owned reservation, unless the object retains them.
func (r *Reconciler) release(ctx context.Context, object *v1alpha1.SubnetReservation) error {
	if object.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		return nil
	}
	s := snapshot{desired: reservation.Desired{Owner: r.owner(object)}, recorded: recorded(object.Status),
		deleted: map[string]bool{}}
	match, err := r.Resolver.Subnets(ctx, terms(object.Spec))
	if err != nil {
		return err
	}
	ids := s.recordedSubnets()
	for _, subnet := range match.Subnets() {
		ids[subnet.ID] = true
	}
	if err := r.releaseIn(ctx, &s, ids); err != nil {
		return err
	}
	return r.apply(ctx, &s)
}

// addFinalizer adds the finalizer. Without it the controller creates nothing in EC2 for an object. A paused one gets
// none.
func (r *Reconciler) addFinalizer(ctx context.Context, object *v1alpha1.SubnetReservation) error {
	before := object.DeepCopy()
	if controller.Paused(object) || !controllerutil.AddFinalizer(object, v1alpha1.Finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, object, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return fmt.Errorf("add the finalizer to SubnetReservation %s: %w", object.Name, err)
	}
	r.accepted[object.Name] = object.UID
	return nil
}

// write writes the status if it changed. The status is the record of blocks, so a former leader must not replace a
// newer one.
func (r *Reconciler) write(
	ctx context.Context, object *v1alpha1.SubnetReservation, blocks []v1alpha1.ReservedBlock, o status.Outcome,
) error {
	after := v1alpha1.SubnetReservationStatus{ObservedGeneration: object.Generation, Reservations: blocks}
	for _, b := range blocks {
		if b.Reason != string(reservation.Releasing) {
			after.Blocks++
		}
		if b.Reason == "" {
			after.Reserved++
		}
	}
	after.Conditions = status.Summarize(object.Status.Conditions, object.Generation, o)
	if equality.Semantic.DeepEqual(object.Status, after) {
		return nil
	}
	object.Status = after
	return status.WriteLocked(ctx, r.Client, v1alpha1.FieldOwnerController, object)
}

func (r *Reconciler) owner(object *v1alpha1.SubnetReservation) reservation.Owner {
	return reservation.Owner{Cluster: r.Cluster, Name: object.Name}
}
