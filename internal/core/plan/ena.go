// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// ENA settings are the timeouts of connection tracking and ENA Express. A NodeENI without them leaves those of its
// interfaces as they are. EC2 cannot remove a setting, so the planner writes the default of the instance type once
// after the NodeENI no longer declares a setting that multieni has made.

// TrackingField and ExpressField are the fields of a NodeENI for ENA settings.
const (
	TrackingField = "connectionTracking"
	ExpressField  = "enaExpress"
)

// ENA is the record of the ENA settings of one interface.
type ENA struct {
	// ConnectionTracking and ENAExpress are declared settings that the interface has, or has had.
	ConnectionTracking eni.ConnectionTracking
	// TrackAsPrimary is set if the timeouts are those of the primary interface.
	TrackAsPrimary bool
	ENAExpress     eni.ENAExpress
	// Unsupported are the declared fields that the instance type does not support.
	Unsupported []string
}

// ConnectionTracking sets timeouts of connection tracking, and leaves the others.
type ConnectionTracking struct{ To eni.ConnectionTracking }

// Apply implements [Attribute].
func (c ConnectionTracking) Apply(i eni.Interface) eni.Interface {
	i.ConnectionTracking = c.To.Or(i.ConnectionTracking)
	return i
}

// IsSatisfiedBy implements [Attribute].
func (c ConnectionTracking) IsSatisfiedBy(i eni.Interface) bool {
	return c.To.Differing(i.ConnectionTracking, eni.ConnectionTracking{}).IsZero()
}

func (c ConnectionTracking) String() string { return "connection tracking " + c.To.String() }

// ENAExpress sets ENA Express of an attachment.
type ENAExpress struct {
	AttachmentID string
	Setting      eni.ENAExpress
}

// Apply implements [Attribute].
func (e ENAExpress) Apply(i eni.Interface) eni.Interface {
	if i.Attachment != nil && i.Attachment.ID == e.AttachmentID {
		a := *i.Attachment
		a.ENAExpress = e.Setting
		i.Attachment = &a
	}
	return i
}

// IsSatisfiedBy implements [Attribute]. Without the attachment there is nothing to satisfy.
func (e ENAExpress) IsSatisfiedBy(i eni.Interface) bool {
	a := i.Attachment
	return a == nil || a.ID != e.AttachmentID || a.ENAExpress == e.Setting ||
		!a.ENAExpress.IsOn() && !e.Setting.IsOn()
}

func (e ENAExpress) String() string { return "ENA Express " + string(e.Setting) }

// resolveENA replaces the declared ENA settings of a member by those that its interface can have: without what the
// instance type does not support, and with the timeouts of the primary interface where these are declared. Only a fresh
// read has the type and the primary interface; without one, the record of the last one counts.
func (p *planner) resolveENA(m *Interface) {
	if m.Settings == nil {
		return
	}
	settings, was := *m.Settings, p.enaRecord(m)
	spec := &settings.Spec
	unsupported := func(field string, supported bool) bool {
		if p.Snapshot == nil {
			supported = !slices.Contains(was.Unsupported, field)
		}
		if !supported {
			m.ENA.Unsupported = append(m.ENA.Unsupported, field)
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
			m.NeedsFreshRead = m.NeedsFreshRead || p.Snapshot == nil && !was.TrackAsPrimary && m.hasSlot()
		}
	}
	if spec.ENAExpress.IsOn() && unsupported(ExpressField, p.Limits.ENAExpress) {
		spec.ENAExpress = ""
	}
	m.Settings = &settings
}

// primary returns the primary interface of the instance; nil without a fresh read.
func (p *planner) primary() *eni.Interface {
	if p.Snapshot == nil {
		return nil
	}
	for n := range p.Snapshot.Interfaces {
		i := &p.Snapshot.Interfaces[n]
		if i.AttachedTo(p.InstanceID) && i.Attachment.Slot == eni.Primary {
			return i
		}
	}
	return nil
}

// existing returns the interface of a member, or nil.
func (m *Interface) existing() *eni.Interface {
	if m.Record != nil {
		return &m.Record.Interface
	}
	return m.Launched
}

// enaRecord returns the stored record of a member's interface.
func (p *planner) enaRecord(m *Interface) ENA {
	if i := m.existing(); i != nil {
		return p.Stored[i.ID].ENA
	}
	return ENA{}
}

// enaAttributes returns the ENA settings that the interface of a member must have. ENA Express belongs to an
// attachment: EC2 changes that of a complete one only.
func (p *planner) enaAttributes(m *Interface, i eni.Interface) []Attribute {
	spec, was := m.Settings.Spec, p.enaRecord(m)
	var wanted []Attribute
	tracking := spec.ConnectionTracking.Or(p.undeclaredTracking(m, i))
	if !tracking.Differing(i.ConnectionTracking, p.defaultTracking(m)).IsZero() {
		wanted = append(wanted, ConnectionTracking{To: tracking})
	}
	express := spec.ENAExpress
	if express == "" && was.ENAExpress.IsOn() {
		express = eni.ENAExpressNone
	}
	if express != "" && i.Ready() {
		wanted = append(wanted, ENAExpress{AttachmentID: i.Attachment.ID, Setting: express})
	}
	return wanted
}

// defaultTracking returns the defaults of the instance type. Without a fresh read the type is unknown: a declared
// timeout that the interface has, as the record says, and that EC2 does not show is the default.
func (p *planner) defaultTracking(m *Interface) eni.ConnectionTracking {
	defaults := p.Limits.DefaultTracking()
	if p.Snapshot != nil {
		return defaults
	}
	return m.Settings.Spec.ConnectionTracking.Agreed(p.enaRecord(m).ConnectionTracking).Or(defaults)
}

// undeclaredTracking returns the defaults of the timeouts that multieni set, that the interface still has, and that its
// NodeENI does not declare any more.
func (p *planner) undeclaredTracking(m *Interface, i eni.Interface) eni.ConnectionTracking {
	if slices.Contains(m.ENA.Unsupported, TrackingField) {
		return eni.ConnectionTracking{}
	}
	left := p.enaRecord(m).ConnectionTracking.Without(m.Settings.Spec.ConnectionTracking)
	return p.Limits.DefaultTracking().SetIn(left).SetIn(i.ConnectionTracking)
}

// expressOfAttach returns ENA Express for the next attempt to attach a member's interface. EC2 can refuse it for a
// reason that no read shows, for example in a Local Zone. Then the interface is attached without it, and the refusal of
// the update in place says why.
func (p *planner) expressOfAttach(m *Interface) eni.ENAExpress {
	express := m.Settings.Spec.ENAExpress
	failure := p.Backoffs[m.Key]
	refused, is := failure.Action.(Attach)
	if !express.IsOn() || is && refused.ENAExpress != "" && failure.Class == eni.Invalid {
		return ""
	}
	return express
}

// explainENA says which declared ENA settings the instance type does not support.
func (s step) explainENA() step {
	if s.Phase != Attached || s.Why.Reason != "" || len(s.ENA.Unsupported) == 0 {
		return s
	}
	s.Why = Problem{UnsupportedByType, fmt.Sprintf(
		"the instance type does not support %s, or EC2 did not say that it does; the interface works without; remove the "+
			"field from the NodeENI, or use an instance type that supports it", strings.Join(s.ENA.Unsupported, " and "))}
	return s
}

// recordENA returns the record of the ENA settings of a member: what the interface has of what is declared, and of
// earlier declarations. A change that has not been made yet does not enter the record.
func (p *planner) recordENA(s step) ENA {
	m := s.m
	if m.Settings == nil || s.Interface == nil {
		return p.enaRecord(m)
	}
	record, was, spec := s.ENA, p.enaRecord(m), m.Settings.Spec
	have, defaults := s.Interface.ConnectionTracking, p.defaultTracking(m)
	todo := spec.ConnectionTracking.Or(p.undeclaredTracking(m, *s.Interface)).Differing(have, defaults)
	record.ConnectionTracking = spec.ConnectionTracking.Without(todo).Or(was.ConnectionTracking.SetIn(todo))
	record.TrackAsPrimary = spec.TrackAsPrimary && todo.IsZero()
	switch a := s.Interface.Attachment; {
	case spec.ENAExpress.IsOn():
		record.ENAExpress = spec.ENAExpress
	case was.ENAExpress.IsOn() && a != nil && a.ENAExpress.IsOn():
		record.ENAExpress = was.ENAExpress
	}
	return record
}
