// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/awssim"
)

// The actions that provide an interface, and those that remove one.
var (
	giving = []string{"CreateNetworkInterface", "AttachNetworkInterface", "ModifyNetworkInterfaceAttribute"}
	taking = []string{"DetachNetworkInterface", "DeleteNetworkInterface"}
)

// The calls for an interface: create, attach, set deleteOnTermination; detach, delete.
const (
	callsToAttach = 3
	callsToRemove = 2
)

// tally counts the interfaces of the story, and the calls for them.
type tally struct {
	attached   int // desired interfaces that were attached
	removed    int // of these, removed by the controller
	terminated int // of these, deleted with their instance
	left       int // of ours in EC2 at the end
	kills      int // of the controller
	calls      awssim.Calls
	simulated  time.Duration
	real       time.Duration
}

// count adds what changes from one step to the next. The interfaces are given by ID with the node they are for.
func (t *tally) count(before, after map[string]string, gone []string) {
	for id := range after {
		if _, known := before[id]; !known {
			t.attached++
		}
	}
	for id, node := range before {
		_, stays := after[id]
		switch {
		case stays:
		case slices.Contains(gone, node):
			t.terminated++
		default:
			t.removed++
		}
	}
}

// made counts the calls of some actions.
func (t *tally) made(actions []string) (n int) {
	for _, action := range actions {
		n += t.calls.Actions[action].Count
	}
	return n
}

// failed counts the calls that were refused.
func (t *tally) failed() int {
	c := t.calls
	return c.Mutating.Failed + c.Mutating.Throttled + c.NonMutating.Failed + c.NonMutating.Throttled
}

// check returns the unexpected calls. A killed controller may have made calls without receiving their answers, one on
// each node; its successor may repeat them.
func (t *tally) check(nodes int) []string {
	var problems []string
	excuse := t.kills * nodes
	bill := func(what string, actions []string, interfaces, each int) {
		all := t.made(actions)
		if all > interfaces*each+excuse || all < interfaces*each && t.kills == 0 {
			problems = append(problems, fmt.Sprintf("%d EC2 calls were made where %d interfaces were %s, which takes %d", all,
				interfaces, what, interfaces*each))
		}
	}
	bill("attached", giving, t.attached, callsToAttach)
	bill("removed", taking, t.removed, callsToRemove)
	if failed := t.failed(); failed > excuse {
		problems = append(problems, fmt.Sprintf("%d EC2 calls failed", failed))
	}
	return problems
}

// String returns the tally as text.
func (t *tally) String() string {
	var b strings.Builder
	entry := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	entry("asked", "%d interfaces; %d of them taken back, %d gone with a terminated instance", t.attached,
		t.removed, t.terminated)
	entry("EC2 holds", "%s", leftOver(t.left))
	t.bill(entry, "EC2 calls", "attached", giving, t.attached)
	t.bill(entry, "", "removed", taking, t.removed)
	entry("", "%d failed; %d reads, which many nodes share", t.failed(), t.calls.NonMutating.Count)
	entry("killed", "%s", killed(t.kills))
	entry("time", "%s simulated in %s", seconds(t.simulated.Seconds()), seconds(t.real.Seconds()))
	return b.String()
}

func (t *tally) bill(entry func(string, string, ...any), name, what string, actions []string, interfaces int) {
	all := t.made(actions)
	var each []string
	for _, action := range actions {
		each = append(each, fmt.Sprintf("%s %d",
			strings.TrimSuffix(strings.TrimSuffix(action, "Attribute"), "NetworkInterface"), t.calls.Actions[action].Count))
	}
	entry(name, "%.1f for each interface %s: %s", float64(all)/float64(max(interfaces, 1)), what, strings.Join(each, ", "))
}

func leftOver(n int) string {
	if n == 0 {
		return "none of them: nothing is left behind"
	}
	return fmt.Sprintf("%d of them still", n)
}

func killed(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "the controller once, which changed nothing"
	default:
		return fmt.Sprintf("the controller %d times, which changed nothing", n)
	}
}
