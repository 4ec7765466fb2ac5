// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/volatile"
)

func TestAddressMoves(t *testing.T) {
	const a, b, c = "eni-a", "eni-b", "eni-c"
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// claim returns a claim of the given age in seconds, by its node's clock.
	claim := func(id string, sequence int64, age int) plan.AddressClaim {
		return plan.AddressClaim{InterfaceID: id, Sequence: sequence, Since: begin.Add(-time.Duration(age) * time.Second)}
	}
	released := func(c plan.AddressClaim) plan.AddressClaim {
		c.Released = true
		return c
	}
	type step struct {
		after  time.Duration
		claims []plan.AddressClaim
		// holder is the interface that has the address, and waits how long a newer claim waits.
		holder string
		waits  time.Duration
	}
	for name, steps := range map[string][]step{
		"nobody claims it":              {{0, nil, "", 0}},
		"the first claim has it":        {{0, []plan.AddressClaim{claim(a, 1, 0)}, a, 0}},
		"a released claim has nothing":  {{0, []plan.AddressClaim{released(claim(a, 1, 0))}, "", 0}},
		"claims seen together, by time": {{0, []plan.AddressClaim{claim(a, 1, 9), claim(b, 1, 5), claim(c, 1, 7)}, b, 0}},
		"the newest has it, whatever its clock says": {
			{0, []plan.AddressClaim{claim(a, 1, 0)}, a, 0},
			{time.Minute, []plan.AddressClaim{claim(a, 1, 0), claim(b, 1, 3600)}, b, 0},
		},
		"it goes back to the claim that stays": {
			{0, []plan.AddressClaim{claim(a, 1, 0)}, a, 0},
			{time.Minute, []plan.AddressClaim{claim(a, 1, 0), claim(b, 1, 0)}, b, 0},
			{time.Minute, []plan.AddressClaim{claim(a, 1, 0), released(claim(b, 1, 0))}, a, 0},
		},
		"two moves are two seconds apart": {
			{0, []plan.AddressClaim{claim(a, 1, 0)}, a, 0},
			{time.Second, []plan.AddressClaim{claim(a, 1, 0), claim(b, 1, 0)}, b, 0},
			{time.Second, []plan.AddressClaim{claim(a, 2, 0), claim(b, 1, 0)}, b, time.Second},
			{time.Second, []plan.AddressClaim{claim(a, 2, 0), claim(b, 1, 0)}, a, 0},
		},
		"also if the holder lost it": {
			{0, []plan.AddressClaim{claim(a, 1, 0)}, a, 0},
			{time.Second, []plan.AddressClaim{claim(a, 1, 0), claim(b, 1, 0)}, b, 0},
			{time.Second, []plan.AddressClaim{claim(a, 2, 0), released(claim(b, 1, 0))}, "", time.Second},
			{time.Second, []plan.AddressClaim{claim(a, 2, 0), released(claim(b, 1, 0))}, a, 0},
		},
		"a claim of the same interface is no move": {
			{0, []plan.AddressClaim{claim(a, 1, 0)}, a, 0},
			{time.Second, []plan.AddressClaim{claim(a, 1, 0), claim(b, 1, 0)}, b, 0},
			{time.Second, []plan.AddressClaim{claim(a, 1, 0), claim(b, 2, 0)}, b, 0},
		},
		"a move that was forgotten": {
			{0, []plan.AddressClaim{claim(a, 1, 9)}, a, 0},
			{2 * time.Hour, []plan.AddressClaim{claim(a, 1, 9), claim(b, 1, 5)}, b, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var moves volatile.AddressMoves
			now := begin
			for n, s := range steps {
				now = now.Add(s.after)
				holder, held, until := moves.Holder(netip.MustParseAddr("10.0.4.200"), s.claims, now)
				waits := time.Duration(0)
				if !until.IsZero() {
					waits = until.Sub(now)
				}
				if holder.InterfaceID != s.holder || held != (s.holder != "") || waits != s.waits {
					t.Errorf("step %d: %q has it, and a newer claim waits %s; want %q and %s", n+1, holder.InterfaceID, waits, s.holder, s.waits)
				}
			}
		})
	}
}

// Addresses on one instance change at most every two seconds, whichever they are. Other instances do not wait.
func TestAddressesOfAnInstanceChangeAtIntervals(t *testing.T) {
	var moves volatile.AddressMoves
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if from := moves.From("i-1", now); !from.IsZero() {
		t.Errorf("the first change waits until %s", from)
	}
	moves.Begin("i-1", now)
	for after, want := range map[time.Duration]time.Time{
		0: now.Add(plan.MoveInterval), plan.MoveInterval - 1: now.Add(plan.MoveInterval), plan.MoveInterval: {},
	} {
		moves := moves
		moves.Begin("i-1", now)
		if from := moves.From("i-1", now.Add(after)); !from.Equal(want) {
			t.Errorf("after %s the next change waits until %s, want %s", after, from, want)
		}
	}
	if from := moves.From("i-2", now); !from.IsZero() {
		t.Errorf("another instance waits until %s", from)
	}
}
