// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/report"
)

// lookTimeout bounds the reads from EC2; the output is useful even without them.
const lookTimeout = 10 * time.Second

func newNode() *cobra.Command {
	var s screen
	var e cloud
	c := &cobra.Command{
		Use:   "node NAME",
		Short: "Show the slots of a node, with the interface, owner and link of each",
		Long: `Show the slots of a node by network card and device index: the primary interface, those of
the VPC CNI and of others, multieni's own with address, subnet and link, and the free slots.

The command reads the attached interfaces from EC2 with your own AWS credentials. Without them,
it shows the NetworkInterfaces of the node.`,
		Example: `  kubectl eni node ip-10-0-0-10.us-west-2.compute.internal
  kubectl eni node ip-10-0-0-10.us-west-2.compute.internal -o json`,
		Args:              oneName,
		ValidArgsFunction: s.completeNames(nodeList),
		RunE: s.show(func(c *cobra.Command, api client.Client, args []string) (textOutput, error) {
			fleet, err := readFleet(c.Context(), api)
			if err != nil {
				return nil, err
			}
			node, known := fleet.Node(args[0])
			if !known {
				return nil, fmt.Errorf("there is no node %s, and no NetworkInterface of one; see kubectl get nodes", args[0])
			}
			return e.picture(c.Context(), api, node), nil
		}),
	}
	e.bind(c.Flags())
	s.bind(c, "wide", "json", "yaml")
	return c
}

// picture draws a node, with its state in EC2 if the reads succeed.
func (c *cloud) picture(ctx context.Context, api client.Client, node report.Node) report.NodeMap {
	if node.InstanceID == "" {
		return report.NewNodeMap(node, nil, eni.Limits{}, "the node is not an EC2 instance")
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	cloud, err := c.connect(ctx, api)
	if err != nil {
		return report.NewNodeMap(node, nil, eni.Limits{}, err.Error())
	}
	look, err := cloud.DescribeInstance(ctx, node.InstanceID)
	if err != nil {
		return report.NewNodeMap(node, nil, eni.Limits{}, err.Error())
	}
	limits, err := cloud.Limits(ctx, look.Instance.Type)
	if err != nil {
		limits = eni.Limits{} // the offline table is used instead
	}
	return report.NewNodeMap(node, &look, limits, "")
}
