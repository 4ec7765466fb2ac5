// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"time"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/inventory"
	"github.com/multieni/multieni/ownership"
)

// step decides where a member stands and what to do for it now.
func (p *planner) step(m *member) {
	switch {
	case m.record == nil:
		p.create(m)
	case m.record.Missing:
		m.Phase = phaseOf(m.record.Interface)
		m.Why = Problem{NotSeen, fmt.Sprintf("EC2's last answer does not show %s; it is looked for again before anything is concluded", m.record.ID)}
		p.again(p.now.Add(doubtful))
	case m.leaving != "":
		p.remove(m)
	case m.wish == nil:
		m.Phase = phaseOf(m.record.Interface)
		m.Why = Problem{Kept, p.keptBecause(m)}
		p.record(m)
		if m.doubtful {
			p.again(p.now.Add(doubtful))
		}
	default:
		p.record(m)
		p.keep(m)
	}
}

func (p *planner) keptBecause(m *member) string {
	if m.doubtful {
		return fmt.Sprintf("%s is left as it is until EC2 has shown for certain which interface takes its place", m.record.ID)
	}
	if m.claim.Leaked {
		return fmt.Sprintf("%s is left as it is: its %s tag does not say that it is older than %s", m.record.ID, ownership.TagCreatedAt, ownership.LeakAge)
	}
	if m.claim.Why != "" {
		return fmt.Sprintf("%s is left as it is: %s", m.record.ID, m.claim.Why)
	}
	return fmt.Sprintf("%s is left as it is: not all selectors of its NodeENI could be resolved", m.record.ID)
}

// record makes the ledger know an interface that exists, so that it survives the loss of the ledger.
func (p *planner) record(m *member) {
	if p.plan.Ledger[m.Key] < m.Generation {
		p.plan.Ledger[m.Key] = m.Generation
	}
}

// create makes the interface of a member that has none, once it is sure where it will sit.
func (p *planner) create(m *member) {
	m.Phase = Pending
	if m.problem != nil {
		p.hinder(m)
		return
	}
	if p.Look != nil && !p.Look.Instance.State.Attachable() {
		p.waitForInstance(m)
		return
	}
	if p.holdsBack(m) {
		return
	}
	setback, failed := p.Setbacks[m.Key]
	subnet := m.wish.Subnets[0]
	if failed && setback.Class == eni.NoAddresses && setback.Count < len(m.wish.Subnets) {
		subnet = m.wish.Subnets[setback.Count]
	} else if p.waits(m) {
		return
	}
	m.Phase = Creating
	m.Generation = p.generation(m, setback)
	p.plan.Ledger[m.Key] = m.Generation
	p.unattached++
	p.plan.Actions = append(p.plan.Actions, Create{Member: m.Member.Member, SubnetID: subnet, Slot: m.Slot, Spec: m.wish.Spec})
}

// holdsBack reports whether the making of another interface has to wait, and says why in the member's place.
func (p *planner) holdsBack(m *member) bool {
	lost, wasLost := p.Lost[m.Key]
	made := time.Unix(p.Spent[m.Key], 0)
	switch {
	case p.Brake != "":
		m.explain(Problem{BrakeEngaged, p.Brake})
		p.again(p.now.Add(doubtful))
	case wasLost && lost.Sub(made) < RecreateAfter && p.now.Before(made.Add(RecreateAfter)):
		m.explain(Problem{RemovedByOthers, fmt.Sprintf(
			"its interface was removed by somebody else shortly after it was made; the next is made %s after that one", RecreateAfter)})
		p.again(made.Add(RecreateAfter))
	case p.unattached >= MaxUnattached:
		m.explain(Problem{InProgress, fmt.Sprintf("%d interfaces of the node exist and are not attached yet; they come first", p.unattached)})
		p.again(p.now.Add(doubtful))
	default:
		return false
	}
	return true
}

// generation returns the generation to create the member with: the stored one, unless that is known to be used up.
// A new generation is the time in seconds, so that it is new even if the ledger was lost.
func (p *planner) generation(m *member, setback Setback) int64 {
	stored, spent := p.plan.Ledger[m.Key], p.Spent[m.Key]
	if stored > spent && setback.Class != eni.TokenSpent {
		return stored
	}
	return max(p.now.Unix(), stored+1, spent+1)
}

// waits reports whether the member's last failure is too recent to try again, and says so in its place.
func (p *planner) waits(m *member) bool {
	setback, failed := p.Setbacks[m.Key]
	if !failed || !p.now.Before(setback.Retry()) {
		return false
	}
	m.explain(setback.problem())
	p.again(setback.Retry())
	return true
}

func (p *planner) waitForInstance(m *member) {
	m.explain(Problem{InstanceNotReady, fmt.Sprintf("instance %s is %s; interfaces are attached once it runs", p.InstanceID, p.Look.Instance.State)})
	p.again(p.now.Add(doubtful))
}

// keep brings an existing interface to where and what it is wanted to be.
func (p *planner) keep(m *member) {
	i := m.record.Interface
	m.Phase = phaseOf(i)
	switch {
	case i.Attachment != nil && !i.AttachedTo(p.InstanceID):
		m.block(Problem{AttachedElsewhere, fmt.Sprintf("%s was attached to %s by somebody else; detach it there", i.ID, i.Attachment.InstanceID)})
		p.again(p.now.Add(ForceAfter))
	case m.Phase == Detaching:
		p.progress(m)
		p.forceIfStuck(m)
	case i.Status == eni.Pending:
		p.progress(m)
	case p.waits(m):
	case m.Phase == Attaching && p.overdue(m):
		p.reattach(m)
	case i.Attachment != nil:
		p.mend(m)
		if m.Phase == Attaching {
			p.progress(m)
		}
	case m.problem != nil:
		p.hinder(m)
	case p.Look != nil && !p.Look.Instance.State.Attachable():
		p.waitForInstance(m)
	default:
		p.mend(m)
		p.plan.Actions = append(p.plan.Actions, Attach{Member: m.Member.Member, InterfaceID: i.ID, Slot: m.Slot})
	}
}

// overdue reports whether EC2 does not get done with attaching the interface.
func (p *planner) overdue(m *member) bool {
	since := m.record.AttachingSince
	return m.record.Attachment != nil && !since.IsZero() && p.seenAt().Sub(since) >= StuckAfter
}

// seenAt is the time of what the plan rests on: of the look, however long ago it was begun.
func (p *planner) seenAt() time.Time {
	if p.Look != nil {
		return p.Look.At
	}
	return p.now
}

// reattach undoes an attach that is overdue, so that it can be tried again.
func (p *planner) reattach(m *member) {
	why := fmt.Sprintf("EC2 has not attached it within %s", StuckAfter)
	m.Why = Problem{AttachStuck, fmt.Sprintf("%s is detached and attached again: %s", m.record.ID, why)}
	p.plan.Actions = append(p.plan.Actions, Detach{
		Member: m.Member.Member, InterfaceID: m.record.ID, AttachmentID: m.record.Attachment.ID, Why: why,
	})
}

func (p *planner) mend(m *member) {
	tags := m.Member.Member.DesiredTags(m.wish.Spec.Tags)
	for _, attribute := range changes(*m.wish, tags, m.record.Interface) {
		p.plan.Actions = append(p.plan.Actions, Change{Member: m.Member.Member, InterfaceID: m.record.ID, To: attribute})
	}
}

// remove takes an interface away: plain detach, wait, delete. Force is the last resort.
func (p *planner) remove(m *member) {
	i := m.record.Interface
	m.Phase = phaseOf(i)
	m.Wanted = m.wish != nil
	m.Why = Problem{Leaving, fmt.Sprintf("%s is being removed: %s", i.ID, m.leaving)}
	switch {
	case i.Attachment != nil && !i.AttachedTo(p.InstanceID):
		m.Why.Message = fmt.Sprintf("%s is to be removed, but was attached to %s by somebody else; detach it there", i.ID, i.Attachment.InstanceID)
		p.again(p.now.Add(ForceAfter))
	case p.waits(m):
	case i.Attachment == nil && i.Status == eni.Available:
		m.Phase = Deleting
		p.plan.Actions = append(p.plan.Actions, Delete{Member: m.Member.Member, InterfaceID: i.ID, Why: m.leaving})
	case p.ended && i.Attachment != nil:
		p.progress(m)
		p.again(p.now.Add(ending))
	case i.Attachment == nil, i.Attachment.Status == eni.AttachmentAttaching && !p.overdue(m):
		p.progress(m)
	case i.Attachment.Status == eni.AttachmentDetaching:
		p.progress(m)
		p.forceIfStuck(m)
	default:
		m.Phase = Detaching
		p.plan.Actions = append(p.plan.Actions, Detach{
			Member: m.Member.Member, InterfaceID: i.ID, AttachmentID: i.Attachment.ID, Why: m.leaving,
		})
	}
}

// forceIfStuck cuts the instance off from an interface that a plain detach does not get away from it.
func (p *planner) forceIfStuck(m *member) {
	since := m.record.DetachingSince
	if m.record.Attachment == nil || since.IsZero() || p.seenAt().Sub(since) < ForceAfter {
		return
	}
	p.plan.Actions = append(p.plan.Actions, Detach{
		Member: m.Member.Member, InterfaceID: m.record.ID, AttachmentID: m.record.Attachment.ID, Force: true,
		Why: fmt.Sprintf("%s, and a plain detach has not ended since %s",
			cmp.Or(m.leaving, "it is to be attached anew"), since.UTC().Format(time.RFC3339)),
	})
}

// progress says that EC2 is at work and will be heard of.
func (p *planner) progress(m *member) {
	if m.Why.Reason == "" {
		m.Why = Problem{InProgress, fmt.Sprintf("EC2 reports %s as %s", m.record.ID, inWords(m.record))}
	}
	p.again(p.now.Add(watched))
}

func inWords(r *inventory.Record) string {
	if r.Attachment != nil {
		return string(r.Attachment.Status)
	}
	return string(r.Status)
}

// hinder says what stands in the way of a member, and comes back to it: foreign interfaces leave without telling us.
func (p *planner) hinder(m *member) {
	m.explain(*m.problem)
	switch m.problem.Reason {
	case SlotTaken, InstanceFull:
		p.again(p.now.Add(hindered))
	case InProgress:
		p.again(p.now.Add(doubtful))
	}
}

// block marks a member that is not there as blocked.
func (m *member) block(why Problem) {
	m.Phase, m.Why = Blocked, why
}

// explain says why nothing is done; it blocks a member that is not attached if a person has to act.
func (m *member) explain(why Problem) {
	if !why.Reason.Passing() && m.Phase != Attached {
		m.Phase = Blocked
	}
	m.Why = why
}

func phaseOf(i eni.Interface) Phase {
	switch {
	case i.Attachment == nil && (i.Status == eni.Detaching):
		return Detaching
	case i.Attachment == nil:
		return Attaching
	case i.Attachment.Status == eni.AttachmentAttached:
		return Attached
	case i.Attachment.Status == eni.AttachmentDetaching:
		return Detaching
	default:
		return Attaching
	}
}
