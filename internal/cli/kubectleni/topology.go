// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/core/report"
)

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
