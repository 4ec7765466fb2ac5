// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/multieni/multieni/awssim/fault"
)

// Limits of filters (EC2: FilterLimitExceeded).
const (
	maxFilterValues      = 200
	maxFilterValueLength = 255
)

// Filter narrows a describe call: a resource must have one of the values. Values may use the wildcards * and ?.
type Filter struct {
	Name   string   `query:"Name"`
	Values []string `query:"Value"`
}

// Page has the paging parameters of all describe calls. An unset MaxResults means everything at once.
type Page struct {
	DryRun     bool     `query:"DryRun"`
	Filters    []Filter `query:"Filter"`
	MaxResults *int     `query:"MaxResults"`
	NextToken  string   `query:"NextToken"`
}

// Narrowed reports whether the call is filtered or paginated. EC2 bills other calls to a smaller bucket.
func (p Page) Narrowed() bool { return len(p.Filters) > 0 || p.MaxResults != nil }

// kind has the properties of a kind of resource that describe calls need.
type kind[T any] struct {
	action   string
	id       func(*T) string
	filters  map[string]func(*T) []string
	tags     func(*T) Tags
	retag    func(*T, Tags) // sets the tags; nil where a request cannot
	notFound func(id string) *Error

	minResults, maxResults int
	// idsExcludePages is EC2's rule for some actions: MaxResults and IDs are mutually exclusive.
	idsExcludePages bool
	// check returns the errors that EC2 has for one kind only.
	check func(ids []string, p Page) error
	// present completes a stored resource with the fields that EC2 derives at a read.
	present func(*T, look) *T
	// keys returns the index keys of a resource, isIndexed reports which filters may use them.
	keys func(*T) []string
	// internal returns a pointer to the fields that EC2 does not show. They are saved, too.
	internal  func(*T) any
	isIndexed func(filter string) bool
}

// look is the lag of a reader, as of a lagging replica.
type look struct {
	now  time.Time
	age  time.Duration
	only string // the only resource with a lag; empty: all have it
}

// at returns the time of the state of the resource that the reader sees.
func (l look) at(id string) time.Time {
	if l.only == "" || l.only == id {
		return l.now.Add(-l.age)
	}
	return l.now
}

// look draws the lag of this call.
func (m *Model) look(action string, ids []string) look {
	f, strikes := m.faults.Draw(fault.StaleRead, m.now(), action, ids...)
	if !strikes {
		return look{now: m.now()}
	}
	l := look{now: m.now(), age: f.Age, only: f.Resource}
	if f.Jitter {
		l.age = time.Duration(m.random.Int64N(int64(l.age) + 1))
	}
	return l
}

// describe implements every describe call: it returns the resources that have one of the IDs, if any are given, and
// match all filters, sorted by ID, and the token of the next page.
func describe[T any](m *Model, c Call, t *table[T], ids []string, p Page) ([]*T, string, error) {
	m.Advance(c.Now)
	if err := validate(t.kind, ids, p); err != nil {
		return nil, "", err
	}
	if p.DryRun {
		return nil, "", dryRun()
	}
	start, err := m.pageStart(t.kind.action, p.NextToken)
	if err != nil {
		return nil, "", err
	}
	l := m.look(t.kind.action, ids)
	among, err := t.among(ids, p.Filters, l)
	if err != nil {
		return nil, "", err
	}
	limit := len(t.order)
	if p.MaxResults != nil {
		limit = *p.MaxResults
	}
	found := []*T{}
	for _, id := range among.after(start) {
		value := t.present(id, l)
		if value == nil || !matchesAll(t.kind, value, p.Filters) {
			continue
		}
		if len(found) == limit {
			return found, m.pageToken(t.kind.action, t.kind.id(found[limit-1])), nil
		}
		found = append(found, value)
	}
	return found, "", nil
}

// among returns the IDs to read. One unknown ID fails the whole call.
func (t *table[T]) among(ids []string, filters []Filter, l look) (idSet, error) {
	if len(ids) == 0 {
		return t.candidates(filters, l.age > 0), nil
	}
	for _, id := range ids {
		if t.view(id, l.at(id)) == nil {
			return nil, t.kind.notFound(id)
		}
	}
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	return slices.Compact(sorted), nil
}

// present returns the resource as the reader sees it, or nil.
func (t *table[T]) present(id string, l look) *T {
	value := t.view(id, l.at(id))
	if value == nil || t.kind.present == nil {
		return value
	}
	return t.kind.present(value, l)
}

func validate[T any](k kind[T], ids []string, p Page) error {
	if p.MaxResults != nil {
		if k.idsExcludePages && len(ids) > 0 {
			return invalidCombination("The parameter maxResults cannot be used with resource IDs in the same request")
		}
		if n := *p.MaxResults; n < k.minResults || n > k.maxResults {
			return invalidValue("Value ( %d ) for parameter maxResults is invalid. Expecting a value between %d and %d.",
				n, k.minResults, k.maxResults)
		}
	}
	if err := validateFilters(k, p.Filters); err != nil {
		return err
	}
	if k.check != nil {
		return k.check(ids, p)
	}
	return nil
}

func validateFilters[T any](k kind[T], filters []Filter) error {
	values := 0
	for _, f := range filters {
		if _, ok := k.values(f.Name); !ok {
			return invalidValue("The filter '%s' is invalid: EC2 does not have it for %s, or awssim does not model it",
				f.Name, k.action)
		}
		if len(f.Values) == 0 {
			return invalidValue("The filter '%s' has no value", f.Name)
		}
		values += len(f.Values)
		for _, value := range f.Values {
			if len(value) > maxFilterValueLength {
				return refuse("FilterLimitExceeded", "The maximum length for a filter value is %d characters", maxFilterValueLength)
			}
		}
	}
	if values > maxFilterValues {
		return refuse("FilterLimitExceeded", "The maximum number of filter values specified on a single call is %d",
			maxFilterValues)
	}
	return nil
}

// values returns the values that a filter compares, and false if the filter does not exist.
func (k kind[T]) values(filter string) (func(*T) []string, bool) {
	if key, ok := strings.CutPrefix(filter, "tag:"); ok && k.tags != nil {
		return func(value *T) []string {
			if tag, has := k.tags(value)[key]; has {
				return []string{tag}
			}
			return nil
		}, true
	}
	if filter == "tag-key" && k.tags != nil {
		return func(value *T) []string { return k.tags(value).keys() }, true
	}
	get, ok := k.filters[filter]
	return get, ok
}

func matchesAll[T any](k kind[T], value *T, filters []Filter) bool {
	for _, f := range filters {
		get, ok := k.values(f.Name)
		if !ok || !slices.ContainsFunc(get(value), func(have string) bool { return matchesAny(f.Values, have) }) {
			return false
		}
	}
	return true
}

func matchesAny(patterns []string, have string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return pattern == have || isPattern(pattern) && matches(pattern, have)
	})
}

func isPattern(value string) bool { return strings.ContainsAny(value, `*?\`) }

// matches compares with EC2's wildcards: * is any text, ? one character, and \ takes the next character literally.
func matches(pattern, have string) bool {
	for pattern != "" {
		switch {
		case pattern[0] == '*':
			for i := 0; i <= len(have); i++ {
				if matches(pattern[1:], have[i:]) {
					return true
				}
			}
			return false
		case have == "":
			return false
		case pattern[0] == '\\' && len(pattern) > 1:
			pattern = pattern[1:]
			if pattern[0] != have[0] {
				return false
			}
		case pattern[0] != '?' && pattern[0] != have[0]:
			return false
		}
		pattern, have = pattern[1:], have[1:]
	}
	return have == ""
}

// pageToken encodes the resource after which the next page begins, in a form that clients do not parse.
func (m *Model) pageToken(action, lastID string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(action + "|" + strconv.FormatUint(m.seed, 16) + "|" + lastID))
}

func (m *Model) pageStart(action, token string) (string, error) {
	if token == "" {
		return "", nil
	}
	invalid := refuse("InvalidPaginationToken", "The pagination token %q is not valid for %s", token, action)
	if _, strikes := m.faults.Draw(fault.InvalidateNextToken, m.now(), action); strikes {
		return "", invalid
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", invalid
	}
	parts := strings.Split(string(text), "|")
	if len(parts) != 3 || parts[0] != action || parts[1] != strconv.FormatUint(m.seed, 16) {
		return "", invalid
	}
	return parts[2], nil
}

// The helpers below make the tables of filters readable.

func one(value string) []string { return []string{value} }

func truth(value bool) []string { return one(strconv.FormatBool(value)) }

func number(value int) []string { return one(strconv.Itoa(value)) }

func each[E, V any](list []E, value func(E) V) []V {
	values := make([]V, len(list))
	for i, element := range list {
		values[i] = value(element)
	}
	return values
}
