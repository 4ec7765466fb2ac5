// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/agent"
	"github.com/multieni/multieni/internal/imds"
	"github.com/multieni/multieni/internal/netlink"
	"github.com/multieni/multieni/internal/options"
	"github.com/multieni/multieni/internal/pci"
	"github.com/multieni/multieni/internal/telemetry"
	"github.com/multieni/multieni/internal/version"
)

func newAgent() *cobra.Command {
	var o options.Agent
	command := &cobra.Command{
		Use:   "agent",
		Short: "Run the agent of a node, which makes its interfaces usable",
		Long: `Run the agent of a node, which brings the links of attached interfaces up, gives each the
same name on every node, and takes the startup taint off the Node once all that are required
are ready.

It runs in the network namespace of the host with CAP_NET_ADMIN, and needs access to the
Kubernetes API for two objects: the Node and the NodeENIState of that name. It has no use for
AWS credentials. Instance metadata, where it answers, helps to explain what is missing.

With --without-kubernetes it takes the interfaces from instance metadata instead, which cannot
tell whose they are: it brings up all but the primary one, and reports in its log.`,
		Example: `  # on a node
  multieni agent --node-name=ip-10-0-0-10.us-west-2.compute.internal

  # on an instance that is no node, or not yet
  multieni agent --without-kubernetes`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := options.FromEnvironment(c.Flags()); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			log := telemetry.NewLogger(c.ErrOrStderr(), o.Logging)
			ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
			return runAgent(c.Context(), o, log)
		},
	}
	o.Bind(command.Flags())
	return command
}

func runAgent(ctx context.Context, o options.Agent, log *slog.Logger) error {
	releaseMemory(ctx, log)
	log.Info("starting", "version", version.String(), "node", o.NodeName)
	host, err := netlink.Open(netlink.Options{Excluded: o.Excluded()})
	if err != nil {
		return err
	}
	defer host.Close()
	metadata, err := imds.New(ctx)
	if err != nil {
		return err
	}
	settings := agent.Options{
		Node: o.NodeName, Host: host, PCI: pci.Open(o.Sysfs), Metadata: metadata.Read, DefaultMTU: o.DefaultMTU, Taint: o.Taint,
		Continuous: o.Continuous, Resync: o.CheckInterval, NetworkdDir: o.NetworkdDir, PluginConfig: o.SRIOVConfig, Log: log,
	}
	if o.WithoutKubernetes {
		return agent.New(settings).RunWithoutKubernetes(ctx)
	}
	mgr, err := newAgentManager(o)
	if err != nil {
		return err
	}
	settings.Client = mgr.GetClient()
	if err := agent.New(settings).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set the agent up: %w", err)
	}
	if err := addProbes(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newAgentManager(o options.Agent) (manager.Manager, error) {
	access, err := config.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes API: %w; set KUBECONFIG, or run in a pod with a service account", err)
	}
	access.UserAgent = "multieni-agent/" + version.String()
	scheme := runtime.NewScheme() // two kinds, not all of Kubernetes: every node pays for the memory
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(access, manager.Options{
		Scheme: scheme, MapperProvider: twoKinds, Cache: agent.CacheOptions(o.NodeName), Controller: ctrlconfig.Controller{CacheSyncTimeout: outage},
		Metrics: metricsserver.Options{BindAddress: o.MetricsAddress}, HealthProbeBindAddress: o.ProbeAddress,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the Kubernetes API: %w", err)
	}
	return mgr, nil
}

// outage is how long an agent waits for its two objects before it gives up, as one does that starts while the API server is
// away. If it gave up sooner it would be started again ever more seldom, and be late when the API server is back.
const outage = 24 * time.Hour

// twoKinds knows the kinds that the agent works with, so that it need not ask the API server for all kinds there are.
func twoKinds(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(v1alpha1.SchemeGroupVersion.WithKind("NodeENIState"), meta.RESTScopeRoot)
	return mapper, nil
}
