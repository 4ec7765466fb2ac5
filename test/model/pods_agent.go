// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// agent adds the steps of the agent's process.
func (m pods) agent(s podsState, add *steps[podsState]) {
	m.openByCheckpoint(s, add)
	if s.off && !m.keeps(ClosesWhenOff) {
		return
	}
	m.read(s, add)
	if !s.read {
		return
	}
	if s.off && !m.keeps(SilenceProvesNothing) {
		if s.view.open && s.current {
			m.answer(s, add, "the agent without pods answers that it holds nothing", false)
		}
		return
	}
	m.open(s, add)
	m.close(s, add)
	m.forget(s, add)
}

// openByCheckpoint opens an interface after a boot, before the agent reaches the API server.
func (m pods) openByCheckpoint(s podsState, add *steps[podsState]) {
	booted := !s.sinceBoot || !m.keeps(CheckpointOfEarlierBoot)
	if s.folder == noFolder && s.checkpoint != (note{}) && booted && !s.read && !s.off && s.attached == s.checkpoint.eni {
		opened := func(s *podsState) { s.folder, s.owner, s.sinceBoot = openFolder, s.checkpoint, true }
		add.free("the agent opens interface # by its checkpoint, without the API server", s.checkpoint.eni, opened)
	}
}

// read adds reads of the object. The first one of a process can be stale.
func (m pods) read(s podsState, add *steps[podsState]) {
	if !s.current || !s.read {
		add.fair("the agent reads object #", s.object.uid, func(s *podsState) {
			if s.view.uid != s.object.uid {
				s.written = false
			}
			s.view, s.current = s.object, true
			m.noteRead(s)
		})
	}
	if !s.read && s.view != s.object {
		add.free("the agent reads an older version of object #", s.view.uid, func(s *podsState) { m.noteRead(s) })
	}
}

// noteRead notes that leases are lost: the object has a hold of this boot, and no process of this boot left a folder.
func (m pods) noteRead(s *podsState) {
	s.read = true
	lost := s.view.open && s.view.thisBoot && s.folder == noFolder && !s.written
	s.leasesLost = s.leasesLost || lost && m.keeps(HoldNamesBoot)
}

// inUse reports whether the folder is of the interface that the agent sees, and open or with a lease.
func (s podsState) inUse() bool {
	return s.owner.eni == s.view.eni && s.view.eni != 0 && (s.folder == openFolder || s.lease)
}

// forgotten reports whether the checkpoint does not have the interface that the agent sees.
func (m pods) forgotten(s podsState) bool {
	if !m.keeps(CheckpointByENI) {
		return s.checkpoint.uid != s.view.uid
	}
	return s.checkpoint.eni != s.view.eni
}

// asked reports whether the object that the agent sees asks it to serve the interface, and the agent can.
func (s podsState) asked() bool {
	return s.view.uid != 0 && !s.view.ordered() && !s.off && !s.leasesLost
}

// mine reports whether the folder is of the interface that the agent sees.
func (s podsState) mine() bool { return s.folder != noFolder && s.owner.eni == s.view.eni }

// open adds the steps to an open folder: the answer of the process, the hold, and the file.
func (m pods) open(s podsState, add *steps[podsState]) {
	v := s.view
	if !s.written && m.answers(s) {
		m.answer(s, add, "the agent writes that its process answers for object #", v.open || s.inUse())
	}
	if s.mine() && s.owner.uid != v.uid && s.written {
		add.fair("the agent gives the folder to object #", v.uid, func(s *podsState) {
			s.folder, s.owner.uid = closedFolder, v.uid
		})
	}
	if s.asked() {
		m.hold(s, add)
	}
	if s.left.boots > 0 && s.folder == openFolder && s.checkpoint != s.owner && s.written {
		add.free("the agent writes interface # into its checkpoint", s.owner.eni, func(s *podsState) {
			s.checkpoint, s.sinceBoot = s.owner, true
		})
	}
}

// answers reports whether a process of the agent may write the object that it sees: what it reports as not in use must
// not be in the checkpoint.
func (m pods) answers(s podsState) bool {
	forgotten := m.forgotten(s) || !m.keeps(CheckpointBeforeAnswer)
	return s.view.uid != 0 && s.current && (s.view.open || s.inUse() || forgotten)
}

// hold adds the steps from an object that asks for it to an open folder.
func (m pods) hold(s podsState, add *steps[podsState]) {
	v := s.view
	linked := s.attached == v.eni
	if s.folder == noFolder && linked && (s.current || !m.keeps(FolderAfterLiveRead)) {
		add.fair("the agent makes the folder of interface #", v.eni, func(s *podsState) {
			s.folder, s.owner = closedFolder, note{v.uid, v.eni}
		})
	}
	if s.mine() && linked && s.current && !v.open {
		m.answer(s, add, "the agent writes its hold into object #", true)
	}
	if s.folder == closedFolder && s.owner == (note{v.uid, v.eni}) && m.holds(s) {
		add.fair("the agent opens interface #", v.eni, func(s *podsState) {
			s.folder, s.sinceBoot = openFolder, s.checkpoint != note{}
		})
	}
}

// holds reports whether the agent's process may open what it sees as held.
func (m pods) holds(s podsState) bool {
	written := s.written || !m.keeps(ProcessWritesFirst)
	return s.view.open && s.view.thisBoot && written || !m.keeps(HoldFirst)
}

// close adds the steps that release an interface.
func (m pods) close(s podsState, add *steps[podsState]) {
	v := s.view
	ordered, gone := v.ordered() || s.off, s.owner != note{v.uid, v.eni}
	if s.folder == openFolder && (ordered || gone) {
		add.fair("the agent closes interface #", s.owner.eni, func(s *podsState) { s.folder = closedFolder })
	}
	if v.open && ordered && s.current && s.written && m.unused(s) {
		m.answer(s, add, "the agent releases interface #", false)
	}
	if s.folder == closedFolder && !s.lease && s.folderEnds(ordered, gone) {
		add.fair("the agent removes the folder of interface #", s.owner.eni, func(s *podsState) {
			s.folder, s.owner = noFolder, note{}
		})
	}
}

// folderEnds reports whether the agent needs the folder no longer: it is of another interface, or the hold has ended.
func (s podsState) folderEnds(ordered, gone bool) bool {
	ended := !s.view.open && ordered
	return s.owner.eni != s.view.eni || ended && (s.current || gone)
}

// unused reports whether the agent can prove that no pod uses the interface that it sees, and none can start.
func (m pods) unused(s podsState) bool {
	shut := s.folder == noFolder || s.folder == closedFolder && s.mine()
	idle := !s.lease || !m.keeps(LetGoIdle)
	noted := m.forgotten(s) || !m.keeps(CheckpointBeforeLetGo)
	return shut && idle && noted && !s.leasesLost
}

// forget removes what the checkpoint has, once the node no longer serves it.
func (m pods) forget(s podsState, add *steps[podsState]) {
	unused := s.folder != openFolder && (!s.lease || !m.keeps(LetGoIdle))
	if s.checkpoint != (note{}) && unused && !s.leasesLost {
		add.fair("the agent's checkpoint forgets interface #", s.checkpoint.eni, func(s *podsState) {
			s.checkpoint, s.sinceBoot = note{}, false
		})
	}
}

// answer adds a write of the agent over the version that it has read: with its answer, without one, and under way while
// the agent restarts.
func (m pods) answer(s podsState, add *steps[podsState], name string, open bool) {
	a := answer{pending: true, uid: s.view.uid, open: open, current: true, thisBoot: true}
	number := s.view.uid
	add.fair(name, number, func(s *podsState) {
		if m.report(s, a) {
			s.view, s.current, s.written = s.object, true, true
		}
	})
	if s.late.pending {
		return
	}
	if s.left.restarts > 0 {
		add.free(name+", and restarts before that arrives", number, func(s *podsState) {
			s.left.restarts--
			s.late = a
			s.restart()
		})
	}
	if s.left.lostAnswers > 0 {
		add.free(name+", and gets no answer", number, func(s *podsState) {
			s.left.lostAnswers--
			s.late = a
			s.written, s.current = !m.keeps(ProcessWritesFirst), false
		})
	}
}

// report carries out a write of the agent as the API server does.
func (m pods) report(s *podsState, a answer) bool {
	if s.object.uid == 0 || s.object.uid != a.uid || !a.current && m.keeps(AnswersNameVersion) {
		return false
	}
	s.object.answered, s.object.open, s.object.thisBoot = true, a.open, a.thisBoot
	s.changed()
	return true
}
