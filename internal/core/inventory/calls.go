// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// RecordCall records the effect of an accepted call on an interface. Reads without the effect are stale until
// [StaleReadWindow] has passed.
func (v *Inventory) RecordCall(now time.Time, after eni.Interface, effect Effect) {
	member, ours := v.memberOf(after)
	if !ours {
		v.launched.did(now, after, effect)
		return
	}
	e, isNew := v.entry(now, member, after)
	if isNew {
		e.madeAt = now
	}
	e.Confirmed, e.Made, e.newestReadBegan = true, e.Made || effect.Makes, now
	v.evidence.verify(now, after.ID)
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
		v.drop(now, e, false)
	}
	v.deleted[id] = now
}

// RecordUnansweredCreate records that a create call for a NodeENI ended without an interface ID. EC2 may still have
// created the interface: the answer was lost, or a retry failed because of the first attempt.
func (v *Inventory) RecordUnansweredCreate(now time.Time, owner identity.Owner) {
	if now.After(v.asked[owner]) {
		v.asked[owner] = now
	}
}

// RecordUnansweredDetach records that a call to detach an interface ended without success. EC2 may still detach the
// interface: the answer was lost, or a retry failed because of the first attempt.
func (v *Inventory) RecordUnansweredDetach(now time.Time, id string) {
	if e, known := v.entries[id]; known && now.After(e.UnansweredDetach) {
		e.UnansweredDetach = now
	}
}

// MayHavePendingCreate reports whether an unknown interface of a NodeENI may still become visible because a create call
// without an answer is younger than [VisibilityWindow].
func (v *Inventory) MayHavePendingCreate(now time.Time, owner identity.Owner) bool {
	at, asked := v.asked[owner]
	return asked && now.Before(at.Add(VisibilityWindow))
}

// Effect is the effect of one of our calls on an interface.
type Effect struct {
	// Aspect names the changed part, for example "attachment". A later effect on an aspect replaces an earlier one: after
	// a detach no read has to show the attach any more. An effect that reverts an earlier one also replaces it.
	Aspect string
	// IsVisible reports whether a read shows the effect.
	IsVisible func(eni.Interface) bool
	// Makes is set if the call created the interface, and no earlier call can have created it.
	Makes bool
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
