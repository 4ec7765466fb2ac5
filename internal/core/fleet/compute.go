// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
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
	// Stalled is set if a person must act before the interface is ready, and CreatedAt is when the object was created.
	Stalled   bool
	CreatedAt time.Time
	// Settled is set if the status of the object is about its present spec.
	Settled bool
	// OrphanedAt is when the object became an orphan; zero for never.
	OrphanedAt time.Time
}

// The phases that decide something.
const (
	attached = "Attached"
	blocked  = "Blocked"
)

// Instance is an instance whose oldest Node a NodeENI selects.
type Instance struct {
	ID, Zone string
	// Paused is set if a user paused a Node of the instance.
	Paused bool
	// Lacking is set if the instance lacks an interface of another NodeENI; see [Lacking].
	Lacking bool
}

// NodeENI is a NodeENI, or the name of one that does not exist.
type NodeENI struct {
	render.NodeENI
	// Absent is set if two live reads found no NodeENI of the name.
	Absent bool
	// Replace allows the replacement of a live interface.
	Replace        bool
	MaxUnavailable int
}

// Outcome is what happens next to the objects of one NodeENI.
type Outcome struct {
	// Delete are the objects to delete, each with the reason in words.
	Delete []Deletion
	// Evict are the objects whose pods are evicted now.
	Evict []Object
	// Orphan are the objects to mark as orphans.
	Orphan []Object
	Status Status
	// Waits are the instances on which a replacement waits for an interface of another NodeENI.
	Waits []string
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

// Replaces reports whether an object is deleted to be replaced.
func (o Outcome) Replaces() bool {
	return slices.ContainsFunc(o.Delete, func(d Deletion) bool { return d.Replaces })
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
	out := Outcome{Evict: s.evictions(), Status: s.status()}
	out.Delete, out.Waits = s.replacements()
	return out
}

// Lacking returns the instances that lack an interface of a NodeENI, or are about to. No interface of another NodeENI is
// replaced there meanwhile: a node loses one network at a time.
func Lacking(n NodeENI, objects []Object, instances []Instance) map[string]bool {
	if n.Deleting {
		return nil // its interfaces have no successors
	}
	return surveyOf(n, declared(objects), instances).unavailable()
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

// replacements returns the live objects that a rollout replaces now: the first one with drift of each instance that
// lacks nothing, as far as maxUnavailable allows. Everything must be known that the new interface needs. It returns
// the instances as well on which one waits for an interface of another NodeENI.
func (s survey) replacements() (deleted []Deletion, waits []string) {
	if !s.n.Replace || s.n.Paused || s.n.Found == nil {
		return nil, nil
	}
	room := s.n.limit() - len(s.unavailable())
	for _, i := range s.instances {
		if room <= 0 {
			break
		}
		o := i.firstDrifted()
		if i.down() || i.deleting() || i.Paused || o == nil || !i.placed.Complete || i.placed.GroupProblem != nil {
			continue
		}
		if i.Lacking {
			waits = append(waits, i.ID)
			continue
		}
		room--
		deleted = append(deleted, Deletion{Name: o.Name, UID: o.UID, Version: o.Version, Replaces: true,
			Why: "it is replaced: " + explain(i.drift[o.Name][0])})
	}
	return deleted, waits
}

func explain(d plan.Drift) string { return d.Field + ": want " + d.Want + ", have " + d.Have }

// evictions returns the objects whose pods are evicted now.
func (s survey) evictions() []Object {
	if s.n.Paused {
		return nil
	}
	turns := s.turns()
	return firstHeld(s.objects, s.n.limit(), func(o Object) bool {
		return (!o.Deleting || turns[o.Name]) && !s.paused[o.Spec.InstanceID]
	})
}

// firstHeld returns the first objects that are closed or being deleted while pods use them, if pods are to be evicted
// from them.
func firstHeld(objects []Object, limit int, may func(Object) bool) []Object {
	held := slices.DeleteFunc(slices.Clone(objects), func(o Object) bool {
		ends := o.Deleting || o.Spec.Pods != nil && o.Spec.Pods.Closed
		return !ends || !o.Held || o.Spec.Pods == nil || o.Spec.Pods.OnRemoval != evict || !may(o)
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
