// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// OrphanGrace is how long an object with an interface stays after its NodeENI was first found not to exist. A NodeENI
// of the name adopts it.
const OrphanGrace = 24 * time.Hour

// Object is an object of a NodeENI with its status.
type Object struct {
	render.Object
	// Version is the resource version that was read, and DeletedAt the deletionTimestamp.
	Version   string
	DeletedAt time.Time
	// Phase is that of the interface, for example Attached or Blocked.
	Phase string
	// Attached is set if the object records an attachment, and Ready if the interface is as the present spec declares.
	Attached, Ready bool
	// Settled is set if the status of the object is about its present spec, and Stalled if it waits for a person.
	Settled, Stalled bool
	// InstanceNotReady is set if the state of the instance allows no attachment.
	InstanceNotReady bool
	// OrphanedAt is when the object became an orphan; zero for never.
	OrphanedAt time.Time
	// KeepsENI is set if the interface stays when the object is deleted.
	KeepsENI bool
}

// evicts reports whether the pods of an interface that goes are evicted. An interface that stays keeps its pods.
func (o Object) evicts() bool {
	return o.Spec.Pods != nil && o.Spec.Pods.OnRemoval == evict && !o.KeepsENI
}

// The phases that decide something.
const (
	attached = "Attached"
	blocked  = "Blocked"
)

// Instance is an instance whose oldest Node a NodeENI selects.
type Instance struct {
	ID, Zone string
	// VPCID is the VPC of an interface in a subnet that the NodeENI does not select; empty if none is known.
	VPCID string
	// Paused is set if a user paused a Node of the instance.
	Paused bool
	// Busy is set if another NodeENI has a turn on the instance: a node loses one network at a time.
	Busy bool
}

// NodeENI is a NodeENI, or the name of one that does not exist.
type NodeENI struct {
	render.NodeENI
	// Absent is set if two live reads found no NodeENI of the name.
	Absent bool
	// Replace allows the replacement of a live interface.
	Replace        bool
	MaxUnavailable int
	// Turns are the turns that the NodeENI records.
	Turns []Turn
}

// Outcome is what happens next to the objects of one NodeENI.
type Outcome struct {
	// Turns are the turns that the NodeENI has to record before anything of the outcome happens.
	Turns []Turn
	// Delete are the objects to delete, each with the reason in words.
	Delete []Deletion
	// Evict are the objects whose pods are evicted now.
	Evict []Object
	// Orphan are the objects to mark as orphans.
	Orphan []Object
	Status Status
	// Done is set if the NodeENI is being deleted and no object of it is known.
	Done bool
	// Next is when to compute again; zero if only an event changes something.
	Next time.Time
}

// Deletion is an object to delete. With a Version it is deleted only as it was read.
type Deletion struct {
	Name, UID, Version, Why string
	// Replaces is set if another object will serve in its place.
	Replaces bool
}

// Compute decides about the objects of one NodeENI. The instances are all that it selects.
func Compute(n NodeENI, objects []Object, instances []Instance, now time.Time) Outcome {
	objects = declared(objects)
	switch {
	case n.Absent:
		return orphaned(objects, now)
	case n.Deleting:
		return removed(n, objects, instances)
	}
	s := surveyOf(n, objects, instances)
	turns := s.turns()
	return Outcome{Turns: turns, Delete: s.deletions(turns), Evict: s.evictions(turns), Status: s.status()}
}

// declared returns the objects that a NodeENI declares or declared, by name. Others belong to a network.
func declared(objects []Object) []Object {
	objects = slices.DeleteFunc(slices.Clone(objects), func(o Object) bool {
		return o.Spec.Origin != render.OriginDeclared
	})
	slices.SortFunc(objects, func(a, b Object) int { return cmp.Compare(a.Name, b.Name) })
	return objects
}

// orphaned decides about objects whose NodeENI does not exist. One without an interface is deleted at once, the others
// after a grace period: the NodeENI may be lost, and workloads may use its interfaces (docs/decisions/0012).
func orphaned(objects []Object, now time.Time) (out Outcome) {
	for _, o := range objects {
		end := o.OrphanedAt.Add(OrphanGrace)
		switch {
		case o.Deleting:
		case o.ENIID == "":
			out.Delete = append(out.Delete, Deletion{Name: o.Name, UID: o.UID, Version: o.Version,
				Why: "its NodeENI does not exist, and it has no interface"})
		case o.OrphanedAt.IsZero():
			out.Orphan = append(out.Orphan, o)
		case now.Before(end):
			out.Next = sooner(out.Next, end)
		default:
			out.Delete = append(out.Delete, Deletion{Name: o.Name, UID: o.UID, Version: o.Version,
				Why: "its NodeENI has not existed for 24 hours"})
		}
	}
	out.Evict = firstHeld(objects, 1, func(Object) bool { return true })
	return out
}

// removed decides about the objects of a NodeENI that is being deleted.
func removed(n NodeENI, objects []Object, instances []Instance) Outcome {
	out := Outcome{Done: len(objects) == 0, Status: surveyOf(n, objects, instances).status()}
	if n.Paused {
		return out
	}
	for _, o := range objects {
		if !o.Deleting {
			out.Delete = append(out.Delete, Deletion{Name: o.Name, UID: o.UID, Why: "its NodeENI is being deleted"})
		}
	}
	out.Evict = firstHeld(objects, n.limit(), func(Object) bool { return true })
	return out
}

// limit returns the number of instances that may lack an interface of the NodeENI.
func (n NodeENI) limit() int { return max(1, n.MaxUnavailable) }

// replacements returns the live objects that a rollout replaces now, one of an instance: that of each instance that
// lacks nothing, as far as maxUnavailable allows next to the instances that lack an interface or have a turn. An
// instance whose only lack a replacement can correct needs a turn alone.
func (s survey) replacements(busy map[string]bool) (replaced []Object) {
	if !s.n.Replace || s.n.Paused || s.n.Found == nil {
		return nil
	}
	unavailable := s.unavailable()
	maps.Copy(unavailable, busy)
	turns, room := s.n.limit()-len(busy), s.n.limit()-len(unavailable)
	for at := range s.instances {
		i := &s.instances[at]
		o := i.replaceable()
		switch {
		case o == nil:
			continue
		case busy[i.ID] && i.down():
		case i.down() && turns > 0:
			turns--
		case !unavailable[i.ID] && room > 0:
			turns, room = turns-1, room-1
		default:
			continue
		}
		replaced = append(replaced, *o)
	}
	return replaced
}

// deletions returns the live objects that a rollout gave a turn, one of an instance at a time.
func (s survey) deletions(turns []Turn) (deleted []Deletion) {
	if s.n.Paused {
		return nil
	}
	for at := range s.instances {
		i := &s.instances[at]
		all := i.outdated()
		if n := slices.IndexFunc(all, func(o Object) bool { return hasTurn(turns, o) }); n >= 0 {
			o := all[n]
			deleted = append(deleted, Deletion{Name: o.Name, UID: o.UID, Version: o.Version, Replaces: true,
				Why: "it is replaced: " + explain(i.drift[o.Name][0])})
		}
	}
	return deleted
}

func explain(d plan.Drift) string { return d.Field + ": want " + d.Want + ", have " + d.Have }

// evictions returns the objects whose pods are evicted now.
func (s survey) evictions(turns []Turn) []Object {
	if s.n.Paused {
		return nil
	}
	return firstHeld(s.objects, s.n.limit(), func(o Object) bool {
		return (!s.needsTurn(o) || hasTurn(turns, o)) && !s.paused[o.Spec.InstanceID]
	})
}

// firstHeld returns the first objects that are closed or being deleted while pods use them, if pods are to be evicted
// from them.
func firstHeld(objects []Object, limit int, may func(Object) bool) []Object {
	held := slices.DeleteFunc(slices.Clone(objects), func(o Object) bool {
		ends := o.Deleting || o.Spec.Pods != nil && o.Spec.Pods.Closed
		return !ends || !o.Held || !o.evicts() || !may(o)
	})
	slices.SortFunc(held, byDeletion)
	return held[:min(len(held), limit)]
}

// evict is the value of pods.onRemoval that makes the controller evict pods.
const evict = "Evict"

// byDeletion orders objects by the time of their deletion, then by name. Objects that are only closed come first.
func byDeletion(a, b Object) int {
	return cmp.Or(a.DeletedAt.Compare(b.DeletedAt), cmp.Compare(a.Name, b.Name))
}

// sooner returns the earlier of two times. Zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
