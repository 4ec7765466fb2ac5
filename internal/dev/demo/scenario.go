// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"fmt"
	"os/exec"
	"strings"

	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/dev/cluster"
)

// chapter is one part of the story.
type chapter struct {
	title string
	// needs, if set, returns why this machine or cluster cannot show the chapter, or nil.
	needs func(*cluster.Cluster) error
	steps []step
}

// networks is required by chapters about the networks of nodes.
func networks(c *cluster.Cluster) error { return c.NoNetworks }

// podNetworks is required by chapters about the networks of pods.
func podNetworks(c *cluster.Cluster) error {
	_, err := exec.LookPath("ping")
	return cmp.Or(c.NoPods, err)
}

// step is an action of a user, and its expected outcome.
type step struct {
	// say is the introductory text.
	say string
	// do are the commands, as a user types them.
	do []command
	// kill ends the controller with SIGKILL as soon as EC2 begins to change an interface for the commands.
	kill bool
	// then is the expected outcome.
	then outcome
	// show are commands whose output the reader should see afterwards.
	show []command
}

// outcome is the complete expected state at the end of a step: resources that are not listed must not exist.
type outcome struct {
	holds     []holding
	obstacles []obstacle
	// gone are the nodes whose instances are terminated.
	gone []string
	// open are the nodes whose agents must have removed the taint, bare those whose agents must report no interface any
	// more.
	open, bare []string
	// pods are the pods that must run with their networks, inUse the NodeENIs whose deletion must wait for them.
	pods, inUse []string
}

// String describes the outcome.
func (o outcome) String() string {
	switch {
	case len(o.inUse) > 0:
		return fmt.Sprintf("%d pods keep the interfaces of NodeENI %s", len(o.pods), strings.Join(o.inUse, ", "))
	case len(o.pods) > 0:
		return fmt.Sprintf("EC2 holds exactly these %d interfaces, and %d pods have their networks",
			len(o.holds), len(o.pods))
	case len(o.open) > 0:
		return fmt.Sprintf("on %d nodes the link is up, InterfacesReady is True and the startup taint is gone", len(o.open))
	case len(o.obstacles) > 0:
		return fmt.Sprintf("EC2 holds exactly these %d interfaces, and %d that cannot be are reported", len(o.holds),
			len(o.obstacles))
	case len(o.holds) == 0:
		return "EC2 holds none of our interfaces any more"
	case len(o.holds) == 1:
		return "EC2 holds exactly this interface, as declared"
	default:
		return fmt.Sprintf("EC2 holds exactly these %d interfaces, each as declared", len(o.holds))
	}
}

// holding is an interface that must exist in EC2, attached to the instance of a node.
type holding struct {
	nodeENI, node, subnet string
	device                int
}

// obstacle is an interface that is not available, with the expected reason.
type obstacle struct {
	nodeENI, node string
	reason        plan.Reason
}

// each returns a holding for each of the nodes.
func each(nodes []string, nodeENI, subnet string, device int) []holding {
	holds := make([]holding, len(nodes))
	for n, node := range nodes {
		holds[n] = holding{nodeENI, node, subnet, device}
	}
	return holds
}
