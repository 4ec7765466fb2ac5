// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli has the commands of multieni-dev.
package cli

import (
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multieni/multieni/internal/base/version"
)

// New returns the root command of multieni-dev.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:     "multieni-dev",
		Short:   "multieni on one machine, with a simulated AWS",
		Version: version.String(),
		Long: `multieni-dev runs what multieni needs around it, on this machine and with nothing but
loopback: a real Kubernetes API server, a simulated AWS, and a Node for each of its
instances. Neither an AWS account nor a cluster is needed.

The first run compiles the API server, which takes some minutes, once per version.`,
		Example: `  # watch multieni do its job
  multieni-dev demo

  # a playground: API server, simulated AWS, controller
  multieni-dev up --dir .cache/up`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) {
			// Without a logger controller-runtime complains half a minute later.
			ctrllog.SetLogger(logr.FromSlogHandler(slog.DiscardHandler))
		},
	}
	root.AddCommand(newDemo(), newUp())
	return root
}
