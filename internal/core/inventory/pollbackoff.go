// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import "time"

const (
	// pollFraction is which part of the time that EC2 has taken already it is given before it is asked again: the answer is known
	// a sixteenth later at most.
	pollFraction = 16
	// firstPoll is the time before the first question after an interface: EC2 takes a second at least for what it is at work on.
	firstPoll = 900 * time.Millisecond
	// longestPoll is the longest time between two questions after the same interface. What is stuck for a day, because nobody
	// may force it, costs 60 readings an hour.
	longestPoll = time.Minute
)

// PollBackoff says when to ask again after what EC2 is at work on: often at first, and ever more seldom while nothing changes. The
// zero value is ready for use. It is not safe for concurrent use.
type PollBackoff struct{ asked map[string]pollState }

// pollState are since when there is something to ask after an interface, and when that was last done.
type pollState struct{ since, last time.Time }

// Due returns which of the interfaces in transition to ask after now, where it could be done once every poll. It takes that for
// done, and forgets all others.
func (p *PollBackoff) Due(now time.Time, poll time.Duration, inTransition []string) (due []string) {
	asked := make(map[string]pollState, len(inTransition))
	for _, id := range inTransition {
		q, known := p.asked[id]
		if !known {
			q.since, q.last = now, now.Add(max(0, firstPoll-poll)-poll)
		}
		wait := max(poll, min(now.Sub(q.since)/pollFraction, longestPoll))
		// Clocks tick unevenly: what is due before half of a poll is over is due.
		if now.Add(poll/2).Sub(q.last) >= wait {
			due, q.last = append(due, id), now
		}
		asked[id] = q
	}
	p.asked = asked
	return due
}

// Restart begins anew with an interface, for which something else was asked of EC2.
func (p *PollBackoff) Restart(id string) { delete(p.asked, id) }
