// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
)

// The waits before a change is made again that EC2 accepted and did not keep, and the age at which it counts as kept.
const (
	firstRepeatDelay = 2 * time.Minute
	maxRepeatDelay   = time.Hour
	changeRetention  = 2 * maxRepeatDelay
)

// RepeatedUpdate remembers that EC2 accepted a change of one attribute of one interface. The zero value remembers nothing.
type RepeatedUpdate struct {
	To Attribute
	// At is when EC2 last accepted the change; Count is how many times it did, each less than two hours after the last.
	At    time.Time
	Count int
}

// RepeatedUpdates holds the changes of an instance's interfaces by interface ID and [FieldOf].
type RepeatedUpdates map[string]map[string]RepeatedUpdate

// Next returns the repeat after EC2 accepted a change at the given time. Another value than the last begins anew.
func (r RepeatedUpdate) Next(to Attribute, at time.Time) RepeatedUpdate {
	if r.Count > 0 && (!equal(r.To, to) || r.Over(at)) {
		r.Count = 0
	}
	return RepeatedUpdate{To: to, At: at, Count: r.Count + 1}
}

// Over reports whether the change is so old that it counts as kept.
func (r RepeatedUpdate) Over(now time.Time) bool { return now.Sub(r.At) > changeRetention }

// Due returns when the change may be made again. The first time that is at once, since anybody may change an interface
// once; then the wait doubles from two minutes to an hour.
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

// Accepted notes that EC2 accepted an action, and drops what is over. Actions that change no attribute are passed over.
func (r RepeatedUpdates) Accepted(action Action, at time.Time) {
	for id, fields := range r {
		maps.DeleteFunc(fields, func(_ string, one RepeatedUpdate) bool { return one.Over(at) })
		if len(fields) == 0 {
			delete(r, id)
		}
	}
	change, is := action.(Change)
	if !is {
		return
	}
	if r[change.InterfaceID] == nil {
		r[change.InterfaceID] = map[string]RepeatedUpdate{}
	}
	field := FieldOf(change.To)
	r[change.InterfaceID][field] = r[change.InterfaceID][field].Next(change.To, at)
}

// FieldOf names what an attribute is about, as a NodeENI does. Each family and form of addresses is a field of its own.
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

// equal reports whether two changes want the same. Which addresses are given back does not matter.
func equal(a, b Attribute) bool {
	if _, fewer := a.(UnassignAddresses); fewer {
		return a.String() == b.String()
	}
	return reflect.DeepEqual(a, b)
}

// withoutReverted turns attributes into changes of an interface, and leaves out what EC2 did not keep until it is due again. The
// member says so. Shown is when EC2 last showed the interface.
func (p *planner) withoutReverted(m *member, i eni.Interface, shown time.Time, todo []Attribute) (changes []Action) {
	for _, attribute := range todo {
		r := p.RepeatedUpdates[i.ID][FieldOf(attribute)]
		known := r.Count > 0 && equal(r.To, attribute) && !r.Over(p.now)
		if known && r.Count > 1 && p.failedAttaches(m, i, shown, r) {
			continue
		}
		changes = append(changes, Change{Member: m.Member.Member, InterfaceID: i.ID, To: attribute, Repetition: known})
	}
	return changes
}

// failedAttaches reports whether a change that was repeated has to wait. Whether EC2 kept it the last time is judged by a reading
// that is late enough; from the third time on, what was said before holds until then.
func (p *planner) failedAttaches(m *member, i eni.Interface, shown time.Time, r RepeatedUpdate) (waits bool) {
	settled := r.At.Add(inventory.StaleReadWindow)
	proven := !shown.Before(settled)
	if (proven || r.Count > 2) && m.Why.Reason == "" {
		m.Why = isReverted(i, r.To)
	}
	switch {
	case proven && !p.now.Before(r.Due()):
		return false
	case proven:
		p.requeueAt(r.Due())
	case p.now.Before(settled):
		p.requeueAt(settled)
	case p.Snapshot == nil:
		m.needsFreshRead = true
	default:
		p.requeueAt(p.now.Add(uncertainRecheck))
	}
	return true
}

// isReverted says that somebody sets an attribute back, and how to find out who.
func isReverted(i eni.Interface, to Attribute) Problem {
	return Problem{Reverted, fmt.Sprintf("the %s of %s does not last: EC2 accepted the change to %s more than once and shows %s, so something sets it back; "+
		"look in CloudTrail for who else changes it (aws cloudtrail lookup-events --lookup-attributes AttributeKey=ResourceName,AttributeValue=%s), "+
		"and stop that or declare what it sets; it is set again ever more seldom, at least every hour", FieldOf(to), i.ID, wantedOf(to, i), shownOf(to, i), i.ID)}
}

// wantedOf writes the wanted value of an attribute of an interface.
func wantedOf(a Attribute, i eni.Interface) string {
	switch a.(type) {
	case AssignAddresses, UnassignAddresses:
		return a.String()
	default:
		return shownOf(a, a.Apply(i))
	}
}

// shownOf writes the value of an attribute that an interface has.
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
		return fmt.Sprintf("%d secondary IPv4 addresses, %d IPv4 prefixes, %d IPv6 addresses and %d IPv6 prefixes", c.SecondaryIPv4, c.IPv4Prefixes, c.IPv6, c.IPv6Prefixes)
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
