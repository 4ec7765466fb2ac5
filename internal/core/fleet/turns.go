// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"
)

// Turns returns, by name, whether the interface of an object may be removed now. An object that is not being deleted
// has no turn, so that a map that is a moment old never has one too many. An object that its NodeENI no longer
// declares needs none. Of the others, the first ones by the time of their deletion have it, as far as maxUnavailable
// allows; an instance that lacks an interface counts until the successor is ready. A second object of such an
// instance has its turn as well: the instance is unavailable already. An interface that waited for a person before
// the first of these deletions does not count: it is not their consequence, and repairs would wait for it.
func Turns(n NodeENI, objects []Object, instances []Instance) map[string]bool {
	objects = declared(objects)
	if n.Absent || n.Deleting {
		turns := map[string]bool{}
		for _, o := range objects {
			turns[o.Name] = true
		}
		return turns
	}
	return surveyOf(n, objects, instances).turns()
}

func (s survey) turns() map[string]bool {
	turns := map[string]bool{}
	var waiting []Object
	for _, o := range s.objects {
		switch {
		case !o.Deleting:
			turns[o.Name] = false
		case s.wanted[o.Name] && o.Attached:
			waiting = append(waiting, o)
		default:
			turns[o.Name] = true
		}
	}
	slices.SortFunc(waiting, byDeletion)
	if len(waiting) == 0 {
		return turns
	}
	down := s.downSince(waiting[0].DeletedAt)
	for _, o := range waiting {
		id := o.Spec.InstanceID
		if turns[o.Name] = !s.n.Paused && (down[id] || len(down) < s.n.limit()); turns[o.Name] {
			down[id] = true
		}
	}
	return turns
}

// downSince returns the instances that lack an interface, but for those whose interface waited for a person before.
func (s survey) downSince(first time.Time) map[string]bool {
	down := map[string]bool{}
	for at := range s.instances {
		i := s.instances[at]
		i.serving = slices.DeleteFunc(slices.Clone(i.serving), func(o Object) bool {
			return o.Stalled && !o.Deleting && o.CreatedAt.Before(first)
		})
		if i.down() {
			down[i.ID] = true
		}
	}
	return down
}
