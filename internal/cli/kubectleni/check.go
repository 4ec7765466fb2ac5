// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/internal/core/connectivity"
	"github.com/multieni/multieni/internal/core/report"
)

// checkTimeout is the default time for all reads and pings of a check.
const checkTimeout = time.Minute

func newCheck() *cobra.Command {
	var k check
	c := &cobra.Command{
		Use:   "check NETWORK [POD POD]",
		Short: "Check whether two pods of a pod network reach each other, and which step fails",
		Long: `Check each step between two pods of a pod network, and suggest a next step for the one that
fails. NETWORK is the name of a NodeENI with spec.pods, or NAME--1 for its second interface. Without
the names of two pods, the command chooses two that request the network, on different nodes if possible.

The steps of each pod:
  pod          it exists, has a node, and no hostNetwork
  annotation   it names a NetworkAttachmentDefinition of the network
  definition   that exists, and attaches pods to the link of the network
  network      the agent of the node reports that pods can attach
  attachment   Multus reports an address of the pod
  address      EC2 delivers it to the interface, which is attached to the node's instance
The steps between them, in both directions:
  route            packets to the other pod leave by the network's link
  security groups  those of both interfaces allow ICMP echo, or what --port names
  ping             packets really arrive, with --ping

The command reads Pods, NetworkAttachmentDefinitions, NodeENIs and NetworkInterfaces from the
Kubernetes API, and interfaces and security groups from EC2 with your own AWS credentials. Without credentials it
leaves out what only EC2 knows, and says so. It changes nothing. It does not read network ACLs.

With --ping it runs ping in both pods, by kubectl exec in the pod's default container. That needs the
permission to create pods/exec, and ping in the image. A ping ends within seconds, also if you
interrupt the command.

The command fails if a step fails, and succeeds with warnings. A warning of the step route is about
sockets that are not bound to an address of the network; ping binds its own.`,
		Example: `  kubectl eni check n3
  kubectl eni check n3 --ping
  kubectl eni check n3 upf-0 upf-1 -n upf --port 8805/UDP
  kubectl eni check n3 upf/upf-0 smf/smf-0
  kubectl eni check n3 -o json | jq '.[] | select(.grade == "failed")'`,
		Args:              k.parse,
		ValidArgsFunction: k.complete,
		RunE:              k.begin(k.run),
	}
	c.Flags().StringVarP(&k.namespace, "namespace", "n", "",
		"namespace of pods without one in their argument; if empty, that of the kubeconfig context")
	c.Flags().StringSliceVar(&k.ports, "port", nil,
		"PORT[/PROTOCOL] that security groups must allow instead of ICMP echo, with TCP, UDP or SCTP; can be repeated")
	c.Flags().BoolVar(&k.ping, "ping", false, "send packets, by ping in both pods")
	c.Flags().DurationVar(&k.timeout, "timeout", checkTimeout, "time for all reads and pings")
	k.cloud.bindRegion(c.Flags())
	k.bind(c, "wide", "json", "yaml")
	return c
}

// check has the flags and the arguments of the command.
type check struct {
	screen
	cloud     cloud
	namespace string
	ports     []string
	ping      bool
	timeout   time.Duration

	network string
	// pods are the named ones; none to choose two.
	pods    []connectivity.PodName
	traffic []connectivity.Traffic
}

// complete completes the name of the network.
func (k *check) complete(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return k.completeNames(nodeENIList)(c, args, typed)
}

// parse checks the arguments and the flags.
func (k *check) parse(c *cobra.Command, args []string) error {
	if len(args) != 1 && len(args) != 3 {
		return fmt.Errorf("name a pod network, and two pods or none: %s; %s --help has examples",
			strings.TrimSuffix(c.UseLine(), " [flags]"), c.CommandPath())
	}
	if k.timeout <= 0 {
		return fmt.Errorf("--timeout is %s, and must be longer than 0", k.timeout)
	}
	for _, port := range k.ports {
		traffic, err := connectivity.ParseTraffic(port)
		if err != nil {
			return fmt.Errorf("--port: %w", err)
		}
		k.traffic = append(k.traffic, traffic)
	}
	if len(k.ports) == 0 || k.ping {
		k.traffic = append(k.traffic, connectivity.Traffic{Protocol: connectivity.ICMP})
	}
	k.network = args[0]
	for _, name := range args[1:] {
		pod, err := k.podName(name)
		if err != nil {
			return err
		}
		k.pods = append(k.pods, pod)
	}
	if len(k.pods) == 2 && k.pods[0] == k.pods[1] {
		return fmt.Errorf("%s is named twice; a check needs two pods", k.pods[0])
	}
	return nil
}

// podName parses [NAMESPACE/]NAME.
func (k *check) podName(text string) (connectivity.PodName, error) {
	namespace, name, qualified := strings.Cut(text, "/")
	if !qualified {
		namespace, name = k.namespace, text
		if namespace == "" {
			current, _, err := k.load().Namespace()
			if err != nil {
				return connectivity.PodName{}, fmt.Errorf("read the namespace of the kubeconfig context: %w", err)
			}
			namespace = current
		}
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return connectivity.PodName{}, fmt.Errorf("%q is not [NAMESPACE/]POD", text)
	}
	return connectivity.PodName{Namespace: namespace, Name: name}, nil
}

// run gathers the facts, and prints the verdicts.
func (k *check) run(c *cobra.Command, api client.Client, _ []string) error {
	ctx, cancel := context.WithTimeoutCause(c.Context(), k.timeout,
		fmt.Errorf("the check was not complete after %s; --timeout allows more", k.timeout))
	defer cancel()
	facts, err := k.gather(ctx, api)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	var found report.Checks
	if err := k.gatherEC2(ctx, api, &facts); err != nil {
		found = append(found, report.Check{Check: "EC2", Grade: report.Warning, Found: "the steps address and security " +
			"groups are left out: " + err.Error(), Next: "Configure AWS credentials and the region, with the permissions of " +
			"deploy/iam/operator.json."})
	}
	found = append(found, connectivity.Examine(facts)...)
	if k.ping {
		found = append(found, k.reach(ctx, facts)...)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := k.print(c.OutOrStdout(), found); err != nil {
		return err
	}
	if found.Failed() {
		return ErrFailed
	}
	return nil
}

// reach pings in both directions.
func (k *check) reach(ctx context.Context, facts connectivity.Facts) report.Checks {
	var found report.Checks
	for _, p := range connectivity.Pings(facts) {
		p.Output = k.exec(ctx, p.From, pingCommand(p)...)
		found = append(found, connectivity.Reach(p))
	}
	if len(found) == 0 {
		found = append(found, report.Check{Check: "ping", Grade: report.Warning,
			Found: "no packet was sent: the pods have no addresses of one family", Next: "Repair the failed step first."})
	}
	return found
}

// errNoPods is the error if there are no two pods to choose.
var errNoPods = errors.New("less than two pods on its nodes request it")

// choose returns the named pods, or two that request the network.
func (k *check) choose(
	ctx context.Context, api client.Reader, network connectivity.Network, nodes map[string]placement,
) ([]connectivity.PodName, error) {
	if len(k.pods) > 0 {
		return k.pods, nil
	}
	onNodes, err := podsOf(ctx, api, network, nodes)
	if err != nil {
		return nil, err
	}
	pair, found := connectivity.Choose(onNodes)
	if !found {
		return nil, fmt.Errorf("choose two pods of network %s: %w; name two, to see which step keeps them from it",
			k.network, errNoPods)
	}
	return slices.Clone(pair[:]), nil
}
