// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import "slices"

// Turns returns, by name, whether the interface of an object may be removed now. An object that is not being deleted has
// no turn, so that a map that is a moment old never has one too many. An object that its NodeENI no longer declares
// needs none. Of the others, the first ones by the time of their deletion have it, as
// far as maxUnavailable allows; an instance that lacks an interface counts until the successor is ready. A second
// object of such an instance has its turn as well: the instance is unavailable already.
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
	turns, down := map[string]bool{}, map[string]bool{}
	for at := range s.instances {
		if i := &s.instances[at]; i.down() {
			down[i.ID] = true
		}
	}
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
	for _, o := range waiting {
		id := o.Spec.InstanceID
		if turns[o.Name] = !s.n.Paused && (down[id] || len(down) < s.n.limit()); turns[o.Name] {
			down[id] = true
		}
	}
	return turns
}
