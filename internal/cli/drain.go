// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/cli/logging"
	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/clustername"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/report"
)

// drainPoll is the time between two checks of what is left.
const drainPoll = time.Second

// nameTimeout bounds the check of the cluster's name.
const nameTimeout = 30 * time.Second

func newDrain() *cobra.Command {
	var o options.Controller
	var yes bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "drain --yes",
		Short: "Delete all NodeENIs and SubnetReservations and wait until none of their resources is left in EC2",
		Long: `Delete all NodeENIs and SubnetReservations of the cluster. This removes the interfaces of every
node. The command waits until EC2 confirms that none is left. Run it before you remove multieni
from a cluster; the chart runs it when it is uninstalled.

AWSNodeTemplates and their launch templates stay, because groups may launch from them. The command
pauses AWSNodeTemplates, so that a user can delete them when no controller runs any more.

The controller of the cluster removes the interfaces. If none runs, this command does its work: it
waits for the leader lease like another replica. If the namespace of the lease no longer exists,
set --leader-elect=false. The cluster name must be the one of the controller.

While the command waits, it prints what is left and what holds it, for example pods that have
addresses of an interface. It deletes nothing unless it may delete all NodeENIs and
SubnetReservations. The controller's account may do so only while helm uninstalls the chart.`,
		Example: `  # in the controller's pod, whose account needs the permission first
  kubectl create clusterrole eni-drain --verb=delete \
    --resource=nodeenis.networking.k8s.aws,subnetreservations.networking.k8s.aws
  kubectl create clusterrolebinding eni-drain --clusterrole=eni-drain \
    --serviceaccount=eni-controller-system:eni-controller
  kubectl exec -n eni-controller-system deployment/eni-controller -- /multieni drain --yes

  # from a workstation, after the controller and its namespace were deleted
  multieni drain --yes --leader-elect=false`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := options.FromEnvironment(c.Flags()); err != nil {
				return err
			}
			if !yes {
				return errors.New("this deletes every NodeENI and removes the interfaces of every node; confirm it " +
					"with --yes")
			}
			if err := o.Validate(); err != nil {
				return err
			}
			log := logging.New(c.ErrOrStderr(), o.Logging)
			ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
			s, err := findEnvironment(log)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeoutCause(c.Context(), timeout, fmt.Errorf("not drained after %s", timeout))
			defer cancel()
			return drainCluster(ctx, o, s, c.OutOrStdout())
		},
	}
	o.Bind(command.Flags())
	command.SetFlagErrorFunc(options.ExplainUnknown)
	o.MetricsAddress, o.ProbeAddress = "0", "0" // a controller may run on the same host
	command.Flags().BoolVar(&yes, "yes", false, "confirm the deletion")
	command.Flags().DurationVar(&timeout, "timeout", 15*time.Minute, "how long to wait")
	return command
}

// drainCluster deletes the NodeENIs and SubnetReservations, and runs a controller until nothing is left of them.
func drainCluster(ctx context.Context, o options.Controller, s Environment, out io.Writer) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	api, err := client.New(s.Kubernetes, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connect to the Kubernetes API: %w", err)
	}
	if err := checkName(ctx, api, o, s); err != nil {
		return err
	}
	left, err := drainOnce(ctx, api)
	if err != nil || left.Empty() {
		return isDrained(out, err)
	}
	work := func(ctx context.Context) error { return RunController(ctx, o, s) }
	return draining{api: api, out: out, log: s.Log, work: work}.wait(ctx, left)
}

// draining is a drain that has begun. The function work is a controller.
type draining struct {
	api  client.Client
	out  io.Writer
	log  *slog.Logger
	work func(context.Context) error
}

// wait runs the controller until nothing is left, and reports what is, whenever that changes.
func (d draining) wait(ctx context.Context, left report.Remains) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	worker := make(chan error, 1)
	go func() {
		worker <- panics.AsError("the controller that drains", func() error { return d.work(ctx) })
	}()
	ended := worker
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	for said := ""; ; {
		if text := left.Text(report.Page{}); text != said {
			fmt.Fprint(d.out, text)
			said = text
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%w; %s\nremove what holds these, and run the command again; the controller's log "+
				"has more", context.Cause(ctx), strings.TrimSuffix(said, "\n")), waitFor(ended))
		case err := <-worker:
			// Another controller may run all the same.
			d.log.LogAttrs(ctx, slog.LevelWarn, "this process does not run a controller", slog.Any("err", err))
			worker, ended = nil, nil
			continue
		case <-ticker.C:
		}
		switch now, err := drainOnce(ctx, d.api); {
		case err != nil && ctx.Err() == nil:
			return err
		case err == nil && now.Empty():
			cancel()
			return isDrained(d.out, waitFor(ended))
		case err == nil:
			left = now
		}
	}
}

// checkName returns an error if the cluster has another name in use: under the configured one nothing of the cluster
// would be found in EC2. If that cannot be known, a controller of the cluster may drain it all the same.
func checkName(ctx context.Context, api client.Client, o options.Controller, s Environment) error {
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	log := s.Log
	s.Metrics, s.Log = prometheus.NewRegistry(), slog.New(slog.DiscardHandler) // the controller has its own of both
	err := func() (err error) {
		if o.ClusterName, err = clusterName(ctx, api, o); err != nil {
			return err
		}
		aws, err := connectAWS(ctx, api, nil, o, s)
		if err != nil {
			return err
		}
		guard := clustername.Guard{Reader: api, EC2: aws.ec2, Namespace: recordNamespace(o), Name: o.ClusterName, Log: s.Log}
		_, err = guard.Check(ctx)
		return err
	}()
	if other := new(identity.OtherNameError); errors.As(err, &other) {
		return fmt.Errorf("nothing was deleted: this cluster has the name %q in tags of EC2 (%s), and this command was "+
			"started with %q; repeat it with --cluster-name=%s", other.InUse, other.Source, other.Configured, other.InUse)
	}
	if err != nil && !meta.IsNoMatchError(err) {
		log.LogAttrs(ctx, slog.LevelWarn, "the name of the cluster in EC2 could not be checked", slog.Any("err", err))
	}
	return nil
}

// pauseNodeTemplates removes the finalizers of the AWSNodeTemplates: no controller does so once multieni is
// uninstalled. The pause keeps a controller that still runs from adding them again. It returns how many another client
// changed meanwhile.
func pauseNodeTemplates(ctx context.Context, api client.Client) (left int, err error) {
	var all v1alpha1.AWSNodeTemplateList
	if err := listed(api.List(ctx, &all)); err != nil {
		return 0, fmt.Errorf("list AWSNodeTemplates: %w", err)
	}
	for i := range all.Items {
		object := &all.Items[i]
		before := object.DeepCopy()
		held := controllerutil.RemoveFinalizer(object, v1alpha1.Finalizer)
		if controller.Paused(object) && !held {
			continue
		}
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.PausedAnnotation,
			"multieni is being removed from the cluster")
		switch err := api.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); {
		case apierrors.IsConflict(err):
			left++
		case client.IgnoreNotFound(err) != nil:
			return 0, fmt.Errorf("remove the finalizer of AWSNodeTemplate %s: %w", object.Name, err)
		}
	}
	return left, nil
}

// removeAddresses removes the FloatingAddresses and their finalizers: without interfaces no address is assigned any
// more, and no controller removes the finalizers once multieni is uninstalled.
func removeAddresses(ctx context.Context, api client.Client) error {
	var all v1alpha1.FloatingAddressList
	if err := listed(api.List(ctx, &all)); err != nil {
		return fmt.Errorf("list FloatingAddresses: %w", err)
	}
	for i := range all.Items {
		object := &all.Items[i]
		before := object.DeepCopy()
		err := api.Delete(ctx, object)
		if controllerutil.RemoveFinalizer(object, v1alpha1.Finalizer) && err == nil {
			err = api.Patch(ctx, object, client.MergeFrom(before))
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove FloatingAddress %s: %w", object.Name, err)
		}
	}
	return nil
}

// isDrained prints that nothing is left, unless there was an error.
func isDrained(out io.Writer, err error) error {
	if err == nil {
		fmt.Fprintln(out, "nothing is left")
	}
	return err
}

// waitFor waits until a worker has ended, and returns its error; a nil worker has ended.
func waitFor(worker <-chan error) error {
	if worker == nil {
		return nil
	}
	return <-worker
}

// listed returns the error of a list, or nil if the kind has no definition and thus no objects.
func listed(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// drainOnce deletes the NodeENIs and SubnetReservations that are not being deleted, pauses the AWSNodeTemplates, and
// returns what is left.
func drainOnce(ctx context.Context, api client.Client) (left report.Remains, err error) {
	var nodeENIs v1alpha1.NodeENIList
	if err := listed(api.List(ctx, &nodeENIs)); err != nil {
		return left, fmt.Errorf("list NodeENIs: %w", err)
	}
	var interfaces v1alpha1.NetworkInterfaceList
	if err := listed(api.List(ctx, &interfaces)); err != nil {
		return left, fmt.Errorf("list NetworkInterfaces: %w", err)
	}
	var reservations v1alpha1.SubnetReservationList
	if err := listed(api.List(ctx, &reservations)); err != nil {
		return left, fmt.Errorf("list SubnetReservations: %w", err)
	}
	var declared []declaration
	for i := range nodeENIs.Items {
		declared = append(declared, declaration{"NodeENI", &nodeENIs.Items[i]})
	}
	for i := range reservations.Items {
		declared = append(declared, declaration{"SubnetReservation", &reservations.Items[i]})
	}
	if err := deleteAll(ctx, api, declared); err != nil {
		return left, err
	}
	if left.NodeTemplates, err = pauseNodeTemplates(ctx, api); err != nil {
		return left, err
	}
	left.NodeENIs, left.Interfaces, left.Reservations = len(nodeENIs.Items), len(interfaces.Items), len(reservations.Items)
	if left.NodeENIs+left.Interfaces == 0 {
		if err := removeAddresses(ctx, api); err != nil {
			return left, err
		}
	}
	nodes := map[string]bool{}
	for i := range interfaces.Items {
		one := &interfaces.Items[i]
		nodes[cmp.Or(one.Spec.NodeName, one.Spec.InstanceID)] = true
		if ready := meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ConditionReady); ready != nil &&
			ready.Status != metav1.ConditionTrue {
			left.Held = append(left.Held, report.Held{
				Object: fmt.Sprintf("NodeENI %s: interface %s on node %s", one.Spec.NodeENI.Name,
					cmp.Or(one.Status.ENIID, one.Name), cmp.Or(one.Spec.NodeName, one.Spec.InstanceID)),
				Reason: ready.Reason, Message: ready.Message,
			})
		}
	}
	left.Nodes = len(nodes)
	for _, r := range reservations.Items {
		if ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
			left.Held = append(left.Held,
				report.Held{Object: "SubnetReservation " + r.Name, Reason: ready.Reason, Message: ready.Message})
		}
	}
	return left, nil
}

// declaration is an object of a user that a drain deletes, with its kind.
type declaration struct {
	kind string
	client.Object
}

// deleteAll deletes the objects that are not being deleted. It deletes none unless it may delete all: interfaces of
// nodes must not go in an uninstallation that fails.
func deleteAll(ctx context.Context, api client.Client, objects []declaration) error {
	objects = slices.DeleteFunc(objects, func(d declaration) bool { return !d.GetDeletionTimestamp().IsZero() })
	for _, object := range objects {
		if err := api.Delete(ctx, object.Object, client.DryRunAll); apierrors.IsForbidden(err) {
			return fmt.Errorf("%s %s may not be deleted, so nothing was deleted: %w; repeat it with a kubeconfig that may "+
				"delete NodeENIs and SubnetReservations", object.kind, object.GetName(), err)
		}
	}
	for _, object := range objects {
		if err := api.Delete(ctx, object.Object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s %s: %w", object.kind, object.GetName(), err)
		}
	}
	return nil
}
