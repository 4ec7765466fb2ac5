// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// address is a floating address: pods on two nodes bring it up, and EC2 delivers it to the interface of its last
// holder. Interface 1 is on node 1, interface 2 on node 2.
type address struct {
	protocol
	faults addressFaults
}

// addressFaults are the numbers of the events and faults that a run may have.
type addressFaults struct {
	moves       uint8 // the address comes up on a node
	ends        uint8 // the address goes where it came up last
	restarts    uint8 // an agent restarts
	lateClaims  uint8 // a write of an agent is under way for long
	leaders     uint8 // another leader takes over, with a cache that can be old
	lostAnswers uint8 // a call gets no answer
}

// holding is a FloatingAddress.
type holding struct {
	exists, deleting bool
	holder           uint8 // spec.holder: a node, or 0
	assigned         uint8 // status.eniID, of the present generation
}

// claim is a write of an agent to spec.holder that is under way.
type claim struct {
	node    uint8
	empties bool // holder becomes empty, else the node
	came    bool // the agent saw the address come up
	current bool // the object has the version that the write names
}

type addressState struct {
	up        set   // nodes with the address
	last      uint8 // the node where it came up last
	object    holding
	cache     holding // of the leader
	lag       holding // what a lagging API server shows to a new leader
	came      set     // nodes whose agent saw the address come up, and has not written that
	gone      set     // nodes whose agent saw it go, and has not written that
	lateClaim claim
	// EC2
	at, shown                uint8
	lateAssign, lateUnassign set
	lateDelete               bool // a DELETE of the object by a former leader
	deleteIsCurrent          bool
	left                     addressFaults
	broken                   Property
}

func (m address) search(without Rule) Outcome {
	m.without = without
	return explore(m, maxStates)
}

func (m address) initial() addressState { return addressState{left: m.faults} }

func (address) leftover() Property { return AddressFollows }

func (address) violated(s addressState) Property { return s.broken }

// atRest reports whether the address is where it is up, or nowhere.
func (address) atRest(s addressState) bool {
	if !s.settled() || s.cache != s.object || s.lateClaim.node != 0 {
		return false
	}
	if s.up == 0 {
		return !s.object.exists && s.at == 0
	}
	o := s.object
	return !o.deleting && s.up == setOf(o.holder) && s.at == o.holder && o.assigned == o.holder
}

// settled reports whether nothing that is under way can take effect, and reads are current.
func (s addressState) settled() bool {
	return s.lateAssign|s.lateUnassign == 0 && !s.lateDelete && s.shown == s.at
}

// changed notes that the object has another version.
func (s *addressState) changed() { s.lateClaim.current, s.deleteIsCurrent = false, false }

func (m address) next(s addressState, add *steps[addressState]) {
	for node := uint8(1); node <= 2; node++ {
		m.pods(s, node, add)
		m.agent(s, node, add)
	}
	m.arrivals(s, add)
	m.leader(s, add)
}

// pods adds the events of the pods on a node. An address that came up elsewhere goes where it was.
func (m address) pods(s addressState, node uint8, add *steps[addressState]) {
	down := func(s *addressState) {
		s.up &^= setOf(node)
		s.came &^= setOf(node)
		s.gone |= setOf(node)
	}
	switch {
	case !s.up.has(node) && s.left.moves > 0:
		add.free("the address comes up on node #", node, func(s *addressState) {
			s.left.moves--
			s.up |= setOf(node)
			s.came |= setOf(node)
			s.gone &^= setOf(node)
			s.last = node
		})
	case s.up.has(node) && s.last != node && s.up.has(s.last):
		add.fair("the address goes from node #, since it came up elsewhere", node, down)
	case s.up.has(node) && s.left.ends > 0:
		add.free("the address goes from node #", node, func(s *addressState) { s.left.ends--; down(s) })
	}
}

// agent adds the writes of a node's agent. It decides by the present version, or by an older one if its write is late.
func (m address) agent(s addressState, node uint8, add *steps[addressState]) {
	if !s.object.deleting && s.up.has(node) && m.claims(s, node) {
		m.write(s, add, "the agent of node # writes itself as the holder",
			claim{node: node, came: s.came.has(node), current: true})
	}
	if !s.object.deleting && !s.up.has(node) && m.empties(s, node) {
		m.write(s, add, "the agent of node # empties the holder", claim{node: node, empties: true, current: true})
	}
	if s.left.restarts > 0 && (s.came | s.gone).has(node) {
		add.free("the agent of node # restarts", node, func(s *addressState) {
			s.left.restarts--
			s.came &^= setOf(node)
			s.gone &^= setOf(node)
		})
	}
}

// claims reports whether the agent of a node with the address writes that: it came up, or no other node has it.
func (m address) claims(s addressState, node uint8) bool {
	if s.object.holder == node {
		return false
	}
	return s.object.holder == 0 || s.came.has(node) || !m.keeps(StartTakesNothing)
}

// empties reports whether the agent of a node without the address writes that.
func (m address) empties(s addressState, node uint8) bool {
	another := s.object.holder != 0 && s.gone.has(node) && !m.keeps(HolderEmpties)
	return s.object.holder == node || another
}

func (m address) write(s addressState, add *steps[addressState], name string, c claim) {
	add.fair(name, c.node, func(s *addressState) { m.apply(s, c) })
	if s.left.lateClaims > 0 && s.lateClaim.node == 0 {
		add.free(name+", which arrives late", c.node, func(s *addressState) { s.left.lateClaims--; s.lateClaim = c })
	}
}

// apply carries out a write of an agent as the API server does.
func (m address) apply(s *addressState, c claim) {
	o := &s.object
	if o.deleting || !c.current && m.keeps(HolderNamesVersion) {
		return
	}
	if c.empties {
		if o.holder != c.node {
			s.broken = HolderChanges
		}
		o.holder = 0
		s.gone &^= setOf(c.node)
	} else {
		if o.holder != 0 && o.holder != c.node && !c.came {
			s.broken = HolderChanges
		}
		o.exists, o.holder = true, c.node
		s.came &^= setOf(c.node)
	}
	if m.keeps(StatusOfGeneration) {
		o.assigned = 0
	}
	s.changed()
}

// arrivals adds the late effects of what is under way, and the progress of reads.
func (m address) arrivals(s addressState, add *steps[addressState]) {
	if s.shown != s.at {
		add.fair("EC2's reads catch up", 0, func(s *addressState) { s.shown = s.at })
	}
	m.lateCalls(s, add)
	if s.lateClaim.node != 0 {
		add.fair("a late write of the agent of node # arrives", s.lateClaim.node, func(s *addressState) {
			c := s.lateClaim
			s.lateClaim = claim{}
			m.apply(s, c)
		})
		add.fair("a late write of the agent of node # is lost", s.lateClaim.node, func(s *addressState) {
			s.lateClaim = claim{}
		})
	}
	if s.lateDelete {
		add.fair("a former leader's write arrives: it deletes the object", 0, func(s *addressState) {
			current := s.deleteIsCurrent
			s.lateDelete, s.deleteIsCurrent = false, false
			m.delete(s, current)
		})
		add.fair("a former leader's write is lost", 0, func(s *addressState) {
			s.lateDelete, s.deleteIsCurrent = false, false
		})
	}
}

// assign moves the address to an interface.
func (s *addressState) assign(eni uint8) {
	s.leave(eni)
	s.at = eni
}

// unassign takes the address from an interface, if it is there.
func (s *addressState) unassign(eni uint8) {
	if s.at == eni {
		s.leave(0)
		s.at = 0
	}
}

// leave looks for a violation when the address goes from where it is.
func (s *addressState) leave(to uint8) {
	o := s.object
	confirmed := o.assigned == o.holder || to == 0
	if s.at != to && s.at == o.holder && o.holder != 0 && confirmed {
		s.broken = HolderKeepsAddress
	}
}

func (m address) delete(s *addressState, current bool) {
	if s.object.exists && !s.object.deleting && (current || !m.keeps(DeleteNamesVersion)) {
		s.object.deleting = true
		s.changed()
	}
}

// leader adds the steps of the controller.
func (m address) leader(s addressState, add *steps[addressState]) {
	if s.cache != s.object {
		add.fair("the leader's cache catches up", 0, func(s *addressState) { s.cache = s.object })
	}
	if s.left.leaders > 0 {
		if s.lag != s.object {
			add.free("the lagging API server catches up", 0, func(s *addressState) { s.lag = s.object })
		}
		add.free("another leader takes over", 0, (*addressState).succeed)
	}
	if !s.cache.exists {
		return
	}
	for _, read := range []uint8{s.at, s.shown} {
		m.assigns(s, read, add)
		m.ends(s, read, add)
		if s.at == s.shown {
			break
		}
	}
}

func (s *addressState) succeed() {
	s.left.leaders--
	s.cache = s.lag
}

// assigns moves the address to the holder, until a settled read shows it there.
func (m address) assigns(s addressState, read uint8, add *steps[addressState]) {
	o := s.cache
	if o.holder == 0 || o.deleting {
		return
	}
	if read != o.holder && m.knows(s) {
		m.call(s, add, assignCall, o.holder)
	}
	confirmed := read == o.holder && (s.settled() || !m.keeps(AssignUntilSettled))
	if o == s.object && o.assigned != o.holder && confirmed {
		add.fair("the leader writes into the status that the address is at interface #", o.holder, func(s *addressState) {
			s.object.assigned = o.holder
			s.changed()
		})
	}
}

// knows reports whether the leader may call: a live read has shown what its cache has.
func (m address) knows(s addressState) bool { return s.cache == s.object || !m.keeps(AssignLive) }

// ends removes the object of an address that no node has, and takes the address from its interface.
func (m address) ends(s addressState, read uint8, add *steps[addressState]) {
	o := s.cache
	if o.holder == 0 && !o.deleting {
		m.order(s, add)
	}
	early := o.holder == 0 && !m.keeps(UnassignUnderTombstone)
	if (o.deleting || early) && read != 0 && m.knows(s) {
		m.call(s, add, unassignCall, read)
	}
	settled := s.settled() || !m.keeps(AddressFinishSettled)
	if o.deleting && s.object.deleting && read == 0 && settled {
		add.fair("the leader removes the object's finalizer", 0, func(s *addressState) {
			s.object = holding{}
			s.changed()
		})
	}
}

// order adds the DELETE of the object.
func (m address) order(s addressState, add *steps[addressState]) {
	current := s.cache == s.object
	add.fair("the leader deletes the object", 0, func(s *addressState) { m.delete(s, current) })
	if s.left.leaders > 0 && !s.lateDelete {
		late := func(s *addressState) {
			s.succeed()
			s.lateDelete, s.deleteIsCurrent = true, current
		}
		add.free("the leader deletes the object, and another leader takes over before that arrives", 0, late)
	}
}

// addressCall is a kind of call to EC2.
type addressCall struct {
	name    string // after its subject
	carry   func(*addressState, uint8)
	pending func(*addressState) *set
}

var (
	assignCall = &addressCall{"assigns the address to interface #", (*addressState).assign,
		func(s *addressState) *set { return &s.lateAssign }}
	unassignCall = &addressCall{"unassigns the address from interface #", (*addressState).unassign,
		func(s *addressState) *set { return &s.lateUnassign }}
)

// call adds a call of the leader: with EC2's answer, and without one.
func (address) call(s addressState, add *steps[addressState], c *addressCall, eni uint8) {
	add.fair("the leader "+c.name, eni, func(s *addressState) { c.carry(s, eni) })
	if s.left.lostAnswers > 0 && !c.pending(&s).has(eni) {
		add.free("the leader "+c.name+", and gets no answer", eni, func(s *addressState) {
			s.left.lostAnswers--
			*c.pending(s) |= setOf(eni)
		})
	}
}

// lateCalls adds the late effects of calls.
func (address) lateCalls(s addressState, add *steps[addressState]) {
	for _, c := range []*addressCall{assignCall, unassignCall} {
		for eni := uint8(1); eni <= 2; eni++ {
			if !c.pending(&s).has(eni) {
				continue
			}
			add.fair("a late call "+c.name, eni, func(s *addressState) {
				*c.pending(s) &^= setOf(eni)
				c.carry(s, eni)
			})
			add.fair("a late call never "+c.name, eni, func(s *addressState) { *c.pending(s) &^= setOf(eni) })
		}
	}
}
