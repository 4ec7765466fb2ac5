// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/internal/core/report"
)

func newWhy() *cobra.Command {
	var s screen
	c := &cobra.Command{
		Use:   "why [NODEENI|NODE|NETWORKINTERFACE]",
		Short: "Explain why something is not ready, and what to do",
		Long: `Explain why a NodeENI, a node or a NetworkInterface is not as declared: what is blocked, for which
nodes, for which reason, and what to do about it. For a node without interfaces, it shows the
labels that selectors require and the node lacks. For a NetworkInterface that is being deleted, it
shows what the removal waits for.

Without a name, the command explains the whole fleet: each reason for which interfaces are not as
declared, with the affected nodes and the next step. Pods that stay Pending for lack of an address
of a pod network follow, if you may list pods.

If objects of several kinds have the name, the command explains the NodeENI, else the node;
nodeeni/NAME, node/NAME and eni/NAME are unambiguous. It only reads the Kubernetes API.`,
		Example: `  kubectl eni why
  kubectl eni why multus-eni-config
  kubectl eni why node/ip-10-0-0-10.us-west-2.compute.internal
  kubectl eni why eni/multus-eni-config-i-0123456789abcdef0-0
  kubectl eni why -o json | jq '.troubles[] | {reason, nodes}'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: s.completeNames(nodeENIList, nodeList, interfaceList),
		RunE: s.show(func(c *cobra.Command, api client.Client, args []string) (textOutput, error) {
			o, err := read(c.Context(), api)
			if err != nil {
				return nil, err
			}
			fleet := o.fleet()
			if len(args) == 1 {
				return explain(fleet, args[0])
			}
			fleet.WaitingPods, err = o.waitingPods(c.Context(), api)
			if err != nil && !apierrors.IsForbidden(err) { // who may not list pods still sees the fleet
				return nil, err
			}
			return report.WhyFleet(fleet), nil
		}),
	}
	s.bind(c, "wide", "json", "yaml")
	return c
}

// The names of the kinds in arguments, as kubectl has them.
var (
	nodeENIKinds   = []string{"nodeeni", "nodeenis", "neni"}
	nodeKinds      = []string{"node", "nodes", "no"}
	interfaceKinds = []string{"networkinterface", "networkinterfaces", "eni"}
)

// explain explains the object that the argument names.
func explain(fleet report.Fleet, argument string) (report.Why, error) {
	kind, name, said := strings.Cut(argument, "/")
	if !said {
		kind, name = "", argument
	}
	if said && !slices.Contains(slices.Concat(nodeENIKinds, nodeKinds, interfaceKinds), kind) {
		return report.Why{}, fmt.Errorf("%s is neither a NodeENI nor a node nor a NetworkInterface; use nodeeni/NAME, "+
			"node/NAME or eni/NAME", argument)
	}
	nodeENI, isNodeENI := fleet.NodeENI(name)
	node, isNode := fleet.Node(name)
	one, isInterface := fleet.Interface(name)
	switch {
	case isNodeENI && (!said || slices.Contains(nodeENIKinds, kind)):
		return report.WhyNodeENI(fleet, nodeENI), nil
	case isNode && (!said || slices.Contains(nodeKinds, kind)):
		return report.WhyNode(fleet, node), nil
	case isInterface && (!said || slices.Contains(interfaceKinds, kind)):
		return report.WhyInterface(fleet, one), nil
	default:
		return report.Why{}, fmt.Errorf("nothing is named %s; see kubectl get nodeenis,nodes,networkinterfaces", argument)
	}
}
