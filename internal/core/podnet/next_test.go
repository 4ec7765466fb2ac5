// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

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
		"Observed: a pod": {
			unopened(func(f *podnet.Facts) { f.Object.Purpose, f.Use.Brought = podnet.ForObserved, true }),
			"file Closed for uid-1 with 1 report open true",
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

// world is a node and the API server, for random orders of all that can happen.
type world struct {
	t       *rapid.T
	object  *podnet.Object
	version int
	// torn is set once a user tore an object away: nothing then says that a pod may run, until an agent sees it.
	torn     bool
	lives    int
	folder   *podnet.Network
	leases   int
	saved    *podnet.Saved
	process  podnet.Process
	boots    int
	starts   int
	enabled  bool
	link     podnet.LinkUse
	prefixes int
	// read, seen, seenAt and unanswered are what the process knows.
	read, unanswered bool
	seen             *podnet.Object
	seenAt           int
	late             []lateWrite
}

type lateWrite struct {
	at      int
	process podnet.Process
	open    bool
}

func (w *world) begin() {
	w.starts++
	w.process = podnet.Process{Boot: fmt.Sprint("boot-", w.boots), ID: fmt.Sprint("process-", w.starts)}
	w.read, w.unanswered, w.seen, w.seenAt = false, false, nil, 0
}

func (w *world) look() {
	if w.seenAt == w.version && w.read {
		return
	}
	w.read, w.seenAt = true, w.version
	if w.object == nil {
		w.seen = nil
		return
	}
	if w.seen == nil || w.seen.UID != w.object.UID {
		w.unanswered = false
	}
	object := *w.object
	w.seen = &object
}

func (w *world) facts() podnet.Facts {
	f := facts(func(*podnet.Facts) {})
	f.Process, f.Read, f.Object, f.Unanswered = w.process, w.read, w.seen, w.unanswered
	f.Folder, f.Saved, f.Enabled, f.Link = w.folder, w.saved, w.enabled, w.link
	f.Use = podnet.Use{Known: true, Leased: w.leases > 0}
	f.Desired.IPv4 = ipv4([]string{"10.0.4.16/28", "10.0.4.32/28", "10.0.4.48/28"}[:w.prefixes]...)
	if w.saved != nil {
		f.Recalled = &w.saved.Network
	}
	return f
}

// act executes the next step, up to the place where the process ends or loses an answer; never if that is large.
func (w *world) act(ends int) {
	step := w.facts().Next()
	if ends == 0 {
		w.begin()
		return
	}
	if step.File != nil {
		if err := step.File.Validate(); err != nil {
			w.t.Fatalf("the file cannot be written: %v", err)
		}
		w.folder = step.File
	}
	if step.Remove {
		if w.leases > 0 {
			w.t.Fatal("the folder goes with a lease")
		}
		w.folder = nil
	}
	if ends == 1 {
		w.begin()
		return
	}
	if step.Save != nil {
		w.saved = step.Save
	}
	if step.Forget {
		w.saved = nil
	}
	if !step.Answers || w.seen == nil || !step.Due {
		return
	}
	write := lateWrite{w.seenAt, w.process, step.Open}
	switch ends {
	case 2: // the write is under way, and the process ends
		w.late = append(w.late, write)
		w.begin()
	case 3: // there is no answer
		w.late = append(w.late, write)
		w.unanswered = true
	default:
		if w.write(write) {
			w.unanswered = false
			w.look()
		}
	}
}

func (w *world) write(write lateWrite) bool {
	if w.object == nil || write.at != w.version {
		return false
	}
	if w.object.Deleting && w.object.Answered && !w.object.Open && write.open && !w.torn {
		w.t.Fatal("the policy refuses a hold of a correct agent")
	}
	w.object.Answered, w.object.Open, w.object.Agent = true, write.open, write.process
	w.version++
	return true
}

func (w *world) held() bool {
	return w.object != nil && (w.object.Open || !w.object.Answered && w.object.TakenOver)
}

func (w *world) create(takenOver bool) {
	w.lives++
	w.version++
	w.object = &podnet.Object{UID: fmt.Sprint("uid-", w.lives), Purpose: podnet.ForPods, TakenOver: takenOver}
}

func (w *world) check(*rapid.T) {
	switch {
	case w.torn && w.object == nil: // nothing can be promised
	case w.leases > 0 && !w.held():
		w.t.Fatalf("a pod runs, and nothing holds the interface: %+v", w.object)
	case w.folder != nil && w.folder.IsOpen() && !w.held():
		w.t.Fatalf("the file is open, and nothing holds the interface: %+v", w.object)
	case w.saved != nil && !w.held():
		w.t.Fatalf("the checkpoint has what was let go: %+v", w.object)
	}
}

// TestNextKeepsItsPromises lets pods, users, processes and boots act in any order. After that every removal completes.
func TestNextKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, enabled: true, prefixes: 1, boots: 1}
		w.create(false)
		w.begin()
		object := func(change func(*podnet.Object)) func(*rapid.T) {
			return func(*rapid.T) {
				if w.object != nil {
					change(w.object)
					w.version++
				}
			}
		}
		act := func(t *rapid.T) { w.act(rapid.IntRange(0, 12).Draw(t, "ends")) }
		look := func(*rapid.T) { w.look() }
		start := func(*rapid.T) {
			if w.folder != nil && w.folder.IsOpen() {
				w.leases++
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"act": act, "act again": act, "act once more": act, "look": look, "look again": look, "a pod starts": start,
			"another pod starts": start,
			"a pod ends":         func(*rapid.T) { w.leases = max(w.leases-1, 0) },
			"close":              object(func(o *podnet.Object) { o.Closed = true }),
			"open":               object(func(o *podnet.Object) { o.Closed = false }),
			"delete":             object(func(o *podnet.Object) { o.Deleting = true }),
			"without pods":       object(func(o *podnet.Object) { o.Purpose = podnet.ForNode }),
			"with pods":          object(func(o *podnet.Object) { o.Purpose = podnet.ForPods }),
			"grant":              object(func(*podnet.Object) { w.prefixes = min(w.prefixes+1, 3) }),
			"the process ends":   func(*rapid.T) { w.begin() },
			"pods off and on":    func(*rapid.T) { w.enabled = !w.enabled; w.begin() },
			"the link":           func(t *rapid.T) { w.link = podnet.LinkUse(rapid.IntRange(0, 2).Draw(t, "link")) },
			"boot": func(*rapid.T) {
				w.boots++
				w.folder, w.leases = nil, 0
				w.begin()
			},
			"the file is damaged": func(*rapid.T) {
				if w.folder != nil {
					w.folder = &podnet.Network{Name: w.folder.Name, ENI: w.folder.ENI, Phase: podnet.Closed}
				}
			},
			"a late write": func(*rapid.T) {
				if len(w.late) > 0 {
					w.write(w.late[0])
					w.late = w.late[1:]
				}
			},
			"the controller finishes": func(*rapid.T) {
				if w.object != nil && w.object.Deleting && !w.held() {
					if w.leases > 0 {
						t.Fatal("the interface goes under a pod")
					}
					w.object, w.torn = nil, false
					w.create(false)
				}
			},
			"a user tears the object away": func(*rapid.T) {
				if w.object != nil && rapid.IntRange(0, 3).Draw(t, "tears") == 0 {
					w.object, w.torn = nil, true
					w.version++
				}
			},
			"it is made again": func(*rapid.T) {
				if w.object == nil {
					w.create(true)
				}
			},
			"": w.check,
		})
		w.heal()
	})
}

// heal ends the faults and the pods. The interface is served, and then removed.
func (w *world) heal() {
	w.leases, w.late, w.enabled, w.link, w.torn = 0, nil, true, podnet.LinkUsable, false
	if w.object == nil {
		w.create(true)
	}
	if w.object.Deleting {
		w.finish()
		w.create(false)
	}
	w.object.Closed, w.object.Purpose = false, podnet.ForPods
	w.version++
	w.run(func() bool { return w.folder != nil && w.folder.IsOpen() && w.object.Open && w.saved != nil })
	w.object.Deleting = true
	w.version++
	w.finish()
	w.object = nil
	w.version++
	w.run(func() bool { return w.folder == nil && w.saved == nil })
}

func (w *world) finish() {
	w.run(func() bool { return !w.held() && w.folder == nil && w.saved == nil })
}

func (w *world) run(done func() bool) {
	for range 10 {
		w.look()
		w.act(9)
		w.check(w.t)
	}
	if !done() {
		w.t.Fatalf("the agent does not end: object %+v, folder %+v, checkpoint %+v; next %s", w.object, w.folder, w.saved,
			describe(w.facts().Next()))
	}
}

// TestNextOfADamagedFile says that an object is answered for although the file of its folder cannot be read.
func TestNextOfADamagedFile(t *testing.T) {
	damaged := func(f *podnet.Facts) {
		f.Folder = &podnet.Network{Name: f.Desired.Name, ENI: f.Desired.ENI, Phase: podnet.Closed}
		f.Object.Deleting = true
	}
	step := facts(damaged).Next()
	if step.File == nil {
		t.Fatal("the file is not replaced")
	}
	if _, err := step.File.Encode(); err != nil || step.File.IsOpen() {
		t.Errorf("the file becomes %+v: %v", step.File, err)
	}
	without := facts(func(f *podnet.Facts) {
		damaged(f)
		f.Desired.Attachment, f.Object.Purpose = "", podnet.ForNode
	}).Next()
	if without.File != nil || !without.Due || without.Open {
		t.Errorf("without a network: %s", describe(without))
	}
}
