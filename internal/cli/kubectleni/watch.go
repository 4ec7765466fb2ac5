// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/internal/core/report"
)

// screen has the flags of all commands that print what they read: the connection to the cluster, and the output.
type screen struct {
	access
	output
}

// bind adds the flags, and the formats in addition to text that the command supports.
func (s *screen) bind(c *cobra.Command, formats ...string) {
	s.access.bind(c.Flags())
	s.output.bind(c, formats...)
}

// begin checks the flags and connects before a command does its work.
func (s *screen) begin(work func(*cobra.Command, client.Client, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := s.validate(); err != nil {
			return err
		}
		api, err := s.connect()
		if err != nil {
			return err
		}
		return work(c, api, args)
	}
}

// oneName accepts exactly one argument.
func oneName(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("specify one name: %s; %s --help has examples", strings.TrimSuffix(c.UseLine(), " [flags]"),
			c.CommandPath())
	}
	return nil
}

// show prints the result of a command.
func (s *screen) show(
	find func(*cobra.Command, client.Client, []string) (textOutput, error),
) func(*cobra.Command, []string) error {
	return s.begin(func(c *cobra.Command, api client.Client, args []string) error {
		found, err := find(c, api, args)
		if err != nil {
			return err
		}
		return s.print(c.OutOrStdout(), found)
	})
}

// showFleet prints what a command returns for the fleet.
func (s *screen) showFleet(look func(report.Fleet, []string) (textOutput, error)) func(*cobra.Command, []string) error {
	return s.show(func(c *cobra.Command, api client.Client, args []string) (textOutput, error) {
		fleet, err := readFleet(c.Context(), api)
		if err != nil {
			return nil, err
		}
		return look(fleet, args)
	})
}
