// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package enimanager is the command that configures the interfaces of a node. It is a small program of its own, because
// every node of a cluster pays for its memory.
package enimanager

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/multieni/multieni/internal/aws/imds"
	"github.com/multieni/multieni/internal/base/version"
	"github.com/multieni/multieni/internal/cli/logging"
	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/internal/host/netlink"
	"github.com/multieni/multieni/internal/host/pci"
	"github.com/multieni/multieni/internal/host/podlease"
)

// New returns the command.
func New() *cobra.Command {
	var o options.Agent
	command := &cobra.Command{
		Use:     "eni-manager",
		Short:   "Run the agent of a node, which configures its interfaces",
		Version: version.String(),
		Long: `Run the agent of a node. It brings up the links of attached interfaces, gives each the same
name on every node, and lets pods use them. "multieni agent" runs this program, too.

It runs in the network namespace of the host with CAP_NET_ADMIN, and needs access to its Node
and the NetworkInterfaces of its instance in the Kubernetes API. It needs no AWS credentials.
It finds its instance in instance metadata or, without that, in the providerID of the Node.`,
		Example: `  # on a node
  eni-manager --node-name=ip-10-0-0-10.us-west-2.compute.internal`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := options.FromEnvironment(c.Flags()); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			log := logging.New(c.ErrOrStderr(), o.Logging)
			library := o.Logging
			library.Verbosity = min(library.Verbosity, 6) // from 8 on it would log what is sent
			klog.SetSlogLogger(logging.New(c.ErrOrStderr(), library))
			return run(c.Context(), o, log)
		},
	}
	o.Bind(command.Flags())
	command.SetFlagErrorFunc(options.ExplainUnknown)
	// cobra's own flag would have the shorthand -v, which users write for --v
	command.Flags().Bool("version", false, "print the version and exit")
	return command
}

func run(ctx context.Context, o options.Agent, log *slog.Logger) error {
	log.Info("starting", "version", version.String(), "node", o.NodeName)
	host, err := netlink.Open(netlink.Options{Excluded: o.Excluded()})
	if err != nil {
		return err
	}
	defer host.Close()
	metadata, err := imds.New()
	if err != nil {
		return err
	}
	settings := agent.Options{
		Node: o.NodeName, Host: host, PCI: pci.Open(o.Sysfs), Metadata: metadata.Read,
		DefaultMTU: o.DefaultMTU, Resync: o.CheckInterval,
		NetworkdDir: o.NetworkdDir, PluginConfig: o.SRIOVConfig, StateDir: o.StateDir,
		PodsDir: o.PodsDir, PodsDisabled: !o.PodNetworks, CNIDir: o.CNIDir, CNIConfigDir: o.WaitForCNI, Log: log,
	}
	if o.ObservePodAddresses {
		pods, err := netlink.OpenPodNetworks(nil)
		if err == nil {
			defer pods.Close()
			settings.PodAddresses = pods
		} else { // the agent still configures links without it
			log.Error("the agent cannot observe the addresses of pods; give it CAP_NET_BROADCAST", "err", err)
		}
	}
	if o.PodsDir != "" {
		release, err := podlease.LockAgent(ctx, o.PodsDir, func(path string) {
			log.Warn("another agent runs on this node; waiting until it ends", "lock", path)
		})
		if err != nil {
			return err
		}
		defer release()
		leases, err := podlease.OpenWatch(o.PodsDir)
		if err == nil {
			defer leases.Close()
			settings.LeaseEvents = leases
		} else {
			log.Warn("the agent reads the leases of pods periodically", "err", err)
		}
	}
	if settings.API, err = connect(o.NodeName); err != nil {
		return err
	}
	stop, err := serveProbes(ctx, o.ProbeAddress, settings.API.Synced)
	if err != nil {
		return err
	}
	defer stop()
	return agent.New(settings).Run(ctx)
}

// connect connects to the Kubernetes API with KUBECONFIG, ~/.kube/config or, in a pod, the service account.
func connect(node string) (*agent.API, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	access, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes API: %w; set KUBECONFIG, or run in a pod with a service account", err)
	}
	access.UserAgent = "multieni-agent/" + version.String()
	return agent.Connect(access, node)
}
