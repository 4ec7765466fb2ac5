// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/internal/core/report"
)

func newStatus() *cobra.Command {
	var s screen
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the fleet at a glance: every NodeENI, and what is not as declared",
		Long: `Show every NodeENI with the number of its attached interfaces, and then each reason why
interfaces are not as declared, with the affected nodes and the next step. Pods that stay
Pending for lack of an address of a pod network follow, if you may list pods.

The command only reads the Kubernetes API.`,
		Example: `  kubectl eni status
  kubectl eni status -o wide    # and every node
  kubectl eni status -o json | jq '.troubles[] | {reason, nodes}'`,
		Args: cobra.NoArgs,
		RunE: s.show(func(c *cobra.Command, api client.Client, _ []string) (textOutput, error) {
			o, err := read(c.Context(), api)
			if err != nil {
				return nil, err
			}
			fleet := o.fleet()
			fleet.WaitingPods, err = o.waitingPods(c.Context(), api)
			if err != nil && !apierrors.IsForbidden(err) { // who may not list pods still sees the fleet
				return nil, err
			}
			return report.NewStatus(fleet, time.Now()), nil
		}),
	}
	s.bind(c, "wide", "json", "yaml")
	return c
}

func newTopology() *cobra.Command {
	var s screen
	c := &cobra.Command{
		Use:   "topology",
		Short: "Draw which interfaces the nodes of each zone have, as text or SVG",
		Long: `Draw the fleet by zone: nodes of one type with the same interfaces in the same slots are
drawn once, so that thousands of nodes make a small picture.

The command only reads the Kubernetes API.`,
		Example: `  kubectl eni topology
  kubectl eni topology -o svg > fleet.svg`,
		Args: cobra.NoArgs,
		RunE: s.showFleet(func(fleet report.Fleet, _ []string) (textOutput, error) { return report.NewTopology(fleet), nil }),
	}
	s.bind(c, "svg", "wide", "json", "yaml")
	return c
}
