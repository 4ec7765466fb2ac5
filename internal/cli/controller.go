// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/multieni/multieni/internal/aws/awsautoscaling"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/base/version"
	"github.com/multieni/multieni/internal/cli/logging"
	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/cli/telemetry"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/assembly"
	"github.com/multieni/multieni/internal/controller/clustername"
	"github.com/multieni/multieni/internal/controller/podnetwork"
	"github.com/multieni/multieni/internal/controller/podservice"
	"github.com/multieni/multieni/internal/controller/subnetreservation"
	"github.com/multieni/multieni/internal/controller/subnetuse"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/plan"
)

// leaseName is the name of the lease: that of the API group, as is usual in Kubernetes.
const leaseName = "networking.k8s.aws"

// ownNamespace is the file in which a pod finds the namespace it runs in.
const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

const (
	// reconcileTimeout bounds one reconciliation, including its waits for EC2's request rate.
	reconcileTimeout = 2 * time.Minute
	// maxParallelMembers is how many interfaces of one node are changed concurrently: no instance takes many more.
	maxParallelMembers = 16
	// drain is how long calls in flight may take after the signal to stop.
	drain = 20 * time.Second
)

func newController() *cobra.Command {
	var o options.Controller
	command := &cobra.Command{
		Use:     "controller",
		Short:   "Run the controller, which manages the interfaces of nodes",
		Version: version.String(),
		Long: `Run the controller, which creates, attaches, updates and removes the network interfaces
that NodeENI objects declare.

It needs access to the Kubernetes API (in a pod, its service account; else KUBECONFIG) and to
EC2 (the SDK's credential chain: Pod Identity, web identity, profile, environment).
AWS_ENDPOINT_URL sets the endpoint.

It sends OpenTelemetry traces when OTEL_EXPORTER_OTLP_ENDPOINT names a collector (OTLP over HTTP).`,
		Example: `  # in a cluster
  multieni controller

  # from a workstation, against the simulated AWS of multieni-dev
  . DIR/env && multieni controller --leader-elect=false --v=4`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := options.FromEnvironment(c.Flags()); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			log := slog.New(logging.Calm(c.Context(), logging.New(c.ErrOrStderr(), o.Logging).Handler()))
			ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
			setGCPercent()
			s, err := findEnvironment(log)
			if err != nil {
				return err
			}
			traces, flush, err := telemetry.NewTraces(c.Context(), os.Getenv)
			if err != nil {
				return err
			}
			defer flush(log)
			s.Traces = traces
			return RunController(c.Context(), o, s)
		},
	}
	o.Bind(command.Flags())
	command.SetFlagErrorFunc(options.ExplainUnknown)
	return command
}

// setGCPercent lets the heap grow by half instead of to twice its size before a garbage collection, unless GOGC is set.
// The heap of a controller is large and changes little, so that the collections cost almost nothing.
func setGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

// Environment holds the dependencies of a controller that are not options.
type Environment struct {
	// Kubernetes is the configuration of the connection to the API server.
	Kubernetes *rest.Config
	// AWS returns the configuration for calls to EC2 in a region.
	AWS func(ctx context.Context, region string) (aws.Config, error)
	// Metrics is where the controller's own metrics are registered.
	Metrics prometheus.Registerer
	// Traces receives the spans; there are none if nil.
	Traces trace.TracerProvider
	Log    *slog.Logger
}

// findEnvironment returns the Environment of a process that runs one controller.
func findEnvironment(log *slog.Logger) (Environment, error) {
	access, err := config.GetConfig()
	if err != nil {
		return Environment{}, fmt.Errorf(
			"find the Kubernetes API: %w; set KUBECONFIG, or run in a pod with a service account", err)
	}
	// The API server limits the rate by priority and fairness; a limit of the client would only add waiting.
	access.QPS = -1
	access.UserAgent = "multieni/" + version.String()
	load := func(ctx context.Context, region string) (aws.Config, error) {
		return awsec2.Load(ctx, region, version.String(), log)
	}
	return Environment{Kubernetes: access, AWS: load, Metrics: metrics.Registry, Log: log}, nil
}

// RunController runs a controller until the context ends, or the leader lease is lost. A process may run several, each
// with a registry of its own for its metrics.
func RunController(ctx context.Context, o options.Controller, s Environment) error {
	lead, err := newLeadership(s.Kubernetes, o)
	if err != nil {
		return err
	}
	if err := waitForCRDs(ctx, s.Kubernetes, o.ProbeAddress, s.Log); err != nil {
		return err
	}
	mgr, err := newManager(s.Kubernetes, o, lead.lock)
	if err != nil {
		return err
	}
	if !o.LeaderElect {
		if err := refuseSecondLeader(ctx, mgr.GetAPIReader(), o, s.Log); err != nil {
			return err
		}
	}
	if o.ClusterName, err = clusterName(ctx, mgr.GetAPIReader(), o); err != nil {
		return err
	}
	name := &clustername.Guard{Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Namespace: recordNamespace(o),
		Name: o.ClusterName, Log: s.Log}
	aws, err := connectAWS(ctx, mgr.GetAPIReader(), allOf(lead.permit, name.Permit), o, s)
	if err != nil {
		return err
	}
	name.EC2 = aws.ec2
	p := process{Environment: s, options: o, manager: mgr, aws: aws, name: name, lead: lead}
	if err := p.wire(ctx); err != nil {
		return err
	}
	s.Log.Info("starting", "version", version.String(), "cluster", o.ClusterName)
	return mgr.Start(ctx)
}

// recordNamespace returns the namespace of the record of the cluster's name: that of the lease, or the pod's own.
func recordNamespace(o options.Controller) string {
	if namespace, err := leaseNamespace(o); err == nil {
		return namespace
	}
	return clustername.DefaultNamespace
}

// allOf returns a function that returns the first error of the given ones; nil functions return none.
func allOf(checks ...func() error) func() error {
	return func() error {
		for _, check := range checks {
			if check == nil {
				continue
			}
			if err := check(); err != nil {
				return err
			}
		}
		return nil
	}
}

// clusterName returns the name of the cluster in tags: the configured one, or else the UID of the namespace
// kube-system. Clusters of equal names have different ones.
func clusterName(ctx context.Context, reader client.Reader, o options.Controller) (string, error) {
	if o.ClusterName != "" {
		return o.ClusterName, nil
	}
	var system corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: "kube-system"}, &system); err != nil {
		return "", fmt.Errorf("read the UID of namespace kube-system, which names the cluster in EC2 tags: %w; or "+
			"set --cluster-name", err)
	}
	return string(system.UID), nil
}

// services are the parts of AWS that the controller calls.
type services struct {
	ec2 *awsec2.Client
	// refusals are the reads that EC2 refuses.
	refusals *controller.Refusals
	groups   awsautoscaling.Client
}

// references returns every launch template that a group, a fleet or a Spot Fleet request launches from.
func (s *services) references(ctx context.Context) ([]launchtemplate.Reference, error) {
	groups, err := s.groups.References(ctx)
	if err != nil {
		return nil, err
	}
	fleets, err := s.ec2.LaunchReferences(ctx)
	return append(groups, fleets...), err
}

func connectAWS(
	ctx context.Context, reader client.Reader, permit func() error, o options.Controller, s Environment,
) (*services, error) {
	region, source, err := awsec2.ClusterRegion(ctx, o.Region, func() string { return nodeRegion(ctx, reader) })
	if err != nil {
		return nil, err
	}
	if source == awsec2.RegionByDefault {
		s.Log.Warn("NO AWS REGION IS CONFIGURED; the default is used. Set --region or AWS_REGION",
			"region", region)
	}
	s.Log.Info("AWS region", "region", region, "from", source)
	cfg, err := s.AWS(ctx, region)
	if err != nil {
		return nil, err
	}
	buckets, err := awsec2.ParseBuckets(o.EC2Buckets)
	if err != nil {
		return nil, fmt.Errorf("--ec2-bucket: %w", err)
	}
	calls, refusals, clock := telemetry.NewEC2Calls(s.Metrics), &controller.Refusals{}, &controller.Clock{Log: s.Log}
	telemetry.RegisterClock(s.Metrics, clock.Ahead)
	client := awsec2.New(cfg, awsec2.Options{
		Cluster: o.ClusterName, Buckets: buckets, Share: o.EC2RateShare, AllowMutation: permit,
		Observe: func(call awsec2.Call) {
			calls.Observe(call)
			refusals.Note(call.Action, call.Class, call.Code)
			if call.Dated {
				clock.Note(call.Ahead)
			}
			s.Log.Log(ctx, slog.Level(-5), "EC2 call", "action", call.Action, "code", call.Code,
				"priority", call.Priority.String(),
				"waited", call.Waited.Seconds(), "seconds", call.Duration.Seconds())
		},
	})
	telemetry.RegisterBuckets(s.Metrics, client.Buckets)
	return &services{ec2: client, refusals: refusals,
		groups: awsautoscaling.Client{API: autoscaling.NewFromConfig(cfg)}}, nil
}

// nodeRegion returns the region that the nodes' topology label names, or "".
func nodeRegion(ctx context.Context, reader client.Reader) string {
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes, client.HasLabels{corev1.LabelTopologyRegion}, client.Limit(1)); err != nil ||
		len(nodes.Items) == 0 {
		return ""
	}
	return nodes.Items[0].Labels[corev1.LabelTopologyRegion]
}

// process is what the controllers of one process share.
type process struct {
	Environment
	options options.Controller
	manager manager.Manager
	aws     *services
	name    *clustername.Guard
	lead    leadership
}

// wire connects the controllers with each other and with the manager.
func (p process) wire(ctx context.Context) error {
	mgr, aws, o := p.manager, p.aws, p.options
	instanceTags, err := options.ParseInstanceTags(o.InstanceTags)
	if err != nil {
		return err
	}
	definitions, definitionsChanged := &controller.AttachmentDefinitions{}, make(chan event.GenericEvent)
	c := assembly.New(assembly.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("multieni"), EC2: aws.ec2,
		Cluster: o.ClusterName, InstanceTags: instanceTags,
		Taint: o.Taint, ReapplyTaint: o.ReapplyTaint,
		ConcurrentNodes: o.MaxConcurrentNodes, ConcurrentNodeENIs: o.MaxConcurrentReconciles,
		Members: maxParallelMembers, Removals: o.MaxConcurrentENICleanup,
		MaxUnattached: 2 * plan.MaxUnattached * o.MaxConcurrentNodes,
		Resync:        o.ResyncPeriod, Poll: o.PollInterval,
		Permit: p.lead.permit, Confirm: p.name.Confirm, Refusals: aws.refusals, Era: p.lead.era,
		Attachments: definitions, AttachmentsChanged: definitionsChanged,
		Attached: telemetry.NewAttachTimes(p.Metrics).Observe, Now: time.Now, Log: p.Log, Traces: p.Traces,
	})
	registerMetrics(p.Metrics, c, mgr.Elected())
	if err := c.SetupWithManager(ctx, mgr); err != nil {
		return err
	}
	podNetworks := podnetwork.New(podnetwork.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Results: definitions, Changed: definitionsChanged, Log: p.Log,
	})
	if err := podNetworks.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the pod network controller: %w", err)
	}
	if err := p.wirePodServices(ctx); err != nil {
		return fmt.Errorf("set up the controller of Services over pod networks: %w", err)
	}
	if err := p.wireNodeTemplates(c); err != nil {
		return fmt.Errorf("set up the AWSNodeTemplate controller: %w", err)
	}
	reservations := subnetreservation.New(subnetreservation.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Resolver: c.Resolver, EC2: aws.ec2, Cluster: o.ClusterName,
		Permit: p.name.Permit, Era: p.lead.era, Now: time.Now, Log: p.Log, Traces: p.Traces,
	})
	if err := reservations.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the SubnetReservation controller: %w", err)
	}
	counter := subnetuse.New(mgr.GetClient(), aws.ec2, c.Resolver.LastRead, p.Log)
	if err := mgr.Add(counter); err != nil {
		return fmt.Errorf("add the counter of free addresses: %w", err)
	}
	telemetry.RegisterSubnets(p.Metrics, counter.Counts)
	started := &startup{Name: p.name, EC2: aws.ec2, Events: mgr.GetEventRecorder("multieni"), Log: p.Log}
	if err := mgr.Add(started); err != nil {
		return fmt.Errorf("add the checks of the start: %w", err)
	}
	return addProbes(mgr, started)
}

// wirePodServices connects the controller of Services over pod networks, if it is on.
func (p process) wirePodServices(ctx context.Context) error {
	if !p.options.PodServices {
		return nil
	}
	slices, err := discoveryclient.NewForConfigAndClient(p.manager.GetConfig(), p.manager.GetHTTPClient())
	if err != nil {
		return err
	}
	return podservice.New(podservice.Options{
		Client: p.manager.GetClient(), Slices: slices, Events: p.manager.GetEventRecorder("multieni"),
		Concurrency: p.options.MaxConcurrentReconciles, Now: time.Now, Log: p.Log,
	}).SetupWithManager(ctx, p.manager)
}

// registerMetrics registers the metrics of the controllers. The channel is closed once this process leads.
func registerMetrics(registry prometheus.Registerer, c *assembly.Controllers, elected <-chan struct{}) {
	telemetry.RegisterOwned(registry, telemetry.Owned{
		All:        c.Observer.Count,
		Unattached: func() int { return c.Observer.Unattached(func(inventory.Record) bool { return true }) },
		Leaked:     c.Unowned.Leaks, Unverified: c.Unowned.Attached, Orphaned: c.NodeENIs.Orphaned,
		CreationBlocked: c.Instances.CreationBlocked, Refused: c.RefusedWrites.Count,
	})
	telemetry.RegisterNodeENIs(registry, c.NodeENIs.Counts)
	telemetry.RegisterBlocked(registry, c.NodeENIs.Blocked)
	telemetry.RegisterInterfaces(registry, func() []telemetry.Interface {
		select {
		case <-elected:
		default:
			return nil // two replicas would have the series twice, and no query could join them
		}
		var all []telemetry.Interface
		for _, i := range c.NodeENIs.Attached() {
			all = append(all, telemetry.Interface(i))
		}
		return all
	})
}
