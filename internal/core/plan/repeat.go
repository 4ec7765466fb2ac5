// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/message"
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
		return message.Tags(have)
	default:
		return message.Counts(i.Counts())
	}
}
