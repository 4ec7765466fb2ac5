// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/core/report"
)

func newWhy() *cobra.Command {
	var s screen
	c := &cobra.Command{
		Use:   "why NODEENI|NODE",
		Short: "Explain why something is not ready, and what to do",
		Long: `Explain why a NodeENI or a node is not as declared: what is blocked, for which nodes, for
which reason, and what to do about it. For a node without interfaces, it shows the
labels that selectors require and the node lacks.

If a NodeENI and a node have the same name, the command explains the NodeENI; nodeeni/NAME and
node/NAME are unambiguous. It only reads the Kubernetes API.`,
		Example: `  kubectl eni why multus-eni-config
  kubectl eni why node/ip-10-0-0-10.us-west-2.compute.internal`,
		Args:              oneName,
		ValidArgsFunction: s.completeNames(nodeENIList, nodeList),
		RunE: s.showFleet(func(fleet report.Fleet, args []string) (textOutput, error) {
			return explain(fleet, args[0])
		}),
	}
	s.bind(c, "wide", "json", "yaml")
	return c
}

// explain explains the object that the argument names.
func explain(fleet report.Fleet, argument string) (report.Why, error) {
	kind, name, said := strings.Cut(argument, "/")
	if !said {
		kind, name = "", argument
	}
	nodeENI, isNodeENI := fleet.NodeENI(name)
	node, isNode := fleet.Node(name)
	switch kind {
	case "":
	case "nodeeni", "nodeenis", "neni":
		isNode = false
	case "node", "nodes", "no":
		isNodeENI = false
	default:
		return report.Why{}, fmt.Errorf("%s is neither a NodeENI nor a node; use nodeeni/NAME or node/NAME", argument)
	}
	switch {
	case isNodeENI:
		return report.WhyNodeENI(fleet, nodeENI), nil
	case isNode:
		return report.WhyNode(fleet, node), nil
	default:
		return report.Why{}, fmt.Errorf("nothing is named %s; see kubectl get nodeenis,nodes", argument)
	}
}
