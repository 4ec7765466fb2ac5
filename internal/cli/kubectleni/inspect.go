// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubectleni holds the commands of kubectl eni, which multieni has as well. Users inspect a fleet with them,
// and repair by hand what a controller cannot.
//
// Each command reads, makes a value of package report, and prints it. connect.go and read.go have the reads.
package kubectleni

import (
	"strings"

	"github.com/spf13/cobra"
)

// Commands returns the commands. Their examples call them by the name of the program, for example "kubectl eni".
func Commands(program string) []*cobra.Command {
	all := []*cobra.Command{
		newWhy(), newNode(), newRelease(), newPlan(), newDoctor(), newLeaks(), newImport(), newTopology(),
		newSubnets(), newNADs(), newCheck(), newAutoscaling(),
	}
	for _, c := range all {
		c.Example = strings.ReplaceAll(c.Example, "kubectl eni", program)
		c.GroupID = groupID
	}
	return all
}

const groupID = "inspect"

// Group is the heading under which help lists the commands.
func Group() *cobra.Group { return &cobra.Group{ID: groupID, Title: "Inspection Commands:"} }
