// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// OriginalState is the state of a link before the agent changed it, stored in the link's alias. The alias moves with
// the link and ends with it, so the record needs no file and cannot outlive its link.
type OriginalState struct {
	// AltNames are the alternative names that we added.
	AltNames []string
	// Up, MTU and Settings are the original values.
	Up       bool
	MTU      int
	Settings map[Setting]int
	// Alias is the original alias.
	Alias string
}

const (
	aliasPrefix = "multieni"
	// maxAlias is the most characters of an alias (IFALIASZ in linux/if.h, less its terminator).
	maxAlias = 255
)

// ParseOriginalState returns the record in an alias, or nil if there is none.
func ParseOriginalState(alias string) *OriginalState {
	mark, rest, _ := strings.Cut(alias, " ")
	if mark != aliasPrefix {
		return nil
	}
	r := &OriginalState{Settings: map[Setting]int{}}
	for field := range strings.FieldsSeq(rest) {
		key, value, _ := strings.Cut(field, "=")
		number, err := strconv.Atoi(value)
		switch {
		case key == "name":
			r.AltNames = append(r.AltNames, value)
		case key == "was":
			r.Alias, _ = url.QueryUnescape(value)
		case err != nil:
		case key == "up":
			r.Up = number != 0
		case key == "mtu":
			r.MTU = number
		default:
			r.add(Setting("ipv"+key), number)
		}
	}
	return r
}

// add records the value of a setting, if it is one.
func (r *OriginalState) add(setting Setting, value int) {
	if slices.Contains(Settings(), setting) {
		r.Settings[setting] = value
	}
}

// String returns the record in the form that an alias holds.
func (r OriginalState) String() string {
	fields := []string{aliasPrefix}
	for _, name := range r.AltNames {
		fields = append(fields, "name="+name)
	}
	up := 0
	if r.Up {
		up = 1
	}
	fields = append(fields, fmt.Sprintf("up=%d", up), fmt.Sprintf("mtu=%d", r.MTU))
	for _, setting := range slices.Sorted(maps.Keys(r.Settings)) {
		fields = append(fields, fmt.Sprintf("%s=%d", strings.TrimPrefix(string(setting), "ipv"), r.Settings[setting]))
	}
	if r.Alias != "" {
		fields = append(fields, "was="+url.QueryEscape(r.Alias))
	}
	return strings.Join(fields, " ")
}

// union returns r with what only the earlier record has: what is not undone yet.
func (r OriginalState) union(earlier OriginalState) OriginalState {
	r.AltNames = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.AltNames, earlier.AltNames))))
	settings := maps.Clone(r.Settings)
	maps.Copy(settings, earlier.Settings)
	r.Settings = settings
	return r
}
