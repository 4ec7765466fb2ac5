// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"maps"
	"slices"
)

// Diff returns the operations that configure the host, in order. A record is written before the change of what it
// describes, and shortened after; a rule is added before its address and removed after it. If the alias has no room for
// the earlier record together with the later one, the operations first undo what only the earlier one has, and then
// write the later one.
//
// Operations have side effects in the kernel: a link that goes down, or loses its last IPv4 address, loses its routes.
// The caller therefore takes new facts after the operations, until there are none left.
func Diff(config HostConfig, facts Facts) []Operation {
	var all []Operation
	for _, rule := range difference(config.Rules, facts.Rules) {
		all = append(all, AddRule{rule})
	}
	for _, route := range difference(facts.Routes, config.Routes) {
		all = append(all, RemoveRoute{route})
	}
	var last []Operation
	for _, link := range config.Links {
		now := facts.link(link.Index)
		if now == nil {
			continue
		}
		early, late := link.diff(*now)
		all = append(all, early...)
		last = append(last, late...)
	}
	for _, route := range difference(config.Routes, facts.Routes) {
		all = append(all, AddRoute{route})
	}
	for _, rule := range difference(facts.Rules, config.Rules) {
		all = append(all, RemoveRule{rule})
	}
	return append(all, last...)
}

// diff returns what is to be done to the link before and after routes and rules are.
func (c LinkConfig) diff(now LinkFacts) (early, late []Operation) {
	add := func(o Operation) { early = append(early, o) }
	alias := c.transitionalAlias(now)
	hasRoom := len(alias) <= maxAlias
	if !hasRoom {
		alias = c.Alias
	}
	setAlias := func() {
		if alias != now.Alias {
			add(SetAlias{c.Index, alias})
		}
	}
	if hasRoom {
		setAlias()
	}
	for _, name := range difference(now.AltNames, c.AltNames) {
		add(RemoveAltName{c.Index, name})
	}
	if !hasRoom { // for both records, so the names and settings that only the earlier one has are undone first
		now.Settings = maps.Clone(now.Settings)
		for _, setting := range c.unrecordedSettings() {
			if now.Settings[setting] != c.Settings[setting] {
				add(Set{c.Index, setting, c.Settings[setting]})
				now.Settings[setting] = c.Settings[setting]
			}
		}
		setAlias()
	}
	for _, name := range difference(c.AltNames, now.AltNames) {
		add(AddAltName{c.Index, name})
	}
	for _, setting := range slices.Sorted(maps.Keys(c.Settings)) {
		if now.Settings[setting] != c.Settings[setting] {
			add(Set{c.Index, setting, c.Settings[setting]})
		}
	}
	if now.MTU != c.MTU {
		add(SetMTU{c.Index, c.MTU})
	}
	if c.Up && !now.Up {
		add(SetUp{c.Index})
	}
	for _, address := range difference(now.Addresses, c.Addresses) {
		add(RemoveAddress{c.Index, address})
	}
	for _, address := range difference(c.Addresses, now.Addresses) {
		add(AddAddress{c.Index, address})
	}
	if !c.Up && now.Up {
		late = append(late, SetDown{c.Index})
	}
	if alias != c.Alias {
		late = append(late, SetAlias{c.Index, c.Alias})
	}
	return early, late
}

// unrecordedSettings returns the settings that the record of the configuration does not have: those that get their
// original values back.
func (c LinkConfig) unrecordedSettings() []Setting {
	var back []Setting
	record := ParseOriginalState(c.Alias)
	for _, setting := range slices.Sorted(maps.Keys(c.Settings)) {
		if _, has := record.Settings[setting]; !has {
			back = append(back, setting)
		}
	}
	return back
}

// transitionalAlias returns the alias while changes are under way: a record of all that is yet to be undone.
func (c LinkConfig) transitionalAlias(now LinkFacts) string {
	before, after := ParseOriginalState(now.Alias), ParseOriginalState(c.Alias)
	switch {
	case before == nil:
		return c.Alias
	case after == nil:
		return now.Alias
	default:
		return after.union(*before).String()
	}
}

// difference returns what is in a and not in b, in the order of a.
func difference[T comparable](a, b []T) []T {
	var rest []T
	for _, v := range a {
		if !slices.Contains(b, v) {
			rest = append(rest, v)
		}
	}
	return rest
}
