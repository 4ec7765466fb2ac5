// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// pods is the hold of a node on an interface: agent processes, files on the node, boots, pods, and the orders of the
// controller. Each pod gets the one address that the interface has. The machine lifecycle has the controller's caches
// and its calls to EC2.
type pods struct {
	protocol
	objects uint8 // with this name, at most, one after the other
	// unknown lets files be lost that alone know of pods, which is not covered.
	unknown bool
	faults  podsFaults
}

// podsFaults are the numbers of the faults and orders that a run may have.
type podsFaults struct {
	toggles     uint8 // the NodeENI stops to want the interface, or wants it again
	deletions   uint8 // a user deletes the object
	tears       uint8 // a user removes the finalizer and deletes the object
	lateOrders  uint8 // another leader takes over while an order to the agent is under way
	lateCalls   uint8 // another leader takes over while a Detach is under way
	restarts    uint8 // the agent's process ends, and another one starts
	lostAnswers uint8 // the API server's answer to the agent is lost
	boots       uint8
	lostRun     uint8 // the files in /run are lost
	lostDisk    uint8 // the checkpoint is lost
	offs        uint8 // pods.enabled changes
}

// heldObject is the part of a NetworkInterface that the hold needs.
type heldObject struct {
	uid, eni         uint8
	takenOver        bool
	closed, deleting bool // orders: spec.pods.closed, and the deletionTimestamp
	answered, open   bool // status.node exists, and its open
	thisBoot         bool // status.node.agent names the present boot
}

func (o heldObject) held() bool { return o.open || o.takenOver && !o.answered }

// ordered reports whether the object asks the agent to release the interface.
func (o heldObject) ordered() bool { return o.closed || o.deleting }

type folderState uint8

const (
	noFolder folderState = iota
	closedFolder
	openFolder // pods may start
)

// note names an interface and the object that it was written for.
type note struct{ uid, eni uint8 }

// answer is a write of the agent to status.node.
type answer struct {
	pending  bool
	uid      uint8
	open     bool
	current  bool // the object has the version that the write names
	thisBoot bool
}

type podsState struct {
	wanted    bool
	object    heldObject
	next      uint8 // UID
	attached  uint8 // interface
	lateOrder podsOrder
	lateCall  bool // a Detach of the attached interface
	lost      bool // the object of the attached interface was lost

	// the agent's process
	off     bool // pods.enabled=false
	view    heldObject
	current bool // the view is the present version
	read    bool // this process has read the object
	written bool // this process has written the object
	late    answer
	// leasesLost means that the hold is of this boot and its folder is not there: pods can have addresses without a lease.
	leasesLost bool
	// the node
	folder     folderState
	owner      note // of the folder
	lease      bool
	checkpoint note
	sinceBoot  bool // the checkpoint was written in the present boot
	running    uint8
	podENI     uint8
	adding     bool // the CNI program has read the file as open, and takes the lock now
	left       podsFaults
	broken     Property
}

// podsOrder is an order of a former leader. It names the UID only.
type podsOrder struct {
	kind orderKind
	uid  uint8
}

type orderKind uint8

const (
	noOrder orderKind = iota
	closeOrder
	reopenOrder
	deleteOrder
)

var orderNames = [...]string{
	closeOrder:  "closes object #",
	reopenOrder: "opens object # again",
	deleteOrder: "deletes object #",
}

func (m pods) search(without Rule) Outcome {
	m.without = without
	return explore(m, maxStates)
}

func (m pods) initial() podsState {
	return podsState{wanted: true, next: 1, left: m.faults}
}

func (pods) leftover() Property { return NothingLeaks }

func (pods) violated(s podsState) Property { return s.broken }

// atRest reports whether pods can start on the wanted interface, or no unwanted one is left.
func (m pods) atRest(s podsState) bool {
	o := s.object
	if s.late.pending || s.lateOrder.kind != noOrder || s.lateCall || s.leasesLost {
		return false
	}
	if !s.wanted || o.uid == 0 && s.next > m.objects {
		return o.uid == 0 && (s.attached == 0 || s.lost)
	}
	reported := s.serves()
	if s.off {
		reported = !o.open && s.folder != openFolder
	}
	return o.uid != 0 && !o.ordered() && s.attached == o.eni && reported
}

// serves reports whether the agent holds the interface, and pods can start. If it does, it has seen the present object.
func (s podsState) serves() bool {
	o := s.object
	opened := s.folder == openFolder && s.owner == note{o.uid, o.eni}
	return o.open && opened && s.read && s.current
}

func (m pods) next(s podsState, add *steps[podsState]) {
	m.user(s, add)
	m.controller(s, add)
	m.arrivals(s, add)
	m.pod(s, add)
	m.faultsOfNode(s, add)
	m.agent(s, add)
}

// changed notes that the object has another version.
func (s *podsState) changed() { s.current, s.late.current = false, false }

func (m pods) user(s podsState, add *steps[podsState]) {
	if s.left.toggles > 0 {
		name := "the NodeENI no longer wants the interface"
		if !s.wanted {
			name = "the NodeENI wants the interface again"
		}
		add.free(name, 0, func(s *podsState) { s.left.toggles--; s.wanted = !s.wanted })
	}
	if s.left.deletions > 0 && s.object.uid != 0 && !s.object.deleting {
		add.free("a user deletes object #", s.object.uid, func(s *podsState) {
			s.left.deletions--
			s.object.deleting = true
			s.changed()
		})
	}
	if s.left.tears > 0 && s.object.uid != 0 {
		add.free("a user removes the finalizer of object # and deletes it", s.object.uid, func(s *podsState) {
			s.left.tears--
			s.object, s.lost = heldObject{}, s.attached != 0
			s.changed()
		})
	}
}

// controller adds what the leader orders and does. Its interface is attached with its object, and deleted when it is
// detached.
func (m pods) controller(s podsState, add *steps[podsState]) {
	o := s.object
	switch {
	case o.uid == 0:
		settled := !s.lateCall && s.lateOrder.kind == noOrder
		if s.wanted && s.next <= m.objects && (s.attached == 0 || settled) {
			add.fair("the leader posts object #, which has an interface", s.next, m.post)
		}
	case o.deleting:
		m.remove(s, add)
	case !s.wanted && !o.closed:
		m.order(s, add, closeOrder)
	case s.wanted && o.closed:
		m.order(s, add, reopenOrder)
	case !s.wanted && !o.held():
		m.order(s, add, deleteOrder)
	}
}

// remove carries out a deletion.
func (m pods) remove(s podsState, add *steps[podsState]) {
	o := s.object
	if !o.held() && s.attached == o.eni && !s.lateCall {
		add.fair("the leader detaches interface #", o.eni, (*podsState).detach)
		if s.left.lateCalls > 0 {
			add.free("the leader detaches interface #, and gets no answer", o.eni, func(s *podsState) {
				s.left.lateCalls--
				s.lateCall = true
			})
		}
	}
	if s.attached == 0 {
		add.fair("the leader removes the finalizer of object #", o.uid, func(s *podsState) {
			s.object = heldObject{}
			s.changed()
		})
	}
}

// post creates an object. It takes the attached interface over, if there is one.
func (m pods) post(s *podsState) {
	s.object = heldObject{uid: s.next, eni: s.attached, takenOver: s.attached != 0}
	if s.attached == 0 {
		s.object.eni, s.attached = s.next, s.next
	}
	s.next++
	s.lost = false
	s.changed()
}

func (s *podsState) detach() {
	if s.running > 0 && s.podENI == s.attached {
		s.broken = PodsKeepInterfaces
	}
	s.attached, s.lost, s.lateCall = 0, false, false
}

func (m pods) order(s podsState, add *steps[podsState], kind orderKind) {
	o := podsOrder{kind, s.object.uid}
	name := "the leader " + orderNames[kind]
	add.fair(name, o.uid, func(s *podsState) { s.apply(o) })
	if s.left.lateOrders > 0 && s.lateOrder.kind == noOrder {
		add.free(name+", and another leader takes over before it arrives", o.uid, func(s *podsState) {
			s.left.lateOrders--
			s.lateOrder = o
		})
	}
}

func (s *podsState) apply(o podsOrder) {
	if s.object.uid != o.uid {
		return
	}
	switch o.kind {
	case closeOrder:
		s.object.closed = true
	case reopenOrder:
		s.object.closed = false
	case deleteOrder:
		s.object.deleting = true
	}
	s.changed()
}

// arrivals adds the late effects of what is under way.
func (m pods) arrivals(s podsState, add *steps[podsState]) {
	if s.lateOrder.kind != noOrder {
		add.fair("a former leader's order arrives: it "+orderNames[s.lateOrder.kind], s.lateOrder.uid, func(s *podsState) {
			o := s.lateOrder
			s.lateOrder = podsOrder{}
			s.apply(o)
		})
		add.fair("a former leader's order is lost", 0, func(s *podsState) { s.lateOrder = podsOrder{} })
	}
	if s.lateCall {
		add.fair("a late call detaches interface #", s.attached, (*podsState).detach)
		add.fair("a late call never detaches interface #", s.attached, func(s *podsState) { s.lateCall = false })
	}
	if s.late.pending {
		add.fair("a late write of an agent arrives", 0, func(s *podsState) {
			a := s.late
			s.late = answer{}
			m.report(s, a)
		})
		add.fair("a late write of an agent is lost", 0, func(s *podsState) { s.late = answer{} })
	}
}

// pod adds starts and ends of pods, which need no agent.
func (m pods) pod(s podsState, add *steps[podsState]) {
	ready := s.folder == openFolder && !s.lease && s.attached == s.owner.eni
	if ready && m.keeps(ReadUnderLock) {
		add.free("a pod starts on interface #", s.owner.eni, (*podsState).start)
	}
	if ready && !s.adding && !m.keeps(ReadUnderLock) {
		add.free("the CNI program reads that interface # is open", s.owner.eni, func(s *podsState) { s.adding = true })
	}
	if s.adding {
		add.fair("the CNI program ends", 0, func(s *podsState) {
			s.adding = false
			if !s.lease && s.attached != 0 {
				s.start()
			}
		})
	}
	if s.running > 0 {
		add.fair("a pod ends", 0, func(s *podsState) {
			if s.running--; s.running == 0 {
				s.lease, s.podENI = false, 0
			}
		})
	}
}

func (s *podsState) start() {
	s.lease, s.podENI = true, s.attached
	if s.running++; s.running > 1 {
		s.broken = OnePodPerAddress
	}
}

// faultsOfNode adds what happens to the node and to the agent's process.
func (m pods) faultsOfNode(s podsState, add *steps[podsState]) {
	if s.left.restarts > 0 {
		add.free("the agent restarts", 0, func(s *podsState) { s.left.restarts--; s.restart() })
	}
	if s.left.offs > 0 {
		add.free("the agent restarts, with another value of pods.enabled", 0, func(s *podsState) {
			s.left.offs--
			s.off = !s.off
			s.restart()
		})
	}
	if s.left.boots > 0 {
		add.free("the node boots", 0, func(s *podsState) { s.left.boots--; s.boot() })
	}
	if s.leasesLost {
		add.fair("a person boots the node, which has lost its leases", 0, (*podsState).boot)
	}
	known := s.object.thisBoot || m.unknown // else the files alone know of the pods
	if s.left.lostRun > 0 && s.folder != noFolder && known {
		add.free("the node loses its files in /run, and the agent restarts", 0, func(s *podsState) {
			s.left.lostRun--
			s.folder, s.owner, s.lease = noFolder, note{}, false
			s.restart()
		})
	}
	if s.left.lostDisk > 0 && s.checkpoint != (note{}) {
		add.free("the node loses its checkpoint", 0, func(s *podsState) {
			s.left.lostDisk--
			s.checkpoint, s.sinceBoot = note{}, false
		})
	}
}

// restart starts another process of the agent. Its first list can be as old as what the process before it has seen.
func (s *podsState) restart() {
	s.current, s.read, s.written, s.leasesLost = false, false, false, false
}

func (s *podsState) boot() {
	s.folder, s.owner, s.lease, s.running, s.podENI, s.adding = noFolder, note{}, false, 0, 0, false
	s.object.thisBoot, s.view.thisBoot, s.late.thisBoot, s.sinceBoot = false, false, false, false
	s.restart()
}
