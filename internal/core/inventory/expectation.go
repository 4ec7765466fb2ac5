// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// Effect is the effect of one of our calls on an interface.
type Effect struct {
	// Aspect names the changed part, for example "attachment". A later effect on an aspect replaces an earlier one:
	// after a detach no read has to show the attach any more. An effect that reverts an earlier one replaces it as
	// well.
	Aspect string
	// IsVisible reports whether a read shows the effect.
	IsVisible func(eni.Interface) bool
}

// expectation is an effect that reads must show until it expires.
type expectation struct {
	Effect
	until time.Time
}

// expectations are the effects of our calls on one interface.
type expectations []expectation

// and adds the effect of a call. It replaces the effects of earlier calls that it contradicts.
func (x expectations) and(now time.Time, after eni.Interface, effect Effect) expectations {
	kept := slices.DeleteFunc(x.unexpired(now), func(one expectation) bool { return one.Aspect == effect.Aspect || !one.IsVisible(after) })
	return append(kept, expectation{effect, now.Add(StaleReadWindow)})
}

func (x expectations) unexpired(now time.Time) expectations {
	return slices.DeleteFunc(x, func(one expectation) bool { return !now.Before(one.until) })
}

// shownBy reports whether a read shows all effects.
func (x expectations) shownBy(seen eni.Interface) bool {
	return !slices.ContainsFunc(x, func(one expectation) bool { return !one.IsVisible(seen) })
}
