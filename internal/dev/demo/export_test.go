// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/terminal"
)

// Names for tests.
type (
	Moment  = moment
	Outcome = outcome
)

// NewMoment returns the state of EC2 and the API server, with the names of nodes by instance ID.
func NewMoment(
	state ec2.State, nodeENIs []v1alpha1.NodeENI, interfaces []v1alpha1.NetworkInterface, nodes map[string]string,
) Moment {
	return moment{ec2: state, nodeENIs: nodeENIs, interfaceObjects: interfaces, nodes: nodes}
}

// WithPod adds a pod to a moment.
func WithPod(m Moment, name string, phase corev1.PodPhase) Moment {
	m.pods = map[string]corev1.Pod{name: {Status: corev1.PodStatus{Phase: phase}}}
	return m
}

// KeptByPod adds a pod to an outcome, and a NodeENI whose deletion waits for it.
func KeptByPod(o Outcome, pod, nodeENI string) Outcome {
	o.pods, o.inUse = []string{pod}, []string{nodeENI}
	return o
}

// Table draws a moment.
func Table(m Moment, width int, colours bool) string {
	return table(rows(m), terminal.Page{Width: width, Colours: colours})
}

// News returns the changes from one moment to the next.
func News(before, after Moment) []string { return news(rows(before), rows(after)) }

// Check returns the differences from the expected state.
func Check(m Moment, o Outcome) []string { return check(m, o) }

// Holds is an outcome of one interface.
func Holds(nodeENI, node, subnet string, device int) Outcome {
	return outcome{holds: []holding{{nodeENI, node, subnet, device}}}
}

// Besides adds an obstacle to an outcome.
func Besides(o Outcome, nodeENI, node string, reason plan.Reason) Outcome {
	o.obstacles = append(o.obstacles, obstacle{nodeENI, node, reason})
	return o
}

// Kills returns when the controller is killed, in each step of the story.
func Kills(n int, seed uint64) [][]time.Duration {
	var due [][]time.Duration
	for _, f := range fates(story(), n, rand.New(rand.NewPCG(seed, 0))) {
		due = append(due, f.due)
	}
	return due
}

// Fold breaks a line.
func Fold(line string, width int) []string { return fold(line, width) }

// Crop shortens a text.
func Crop(text string, height int) string { return crop(text, height) }

// Commands are all commands of the story, outcomes all expected results.
func Commands() [][]string {
	var all [][]string
	for _, c := range story() {
		for _, s := range c.steps {
			for _, command := range s.do {
				if words, ok := command.(kubectl); ok {
					all = append(all, words)
				}
			}
		}
	}
	return all
}

// Placed is an interface that the story desires.
type Placed struct {
	Node, Subnet string
	Device       int
}

// Wanted are the interfaces that the steps of the story desire.
func Wanted() [][]Placed {
	var all [][]Placed
	for _, c := range story() {
		for _, s := range c.steps {
			var step []Placed
			for _, h := range s.then.holds {
				step = append(step, Placed{h.node, h.subnet, h.device})
			}
			all = append(all, step)
		}
	}
	return all
}

// Excess returns the unexpected calls of a story with six nodes.
func Excess(attached, removed, kills int, calls awssim.Calls) []string {
	t := tally{attached: attached, removed: removed, kills: kills, calls: calls}
	return t.check(6)
}

// Summary is the summary of a story.
func Summary(attached, removed, kills int, calls awssim.Calls) string {
	t := tally{
		attached: attached, removed: removed, terminated: attached - removed, kills: kills, calls: calls,
		simulated: 780 * time.Second, real: 39 * time.Second,
	}
	return t.String()
}

// Script has the titles, texts, commands and outcomes of the story, in their order. Commands in the network namespaces
// of this machine are without the path of their namespace, and addresses that a run finds out are missing.
func Script() []string {
	var all []string
	commands := func(of []command) {
		for _, c := range of {
			switch c := c.(type) {
			case kubectl:
				line, _ := c.typed(nil)
				all = append(all, line)
			case inNamespace:
				all = append(all, "/net/"+c.file+" "+strings.Join(c.line, " "))
			case ping:
				all = append(all, "/net/"+inPod(c.from).file+" ping -c 1 -w 2")
			case terminate:
				all = append(all, "curl -X DELETE $AWS_ENDPOINT_URL/_sim/instances/")
			}
		}
	}
	for n, c := range story() {
		all = append(all, fmt.Sprintf("%d of %d ── %s", n+1, len(story()), c.title))
		for _, s := range c.steps {
			all = append(all, s.say)
			commands(s.do)
			all = append(all, s.then.String())
			commands(s.show)
		}
	}
	return all
}
