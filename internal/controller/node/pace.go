// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import "time"

// An edit of a NodeENI with many nodes changes as many objects. The first paceBurst nodes write at once, and one more
// each paceInterval.
const (
	paceBurst    = 100
	paceInterval = 20 * time.Millisecond
)

// pace spreads the writes of specs over time. The zero value is ready for use.
type pace struct {
	// last is the time of the last turn that was given away, and turns are those of nodes that wait.
	last  time.Time
	turns map[string]time.Time
}

// wait returns how long a node waits for its turn; 0 if it has it now.
func (p *pace) wait(node string, now time.Time) time.Duration {
	turn, waits := p.turns[node]
	if !waits {
		turn = p.last.Add(paceInterval)
		if earliest := now.Add(-paceBurst * paceInterval); turn.Before(earliest) {
			turn = earliest
		}
		p.last = turn
	}
	if wait := turn.Sub(now); wait > 0 {
		if p.turns == nil {
			p.turns = map[string]time.Time{}
		}
		p.turns[node] = turn
		return wait
	}
	delete(p.turns, node)
	return 0
}

// forget drops the turn of a node that does not exist.
func (p *pace) forget(node string) { delete(p.turns, node) }
