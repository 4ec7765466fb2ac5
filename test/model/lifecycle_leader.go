// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// leader adds what the leader does with its cache and a read of EC2, which can be stale.
func (m lifecycle) leader(s lifecycleState, read cloud, add *steps[lifecycleState]) {
	m.collect(s, read, add)
	o := s.cache
	if s.object.uid == 0 && s.wanted && !s.kindGone && s.next <= m.objects {
		m.write(s, add, write{kind: post})
		if !m.keeps(ObjectFirst) && !read.exists.has(s.next) {
			m.call(s, add, createCall, s.next)
			m.call(s, add, attachCall, s.next)
		}
	}
	if o.uid == 0 {
		return
	}
	if s.kindGone && o.deleting && m.keeps(LetGo) {
		if s.object.uid == o.uid {
			add.fair("the leader removes the finalizer of object #, without a call", o.uid, (*lifecycleState).abandon)
		}
		return
	}
	if o.eni == 0 {
		m.withoutENI(s, read, add)
	}
	m.serve(s, read, add)
	m.remove(s, read, add)
}

// collect deletes unattached interfaces that no object owns.
func (m lifecycle) collect(s lifecycleState, read cloud, add *steps[lifecycleState]) {
	for eni := uint8(1); eni <= m.objects; eni++ {
		owned := !unowned(s.cache, eni) || !unowned(s.object, eni) && m.keeps(UnownedLive)
		if read.exists.has(eni) && read.attached != eni && s.settled() && !s.kindGone && !owned {
			m.call(s, add, removeCall, eni)
		}
		if read.attached == eni && s.settled() && !owned && !m.keeps(UnownedStays) {
			m.call(s, add, detachCall, eni)
		}
	}
}

// unowned reports whether an object has another interface than this one, and will not take it over.
func unowned(o object, eni uint8) bool { return o.uid == 0 || o.eni != 0 && o.eni != eni }

// withoutENI adds the ways to a status.eniID: EC2's answer to the token, taking over, and creating.
func (m lifecycle) withoutENI(s lifecycleState, read cloud, add *steps[lifecycleState]) {
	o := s.cache
	answered := s.created.has(o.uid)
	if answered || o.deleting && s.settled() && read.exists.has(o.uid) {
		m.write(s, add, write{kind: record, uid: o.uid, eni: o.uid, current: o == s.object})
	}
	for eni := uint8(1); eni <= m.objects; eni++ {
		if m.takesOver(s, read, eni) {
			m.write(s, add, write{kind: record, uid: o.uid, eni: eni, current: o == s.object})
		}
	}
	if !o.deleting && s.wanted && !answered && m.creates(o, read) {
		m.call(s, add, createCall, o.uid)
	}
	if o.deleting && !m.keeps(DetachByID) && read.attached != 0 {
		m.call(s, add, detachCall, read.attached)
	}
}

// takesOver reports whether the object of the leader's cache takes over an interface that has its name in a tag.
func (m lifecycle) takesOver(s lifecycleState, read cloud, eni uint8) bool {
	if !m.keeps(TakeOverFirst) || !s.settled() && m.keeps(TakeOverSettled) || read.exists.has(s.cache.uid) {
		return false
	}
	first := eni == read.attached || read.attached == 0 || !m.keeps(TakeOverAttached)
	return read.exists.has(eni) && first
}

// creates reports whether an object may have an interface made: there is none to take over, or its token was used.
func (m lifecycle) creates(o object, read cloud) bool {
	return read.exists == 0 || read.exists.has(o.uid) || !m.keeps(TakeOverFirst)
}

// serve attaches the interface of an object, and replaces an object whose interface vanished.
func (m lifecycle) serve(s lifecycleState, read cloud, add *steps[lifecycleState]) {
	o := s.cache
	if o.deleting {
		return
	}
	eni := o.eni
	if eni == 0 {
		eni = o.uid
	}
	if m.attaches(s, eni) && read.exists.has(eni) && read.attached == 0 {
		m.call(s, add, attachCall, eni)
	}
	vanished := s.settled() && s.ec2.made.has(eni) && !s.ec2.exists.has(eni)
	if !s.wanted || vanished {
		m.write(s, add, write{kind: order, uid: o.uid})
	}
}

// attaches reports whether the leader may attach the interface of its cached object: one that the status names, or one
// that EC2 answered to it for an object that still waits for it.
func (m lifecycle) attaches(s lifecycleState, eni uint8) bool {
	if !s.wanted || s.cache.eni != 0 {
		return s.wanted
	}
	waits := s.object.uid == s.cache.uid && s.object.eni == 0 && !s.object.deleting
	return s.created.has(eni) && (waits || !m.keeps(AttachLive))
}

// remove carries out a deletion: detach, delete, and the end of the tombstone.
func (m lifecycle) remove(s lifecycleState, read cloud, add *steps[lifecycleState]) {
	o := s.cache
	live := s.object.uid == o.uid && s.object.eni == o.eni && m.final(s, s.object)
	if m.final(s, o) && o.eni != 0 && (live || !m.keeps(LiveRead)) {
		switch {
		case read.attached == o.eni:
			m.call(s, add, detachCall, o.eni)
		case read.exists.has(o.eni):
			m.call(s, add, removeCall, o.eni)
		}
	}
	if m.ended(s, read) {
		m.write(s, add, write{kind: finish, uid: o.uid})
	}
}

// ended reports whether the tombstone of the leader's cache may go.
func (m lifecycle) ended(s lifecycleState, read cloud) bool {
	o := s.cache
	switch {
	case !o.deleting:
		return false
	case o.eni == 0:
		return read.exists == 0 && (s.settled() || !m.keeps(FinishVisible))
	case s.settled() && !s.ec2.exists.has(o.eni):
		return true // vanished
	default:
		return m.final(s, o) && (s.removed.has(o.eni) || !m.keeps(FinishAnswered) && !read.exists.has(o.eni))
	}
}

// write adds a write of the leader: with its answer, and under way while another leader takes over.
func (m lifecycle) write(s lifecycleState, add *steps[lifecycleState], w write) {
	name, number := "the leader "+writeNames[w.kind], w.number()
	add.fair(name, number, func(s *lifecycleState) { m.apply(s, w) })
	if s.left.leaders > 0 && s.lateWrite.kind == noWrite {
		add.free(name+", and another leader takes over before it arrives", number, func(s *lifecycleState) {
			m.succeed(s)
			s.lateWrite = w
		})
	}
}

// number returns the number in the name of a write.
func (w write) number() uint8 {
	if w.kind == record {
		return w.eni
	}
	return w.uid
}

// apply carries out a write as the API server does.
func (m lifecycle) apply(s *lifecycleState, w write) {
	o := &s.object
	if w.kind == post {
		if o.uid == 0 && !s.kindGone && s.next <= m.objects {
			*o = object{uid: s.next}
			s.next++
			s.changed()
		}
		return
	}
	if o.uid == 0 || o.uid != w.uid && m.keeps(WritesNameUID) {
		return
	}
	switch w.kind {
	case record:
		if !w.current || o.eni != 0 {
			return
		}
		o.eni, o.takenOver = w.eni, w.eni != o.uid
	case order:
		m.delete(s)
	case finish:
		if o.deleting {
			*o = object{}
		}
	}
	s.changed()
}
