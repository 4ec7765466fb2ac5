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

// diff returns the operations on the link before and after those on routes and rules.
func (c LinkConfig) diff(now LinkFacts) (early, late []Operation) {
	early, alias, settings := c.recordFirst(now)
	for _, name := range difference(c.AltNames, now.AltNames) {
		early = append(early, AddAltName{c.Index, name})
	}
	early = append(early, c.set(settings, now)...)
	if now.MTU != c.MTU {
		early = append(early, SetMTU{c.Index, c.MTU})
	}
	if c.Up && !now.Up {
		early = append(early, SetUp{c.Index})
	}
	for _, address := range difference(now.Addresses, c.Addresses) {
		early = append(early, RemoveAddress{c.Index, address})
	}
	for _, address := range difference(c.Addresses, now.Addresses) {
		early = append(early, AddAddress{c.Index, address})
	}
	if !c.Up && now.Up {
		late = append(late, SetDown{c.Index})
	}
	if alias != c.Alias {
		late = append(late, SetAlias{c.Index, c.Alias})
	}
	return early, late
}

// recordFirst removes alternative names, and stores the record of what is yet to be undone before anything else
// changes. It returns the alias with that record, and the remaining settings. If the alias has no room for
// the earlier record and the new one, the names and settings that only the earlier one has are undone first.
func (c LinkConfig) recordFirst(now LinkFacts) (all []Operation, alias string, settings []Setting) {
	var names []Operation
	for _, name := range difference(now.AltNames, c.AltNames) {
		names = append(names, RemoveAltName{c.Index, name})
	}
	settings = slices.Sorted(maps.Keys(c.Settings))
	if alias = c.transitionalAlias(now); len(alias) <= maxAlias {
		return append(c.setAlias(alias, now), names...), alias, settings
	}
	undone := c.unrecordedSettings()
	return slices.Concat(names, c.set(undone, now), c.setAlias(c.Alias, now)), c.Alias, difference(settings, undone)
}

// set returns the operations that set the settings to their configured values.
func (c LinkConfig) set(settings []Setting, now LinkFacts) (all []Operation) {
	for _, setting := range settings {
		if now.Settings[setting] != c.Settings[setting] {
			all = append(all, Set{c.Index, setting, c.Settings[setting]})
		}
	}
	return all
}

func (c LinkConfig) setAlias(alias string, now LinkFacts) []Operation {
	if alias == now.Alias {
		return nil
	}
	return []Operation{SetAlias{c.Index, alias}}
}

// unrecordedSettings returns the settings that the record of the configuration does not have: those that are restored.
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

// transitionalAlias returns the alias during the changes: a record of everything that is not undone yet.
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
