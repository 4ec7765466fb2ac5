// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"math/rand/v2"

	"github.com/multieni/multieni/internal/core/podnet"
)

// agentKind is what an agent knows of pod networks.
type agentKind int

const (
	// servesPods is an agent with pod networks, the only kind after the healing.
	servesPods agentKind = iota
	// servesNone is an agent without pod networks: an upgrade of the chart lost pods.enabled.
	servesNone
)

// agents draws which agents run on the nodes. It has a random stream of its own, so that it shifts no other draw.
type agents struct {
	random *rand.Rand
	acts   bool
}

func newAgents(seed uint64) *agents {
	a := &agents{random: rand.New(rand.NewPCG(seed, 0xa6))}
	a.acts = a.random.IntN(2) == 0
	return a
}

// replaceAgent at times replaces the agent of a node by another kind, or takes its files. The CNI program, the files of
// networks and the pods stay when an agent without pod networks takes over.
func (h *podHost) replaceAgent() {
	r := h.c.run
	if !r.agents.acts {
		return
	}
	h.damageFile()
	h.arriveSometimes()
	kind := servesPods
	switch r.agents.random.IntN(60) {
	case 0:
		kind = servesNone
		r.covers.Actors[runsWithoutPods]++
	case 1:
		kind = h.agent
	case 7:
		h.diskFull = !h.diskFull
		r.note(nil, "%s: the disk of node %s is full: %t", h.c.name, h.node, h.diskFull)
		return
	case 2, 3, 4, 5:
	case 6:
		r.note(nil, "%s: node %s loses the files of its networks and its checkpoint", h.c.name, h.node)
		h.loseFiles()
		r.covers.Actors[losesFiles]++
		return
	default:
		return
	}
	h.runs(kind)
	r.note(nil, "%s: node %s has an agent that %s", h.c.name, h.node, h.agent)
}

// loseFiles removes what the agent can write again: the files of networks and the checkpoint. Pods keep their leases,
// and no further pod gets an address without a file.
func (h *podHost) loseFiles() {
	for at := range h.files {
		h.loseFile(at)
	}
	h.loseCheckpoint()
}

// loseFile makes the file of a network unreadable. It reports whether it was readable.
func (h *podHost) loseFile(at string) bool {
	if h.lost[at] {
		return false
	}
	if h.lost == nil {
		h.lost = map[string]bool{}
	}
	file := h.files[at]
	file.Phase = podnet.Closed
	h.files[at], h.lost[at] = file, true
	return true
}

// String implements [fmt.Stringer].
func (k agentKind) String() string {
	return map[agentKind]string{
		servesPods: "serves pod networks", servesNone: "runs without pod networks",
	}[k]
}
