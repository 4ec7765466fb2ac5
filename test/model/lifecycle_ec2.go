// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// call is a kind of call to EC2.
type call struct {
	name    string
	pending func(*calls) *set
	carry   func(lifecycle, *lifecycleState, uint8)
	// answer notes what the leader learns.
	answer func(*lifecycleState, uint8)
}

var (
	createCall = &call{"creates interface #", func(c *calls) *set { return &c.create }, lifecycle.create,
		func(s *lifecycleState, eni uint8) {
			if s.ec2.exists.has(eni) {
				s.created |= setOf(eni)
			}
		}}
	attachCall = &call{"attaches interface #", func(c *calls) *set { return &c.attach }, lifecycle.attach, nil}
	detachCall = &call{"detaches interface #", func(c *calls) *set { return &c.detach }, lifecycle.detach, nil}
	removeCall = &call{"deletes interface #", func(c *calls) *set { return &c.remove }, lifecycle.deleteENI,
		func(s *lifecycleState, eni uint8) {
			if !s.ec2.exists.has(eni) {
				s.created, s.removed = s.created&^setOf(eni), s.removed|setOf(eni)
			}
		}}
)

// call adds a call of the leader: with EC2's answer, and without one.
func (m lifecycle) call(s lifecycleState, add *steps[lifecycleState], c *call, eni uint8) {
	ordered := func(s *lifecycleState) {
		if (c == detachCall || c == removeCall) && s.kindGone && s.wanted {
			s.broken = KindKeepsInterfaces
		}
	}
	add.fair("the leader "+c.name, eni, func(s *lifecycleState) {
		c.carry(m, s, eni)
		if c.answer != nil {
			c.answer(s, eni)
		}
		ordered(s)
	})
	if s.left.lostAnswers > 0 && !c.pending(&s.late).has(eni) {
		add.free("the leader "+c.name+", and gets no answer", eni, func(s *lifecycleState) {
			s.left.lostAnswers--
			*c.pending(&s.late) |= setOf(eni)
			ordered(s)
		})
	}
}

// cloud adds the late effects of calls, and the progress of reads.
func (m lifecycle) cloud(s lifecycleState, add *steps[lifecycleState]) {
	if s.shown != s.ec2 {
		add.fair("EC2's reads catch up", 0, func(s *lifecycleState) { s.shown = s.ec2 })
	}
	for _, c := range []*call{createCall, attachCall, detachCall, removeCall} {
		for eni := uint8(1); eni <= m.objects; eni++ {
			if !c.pending(&s.late).has(eni) {
				continue
			}
			add.fair("a late call "+c.name, eni, func(s *lifecycleState) {
				*c.pending(&s.late) &^= setOf(eni)
				c.carry(m, s, eni)
			})
			add.fair("a late call never "+c.name, eni, func(s *lifecycleState) { *c.pending(&s.late) &^= setOf(eni) })
		}
	}
}

// create makes one interface for a token, however often it is called.
func (m lifecycle) create(s *lifecycleState, uid uint8) {
	switch {
	case !s.ec2.made.has(uid):
		s.ec2.made |= setOf(uid)
		s.ec2.exists |= setOf(uid)
	case !m.keeps(Token):
		s.broken = OneInterface
	}
}

func (lifecycle) attach(s *lifecycleState, eni uint8) {
	if s.ec2.attached == 0 && s.ec2.exists.has(eni) && !s.ended {
		s.ec2.attached = eni
	}
}

func (m lifecycle) detach(s *lifecycleState, eni uint8) {
	if s.ec2.attached == eni {
		s.ec2.attached = 0
		m.judge(s, eni)
	}
}

// deleteENI deletes an interface. EC2 refuses if it is attached.
func (m lifecycle) deleteENI(s *lifecycleState, eni uint8) {
	if s.ec2.attached != eni && s.ec2.exists.has(eni) {
		s.ec2.exists &^= setOf(eni)
		m.judge(s, eni)
	}
}

// judge looks for a violation when an interface is detached or deleted.
func (m lifecycle) judge(s *lifecycleState, eni uint8) {
	switch {
	case s.pod && s.uses == eni:
		s.broken = PodsKeepInterfaces
	case s.object.owns(eni) && !s.object.deleting:
		s.broken = OrderFirst
	}
}
