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

// networks is needed by chapters about the networks of nodes.
func networks(c *cluster.Cluster) error { return c.NoNetworks }

// podNetworks is needed by chapters about the networks of pods.
func podNetworks(c *cluster.Cluster) error {
	_, err := exec.LookPath("ping")
	return cmp.Or(c.NoPods, err)
}

// step is something a user does, and what must have come of it.
type step struct {
	// say is the text that the reader sees first.
	say string
	// do are the commands, as a user types them.
	do []command
	// kill ends the controller with SIGKILL as soon as EC2 is at work on what the commands asked for.
	kill bool
	// then is what must be so afterwards.
	then outcome
	// show are commands whose answers are worth reading once it is so.
	show []command
}

// outcome is everything that must be so at the end of a step: what is not listed must not exist.
type outcome struct {
	holds     []holding
	obstacles []obstacle
	// gone are the nodes whose instances are terminated.
	gone []string
	// open are the nodes whose agents must have let pods in, bare those whose agents must have nothing to say any more.
	open, bare []string
	// pods are those that must run with their networks, inUse the NodeENIs whose deletion must wait for them.
	pods, inUse []string
}

// String says what was found to be so.
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

// holding is an interface that EC2 must hold, attached to the instance of a node.
type holding struct {
	nodeENI, node, subnet string
	device                int
}

// obstacle is an interface that is not available, and the reason that the user must see.
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
