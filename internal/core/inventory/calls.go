// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// RecordCreated records EC2's answer to a call that creates an interface, with the addresses that EC2 chose for the
// counts of the call. The answer to a repetition has the interface of the first attempt, whose tags can be others.
func (v *Inventory) RecordCreated(now time.Time, key identity.Interface, made eni.Interface, requested eni.Addresses) {
	e, isNew := v.entry(now, key, made)
	if isNew {
		e.madeAt = now
	}
	e.CreatedFor, e.newestReadBegan = key.UID, now
	e.Requested, e.requestedAt = e.Requested.With(requested), now
	v.set(now, e, made)
	e.pending = e.pending.and(now, made, Effect{Aspect: "existence", IsVisible: func(eni.Interface) bool { return true }})
}

// RecordCall records the effect of an accepted call on an interface. Reads without the effect are stale until
// [StaleReadWindow] has passed.
func (v *Inventory) RecordCall(now time.Time, after eni.Interface, effect Effect) {
	tagged, ours := v.tagged(after)
	if !ours {
		v.launched.did(now, after, effect)
		return
	}
	e, isNew := v.entry(now, tagged, after)
	if isNew {
		e.madeAt = now
	}
	e.newestReadBegan = now
	v.set(now, e, after)
	if !e.DetachingSince.IsZero() {
		e.DetachingSince = now
	}
	e.pending = e.pending.and(now, after, effect)
}

// RecordChange applies the change of an accepted call to the last known interface, and records it like
// [Inventory.RecordCall]. It does nothing for an unknown interface.
func (v *Inventory) RecordChange(now time.Time, id string, change func(eni.Interface) eni.Interface, effect Effect) {
	if i, known := v.Interface(id); known {
		v.RecordCall(now, change(i), effect)
	}
}

// Deleted records that EC2 accepted the deletion of an interface.
func (v *Inventory) Deleted(now time.Time, id string) {
	if e, ok := v.entries[id]; ok {
		v.drop(now, e)
	}
	v.deleted[id] = now
}

// RecordRequested records EC2's answer to a call of ours for addresses: those that it added, and those that it removed.
func (v *Inventory) RecordRequested(now time.Time, id string, added, removed eni.Addresses) {
	if e, known := v.entries[id]; known {
		e.Requested, e.requestedAt = e.Requested.Without(removed).With(added), now
	}
	if l, known := v.launched.get(id); known {
		l.Requested = l.Requested.Without(removed).With(added)
	}
}

// forgetUnassigned drops the requested addresses that a read omits: another program unassigned them, and may assign
// them again as its own. A stale read can omit the addresses of an answer for [StaleReadWindow].
func (e *entry) forgetUnassigned(begun time.Time, seen eni.Interface) {
	if begun.Sub(e.requestedAt) >= StaleReadWindow {
		e.Requested = e.Requested.Common(seen.Addresses)
	}
}

// Effect is the effect of one of our calls on an interface.
type Effect struct {
	// Aspect names the changed part, for example "attachment". A later effect on an aspect replaces an earlier one: after
	// a detach no read has to show the attach any more. An effect that reverts an earlier one also replaces it.
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
	kept := slices.DeleteFunc(x.unexpired(now), func(one expectation) bool {
		return one.Aspect == effect.Aspect || !one.IsVisible(after)
	})
	return append(kept, expectation{effect, now.Add(StaleReadWindow)})
}

func (x expectations) unexpired(now time.Time) expectations {
	return slices.DeleteFunc(x, func(one expectation) bool { return !now.Before(one.until) })
}

// shownBy reports whether a read shows all the effects.
func (x expectations) shownBy(seen eni.Interface) bool {
	return !slices.ContainsFunc(x, func(one expectation) bool { return !one.IsVisible(seen) })
}
