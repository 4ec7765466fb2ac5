// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podservice keeps the EndpointSlices of Services that publish the addresses of pods on a pod network: Services
// without selector that name the network and the pods in annotations.
//
// Package podservice of the core decides which addresses count. This package gathers what it needs, and gives copies of
// the pods with these addresses to the reconciler of Kubernetes' own EndpointSlice controller, so that readiness,
// hostnames, zones, ports and the division into slices are those of any other Service.
package podservice

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/endpointslice"
	endpointsliceutil "k8s.io/endpointslice/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podservice"
)

const (
	// maxEndpoints is the largest number of endpoints of a slice (Kubernetes API, discovery/v1).
	maxEndpoints = 1000
	// staleDelay is the time until the cache has the slices that this process wrote.
	staleDelay = 100 * time.Millisecond
	// settleTime is how long a problem lasts that can pass before it becomes an Event: a pod starts faster.
	settleTime = 15 * time.Second
	// repeatTime is the time between two Events of a problem. The API server deletes an Event after an hour.
	repeatTime = 30 * time.Minute
)

// Options are what a Reconciler works with.
type Options struct {
	// Client reads Services, Pods, Nodes, our kinds and the slices of this controller from a cache.
	Client client.Client
	// Slices writes EndpointSlices.
	Slices discoveryclient.DiscoveryV1Interface
	Events events.EventRecorder
	// Concurrency is how many Services are reconciled at the same time.
	Concurrency int
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
}

// Reconciler reconciles the EndpointSlices of Services.
type Reconciler struct {
	Options
	endpoints *endpointslice.Reconciler
	// tracker has the slices that this process wrote, so that a cache without them is noticed.
	tracker *endpointsliceutil.EndpointSliceTracker
	// mu guards problems.
	mu       sync.Mutex
	problems map[types.NamespacedName]noticed
}

// noticed is the present problem of a Service.
type noticed struct {
	podservice.Problem
	since, reported time.Time
}

// New returns a Reconciler to be set up with a manager.
func New(options Options) *Reconciler {
	r := &Reconciler{Options: options, tracker: endpointsliceutil.NewEndpointSliceTracker(),
		problems: map[types.NamespacedName]noticed{}}
	r.endpoints = endpointslice.NewReconciler(writer{slices: options.Slices}, nodes{options.Client}, maxEndpoints,
		r.tracker, nil, nil, v1alpha1.EndpointSliceManager, endpointslice.WithPreferSameTrafficDistributionEnabled(true))
	return r
}

// writer is the part of Kubernetes' client that the reconciler of slices uses.
type writer struct {
	kubernetes.Interface
	slices discoveryclient.DiscoveryV1Interface
}

// DiscoveryV1 implements [kubernetes.Interface].
func (w writer) DiscoveryV1() discoveryclient.DiscoveryV1Interface { return w.slices }

// Reconcile updates the slices of one Service.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var service corev1.Service
	if err := r.Client.Get(ctx, request.NamespacedName, &service); err != nil {
		if apierrors.IsNotFound(err) { // the garbage collector deletes its slices
			r.forget(request.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	slices, err := r.slicesOf(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if r.tracker.StaleSlices(&service, slices) {
		return reconcile.Result{RequeueAfter: staleDelay}, nil
	}
	if !isDeclared(&service) {
		if err := r.remove(ctx, slices); err != nil {
			return reconcile.Result{}, err
		}
		r.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if unsupported(&service) != "" {
		if err := r.remove(ctx, slices); err != nil {
			return reconcile.Result{}, err
		}
		return r.report(&service, findings(&service).Problem()), nil
	}
	found, pods, err := r.gather(ctx, &service, slices)
	if err != nil {
		return reconcile.Result{}, err
	}
	logger := logr.FromSlogHandler(r.Log.Handler())
	if err := r.endpoints.Reconcile(logger, &service, pods, slices, time.Time{}); err != nil {
		return reconcile.Result{}, fmt.Errorf("EndpointSlices of Service %s: %w", request.NamespacedName, err)
	}
	return r.report(&service, found.Problem()), nil
}

// slicesOf returns the slices of this controller for a Service.
func (r *Reconciler) slicesOf(ctx context.Context, of types.NamespacedName) ([]*discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	err := r.Client.List(ctx, &list, client.InNamespace(of.Namespace), client.MatchingLabels{
		discoveryv1.LabelServiceName: of.Name, discoveryv1.LabelManagedBy: v1alpha1.EndpointSliceManager,
	})
	slices := make([]*discoveryv1.EndpointSlice, 0, len(list.Items))
	for n := range list.Items {
		slices = append(slices, &list.Items[n])
	}
	return slices, err
}

// remove deletes the slices of a Service that publishes no pod network any more.
func (r *Reconciler) remove(ctx context.Context, slices []*discoveryv1.EndpointSlice) error {
	for _, slice := range slices {
		if err := r.Client.Delete(ctx, slice, client.Preconditions{UID: &slice.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, err)
		}
		r.tracker.ExpectDeletion(slice)
	}
	return nil
}

// forget forgets a Service that is gone, or that publishes no pod network.
func (r *Reconciler) forget(service types.NamespacedName) {
	r.endpoints.DeleteService(service.Namespace, service.Name)
	r.tracker.DeleteService(service.Namespace, service.Name)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.problems, service)
}

// report emits an Event for a problem that lasts, and returns when to look at it again.
func (r *Reconciler) report(service *corev1.Service, problem *podservice.Problem) reconcile.Result {
	key, now := client.ObjectKeyFromObject(service), r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if problem == nil {
		delete(r.problems, key)
		return reconcile.Result{}
	}
	known, is := r.problems[key]
	if !is || known.Problem != *problem {
		known = noticed{Problem: *problem, since: now}
	}
	due := known.since
	if problem.Passes {
		due = due.Add(settleTime)
	}
	if !known.reported.IsZero() {
		due = known.reported.Add(repeatTime)
	}
	if !now.Before(due) {
		kind := corev1.EventTypeWarning
		if problem.Normal {
			kind = corev1.EventTypeNormal
		}
		r.Events.Eventf(service, nil, kind, problem.Reason, "Publish", "%s", problem.Message)
		known.reported, due = now, now.Add(repeatTime)
	}
	r.problems[key] = known
	return reconcile.Result{RequeueAfter: due.Sub(now)}
}
