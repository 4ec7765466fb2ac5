// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli holds the commands of multieni.
package cli

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/base/version"
	"github.com/multieni/multieni/internal/cli/kubectleni"
	"github.com/multieni/multieni/internal/cli/launchtemplate"
	"github.com/multieni/multieni/internal/cli/lifecyclehook"
	"github.com/multieni/multieni/internal/cli/userdata"
)

// components are the commands that the COMPONENT variable of the image selects.
var components = map[string]string{
	"eni-controller": "controller",
	"eni-manager":    "agent",
}

// New returns the root command of multieni.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:     "multieni",
		Short:   "Network interfaces for Kubernetes nodes on AWS",
		Version: version.String(),
		Long: `multieni gives every Kubernetes node on AWS the network interfaces (ENIs) that NodeENI
objects declare for it, and leaks none.

In a container, the environment variable COMPONENT can select the component to run instead of
a command: ` + strings.Join(slices.Sorted(maps.Keys(components)), ", ") + `.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddGroup(kubectleni.Group())
	root.AddCommand(newController(), newAgent(), newDrain(), newIAMPolicy(), launchtemplate.New(), lifecyclehook.New(),
		userdata.New(), newVersion())
	root.AddCommand(kubectleni.Commands("multieni")...)
	return root
}

// Arguments returns the given arguments. If they name no command, the command of COMPONENT precedes them.
func Arguments(given []string) ([]string, error) {
	component := os.Getenv("COMPONENT")
	if component == "" || len(given) > 0 && !strings.HasPrefix(given[0], "-") {
		return given, nil
	}
	command, known := components[component]
	if !known {
		return nil, fmt.Errorf("COMPONENT=%s is not known; it can be %s", component,
			strings.Join(slices.Sorted(maps.Keys(components)), " or "))
	}
	return append([]string{command}, given...), nil
}
