// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/base/version"
	"github.com/multieni/multieni/internal/cli/kubectleni"
)

// NewPlugin returns the root command of kubectl-eni, which kubectl runs as "kubectl eni".
func NewPlugin() *cobra.Command {
	root := &cobra.Command{
		Use:     "kubectl-eni",
		Version: version.String(),
		Short:   "Inspect, explain and plan the network interfaces of a fleet",
		Long: `Inspect the network interfaces that multieni manages, explain why one is missing, and preview a
change before you make it.

kubectl get nodeeni,eni lists what there is. Run why for what is not ready, and plan before a change.`,
		Example: `  kubectl get nodeeni,eni
  kubectl eni why
  kubectl eni why multus-eni-config
  kubectl eni node ip-10-0-0-10.us-west-2.compute.internal
  kubectl eni plan -f changed.yaml`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl eni"},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddGroup(kubectleni.Group())
	root.AddCommand(newVersion())
	root.AddCommand(kubectleni.Commands("kubectl eni")...)
	return root
}
