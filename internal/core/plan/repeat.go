// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
)

// The waits before a repetition of a change that EC2 accepted and that did not last, and the age from which it counts
// as kept.
const (
	firstRepeatDelay = 2 * time.Minute
	maxRepeatDelay   = time.Hour
	changeRetention  = 2 * maxRepeatDelay
)

// RepeatedUpdate records that EC2 accepted a change of one attribute of one interface. The zero value records nothing.
type RepeatedUpdate struct {
	To Attribute
	// At is the time of the last acceptance; Count is the number of acceptances, each less than two hours after the one
	// before.
	At    time.Time
	Count int
}

// RepeatedUpdates has the changes of an instance's interfaces by interface ID and [FieldOf].
type RepeatedUpdates map[string]map[string]RepeatedUpdate

// Next returns the record after EC2 accepted a change at the given time. A change to a different value starts again at
// 1.
func (r RepeatedUpdate) Next(to Attribute, at time.Time) RepeatedUpdate {
	if r.Count > 0 && (!equal(r.To, to) || r.Over(at)) {
		r.Count = 0
	}
	return RepeatedUpdate{To: to, At: at, Count: r.Count + 1}
}

// Over reports whether the change is old enough to count as kept.
func (r RepeatedUpdate) Over(now time.Time) bool { return now.Sub(r.At) > changeRetention }

// Due returns the time from which the change may be repeated. The first repetition is immediate, because a single
// change by another program is legitimate; then the wait doubles from two minutes to an hour.
func (r RepeatedUpdate) Due() time.Time {
	if r.Count < 2 {
		return r.At
	}
	wait := firstRepeatDelay
	for n := 2; n < r.Count && wait < maxRepeatDelay; n++ {
		wait *= 2
	}
	return r.At.Add(min(wait, maxRepeatDelay))
}

// Accepted returns the records after EC2 accepted an action, without those that are over. An action that changes no
// attribute adds none.
func (r RepeatedUpdates) Accepted(action Action, at time.Time) RepeatedUpdates {
	next := RepeatedUpdates{}
	for id, fields := range r {
		fields = maps.Clone(fields)
		maps.DeleteFunc(fields, func(_ string, one RepeatedUpdate) bool { return one.Over(at) })
		if len(fields) > 0 {
			next[id] = fields
		}
	}
	change, is := action.(Change)
	if !is {
		return next
	}
	if next[change.InterfaceID] == nil {
		next[change.InterfaceID] = map[string]RepeatedUpdate{}
	}
	field := FieldOf(change.To)
	next[change.InterfaceID][field] = next[change.InterfaceID][field].Next(change.To, at)
	return next
}

// FieldOf names the field of an attribute as a NodeENI does. Each family and form of addresses is a field of its own.
func FieldOf(a Attribute) string {
	switch a := a.(type) {
	case Groups:
		return "security groups"
	case Description:
		return "description"
	case SourceDestCheck:
		return "sourceDestCheck"
	case DeleteOnTermination:
		return "deleteOnTermination"
	case ConnectionTracking:
		return TrackingField
	case ENAExpress:
		return ExpressField
	case Tags:
		return "tags"
	case UnassignAddresses:
		return fmt.Sprintf("surplus of IPv%d addresses and prefixes", a.Family)
	case AssignAddresses:
		if a.Prefixes > 0 {
			return fmt.Sprintf("number of IPv%d prefixes", a.Family)
		}
		return fmt.Sprintf("number of IPv%d addresses", a.Family)
	default:
		return fmt.Sprintf("%T", a)
	}
}

// equal reports whether two changes have the same desired value. The choice of unassigned addresses does not matter.
func equal(a, b Attribute) bool {
	switch a := a.(type) {
	case UnassignAddresses:
		return a.String() == b.String()
	case AssignAddresses:
		again, is := b.(AssignAddresses)
		return is && a.String() == again.String() && a.Had == again.Had
	default:
		return reflect.DeepEqual(a, b)
	}
}

// update updates attributes of an interface. It defers those that EC2 refused until they are due: a refusal of one says
// nothing about the others. The argument shown is the time of the last read of the interface.
func (p *planner) update(s step, i eni.Interface, shown time.Time, todo []Attribute) step {
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
		case isTags(a) && s.Why.Reason != "":
			s = s.requeue(refused.until)
		default:
			s = s.wait(*refused)
		}
	}
	slices.Reverse(due)
	return p.changeUnlessReverted(s, i, shown, due)
}

// changeUnlessReverted changes attributes of an interface. It defers changes that did not last until they are due. The
// argument shown is the time of the last read of the interface.
func (p *planner) changeUnlessReverted(s step, i eni.Interface, shown time.Time, todo []Attribute) step {
	for _, attribute := range todo {
		r := p.RepeatedUpdates[i.ID][FieldOf(attribute)]
		known := r.Count > 0 && equal(r.To, attribute) && !r.Over(p.now)
		due := true
		if known && r.Count > 1 {
			s, due = p.repeat(s, i, shown, r)
		}
		if due {
			s = s.act(Change{Member: s.m.Member.Member, InterfaceID: i.ID, To: attribute, Repetition: known})
		}
	}
	return s
}

// repeat reports whether a repeated change is due, and otherwise when to plan again. Only a read that is late enough
// shows whether the change lasted. From the third acceptance on, the earlier reason stays until that read.
func (p *planner) repeat(s step, i eni.Interface, shown time.Time, r RepeatedUpdate) (waiting step, due bool) {
	settled := r.At.Add(inventory.StaleReadWindow)
	proven := !shown.Before(settled)
	if (proven || r.Count > 2) && s.Why.Reason == "" {
		s.Why = reverted(i, r.To)
	}
	switch {
	case proven && !p.now.Before(r.Due()):
		return s, true
	case proven:
		return s.requeue(r.Due()), false
	case p.now.Before(settled):
		return s.requeue(settled), false
	case p.Snapshot == nil:
		s.needsFreshRead = true
		return s, false
	default:
		return s.requeue(p.now.Add(uncertainRecheck)), false
	}
}

// reverted says that another program reverts an attribute, and how to find it.
func reverted(i eni.Interface, to Attribute) Problem {
	return Problem{Reverted, fmt.Sprintf(
		"the %s of %s does not last: EC2 accepted the change to %s more than once and shows %s, so another program "+
			"reverts it; find that program in CloudTrail (aws cloudtrail lookup-events --lookup-attributes "+
			"AttributeKey=ResourceName,AttributeValue=%s), "+
			"and stop it, or declare the value that it sets; multieni sets the value again at growing "+
			"intervals, at least every hour",
		FieldOf(to), i.ID, wantedOf(to, i), shownOf(to, i), i.ID)}
}

// wantedOf formats the desired value of an attribute of an interface.
func wantedOf(a Attribute, i eni.Interface) string {
	switch a.(type) {
	case AssignAddresses, UnassignAddresses:
		return a.String()
	default:
		return shownOf(a, a.Apply(i))
	}
}

// shownOf formats the observed value of an attribute of an interface.
func shownOf(a Attribute, i eni.Interface) string {
	switch a := a.(type) {
	case Groups:
		return strings.Join(i.Groups, ",")
	case Description:
		return fmt.Sprintf("%q", i.Description)
	case SourceDestCheck:
		return fmt.Sprint(i.SourceDestCheck)
	case DeleteOnTermination:
		return fmt.Sprint(i.Attachment != nil && i.Attachment.DeleteOnTermination)
	case ConnectionTracking:
		return i.ConnectionTracking.SetIn(a.To).String()
	case ENAExpress:
		return string(cmp.Or(i.Attachment.ENAExpress, eni.ENAExpressNone))
	case Tags:
		have := map[string]string{}
		for key := range a {
			if value, there := i.Tags[key]; there {
				have[key] = value
			}
		}
		return writeTags(have)
	default:
		c := i.Counts()
		return fmt.Sprintf("%d secondary IPv4 addresses, %d IPv4 prefixes, %d IPv6 addresses and %d IPv6 prefixes",
			c.SecondaryIPv4, c.IPv4Prefixes, c.IPv6, c.IPv6Prefixes)
	}
}

func writeTags(tags map[string]string) string {
	if len(tags) == 0 {
		return "none of them"
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, key+"="+tags[key])
	}
	return strings.Join(all, ",")
}
