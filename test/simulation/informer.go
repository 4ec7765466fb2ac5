// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informers are what one process has received from an API server: for each kind a view that lags behind the log.
type informers struct {
	api   *apiServer
	views [kinds]view
}

// view is the state of a kind as of a position in the log.
type view struct {
	objects  map[string]client.Object
	position int
}

// list fills the view of a kind from the API server as it was the given number of changes ago, as an API server that
// lags answers.
func (i *informers) list(k kind, behind int) {
	log := i.api.log[k]
	position := max(0, len(log)-behind)
	objects := maps.Clone(i.api.objects[k])
	for n := len(log) - 1; n >= position; n-- {
		if before := log[n].before; before != nil {
			objects[log[n].name()] = before
		} else {
			delete(objects, log[n].name())
		}
	}
	i.views[k] = view{objects: objects, position: position}
}

// behind is how many changes of a kind the process has not received yet.
func (i *informers) behind(k kind) int { return len(i.api.log[k]) - i.views[k].position }

// next receives the next change of a kind.
func (i *informers) next(k kind) change {
	v := &i.views[k]
	c := i.api.log[k][v.position]
	v.position++
	if c.after == nil {
		delete(v.objects, c.name())
	} else {
		v.objects[c.name()] = c.after
	}
	return c
}

// relist takes a new list after changes were lost, and returns the differences, which an informer hands to its
// handlers. An informer never takes a list that is older than its view.
func (i *informers) relist(k kind, behind int) []change {
	before := i.views[k].objects
	i.list(k, min(behind, i.behind(k)))
	after := i.views[k].objects
	names := maps.Clone(before)
	maps.Copy(names, after)
	var changes []change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] != after[name] {
			changes = append(changes, change{before: before[name], after: after[name]})
		}
	}
	return changes
}

// known returns the objects of a kind by name.
func (i *informers) known(k kind) []client.Object {
	list := make([]client.Object, 0, len(i.views[k].objects))
	for _, name := range slices.Sorted(maps.Keys(i.views[k].objects)) {
		list = append(list, i.views[k].objects[name])
	}
	return list
}

// version is the version of the API server up to which the process has seen all changes.
func (i *informers) version() int {
	version := i.api.version
	for k := range kinds {
		if i.behind(k) > 0 {
			version = min(version, i.api.log[k][i.views[k].position].version-1)
		}
	}
	return version
}
