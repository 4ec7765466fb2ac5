// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import "time"

const (
	// pollFraction divides the time that the transition has taken so far; the result is the next wait. Polling thus delays
	// the result by a sixteenth at most.
	pollFraction = 16
	// firstPoll is the time before the first poll of an interface, because EC2 needs at least a second for each
	// transition.
	firstPoll = 900 * time.Millisecond
	// longestPoll is the longest time between two polls of an interface. An interface that is stuck for a day, and may not
	// be detached by force, costs 60 reads an hour.
	longestPoll = time.Minute
)

// PollBackoff decides when to poll interfaces that EC2 is changing: often at first, and less often while nothing
// changes. The zero value is ready for use. It is not safe for concurrent use.
type PollBackoff struct{ asked map[string]pollState }

// pollState has the begin of a transition, and the time of its last poll.
type pollState struct{ since, last time.Time }

// Due returns the interfaces in transition that are due for a poll, given the interval of polls. It assumes that the
// caller polls them now, and forgets all interfaces that are not in transition.
func (p *PollBackoff) Due(now time.Time, poll time.Duration, inTransition []string) (due []string) {
	asked := make(map[string]pollState, len(inTransition))
	for _, id := range inTransition {
		q, known := p.asked[id]
		if !known {
			q.since, q.last = now, now.Add(max(0, firstPoll-poll)-poll)
		}
		wait := max(poll, min(now.Sub(q.since)/pollFraction, longestPoll))
		// Timers are inexact, so an interface counts as due half an interval early.
		if now.Add(poll/2).Sub(q.last) >= wait {
			due, q.last = append(due, id), now
		}
		asked[id] = q
	}
	p.asked = asked
	return due
}

// Restart resets the backoff of an interface after another call for it.
func (p *PollBackoff) Restart(id string) { delete(p.asked, id) }
