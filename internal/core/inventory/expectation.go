// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// Effect is what one of our calls did to an interface.
type Effect struct {
	// Aspect names what was changed, for example "attachment". A later effect on the same aspect takes the place of an
	// earlier one: after a detach nothing has to show the attach any more. So does one that undoes an earlier one.
	Aspect string
	// IsVisible reports whether a reading shows the effect.
	IsVisible func(eni.Interface) bool
}

// expectation is an effect that readings must show until it expires.
type expectation struct {
	Effect
	until time.Time
}

// expectations are the effects of our calls on one interface.
type expectations []expectation

// and adds the effect of a call. It replaces those of earlier calls that it contradicts.
func (x expectations) and(now time.Time, after eni.Interface, effect Effect) expectations {
	kept := slices.DeleteFunc(x.unexpired(now), func(one expectation) bool { return one.Aspect == effect.Aspect || !one.IsVisible(after) })
	return append(kept, expectation{effect, now.Add(StaleReadWindow)})
}

func (x expectations) unexpired(now time.Time) expectations {
	return slices.DeleteFunc(x, func(one expectation) bool { return !now.Before(one.until) })
}

// shownBy reports whether a reading shows all effects.
func (x expectations) shownBy(seen eni.Interface) bool {
	return !slices.ContainsFunc(x, func(one expectation) bool { return !one.IsVisible(seen) })
}
