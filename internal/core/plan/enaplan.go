// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/message"
)

// resolveENA replaces the declared ENA settings of an object by those that its interface can have: without what the
// instance type does not support, and with the timeouts of the primary interface where these are declared. Only a fresh
// read has the type and the primary interface; without one, the record of the last one counts.
func (p *planner) resolveENA(m *item) {
	if m.Goal != Serve {
		return
	}
	spec, was := &m.Settings.Spec, m.ENA
	unsupported := func(field string, supported bool) bool {
		if p.Snapshot == nil {
			supported = !slices.Contains(was.Unsupported, field)
		}
		if !supported {
			m.unsupported = append(m.unsupported, field)
		}
		return !supported
	}
	declares := spec.TrackAsPrimary || !spec.ConnectionTracking.IsZero()
	switch {
	case declares && unsupported(TrackingField, p.Limits.TracksConnections()):
		spec.ConnectionTracking, spec.TrackAsPrimary = eni.ConnectionTracking{}, false
	case spec.TrackAsPrimary:
		primary := p.primary()
		switch {
		case primary != nil:
			spec.ConnectionTracking = primary.ConnectionTracking
		default:
			spec.ConnectionTracking, spec.TrackAsPrimary = was.ConnectionTracking, was.TrackAsPrimary
			m.needsRead = m.needsRead || p.Snapshot == nil && !was.TrackAsPrimary && m.record != nil && m.hasSlot()
		}
	}
	if spec.ENAExpress.IsOn() && unsupported(ExpressField, p.Limits.ENAExpress) {
		spec.ENAExpress = ""
	}
}

// primary returns the primary interface of the instance; nil without a fresh read.
func (p *planner) primary() *eni.Interface {
	if p.Snapshot == nil {
		return nil
	}
	for n := range p.Snapshot.Interfaces {
		i := &p.Snapshot.Interfaces[n]
		if i.AttachedTo(p.instanceID) && i.Attachment.Slot == eni.Primary {
			return i
		}
	}
	return nil
}

// enaAttributes returns the ENA settings that the interface of an object must have. ENA Express belongs to an
// attachment: EC2 changes that of a complete one only.
func (p *planner) enaAttributes(m *item) []Attribute {
	i, spec := m.record.Interface, m.Settings.Spec
	var wanted []Attribute
	tracking := spec.ConnectionTracking.Or(p.undeclaredTracking(m))
	if !tracking.Differing(i.ConnectionTracking, p.defaultTracking(m)).IsZero() {
		wanted = append(wanted, ConnectionTracking{To: tracking})
	}
	express := spec.ENAExpress
	if express == "" && m.ENA.ENAExpress.IsOn() {
		express = eni.ENAExpressNone
	}
	if express != "" && i.Ready() {
		wanted = append(wanted, ENAExpress{AttachmentID: i.Attachment.ID, Setting: express})
	}
	return wanted
}

// defaultTracking returns the defaults of the instance type. Without a fresh read the type is unknown: a declared
// timeout that the interface has, as the record says, and that EC2 does not show is the default.
func (p *planner) defaultTracking(m *item) eni.ConnectionTracking {
	defaults := p.Limits.DefaultTracking()
	if p.Snapshot != nil {
		return defaults
	}
	return m.Settings.ConnectionTracking.Agreed(m.ENA.ConnectionTracking).Or(defaults)
}

// undeclaredTracking returns the defaults of the timeouts that multieni set, that the interface still has, and that its
// NodeENI does not declare any more.
func (p *planner) undeclaredTracking(m *item) eni.ConnectionTracking {
	if slices.Contains(m.unsupported, TrackingField) {
		return eni.ConnectionTracking{}
	}
	left := m.ENA.ConnectionTracking.Without(m.Settings.ConnectionTracking)
	return p.Limits.DefaultTracking().SetIn(left).SetIn(m.record.ConnectionTracking)
}

// expressOfAttach returns ENA Express for the next attempt to attach an interface. EC2 can refuse it for a reason that
// no read shows, for example in a Local Zone. Then the interface is attached without it, and the refusal of the update
// in place says why.
func (p *planner) expressOfAttach(m *item) eni.ENAExpress {
	express := m.Settings.ENAExpress
	failure := p.Attempts[m.Key.UID].Failure
	refused, is := failure.Call.(Attach)
	if !express.IsOn() || is && refused.ENAExpress != "" && failure.Class == eni.Invalid {
		return ""
	}
	return express
}

// explainENA says which declared ENA settings the instance type does not support.
func (s step) explainENA() step {
	if s.Phase != Attached || s.Problem.Reason != "" || len(s.m.unsupported) == 0 {
		return s
	}
	s.Problem = Problem{UnsupportedByType, message.UnsupportedByType(s.m.unsupported)}
	return s
}

// recordENA returns the record of the ENA settings of an object: what the interface has of what is declared, and of
// earlier declarations. A change that has not been made yet does not enter the record.
func (p *planner) recordENA(s step) ENA {
	m := s.m
	if m.Goal != Serve || m.record == nil {
		return m.ENA
	}
	record, was, spec := ENA{Unsupported: m.unsupported}, m.ENA, m.Settings.Spec
	todo := spec.ConnectionTracking.Or(p.undeclaredTracking(m)).Differing(m.record.ConnectionTracking,
		p.defaultTracking(m))
	record.ConnectionTracking = spec.ConnectionTracking.Without(todo).Or(was.ConnectionTracking.SetIn(todo))
	record.TrackAsPrimary = spec.TrackAsPrimary && todo.IsZero()
	switch a := m.record.Attachment; {
	case spec.ENAExpress.IsOn():
		record.ENAExpress = spec.ENAExpress
	case was.ENAExpress.IsOn() && a != nil && a.ENAExpress.IsOn():
		record.ENAExpress = was.ENAExpress
	}
	return record
}
