// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// prefix is one prefix of an interface that stays attached and held: EC2 gives it, pods use it, and EC2 takes it back.
type prefix struct {
	protocol
	// processes is the number of leaders that write returning at the same time, at most.
	faults prefixFaults
}

// prefixFaults are the numbers of the faults and changes of demand that a run may have.
type prefixFaults struct {
	demands     uint8 // pods need the prefix, or no longer
	leaders     uint8 // another leader takes over
	lostAnswers uint8 // a call of the leader gets no answer
	restarts    uint8 // the agent restarts
	boots       uint8
}

// lists is what the object says about the prefix.
type lists struct {
	granted, returning bool // status.pods.prefixes and returning
	released           bool // status.node.released
}

func (l lists) usable() bool { return l.granted && !l.released }

// listWrite is a write to the lists that is under way while its writer ends.
type listWrite struct {
	change  listChange
	current bool
}

type listChange uint8

const (
	noChange listChange = iota
	grant
	giveBack
	forgetPrefix
	release
	withdraw
)

var changeNames = [...]string{
	grant:        "grants the prefix",
	giveBack:     "moves the prefix to returning",
	forgetPrefix: "forgets the returned prefix",
	release:      "releases the prefix",
	withdraw:     "withdraws its release",
}

type prefixState struct {
	needed     bool
	object     lists
	own, shown bool // the prefix is on the interface, and is in a stale read
	// calls without an answer that can take effect still
	lateAssign, lateUnassign bool
	lateWrite                listWrite // of a former leader
	// the leader
	answered bool // EC2's answer to an Assign, which is not granted yet
	seen     bool // its last read shows the prefix
	wrote    bool // it wrote the present entry in returning itself
	// calls of its own have no answer yet, or reads can be from before they took effect
	unsureAssign, unsureUnassign bool
	// the agent
	view       lists
	current    bool // the view is the present version
	read       bool // this process has read the object
	booted     bool // no process has read it since the node booted
	written    bool // this process has written the object
	lateAnswer listWrite
	removed    bool // this process took the prefix out of the file to release it
	file       bool // pods may get addresses of the prefix
	checkpoint bool
	pod        bool // with a lease
	left       prefixFaults
	broken     Property
}

func (m prefix) search(without Rule) Outcome {
	m.without = without
	return explore(m, maxStates)
}

func (m prefix) initial() prefixState { return prefixState{needed: true, left: m.faults} }

func (prefix) leftover() Property { return NothingLeaks }

func (prefix) violated(s prefixState) Property { return s.broken }

func (prefix) atRest(s prefixState) bool {
	if !s.settled() {
		return false
	}
	if s.needed {
		return s.own && s.file && s.object == lists{granted: true}
	}
	return !s.own && !s.file && s.object == lists{}
}

// settled reports whether nothing that is under way can take effect, and reads are current.
func (s prefixState) settled() bool {
	return !s.lateAssign && !s.lateUnassign && s.lateWrite.change == noChange && s.shown == s.own
}

func (m prefix) next(s prefixState, add *steps[prefixState]) {
	if s.left.demands > 0 {
		name := "pods no longer need the prefix"
		if !s.needed {
			name = "pods need the prefix"
		}
		add.free(name, 0, func(s *prefixState) { s.left.demands--; s.needed = !s.needed })
	}
	m.arrivals(s, add)
	m.grants(s, add)
	m.returns(s, add)
	m.podsAndFaults(s, add)
	m.agent(s, add)
}

// arrivals adds the late effects of what is under way, and the progress of reads.
func (m prefix) arrivals(s prefixState, add *steps[prefixState]) {
	if s.shown != s.own {
		add.fair("EC2's reads catch up", 0, func(s *prefixState) { s.shown = s.own; s.sure() })
	}
	if s.lateAssign {
		add.fair("a late call assigns the prefix", 0, func(s *prefixState) { s.lateAssign, s.own = false, true; s.sure() })
		if s.unsureAssign {
			add.fair("a late call assigns the prefix, and the leader gets the answer", 0, func(s *prefixState) {
				s.answered, s.lateAssign, s.own = !s.own, false, true
				s.unsureAssign = false
			})
		}
		add.fair("a late call never assigns the prefix", 0, func(s *prefixState) { s.lateAssign = false; s.sure() })
	}
	if s.lateUnassign {
		add.fair("a late call unassigns the prefix", 0, func(s *prefixState) {
			s.lateUnassign = false
			s.unassign()
			s.sure()
		})
		add.fair("a late call never unassigns the prefix", 0, func(s *prefixState) { s.lateUnassign = false; s.sure() })
	}
	for _, late := range []struct {
		who   string
		write listWrite
		end   func(*prefixState)
	}{
		{"a former leader's write", s.lateWrite, func(s *prefixState) { s.lateWrite = listWrite{} }},
		{"a former agent's write", s.lateAnswer, func(s *prefixState) { s.lateAnswer = listWrite{} }},
	} {
		if late.write.change == noChange {
			continue
		}
		add.fair(late.who+" arrives: it "+changeNames[late.write.change], 0, func(s *prefixState) {
			late.end(s)
			m.apply(s, late.write)
		})
		add.fair(late.who+" is lost", 0, late.end)
	}
}

// sure ends the doubt about a call without an answer, once the time has passed that such a call and a stale read have.
func (s *prefixState) sure() {
	if !s.lateAssign && !s.lateUnassign && s.shown == s.own {
		s.unsureAssign, s.unsureUnassign = false, false
	}
}

// unsure reports whether a call of the leader can take effect still, or is not in reads.
func (s prefixState) unsure() bool { return s.unsureAssign || s.unsureUnassign }

// assign gives the prefix to the interface. EC2 answers with what it has given.
func (s *prefixState) assign() { s.answered, s.own = !s.own, true }

func (s *prefixState) unassign() {
	if s.own && s.pod {
		s.broken = PodsKeepPrefixes
	}
	s.own = false
}

// apply carries out a write as the API server does.
func (m prefix) apply(s *prefixState, w listWrite) {
	byAgent := w.change == release || w.change == withdraw
	if !w.current && (!byAgent || m.keeps(ReleaseNamesVersion)) {
		return
	}
	o := &s.object
	switch w.change {
	case grant:
		o.granted, s.answered = true, false
	case giveBack:
		o.granted, o.returning = false, true
	case forgetPrefix:
		o.returning, s.wrote = false, false
		if m.keeps(NewestRead) {
			s.seen = false
		}
	case release:
		o.released = o.granted
	case withdraw:
		o.released = false
	}
	s.changed()
}

// changed notes that the object has another version.
func (s *prefixState) changed() {
	s.current, s.lateWrite.current, s.lateAnswer.current = false, false, false
}

// write adds a write of the leader over the present version.
func (m prefix) write(s prefixState, add *steps[prefixState], change listChange) {
	w := listWrite{change, true}
	add.fair("the leader "+changeNames[change], 0, func(s *prefixState) {
		m.apply(s, w)
		s.wrote = s.wrote || change == giveBack
	})
	if s.left.leaders > 0 && s.lateWrite.change == noChange {
		late := func(s *prefixState) {
			s.succeed()
			s.lateWrite = w
		}
		add.free("the leader "+changeNames[change]+", and another leader takes over before that arrives", 0, late)
	}
}

// succeed makes another process the leader.
func (s *prefixState) succeed() {
	s.left.leaders--
	s.answered, s.seen, s.wrote, s.unsureAssign, s.unsureUnassign = false, false, false, false, false
}

// inFlight are the marks of a call without an answer: that it can take effect still, and that the leader does not know.
type inFlight struct{ pending, unsure *bool }

func (s *prefixState) assigning() inFlight { return inFlight{&s.lateAssign, &s.unsureAssign} }

func (s *prefixState) unassigning() inFlight { return inFlight{&s.lateUnassign, &s.unsureUnassign} }

// call adds a call of the leader: with EC2's answer, and without one.
func (prefix) call(s prefixState, add *steps[prefixState], name string, carry func(*prefixState),
	late func(*prefixState) inFlight) {
	add.fair("the leader "+name, 0, carry)
	if s.left.lostAnswers > 0 && !*late(&s).pending {
		add.free("the leader "+name+", and gets no answer", 0, func(s *prefixState) {
			s.left.lostAnswers--
			flight := late(s)
			*flight.pending, *flight.unsure = true, true
		})
	}
}

// grants adds what gives the prefix to pods.
func (m prefix) grants(s prefixState, add *steps[prefixState]) {
	o := s.object
	if s.needed && !o.granted && m.assigns(s) {
		m.call(s, add, "assigns the prefix", (*prefixState).assign, (*prefixState).assigning)
	}
	for _, shown := range []bool{s.own, s.shown} {
		if shown != s.seen {
			add.add("the leader reads EC2", 0, shown == s.own, func(s *prefixState) { s.seen = shown })
		}
	}
	listed := o.granted || o.returning && m.keeps(ReturningBlocksGrant)
	if !listed && (s.answered || s.seen && !s.unsure()) {
		m.write(s, add, grant)
	}
}

// assigns reports whether nothing is under way that an Assign could meet.
func (m prefix) assigns(s prefixState) bool {
	busy := s.unsure() && m.keeps(OnePrefixCall)
	waits := s.object.returning && m.keeps(AssignAfterReturning)
	return !s.answered && !busy && !waits
}

// returns adds what takes the prefix back.
func (m prefix) returns(s prefixState, add *steps[prefixState]) {
	o := s.object
	if o.granted && (o.released || !s.needed && !m.keeps(ReturnReleased)) {
		m.write(s, add, giveBack)
	}
	early := o.granted && o.released && !m.keeps(ReturnBeforeCall)
	if (o.returning || early) && m.unassigns(s) {
		m.call(s, add, "unassigns the prefix", (*prefixState).unassign, (*prefixState).unassigning)
	}
	if o.returning && m.forgets(s) {
		m.write(s, add, forgetPrefix)
	}
}

// unassigns reports whether nothing is under way that an Unassign could meet.
func (m prefix) unassigns(s prefixState) bool {
	busy := s.unsure() && m.keeps(OnePrefixCall)
	waits := !s.wrote && !s.settled() && m.keeps(FoundReturningWaits)
	return !busy && !waits
}

// forgets reports whether a read shows the interface without the prefix.
func (m prefix) forgets(s prefixState) bool {
	if m.keeps(ForgetSettled) {
		return s.settled() && !s.own
	}
	return !s.own || !s.shown
}

func (m prefix) podsAndFaults(s prefixState, add *steps[prefixState]) {
	if s.file && !s.pod {
		add.free("a pod starts with an address of the prefix", 0, func(s *prefixState) {
			s.pod = true
			if !s.own {
				s.broken = PodsGetPrefixes
			}
		})
	}
	if s.pod {
		add.fair("the pod ends", 0, func(s *prefixState) { s.pod = false })
	}
	if s.left.leaders > 0 {
		add.free("another leader takes over", 0, (*prefixState).succeed)
	}
	if s.left.restarts > 0 {
		add.free("the agent restarts", 0, func(s *prefixState) { s.left.restarts--; s.restart() })
	}
	if s.left.boots > 0 {
		add.free("the node boots", 0, func(s *prefixState) {
			s.left.boots--
			s.file, s.pod, s.booted = false, false, true
			s.restart()
		})
	}
}

func (s *prefixState) restart() { s.read, s.written, s.current, s.removed = false, false, false, false }

// agent adds the steps of the agent's process.
func (m prefix) agent(s prefixState, add *steps[prefixState]) {
	if s.checkpoint && s.booted && s.own {
		add.free("the agent uses the prefix by its checkpoint, without the API server", 0, func(s *prefixState) {
			s.file, s.booted = true, false
		})
	}
	if !s.current {
		add.fair("the agent reads the object", 0, func(s *prefixState) {
			s.view, s.current, s.read, s.booted = s.object, true, true, false
		})
	}
	if !s.read {
		add.free("the agent reads an older version of the object", 0, func(s *prefixState) { s.read, s.booted = true, false })
		return
	}
	if s.current && !s.written {
		add.fair("the agent writes that its process answers", 0, func(s *prefixState) {
			s.changed()
			s.current, s.written = true, true
		})
	}
	m.note(s, add)
	if s.written || !m.keeps(ReleaseAfterOwnWrite) {
		m.use(s, add)
	}
}

// note adds the steps of the checkpoint.
func (prefix) note(s prefixState, add *steps[prefixState]) {
	if s.left.boots > 0 && s.file && !s.checkpoint {
		add.free("the agent writes the prefix into its checkpoint", 0, func(s *prefixState) { s.checkpoint = true })
	}
	if s.checkpoint && !s.file {
		add.fair("the agent's checkpoint forgets the prefix", 0, func(s *prefixState) { s.checkpoint = false })
	}
}

// use adds the steps that follow the lists.
func (m prefix) use(s prefixState, add *steps[prefixState]) {
	v := s.view
	if v.usable() && !s.removed && !s.file {
		add.fair("the agent writes the prefix into the file", 0, func(s *prefixState) { s.file = true })
	}
	if s.file && (!v.usable() || !s.needed) {
		add.fair("the agent takes the prefix out of the file", 0, func(s *prefixState) { s.file, s.removed = false, true })
	}
	if s.current {
		m.report(s, add)
	}
}

// report adds what the agent tells about the prefix, over the present version.
func (m prefix) report(s prefixState, add *steps[prefixState]) {
	v := s.view
	if v.usable() && !s.needed && m.unused(s) {
		m.answer(s, add, release)
	}
	if v.released && (s.needed || !v.granted) {
		m.answer(s, add, withdraw)
	}
	if s.removed && (!v.granted || s.needed && !v.released) {
		add.fair("the agent no longer keeps the prefix out of the file", 0, func(s *prefixState) { s.removed = false })
	}
}

// unused reports whether the agent can prove that no pod uses the prefix, and none can start to.
func (m prefix) unused(s prefixState) bool {
	idle := !s.pod || !m.keeps(ReleaseIdle)
	noted := !s.checkpoint || !m.keeps(CheckpointBeforeRelease)
	return s.removed && !s.file && idle && noted
}

// answer adds a write of the agent over the version that it has read.
func (m prefix) answer(s prefixState, add *steps[prefixState], change listChange) {
	w := listWrite{change, true}
	add.fair("the agent "+changeNames[change], 0, func(s *prefixState) {
		m.apply(s, w)
		s.view, s.current = s.object, true
	})
	if s.left.restarts > 0 && s.lateAnswer.change == noChange {
		add.free("the agent "+changeNames[change]+", and restarts before that arrives", 0, func(s *prefixState) {
			s.left.restarts--
			s.lateAnswer = w
			s.restart()
		})
	}
}
