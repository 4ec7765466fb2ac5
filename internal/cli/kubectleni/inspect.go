// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubectleni holds the commands with which people look at a fleet, understand it, and set right by hand what a
// controller cannot: those of kubectl eni, which multieni has as well.
//
// Each command reads, makes a value of package report of it, and prints that. The reading is in connect.go and read.go.
package kubectleni

import (
	"strings"

	"github.com/spf13/cobra"
)

// Commands returns the commands, whose examples call them as the program is called, for example "kubectl eni".
func Commands(program string) []*cobra.Command {
	all := []*cobra.Command{
		newStatus(), newNode(), newWhy(), newPlan(), newDoctor(), newLeaks(), newWait(), newImport(), newTopology(),
		newSubnets(), newNADs(),
	}
	for _, c := range all {
		c.Example = strings.ReplaceAll(c.Example, "kubectl eni", program)
		c.GroupID = groupID
	}
	return all
}

const groupID = "inspect"

// Group is the heading under which help lists the commands.
func Group() *cobra.Group { return &cobra.Group{ID: groupID, Title: "Look and understand:"} }
