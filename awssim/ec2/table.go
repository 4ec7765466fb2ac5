// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/multieni/multieni/awssim/fault"
)

// table holds the resources of one kind. A resource is a value that is replaced, never changed, so that the answer of a
// describe call stays as it was. Replaced versions are kept for late readers.
type table[T any] struct {
	name    string // in events and in saved states
	kind    kind[T]
	entries map[string]*entry[T]
	order   idSet // of all entries, the deleted included
	index   map[string]*idSet
	// unsettled are the resources whose latest version is not visible to all readers yet.
	unsettled idSet
}

// entry is the history of one resource, oldest first.
type entry[T any] struct {
	versions    []version[T]
	hiddenUntil time.Time // no reader sees it before
}

type version[T any] struct {
	value   *T        // nil: deleted
	since   time.Time // when it became true
	visible time.Time // when describe calls begin to see it
}

func newTable[T any](k kind[T]) *table[T] {
	return &table[T]{kind: k, entries: map[string]*entry[T]{}, index: map[string]*idSet{}}
}

// get returns the current version, or nil.
func (t *table[T]) get(id string) *T {
	e, ok := t.entries[id]
	if !ok {
		return nil
	}
	return e.versions[len(e.versions)-1].value
}

// all returns the current versions, sorted by ID.
func (t *table[T]) all() []*T {
	values := []*T{}
	for _, id := range t.order {
		if value := t.get(id); value != nil {
			values = append(values, value)
		}
	}
	return values
}

// indexed returns the current versions of the resources under an index key, sorted by ID.
func (t *table[T]) indexed(key string) []*T {
	set := t.index[key]
	if set == nil {
		return nil
	}
	values := make([]*T, 0, len(*set))
	for _, id := range *set {
		values = append(values, t.get(id))
	}
	return values
}

// view returns the version that a reader of that time sees, or nil.
func (t *table[T]) view(id string, at time.Time) *T {
	e, ok := t.entries[id]
	if !ok || e.hiddenUntil.After(at) {
		return nil
	}
	for i := len(e.versions) - 1; i >= 0; i-- {
		if !e.versions[i].visible.After(at) {
			return e.versions[i].value
		}
	}
	return nil
}

// put records a version; a nil value deletes.
func (t *table[T]) put(id string, value *T, now, visible time.Time) {
	before, e := t.get(id), t.entries[id]
	if e == nil {
		e = &entry[T]{}
		t.entries[id] = e
		t.order.add(id)
	}
	t.reindex(id, before, value)
	e.versions = append(e.versions, version[T]{value, now, visible})
	e.prune(now.Add(-fault.MaxReadAge))
	if visible.After(now) {
		t.unsettled.add(id)
	}
}

// prune drops versions whose successor has been visible to all readers since before the limit.
func (e *entry[T]) prune(limit time.Time) {
	drop := 0
	for drop+1 < len(e.versions) && e.versions[drop+1].visible.Before(limit) {
		drop++
	}
	if drop > 0 {
		e.versions = slices.Delete(e.versions, 0, drop)
	}
}

// settle handles a version that has become visible to all readers.
func (t *table[T]) settle(id string, now time.Time) {
	if e, ok := t.entries[id]; !ok || !e.versions[len(e.versions)-1].visible.After(now) {
		t.unsettled.remove(id)
	}
}

// remove drops a deleted resource completely.
func (t *table[T]) remove(id string) {
	delete(t.entries, id)
	t.order.remove(id)
	t.unsettled.remove(id)
}

func (t *table[T]) reindex(id string, before, after *T) {
	if t.kind.keys == nil {
		return
	}
	var old, fresh []string
	if before != nil {
		old = t.kind.keys(before)
	}
	if after != nil {
		fresh = t.kind.keys(after)
	}
	for _, key := range old {
		if !slices.Contains(fresh, key) {
			t.index[key].remove(id)
			if len(*t.index[key]) == 0 {
				delete(t.index, key)
			}
		}
	}
	for _, key := range fresh {
		if t.index[key] == nil {
			t.index[key] = &idSet{}
		}
		t.index[key].add(id)
	}
}

// indexKey is the key under which a table finds resources by a filter, without reading all of them.
func indexKey(filter, value string) string { return filter + "=" + value }

// candidates returns the sorted IDs of the resources that the filters can match, as far as an index can tell. There is
// no index for readers with a lag.
func (t *table[T]) candidates(filters []Filter, late bool) idSet {
	best, found := t.order, false
	for _, f := range filters {
		if set, ok := t.lookUp(f); ok && !late && (!found || len(set) < len(best)) {
			best, found = set, true
		}
	}
	if found && len(t.unsettled) > 0 {
		best = merge(best, t.unsettled)
	}
	return best
}

// lookUp returns the resources under any of the filter's values; it fails if the filter has no index.
func (t *table[T]) lookUp(f Filter) (idSet, bool) {
	if t.kind.isIndexed == nil || !t.kind.isIndexed(f.Name) || slices.ContainsFunc(f.Values, isPattern) {
		return nil, false
	}
	if len(f.Values) == 1 {
		if set := t.index[indexKey(f.Name, f.Values[0])]; set != nil {
			return *set, true
		}
		return nil, true
	}
	var union idSet
	for _, value := range f.Values {
		if set := t.index[indexKey(f.Name, value)]; set != nil {
			union = append(union, *set...)
		}
	}
	slices.Sort(union)
	return slices.Compact(union), true
}

// idSet is a sorted set.
type idSet []string

func (s *idSet) add(id string) {
	if at, found := slices.BinarySearch(*s, id); !found {
		*s = slices.Insert(*s, at, id)
	}
}

func (s *idSet) remove(id string) {
	if at, found := slices.BinarySearch(*s, id); found {
		*s = slices.Delete(*s, at, at+1)
	}
}

// after returns the members that sort after id.
func (s idSet) after(id string) idSet {
	return s[sort.Search(len(s), func(i int) bool { return strings.Compare(s[i], id) > 0 }):]
}

func merge(a, b idSet) idSet {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}
