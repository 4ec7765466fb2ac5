// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"sync"
	"time"
)

// News of nodes is collected for a while before a NodeENI's status is worked out anew, so that one write tells of many nodes.
// That takes time for each node, so the while grows with their number, and the work of a rollout with the fleet and not with
// its square. While nodes are under way, the while doubles from one write to the next; the first and the last are prompt.
const (
	gatheringLeast   = 250 * time.Millisecond
	gatheringPerNode = time.Millisecond
	gatheringMost    = 10 * time.Second
)

// gathering is how long news is collected at least for a NodeENI with so many nodes.
func gathering(nodes int32) time.Duration {
	return min(max(gatheringLeast, time.Duration(nodes)*gatheringPerNode), gatheringMost)
}

// bursts remembers how each NodeENI's status is written while its nodes change. The zero value is ready for use.
type bursts struct {
	mu     sync.Mutex
	byName map[string]*burst
}

// burst is a series of writes of one status.
type burst struct {
	written time.Time
	// pause is how long after the last write the next one is due.
	pause time.Duration
	// outstanding is how many nodes were not settled at the last look, and heard are those of which there was news since.
	// Before all that are outstanding were heard of, the status cannot be the last of the burst.
	outstanding int
	heard       map[string]bool
}

func (b *bursts) of(name string) *burst {
	if b.byName == nil {
		b.byName = map[string]*burst{}
	}
	if b.byName[name] == nil {
		b.byName[name] = &burst{heard: map[string]bool{}}
	}
	return b.byName[name]
}

// heard notes news of a node, and returns how long to wait for more.
func (b *bursts) heard(name string, node string, nodes int32, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	of, least := b.of(name), gathering(nodes)
	of.heard[node] = true
	if len(of.heard) >= of.outstanding {
		return least
	}
	return of.next(least, now)
}

// reread returns how long to wait before a status that was written is looked at again.
func (b *bursts) reread(name string, nodes int32, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(name).next(gathering(nodes), now)
}

// next is how long the next write is away.
func (b *burst) next(least time.Duration, now time.Time) time.Duration {
	return max(least, b.written.Add(b.pause).Sub(now))
}

// looked notes that a status was worked out, of how many nodes it does not say the last yet, and whether it is written.
func (b *bursts) looked(name string, outstanding int, written bool, nodes int32, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of, least := b.of(name), gathering(nodes)
	of.outstanding = outstanding
	clear(of.heard)
	if !written {
		return
	}
	if outstanding == 0 || now.Sub(of.written) > 2*gatheringMost {
		of.pause = least
	} else {
		of.pause = min(2*max(of.pause, least), gatheringMost)
	}
	of.written = now
}

// forget drops what is remembered of a NodeENI that is gone.
func (b *bursts) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byName, name)
}
