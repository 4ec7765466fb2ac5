// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet_test

import (
	"fmt"
	"testing"

	"github.com/multieni/multieni/internal/core/podnet"
)

var process = podnet.Process{Boot: "boot-1", ID: "process-1"}

// facts are those of an agent that serves an interface that is open.
func facts(change func(*podnet.Facts)) podnet.Facts {
	desired := network(ipv4("10.0.4.16/28"), nil)
	desired.UID, desired.Phase = "", ""
	open, saved := desired, desired
	open.UID, open.Phase, saved.UID = "uid-1", podnet.Open, "uid-1"
	f := podnet.Facts{
		Process: process, Read: true, Enabled: true, Desired: desired, Folder: &open, Saved: &podnet.Saved{Network: saved},
		Object: &podnet.Object{UID: "uid-1", Purpose: podnet.ForPods, Answered: true, Agent: process, Open: true},
		Use:    podnet.Use{Known: true},
	}
	change(&f)
	return f
}

// unopened are the facts of an object that no agent has answered for.
func unopened(change func(*podnet.Facts)) podnet.Facts {
	return facts(func(f *podnet.Facts) {
		f.Object.Answered, f.Object.Open, f.Object.Agent = false, false, podnet.Process{}
		f.Folder, f.Saved = nil, nil
		change(f)
	})
}

// wasObserved are the facts of an object whose folder is of attachment Observed, and that is not held.
func wasObserved(change func(*podnet.Facts)) podnet.Facts {
	return facts(func(f *podnet.Facts) {
		f.Folder.Attachment, f.Folder.Phase = podnet.Observed, podnet.Closed
		f.Saved, f.Object.Open = nil, false
		change(f)
	})
}

// describe names the parts of a step.
func describe(s podnet.Step) string {
	text := ""
	add := func(is bool, what string) {
		if is {
			text += what + " "
		}
	}
	if s.File != nil {
		text += fmt.Sprintf("file %s for %s with %d ", s.File.Phase, s.File.UID, len(s.File.IPv4.Prefixes))
	}
	add(s.Remove, "remove")
	add(s.Save != nil, "save")
	add(s.Forget, "forget")
	add(s.Bind, "bind")
	switch {
	case s.Due:
		text += fmt.Sprintf("report open %t", s.Open)
	case s.Answers:
		text += fmt.Sprintf("may report open %t", s.Open)
	default:
		text += "silent"
	}
	return text
}

func TestNext(t *testing.T) {
	earlier := podnet.Process{Boot: "boot-1", ID: "process-0"}
	for name, c := range map[string]struct {
		facts podnet.Facts
		want  string
	}{
		"all is as it should be": {facts(func(*podnet.Facts) {}), "may report open true"},
		"A2: a new interface":    {unopened(func(*podnet.Facts) {}), "file Closed for uid-1 with 1 report open true"},
		"a link that does not exist yet": {
			unopened(func(f *podnet.Facts) { f.Link = podnet.LinkLost }), "may report open false",
		},
		"a link that changes": {unopened(func(f *podnet.Facts) { f.Link = podnet.LinkUnsettled }), "may report open false"},
		"the answer opens the file": {
			facts(func(f *podnet.Facts) { f.Folder.Phase, f.Saved = podnet.Closed, nil }),
			"file Open for uid-1 with 1 save may report open true",
		},
		"a granted prefix": {
			facts(func(f *podnet.Facts) { f.Desired.IPv4 = ipv4("10.0.4.16/28", "10.0.4.32/28") }),
			"file Open for uid-1 with 2 save may report open true",
		},
		"A1: a new process keeps what is open, and adds nothing": {
			facts(func(f *podnet.Facts) {
				f.Object.Agent = earlier
				f.Desired.IPv4 = ipv4("10.0.4.16/28", "10.0.4.32/28")
			}), "report open true",
		},
		"A1: a write without an answer": {facts(func(f *podnet.Facts) { f.Unanswered = true }), "report open true"},
		"A1: nothing is open, and the checkpoint has it": {
			unopened(func(f *podnet.Facts) {
				f.Object.TakenOver, f.Object.Deleting = true, true
				f.Saved = &podnet.Saved{Network: f.Desired}
			}), "forget report open false",
		},
		"A1: of an object that the controller made, with the link": {
			unopened(func(f *podnet.Facts) { f.Object.Purpose = podnet.ForNode }), "may report open false",
		},
		"A1: of an object that took the interface over": {
			unopened(func(f *podnet.Facts) { f.Object.Purpose, f.Object.TakenOver = podnet.ForNode, true }), "report open false",
		},
		"A1: leases are not known": {
			unopened(func(f *podnet.Facts) { f.Object.Purpose, f.Object.TakenOver, f.Use.Known = podnet.ForNode, true, false }), "silent",
		},
		"A1: a pod has a lease": {
			unopened(func(f *podnet.Facts) {
				f.Object.TakenOver, f.Object.Deleting, f.Use.Leased = true, true, true
				f.Folder = facts(func(*podnet.Facts) {}).Folder
				f.Folder.UID = "uid-0"
			}), "file Closed for uid-1 with 1 report open true",
		},
		"A4: closed, without pods": {
			facts(func(f *podnet.Facts) { f.Object.Closed = true }), "file Closed for uid-1 with 1 forget report open false",
		},
		"A4: being deleted, and the file is damaged": {
			facts(func(f *podnet.Facts) {
				f.Object.Deleting = true
				f.Folder = &podnet.Network{Name: f.Desired.Name, ENI: f.Desired.ENI, Phase: podnet.Closed}
			}), "file Closed for uid-1 with 1 forget report open false",
		},
		"A4: being deleted, without pods": {
			facts(func(f *podnet.Facts) { f.Object.Deleting = true }), "file Closed for uid-1 with 1 forget report open false",
		},
		"closed, with a pod": {
			facts(func(f *podnet.Facts) { f.Object.Closed, f.Use.Leased = true, true }), "file Closed for uid-1 with 1 may report open true",
		},
		"closed, with an address at rest": {
			facts(func(f *podnet.Facts) { f.Object.Closed, f.Use.Resting = true, true }), "file Closed for uid-1 with 1 may report open true",
		},
		"closed, with an address that a pod brought up": {
			facts(func(f *podnet.Facts) { f.Object.Closed, f.Use.Brought = true, true }), "file Closed for uid-1 with 1 may report open true",
		},
		"closed, and the leases are not known": {
			facts(func(f *podnet.Facts) { f.Object.Closed, f.Use.Known = true, false }), "file Closed for uid-1 with 1 may report open true",
		},
		"closed, by a new process": {
			facts(func(f *podnet.Facts) { f.Object.Closed, f.Object.Agent = true, earlier }), "file Closed for uid-1 with 1 report open true",
		},
		"let go: the folder goes": {
			facts(func(f *podnet.Facts) {
				f.Object.Closed, f.Object.Open, f.Folder.Phase, f.Saved = true, false, podnet.Closed, nil
			}),
			"remove may report open false",
		},
		"the order is taken back": {
			facts(func(f *podnet.Facts) { f.Object.Open, f.Folder.Phase, f.Saved = false, podnet.Closed, nil }), "report open true",
		},
		"the NodeENI has no pods any more": {
			facts(func(f *podnet.Facts) { f.Object.Purpose = podnet.ForNode }), "file Closed for uid-1 with 1 forget report open false",
		},
		"the agent serves no pods": {
			facts(func(f *podnet.Facts) { f.Enabled = false }), "file Closed for uid-1 with 1 forget report open false",
		},
		"the agent serves no pods, and one runs": {
			facts(func(f *podnet.Facts) { f.Enabled, f.Use.Leased = false, true }), "file Closed for uid-1 with 1 may report open true",
		},
		"the link is gone": {
			facts(func(f *podnet.Facts) { f.Link, f.Use.Leased = podnet.LinkLost, true }), "file Closed for uid-1 with 1 may report open true",
		},
		"the link changes":            {facts(func(f *podnet.Facts) { f.Link = podnet.LinkUnsettled }), "may report open true"},
		"the range is not known":      {unopened(func(f *podnet.Facts) { f.Problem = true }), "may report open false"},
		"the object is gone":          {facts(func(f *podnet.Facts) { f.Object = nil }), "file Closed for uid-1 with 1 forget silent"},
		"the object is gone, a pod":   {facts(func(f *podnet.Facts) { f.Object, f.Use.Leased = nil, true }), "file Closed for uid-1 with 1 silent"},
		"the object is gone, settled": {facts(func(f *podnet.Facts) { f.Object, f.Folder.Phase, f.Saved = nil, podnet.Closed, nil }), "remove silent"},
		"the object is gone, and the disk full": {
			facts(func(f *podnet.Facts) { f.Object, f.Folder.Phase = nil, podnet.Closed }), "forget silent",
		},
		"another object has the interface": {
			facts(func(f *podnet.Facts) {
				f.Object.UID, f.Object.Answered, f.Object.Open, f.Object.TakenOver, f.Use.Leased = "uid-2", false, false, true, true
			}), "file Closed for uid-2 with 1 report open true",
		},
		"leases of this boot are lost": {
			facts(func(f *podnet.Facts) { f.Folder, f.Object.Deleting = nil, true }), "may report open true",
		},
		"leases of this boot are lost, for a new process": {
			facts(func(f *podnet.Facts) { f.Folder, f.Object.Agent = nil, earlier }), "report open true",
		},
		"the node booted": {
			facts(func(f *podnet.Facts) { f.Folder, f.Object.Agent = nil, podnet.Process{Boot: "boot-0", ID: "process-0"} }),
			"file Closed for uid-1 with 1 report open true",
		},
		"another folder of the network is open": {
			unopened(func(f *podnet.Facts) { f.Blocked = true }), "file Closed for uid-1 with 1 may report open false",
		},
		"without the API server": {
			facts(func(f *podnet.Facts) { f.Read, f.Object = false, nil }), "silent",
		},
		"a boot without the API server": {
			facts(func(f *podnet.Facts) { f.Read, f.Object, f.Recalled, f.Folder = false, nil, &f.Saved.Network, nil }),
			"file Open for uid-1 with 1 silent",
		},
		"a boot without the API server, and without pods": {
			facts(func(f *podnet.Facts) {
				f.Read, f.Object, f.Recalled, f.Folder, f.Enabled = false, nil, &f.Saved.Network, nil, false
			}),
			"silent",
		},
		"Observed: no pod": {
			unopened(func(f *podnet.Facts) { f.Object.Purpose = podnet.ForObserved }), "file Closed for uid-1 with 1 may report open false",
		},
		"Observed: no pod, and the object is being deleted before the first answer": {
			unopened(func(f *podnet.Facts) { f.Object.Purpose, f.Object.Deleting = podnet.ForObserved, true }), "report open false",
		},
		"Observed: a pod": {
			unopened(func(f *podnet.Facts) { f.Object.Purpose, f.Use.Brought = podnet.ForObserved, true }),
			"file Closed for uid-1 with 1 report open true",
		},
		"Observed: a pod came after the interface was let go": {
			facts(func(f *podnet.Facts) {
				f.Object.Purpose, f.Object.Deleting, f.Object.Open, f.Use.Brought = podnet.ForObserved, true, false, true
				f.Folder.Phase, f.Saved = podnet.Closed, nil
			}), "may report open false",
		},
		"from Observed to HostDevice, while a pod has a link": {
			wasObserved(func(f *podnet.Facts) { f.Desired.Attachment, f.Use.Linked = podnet.HostDevice, true }), "may report open false",
		},
		"from Observed to HostDevice, and the pod has a declared address": {
			wasObserved(func(f *podnet.Facts) {
				f.Desired.Attachment, f.Object.Open, f.Use.Linked, f.Use.Brought = podnet.HostDevice, true, true, true
			}), "may report open true",
		},
		"from Observed to HostDevice, after the last pod": {
			wasObserved(func(f *podnet.Facts) { f.Desired.Attachment = podnet.HostDevice }), "file Closed for uid-1 with 1 report open true",
		},
		"from Observed to no network, while a pod has a link": {
			wasObserved(func(f *podnet.Facts) { f.Object.Purpose, f.Use.Linked = podnet.ForNode, true }), "may report open false",
		},
		"from Observed to no network, after the last pod": {
			wasObserved(func(f *podnet.Facts) { f.Object.Purpose = podnet.ForNode }), "remove may report open false",
		},
		"Observed: the last pod ended": {
			facts(func(f *podnet.Facts) { f.Object.Purpose, f.Folder.Phase = podnet.ForObserved, podnet.Closed }), "forget report open false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describe(c.facts.Next()); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// A device is bound after the API server and the checkpoint have it, and let go after the program ended.
func TestNextOfADevice(t *testing.T) {
	f := unopened(func(f *podnet.Facts) {
		f.Object.Purpose, f.Device, f.Enabled = podnet.ForProgram, "0000:00:07.0", false
	})
	expect := func(want string) podnet.Step {
		t.Helper()
		step := f.Next()
		if got := describe(step); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		return step
	}
	expect("report open true")
	f.Object.Answered, f.Object.Agent, f.Object.Open, f.Recorded = true, process, true, true
	f.Saved = expect("save bind may report open true").Save
	expect("bind may report open true")
	f.Use.Device = true
	expect("bind may report open true")
	f.Object.Deleting = true
	expect("may report open true")
	f.Use.Device = false
	expect("forget report open false")
}
