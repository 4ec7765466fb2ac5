// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/podnet"
)

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
