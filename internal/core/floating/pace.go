// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package floating

import (
	"maps"
	"time"
)

// Gathering is how long the first change of addresses on an instance waits for others. Pods that start together on a
// node get their leases some 20 ms apart, and an agent takes about 30 ms to write an address. Without the wait, the
// second address would be a call of its own, and would wait for [MoveInterval].
const Gathering = 40 * time.Millisecond

// Pace bounds how often the addresses on an instance change, and lets those that become due together share a change. It
// counts per instance and not per interface, because all interfaces of an instance share its reads. The zero value is
// ready for use.
type Pace struct {
	turns  map[string]turn
	pruned time.Time
}

// turn is the last change on an instance, and the time of the next one; zero if none is due. The last change is under
// way until it ended.
type turn struct {
	begun, next time.Time
	underWay    bool
}

// Take reports whether addresses on an instance may change now, and counts the change, until [Pace.Done]. Otherwise it
// returns when to ask again, and all changes that are due until then go together. A change may include addresses of
// other reconciliations, and so no second one begins on the instance meanwhile.
func (p *Pace) Take(instanceID string, now time.Time) (until time.Time, taken bool) {
	if p.turns == nil {
		p.turns = map[string]turn{}
	}
	p.prune(now)
	t := p.turns[instanceID]
	if t.underWay {
		return now.Add(MoveInterval), false
	}
	if t.next.IsZero() {
		t.next = now.Add(Gathering)
		if earliest := t.begun.Add(MoveInterval); earliest.After(t.next) {
			t.next = earliest
		}
	}
	if taken = !now.Before(t.next); taken {
		t = turn{begun: now, underWay: true}
	}
	p.turns[instanceID] = t
	return t.next, taken
}

// Done ends a change.
func (p *Pace) Done(instanceID string) {
	t := p.turns[instanceID]
	t.underWay = false
	p.turns[instanceID] = t
}

// GiveBack ends the interval of a change that was not made: the next one waits for no others.
func (p *Pace) GiveBack(instanceID string) {
	p.turns[instanceID] = turn{next: p.turns[instanceID].begun}
}

// prune forgets changes that ended, and those that no address waits for any more.
func (p *Pace) prune(now time.Time) {
	if now.Sub(p.pruned) < MoveInterval {
		return
	}
	p.pruned = now
	maps.DeleteFunc(p.turns, func(_ string, t turn) bool {
		return !t.underWay && now.Sub(t.begun) >= MoveInterval && now.Sub(t.next) >= MoveInterval
	})
}
