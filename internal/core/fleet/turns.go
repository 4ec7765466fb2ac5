// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
)

// Turn is the permission to remove an interface that its NodeENI still declares. The NodeENI records the turns that
// it gave, so that each process counts the same nodes, also after a restart. A turn lasts until the successor of the
// interface is ready, or until none is declared.
type Turn struct {
	// InstanceID, Name and UID are those of the object.
	InstanceID, Name, UID string
}

// MayRemove reports whether the interface of an object that is being deleted may be removed now. The instance is that
// of the object, nil if the NodeENI does not select it, and the objects are those of the NodeENI on the instance. An
// object without an interface needs no turn, and neither does one that the NodeENI no longer declares.
func MayRemove(n NodeENI, o Object, objects []Object, instance *Instance) bool {
	if n.Absent || n.Deleting || instance == nil {
		return true
	}
	s := surveyOf(n, declared(objects), []Instance{*instance})
	return !s.needsTurn(o) || !n.Paused && hasTurn(n.Turns, o)
}

func hasTurn(turns []Turn, o Object) bool {
	return slices.ContainsFunc(turns, func(t Turn) bool { return t.UID == o.UID })
}

// needsTurn reports whether the removal of an interface makes its instance lack one.
func (s survey) needsTurn(o Object) bool { return o.Deleting && s.wanted[o.Name] && o.ENIID != "" }

// turns returns the turns that last, and gives further ones: first to objects that are being deleted, in the order of
// their deletion, then to those that a rollout replaces. A turn takes one interface of an instance away; further
// deleted ones of the instance have a turn as well, because the instance is unavailable already.
func (s survey) turns() []Turn {
	turns := slices.DeleteFunc(slices.Clone(s.n.Turns), func(t Turn) bool { return !s.lasts(t) })
	if s.n.Paused {
		return turns
	}
	busy := map[string]bool{}
	for _, t := range turns {
		busy[t.InstanceID] = true
	}
	give := func(o Object) {
		if !hasTurn(turns, o) {
			turns, busy[o.Spec.InstanceID] = append(turns, Turn{o.Spec.InstanceID, o.Name, o.UID}), true
		}
	}
	for _, o := range s.waiting() {
		if id := o.Spec.InstanceID; !s.paused[id] && (busy[id] || len(busy) < s.n.limit()) {
			give(o)
		}
	}
	for _, o := range s.replacements(busy) {
		give(o)
	}
	slices.SortFunc(turns, func(a, b Turn) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
	return turns
}

// waiting returns the objects whose removal needs a turn, in the order of their deletion. Those that pods use wait for
// the pods, and have no turn before, unless the turn evicts the pods.
func (s survey) waiting() []Object {
	waiting := slices.DeleteFunc(slices.Clone(s.objects), func(o Object) bool {
		return !s.needsTurn(o) || o.Held && !o.evicts()
	})
	slices.SortFunc(waiting, byDeletion)
	return waiting
}

// lasts reports whether a turn lasts: its object is there, or the interface of its name has no successor that is ready.
// No successor gets ready on an instance that has ended or that the NodeENI does not select.
func (s survey) lasts(t Turn) bool {
	at, selected := slices.BinarySearchFunc(s.instances, t.InstanceID, func(i surveyed, id string) int {
		return cmp.Compare(i.ID, id)
	})
	if !selected || s.instances[at].notReady() {
		return false
	}
	i := &s.instances[at]
	n := slices.IndexFunc(i.objects, func(o Object) bool { return o.Name == t.Name })
	if n < 0 { // the successor may have another ordinal
		return i.down()
	}
	switch o := i.objects[n]; {
	case o.UID == t.UID:
		return o.Deleting || s.n.Replace && len(i.drift[o.Name]) > 0
	case !s.wanted[o.Name]:
		return false
	default:
		return !o.Attached || !o.Deleting && !o.Ready
	}
}
