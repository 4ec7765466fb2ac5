// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package awsnodetemplate reconciles AWSNodeTemplate objects: it publishes launch templates in EC2 from their
// declarations, and reports for every node that was launched from them whether it equals a node launched now.
//
// Package launchtemplate decides what to render, and what a difference means. This package collects the inputs, tests
// the result, and publishes it as a numbered version. It reports on the object, on its nodes, and to the node
// reconciler, which updates interfaces in place.
package awsnodetemplate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/userdata"
)

// recheckInterval is the requeue time while an update in place, or a deletion that waits for nodes, is in progress.
const recheckInterval = 5 * time.Second

// EC2 is what the reconciler needs from EC2 itself.
type EC2 interface {
	// LaunchTemplates returns the launch templates with all the tags.
	LaunchTemplates(ctx context.Context, tags map[string]string) ([]launchtemplate.Existing, error)
	// LaunchTemplateVersions returns all versions of a launch template, the oldest first.
	LaunchTemplateVersions(ctx context.Context, templateID string) ([]launchtemplate.Version, error)
	CreateLaunchTemplate(ctx context.Context, p launchtemplate.NewTemplate) (id string, warnings []string, err error)
	CreateLaunchTemplateVersion(ctx context.Context, token, templateID, hash string,
		data launchtemplate.Document) (number int64, warnings []string, err error)
	DeleteLaunchTemplate(ctx context.Context, templateID string) error
	DeleteLaunchTemplateVersions(ctx context.Context, templateID string, numbers []int64) error
	// PutTags puts tags on a resource, here a launch template.
	PutTags(ctx context.Context, id string, tags map[string]string) error
	// SubnetsOf lists the subnets of a VPC.
	SubnetsOf(ctx context.Context, vpcID string) ([]eni.Subnet, error)
	// DryRunLaunch asks EC2 whether it would launch, without a launch.
	DryRunLaunch(ctx context.Context, t launchtemplate.DryRun) error
}

// Options are what a Reconciler works with.
type Options struct {
	Client   client.Client
	Events   events.EventRecorder
	Observer *observer.Observer
	Resolver *resolver.Resolver
	Launches *resolver.Launches
	EC2      EC2
	// References returns the users of launch templates other than running instances.
	References func(context.Context) ([]launchtemplate.Reference, error)
	// CheckOverride reports a member of an override that EC2 does not have. If it is nil, overrides are not allowed.
	CheckOverride func(launchtemplate.Document) error
	// KubernetesVersion returns the minor version of the API server, such as 1.35.
	KubernetesVersion func() (string, error)
	// NodeCluster returns the values of this cluster for user data; empty fields are unknown. If nil, all are unknown.
	NodeCluster func(context.Context) (userdata.Cluster, error)
	Repairs     *controller.InPlaceUpdates
	// Cluster is the cluster's name in ownership tags.
	Cluster string
	// SourceRefresh is the time between two reads of what can change by itself: aliases, images, nodes. Relist is the time
	// between two lists of EC2's launch templates.
	SourceRefresh, Relist time.Duration
	// Concurrency is how many node templates are reconciled at the same time.
	Concurrency int
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
	// Traces receives the spans; nil for no tracing.
	Traces trace.TracerProvider
}

// Reconciler reconciles AWSNodeTemplates.
type Reconciler struct {
	Options
	templates *templateCache

	// mu guards met and standings.
	mu sync.Mutex
	// met are the instances whose interfaces were read when their node joined.
	met map[string]bool
	// standings are the last counts of the nodes, by node template.
	standings map[string]Counts
}

// New returns a Reconciler to be set up with a manager.
func New(options Options) *Reconciler {
	return &Reconciler{
		Options: options, met: map[string]bool{}, standings: map[string]Counts{},
		templates: newTemplateCache(options),
	}
}

// Reconcile updates the launch templates of one node template, and the reports on its nodes.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := r.Observer.Failure().Err; err != nil {
		return reconcile.Result{RequeueAfter: recheckUnsynced}, r.reportUnsynced(ctx, request, err)
	}
	if err := r.Observer.WaitSynced(ctx); err != nil {
		return reconcile.Result{}, err
	}
	ctx, end := controller.Trace(ctx, r.Traces, "reconcile", attribute.String("multieni.awsnodetemplate", request.Name))
	result, err := r.reconcile(ctx, request)
	end(err)
	return result, err
}

// recheckUnsynced is the requeue time of a reconciliation that waits for the first list of the cluster's interfaces.
const recheckUnsynced = 5 * time.Second

// reportUnsynced reports why the cluster's interfaces are not known.
func (r *Reconciler) reportUnsynced(ctx context.Context, request reconcile.Request, why error) error {
	var object v1alpha1.AWSNodeTemplate
	if err := r.Client.Get(ctx, request.NamespacedName, &object); err != nil {
		return client.IgnoreNotFound(err)
	}
	after := *object.Status.DeepCopy()
	after.ObservedGeneration = object.Generation
	after.Conditions = controller.UnsyncedConditions(after.Conditions, object.Generation, controller.Unsynced(why))
	return r.write(ctx, &object, after)
}

func (r *Reconciler) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var object v1alpha1.AWSNodeTemplate
	if err := r.Client.Get(ctx, request.NamespacedName, &object); err != nil {
		r.forget(request.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !object.DeletionTimestamp.IsZero() {
		return r.removeFinalizer(ctx, &object)
	}
	if err := r.addFinalizer(ctx, &object); err != nil {
		return reconcile.Result{}, err
	}
	f, err := r.gather(ctx, &object)
	if err != nil {
		return reconcile.Result{}, err
	}
	if f.rendering.Problems == nil && !controller.Paused(&object) {
		if err := r.publish(ctx, &object, &f); err != nil {
			return reconcile.Result{}, err
		}
	}
	f.published = offered(&object, f)
	if f.fleet, err = r.checkDrift(ctx, &f); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.write(ctx, &object, report(&object, f)); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.writeNodes(ctx, &object, f); err != nil {
		return reconcile.Result{}, err
	}
	r.updateNodes(ctx, &object, f.fleet)
	return reconcile.Result{RequeueAfter: r.next(f)}, r.tidy(ctx, &object, f)
}

// tidy deletes launch templates that are no longer desired, if the desired ones are known.
func (r *Reconciler) tidy(ctx context.Context, object *v1alpha1.AWSNodeTemplate, f facts) error {
	if f.rendering.Problems != nil || f.refusal != nil || f.unseen || controller.Paused(object) {
		return nil //nolint:nilerr // the status reports the refusal; the desired templates are not known
	}
	err := r.collect(ctx, f)
	if errors.Is(err, errReferrersUnknown) {
		r.Log.Warn("launch templates that seem unused are kept", "awsnodetemplate", object.Name, "err", err)
		return nil
	}
	return err
}

func (r *Reconciler) write(
	ctx context.Context, object *v1alpha1.AWSNodeTemplate, after v1alpha1.AWSNodeTemplateStatus,
) error {
	if equality.Semantic.DeepEqual(object.Status, after) {
		return nil
	}
	object.Status = after
	return client.IgnoreNotFound(status.Write(ctx, r.Client, v1alpha1.FieldOwnerController, object))
}

func (r *Reconciler) next(f facts) time.Duration {
	if f.unseen {
		return time.Second
	}
	for _, n := range f.fleet {
		if len(n.updates) > 0 {
			return min(recheckInterval, r.SourceRefresh)
		}
	}
	return r.SourceRefresh
}

// addFinalizer adds the finalizer. Without it the controller creates nothing in EC2 for a node template. A paused one
// gets none.
func (r *Reconciler) addFinalizer(ctx context.Context, object *v1alpha1.AWSNodeTemplate) error {
	before := object.DeepCopy()
	if controller.Paused(object) || !controllerutil.AddFinalizer(object, v1alpha1.Finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, object, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return fmt.Errorf("add the finalizer to AWSNodeTemplate %s: %w", object.Name, err)
	}
	return nil
}

// removeFinalizer deletes the launch templates once no node that was launched from them exists and no group refers to
// them. Then it removes the finalizer.
func (r *Reconciler) removeFinalizer(ctx context.Context, object *v1alpha1.AWSNodeTemplate) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(object, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	r.Repairs.Set(string(object.UID), nil)
	if controller.Paused(object) {
		return reconcile.Result{}, r.write(ctx, object, leaving(object, int(object.Status.Nodes),
			"its launch templates are kept while it has the annotation "+v1alpha1.PausedAnnotation))
	}
	nodes, err := r.nodesByInstance(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	waiting := 0
	for instanceID := range r.Observer.LaunchedFrom(string(object.UID)) {
		if nodes[instanceID] != nil {
			waiting++
		}
	}
	if waiting > 0 {
		return reconcile.Result{RequeueAfter: min(recheckInterval, r.SourceRefresh)}, r.write(ctx, object,
			leaving(object, waiting, nodesRun(waiting)))
	}
	referrers, err := r.templates.clear(ctx, object.Name)
	if err != nil {
		return reconcile.Result{}, errors.Join(err, r.write(ctx, object, leaving(object, 0, err.Error())))
	}
	if len(referrers) > 0 {
		return reconcile.Result{RequeueAfter: r.SourceRefresh}, r.write(ctx, object, leaving(object, 0, referred(referrers)))
	}
	if err := r.clearNodes(ctx, nodes, object.Name); err != nil {
		return reconcile.Result{}, err
	}
	before := object.DeepCopy()
	controllerutil.RemoveFinalizer(object, v1alpha1.Finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, object, patch,
		client.FieldOwner(v1alpha1.FieldOwnerController)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("remove the finalizer from AWSNodeTemplate %s: %w", object.Name, err)
	}
	r.forget(object.Name)
	r.Log.Info("AWSNodeTemplate is gone, and its launch templates with it", "awsnodetemplate", object.Name)
	return reconcile.Result{}, nil
}

// Counts are the numbers of a node template's nodes by state.
type Counts struct {
	// Nodes is how many nodes were launched from it; Drifted counts the differing ones by their first differing field.
	Nodes   int
	Drifted map[string]int
	// ReadAt is when the referenced launch template was last read; zero without one.
	ReadAt time.Time
}

// Counts returns the numbers of nodes by state, by node template, for metrics.
func (r *Reconciler) Counts() map[string]Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.standings)
}

// CollectTemplates deletes launch templates whose node template no longer exists.
func (r *Reconciler) CollectTemplates(ctx context.Context) error {
	if err := r.Observer.WaitSynced(ctx); err != nil {
		return err
	}
	var all v1alpha1.AWSNodeTemplateList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	names := map[string]bool{}
	for n := range all.Items {
		names[all.Items[n].Name] = true
	}
	return r.templates.sweep(ctx, func(name string) bool { return names[name] }, func(uid string) bool {
		return len(r.Observer.LaunchedFrom(uid)) > 0
	})
}

func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.standings, name)
}

// nodesByInstance returns the cluster's nodes by instance ID.
func (r *Reconciler) nodesByInstance(ctx context.Context) (map[string]*corev1.Node, error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return byInstance(nodes.Items), nil
}
