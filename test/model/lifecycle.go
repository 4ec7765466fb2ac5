// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// lifecycle is the life of the interfaces of one name on one node: the object, the calls to EC2, and leaders that
// replace each other. The agent is atomic here; the machine of pods has its steps.
type lifecycle struct {
	protocol
	objects uint8 // with this name, at most, one after the other
	// early lets objects be lost before the API server names, and EC2 shows, their interfaces. The protocol does not cover
	// that together with another leader.
	early bool
	// lagging lets a new leader list objects from an API server that shows an older version.
	lagging bool
	faults  lifecycleFaults
}

// lifecycleFaults are the numbers of the faults and orders that a run may have.
type lifecycleFaults struct {
	toggles     uint8 // the NodeENI stops to want the interface, or wants it again
	leaders     uint8 // another leader takes over
	lostAnswers uint8 // a call gets no answer: it takes effect later or never
	deletions   uint8 // a user deletes the object
	tears       uint8 // a user removes the finalizer and deletes the object
	kinds       uint8 // a user deletes the CustomResourceDefinition
	ends        uint8 // the instance ends
}

// object is a NetworkInterface. Its UID is EC2's client token, so interface 2 is the one that EC2 makes for UID 2.
type object struct {
	uid       uint8 // 0: there is no object
	eni       uint8 // status.eniID
	takenOver bool  // status.evidence
	deleting  bool
	answered  bool // status.node exists
	open      bool // status.node.open: the hold
}

// owns reports whether an interface is this object's.
func (o object) owns(eni uint8) bool {
	return o.uid != 0 && (o.eni == eni || o.eni == 0 && o.uid == eni)
}

// cloud is what EC2 has, or what one of its reads shows.
type cloud struct {
	made, exists set   // by token
	attached     uint8 // the interface in the slot
}

// calls are calls to EC2 without an answer that can take effect still.
type calls struct{ create, attach, detach, remove set }

// write is a write of a leader to the API server.
type write struct {
	kind     writeKind
	uid, eni uint8
	current  bool // the object has the version that the write names
}

type writeKind uint8

const (
	noWrite writeKind = iota
	post
	record // status.eniID
	order  // DELETE
	finish // the finalizer goes
)

var writeNames = [...]string{
	post:   "posts an object",
	record: "records interface # in the status",
	order:  "deletes object #",
	finish: "removes the finalizer of object #",
}

type lifecycleState struct {
	wanted, kindGone bool
	ended            bool   // the instance, and with it its agent and its pods
	object, cache    object // the object, and what the leader's cache has
	lag              object // what a lagging API server shows to a new leader
	next             uint8  // UID
	ec2, shown       cloud  // shown is what a stale read of EC2 shows
	late             calls
	lateWrite        write // of a former leader
	former           uint8 // UID that a former leader without the fence works on
	// interfaces that EC2 created and deleted, as it answered to the present leader
	created, removed set
	lost             set // interfaces whose object a user removed, or the leader gave up
	uses             uint8
	pod              bool
	left             lifecycleFaults
	broken           Property
}

func (m lifecycle) search(without Rule) Outcome {
	m.without = without
	return explore(m, maxStates)
}

func (m lifecycle) initial() lifecycleState {
	return lifecycleState{wanted: true, next: 1, left: m.faults}
}

func (lifecycle) leftover() Property { return NothingLeaks }

func (lifecycle) violated(s lifecycleState) Property {
	both := setOf(s.object.uid) | setOf(s.object.eni)
	if s.broken == 0 && s.object.eni != 0 && s.object.eni != s.object.uid && s.ec2.exists&both == both {
		return OneInterface
	}
	return s.broken
}

// atRest reports whether exactly the wanted interface exists. An attached interface without an object stays if its name
// is not wanted: only the end of its instance proves that no pod uses it.
func (m lifecycle) atRest(s lifecycleState) bool {
	if !s.settled() || s.cache != s.object || s.kindGone {
		return false
	}
	o, attached := s.object, s.ec2.attached
	if s.wanted && (o.uid != 0 || s.next <= m.objects) {
		return o.open && !o.deleting && attached == o.eni && s.ec2.exists == setOf(o.eni)
	}
	kept := s.lost.has(attached) && s.ec2.exists == setOf(attached)
	return o.uid == 0 && (s.ec2.exists == 0 || kept)
}

func (m lifecycle) next(s lifecycleState, add *steps[lifecycleState]) {
	m.user(s, add)
	if !s.ended {
		m.node(s, add)
	}
	m.cloud(s, add)
	if s.left.leaders > 0 {
		add.free("another leader takes over", 0, m.succeed)
	}
	if s.cache != s.object {
		add.fair("the leader's cache catches up", 0, func(s *lifecycleState) { s.cache = s.object })
	}
	if m.lagging && s.left.leaders > 0 && s.lag != s.object {
		add.free("the lagging API server catches up", 0, func(s *lifecycleState) { s.lag = s.object })
	}
	if s.lateWrite.kind != noWrite {
		w := s.lateWrite
		add.fair("a former leader's write arrives: it "+writeNames[w.kind], w.number(), func(s *lifecycleState) {
			s.lateWrite = write{}
			m.apply(s, w)
		})
		add.fair("a former leader's write is lost", 0, func(s *lifecycleState) { s.lateWrite = write{} })
	}
	m.leader(s, s.ec2, add)
	if s.shown != s.ec2 {
		m.leader(s, s.stale(), add)
	}
	if s.former != 0 {
		m.call(s, add, createCall, s.former)
		m.call(s, add, attachCall, s.former)
	}
}

// settled reports whether nothing that earlier leaders or unanswered calls began can take effect, and reads are
// current: the condition that a settled read waits for.
func (s lifecycleState) settled() bool {
	return s.late == calls{} && s.lateWrite.kind == noWrite && s.shown == s.ec2
}

// stale returns what a stale read shows to the leader, which expects the interfaces that it created.
func (s lifecycleState) stale() cloud {
	s.shown.exists |= s.created
	return s.shown
}

// changed notes that the object has another version.
func (s *lifecycleState) changed() { s.lateWrite.current = false }

// succeed makes another process the leader. It knows no answers of EC2.
func (m lifecycle) succeed(s *lifecycleState) {
	s.left.leaders--
	s.created, s.removed = 0, 0
	if !m.keeps(Fence) {
		s.former = s.cache.uid
	}
	if m.lagging {
		s.cache = s.lag
	}
}

func (m lifecycle) user(s lifecycleState, add *steps[lifecycleState]) {
	if s.left.toggles > 0 && !s.ended {
		name := "the NodeENI no longer wants the interface"
		if !s.wanted {
			name = "the NodeENI wants the interface again"
		}
		add.free(name, 0, func(s *lifecycleState) { s.left.toggles--; s.wanted = !s.wanted })
	}
	if s.kindGone && s.object.uid == 0 {
		add.fair("a user creates the CustomResourceDefinition again", 0, func(s *lifecycleState) { s.kindGone = false })
	}
	m.loss(s, add)
}

// loss adds what deletes an object that its NodeENI wants.
func (m lifecycle) loss(s lifecycleState, add *steps[lifecycleState]) {
	exists := s.object.uid != 0
	if s.left.deletions > 0 && exists && !s.object.deleting {
		add.free("a user deletes object #", s.object.uid, func(s *lifecycleState) {
			s.left.deletions--
			m.delete(s)
		})
	}
	if !m.early && exists && (s.object.eni == 0 || s.ec2 != s.shown) {
		return
	}
	if s.left.tears > 0 && exists {
		add.free("a user removes the finalizer of object # and deletes it", s.object.uid, func(s *lifecycleState) {
			s.left.tears--
			s.abandon()
		})
	}
	if s.left.kinds > 0 && !s.kindGone {
		add.free("a user deletes the CustomResourceDefinition", 0, func(s *lifecycleState) {
			s.left.kinds--
			s.kindGone = true
			if s.object.uid != 0 {
				s.object.deleting = true
				s.changed()
			}
		})
	}
}

// abandon removes the object and leaves what it has in EC2.
func (s *lifecycleState) abandon() {
	s.lost |= setOf(s.object.uid) | setOf(s.object.eni)
	s.object = object{}
	s.changed()
}

// delete sets the object's deletionTimestamp.
func (m lifecycle) delete(s *lifecycleState) {
	s.object.deleting = true
	if !m.keeps(Tombstone) && !s.object.open {
		s.object = object{}
	}
	s.changed()
}

// node adds the steps of the agent.
func (m lifecycle) node(s lifecycleState, add *steps[lifecycleState]) {
	o := s.object
	if m.opens(s) {
		add.fair("the agent writes its hold on interface #", o.eni, func(s *lifecycleState) {
			s.object.open, s.object.answered, s.uses = true, true, o.eni
			s.changed()
		})
	}
	if o.uid != 0 && !o.answered && (o.eni != 0 || !m.keeps(AnswerForENI)) {
		add.fair("the agent answers for object #", o.uid, func(s *lifecycleState) {
			s.object.answered, s.object.open = true, o.eni != 0 && s.uses == o.eni
			s.changed()
		})
	}
	if o.deleting && o.open && !s.pod {
		add.fair("the agent releases interface #", o.eni, func(s *lifecycleState) {
			s.object.open, s.uses = false, 0
			s.changed()
		})
	}
	if s.uses != 0 && o.eni != s.uses && !s.pod {
		add.fair("the agent closes interface #, which no object names", s.uses, func(s *lifecycleState) { s.uses = 0 })
	}
	m.pods(s, add)
}

// opens reports whether the agent may write its hold.
func (lifecycle) opens(s lifecycleState) bool {
	o := s.object
	serves := o.eni != 0 && !o.deleting && s.ec2.attached == o.eni
	return serves && !o.open && (s.uses == 0 || s.uses == o.eni)
}

// pods adds starts and ends of pods, and the end of their instance.
func (lifecycle) pods(s lifecycleState, add *steps[lifecycleState]) {
	if s.uses != 0 && s.ec2.attached == s.uses && !s.pod {
		add.free("a pod starts on interface #", s.uses, func(s *lifecycleState) { s.pod = true })
	}
	if s.pod {
		add.fair("the pod ends", 0, func(s *lifecycleState) { s.pod = false })
	}
	if s.left.ends > 0 {
		add.free("the instance ends, and EC2 deletes what is attached", 0, func(s *lifecycleState) { s.end(true) })
		add.free("the instance ends, and EC2 detaches what is attached", 0, func(s *lifecycleState) { s.end(false) })
	}
}

// end ends the instance. EC2 deletes its interface with it, or only detaches it.
func (s *lifecycleState) end(deletes bool) {
	s.left.ends--
	s.ended, s.wanted, s.uses, s.pod = true, false, 0, false
	if deletes {
		s.ec2.exists &^= setOf(s.ec2.attached)
	}
	s.ec2.attached = 0
}

// held reports whether an agent holds an object's interface, or may.
func (m lifecycle) held(s lifecycleState, o object) bool {
	if s.ended && m.keeps(EndedHoldsNothing) {
		return false
	}
	return o.open || o.eni != 0 && o.takenOver && !o.answered && m.keeps(TakenOverHeld)
}

// final reports whether an object can never be held again.
func (m lifecycle) final(s lifecycleState, o object) bool {
	return o.uid != 0 && o.deleting && (!m.held(s, o) || !m.keeps(DetachFinal))
}
