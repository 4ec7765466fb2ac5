// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/message"
)

// updateInPlace changes the attributes of an existing interface.
func (p *planner) updateInPlace(s step) step {
	m := s.m
	s = p.update(s.explainGroups(), m.record.LastRead, p.changes(m))
	return p.explainAddresses(s).explainENA()
}

// updateLaunched updates a launch interface in place, except its tags: they say that EC2 deletes it with its instance.
func (p *planner) updateLaunched(s step) step {
	if backoff := p.backoff(s.m); backoff != nil {
		return s.wait(*backoff)
	}
	todo := slices.DeleteFunc(p.changes(s.m), isTags)
	s = p.update(s.explainGroups(), p.now, todo)
	s = p.explainAddresses(s).explainENA()
	if s.Phase != Attached {
		return s.requeue(p.now.Add(pollRecheck))
	}
	return s
}

// changes lists the attributes of an existing interface to update in place, in the order of the calls.
func (p *planner) changes(m *item) []Attribute {
	i, spec := m.record.Interface, m.Settings.Spec
	tags := Tags{}
	for key, value := range m.Tags {
		if key != identity.TagCreatedAt { // an interface that was taken over is older than its object
			tags[key] = value
		}
	}
	var wanted []Attribute
	if a := i.Attachment; a != nil {
		wanted = append(wanted, DeleteOnTermination{AttachmentID: a.ID, Enabled: spec.DeleteOnTermination})
	}
	wanted = append(wanted, SourceDestCheck(spec.SourceDestCheck), Description(spec.Description), tags)
	if len(spec.Groups) > 0 {
		wanted = append(wanted, Groups(spec.Groups))
	}
	wanted = append(wanted, p.enaAttributes(m)...)
	return unsatisfied(append(wanted, p.demandOf(m).changes(i.Addresses)...), i)
}

// unsatisfied returns the attributes that an interface does not have.
func unsatisfied(wanted []Attribute, i eni.Interface) (todo []Attribute) {
	for _, a := range wanted {
		if !a.IsSatisfiedBy(i) {
			todo = append(todo, a)
		}
	}
	return todo
}

// update updates attributes of an interface. It defers those that EC2 refused until they are due: a refusal of one says
// nothing about the others. The argument shown is the time of the last read of the interface.
func (p *planner) update(s step, shown time.Time, todo []Attribute) step {
	var due []Attribute
	for _, a := range slices.Backward(todo) { // the first gives the reason, tags only if there is no other
		refused := p.refusedUpdate(s.m, a)
		switch {
		case refused == nil:
			due = append(due, a)
		case !p.now.Before(refused.until):
			due = append(due, a)
			if !isTags(a) {
				s = s.because(refused.why) // the call may wait for a worker
			}
		case isTags(a) && (s.Problem.Reason != "" || s.m.hasDeclaredTags()):
			s = s.requeue(refused.until)
		default:
			s = s.wait(*refused)
		}
	}
	slices.Reverse(due)
	return p.changeUnlessReverted(s, shown, due)
}

// hasDeclaredTags reports whether the interface has the tags of the NodeENI. Those of multieni decide nothing, and
// nothing waits for them.
func (m *item) hasDeclaredTags() bool { return Tags(m.Settings.Tags).IsSatisfiedBy(m.record.Interface) }

// changeUnlessReverted changes attributes of an interface. It defers changes that did not last until they are due. The
// argument shown is the time of the last read of the interface.
func (p *planner) changeUnlessReverted(s step, shown time.Time, todo []Attribute) step {
	for _, attribute := range todo {
		r := p.Attempts[s.Key.UID].Accepted[FieldOf(attribute)]
		known := r.Count > 0 && equal(r.To, attribute) && !r.Over(p.now)
		due := true
		if known && r.Count > 1 {
			s, due = p.repeat(s, shown, r)
		}
		if due {
			s = s.act(Change{Key: s.Key, InterfaceID: s.m.record.ID, To: attribute, Repetition: known})
		}
	}
	return s
}

// repeat reports whether a repeated change is due, and otherwise when to plan again. Only a read that is late enough
// shows whether the change lasted. From the third acceptance on, the earlier reason stays until that read.
func (p *planner) repeat(s step, shown time.Time, r RepeatedUpdate) (waiting step, due bool) {
	settled := r.At.Add(inventory.StaleReadWindow)
	proven := !shown.Before(settled)
	if (proven || r.Count > 2) && s.Problem.Reason == "" {
		i := s.m.record.Interface
		s.Problem = Problem{Reverted, message.Reverted(FieldOf(r.To), i.ID, wantedOf(r.To, i), shownOf(r.To, i))}
	}
	switch {
	case proven && !p.now.Before(r.Due()):
		return s, true
	case proven:
		return s.requeue(r.Due()), false
	case p.now.Before(settled):
		return s.requeue(settled), false
	case p.Snapshot == nil:
		s.needsRead = true
		return s, false
	default:
		return s.requeue(p.now.Add(uncertainRecheck)), false
	}
}

// isRefusedUpdate reports whether an update of the interface, except its tags, waits after a failure. An interface
// serves without a prefix for which its subnet has no block, like one that is created there, and without its timeouts
// of connection tracking.
func (p *planner) isRefusedUpdate(m *item) bool {
	return slices.ContainsFunc(p.changes(m), func(a Attribute) bool {
		refused := p.refusedUpdate(m, a)
		return !isTags(a) && FieldOf(a) != TrackingField && refused != nil && p.now.Before(refused.until) &&
			p.Attempts[m.Key.UID].Updates[FieldOf(a)].Class != eni.NoPrefixes
	})
}

// refusedUpdate returns the wait of an update of one field after its last failure, which may be over; nil if it did not
// fail. The failure delays no other field.
func (p *planner) refusedUpdate(m *item, to Attribute) *wait {
	failure, failed := p.Attempts[m.Key.UID].Updates[FieldOf(to)]
	if !failed || NeedsCorrection(failure.Class) && !requests(Change{To: to}, failure.Call) {
		return nil
	}
	until := failure.Retry()
	isUnread := p.Snapshot != nil && !m.isLaunched && !m.record.LastRead.After(failure.At)
	if failure.Class == eni.Transient && isUnread { // EC2 may have made the change
		until = later(until, p.now.Add(uncertainRecheck))
	}
	return &wait{why: failure.problem(), until: until}
}

// explainGroups says that an interface in use keeps its security groups, because the desired ones are unknown.
func (s step) explainGroups() step {
	no, i := s.m.Interface.Problem, s.m.record.Interface
	isOfGroups := no != nil && slices.Contains([]Reason{SecurityGroupNotFound, SecurityGroupAmbiguous}, no.Reason)
	if isOfGroups && s.Phase == Attached && s.Problem.Reason == "" {
		s.Problem = Problem{no.Reason, message.GroupsKept(i.ID, i.Groups, no.Message)}
	}
	return s
}

// isRepair reports whether the item is a launch interface without an object.
func (m *item) isRepair() bool { return m.Key.Name == "" }

// repair updates the attributes of a launch interface that differ from its AWSNodeTemplate. For an interface that an
// object has taken over, the NodeENI decides instead.
func (p *planner) repair(update InPlaceUpdate) step {
	record, isLaunched := p.recorded(update.InterfaceID)
	isServing := slices.ContainsFunc(p.items, func(m *item) bool { return m.interfaceID() == update.InterfaceID })
	if record == nil || !isLaunched || !record.AttachedTo(p.instanceID) || isServing || p.ended {
		return step{}
	}
	m := &item{record: record, isLaunched: true, Interface: Interface{Key: identity.Interface{
		Cluster: p.cluster, UID: identity.UID(record.ID), NodeENI: update.Owner, InstanceID: p.instanceID}}}
	s := m.begin()
	if backoff := p.backoff(m); backoff != nil {
		return s.wait(*backoff)
	}
	d := demand{counts: record.Counts(), requested: record.Requested, countedAt: p.countedAt(m)}
	if update.IPv4Prefixes != nil {
		d.counts.IPv4Prefixes = *update.IPv4Prefixes
	}
	if update.IPv6Prefixes != nil {
		d.counts.IPv6Prefixes = *update.IPv6Prefixes
	}
	if !d.countedAt.IsZero() && d.lacking(record.Addresses) != (eni.AddressCounts{}) {
		s = s.requeue(d.countedAt)
	}
	return p.update(s, p.now, append(update.attributes(record.Interface), unsatisfied(d.changes(record.Addresses),
		record.Interface)...))
}

// attributes returns the attributes of the interface that differ from the update, except its addresses.
func (d InPlaceUpdate) attributes(i eni.Interface) []Attribute {
	var wanted []Attribute
	if d.DeleteOnTermination != nil {
		wanted = append(wanted, DeleteOnTermination{AttachmentID: i.Attachment.ID, Enabled: *d.DeleteOnTermination})
	}
	if d.Description != nil {
		wanted = append(wanted, Description(*d.Description))
	}
	if len(d.Groups) > 0 {
		wanted = append(wanted, Groups(d.Groups))
	}
	if !d.ConnectionTracking.IsZero() {
		wanted = append(wanted, ConnectionTracking{To: d.ConnectionTracking})
	}
	if d.ENAExpress != "" {
		wanted = append(wanted, ENAExpress{AttachmentID: i.Attachment.ID, Setting: d.ENAExpress})
	}
	if len(d.Tags) > 0 {
		wanted = append(wanted, Tags(d.Tags))
	}
	return unsatisfied(wanted, i)
}
