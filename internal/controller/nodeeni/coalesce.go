// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"sync"
	"time"
)

// The controller collects changes of nodes for a delay before it computes a NodeENI's status again, so that one write
// covers many nodes. The computation takes time for each node. The delay therefore grows with their number, and the
// work of a rollout grows with the fleet and not with its square. While nodes change, the delay doubles from one write
// to the next; the first and the last write are prompt.
const (
	minStatusDelay     = 250 * time.Millisecond
	statusDelayPerNode = time.Millisecond
	maxStatusDelay     = 10 * time.Second
)

// statusDelay is the least delay of the status of a NodeENI with the given number of nodes.
func statusDelay(nodes int32) time.Duration {
	return min(max(minStatusDelay, time.Duration(nodes)*statusDelayPerNode), maxStatusDelay)
}

// statusBursts holds the series of writes of each NodeENI's status while its nodes change. The zero value is ready for
// use.
type statusBursts struct {
	// mu guards byName.
	mu     sync.Mutex
	byName map[string]*statusBurst
}

// statusBurst is a series of writes of one status.
type statusBurst struct {
	written time.Time
	// pause is how long after the last write the next one is due.
	pause time.Duration
	// outstanding is how many nodes were not settled at the last computation, and reported are the nodes that changed
	// since. The last status of the burst cannot come before all outstanding nodes changed.
	outstanding int
	reported    map[string]bool
}

func (b *statusBursts) of(name string) *statusBurst {
	if b.byName == nil {
		b.byName = map[string]*statusBurst{}
	}
	if b.byName[name] == nil {
		b.byName[name] = &statusBurst{reported: map[string]bool{}}
	}
	return b.byName[name]
}

// changed records a change of a node, and returns how long to wait for more.
func (b *statusBursts) changed(name string, node string, nodes int32, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	of, least := b.of(name), statusDelay(nodes)
	of.reported[node] = true
	if len(of.reported) >= of.outstanding {
		return least
	}
	return of.next(least, now)
}

// reread returns how long to wait before a written status is computed again.
func (b *statusBursts) reread(name string, nodes int32, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(name).next(statusDelay(nodes), now)
}

// next returns the time until the next write.
func (b *statusBurst) next(least time.Duration, now time.Time) time.Duration {
	return max(least, b.written.Add(b.pause).Sub(now))
}

// since returns the rest of a pause that began with the last write of a status.
func (b *statusBursts) since(name string, pause time.Duration, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.of(name).written.Add(pause).Sub(now))
}

// reported records the computation of a status, the number of nodes whose part is not final, and whether the status is
// written.
func (b *statusBursts) reported(name string, outstanding int, written bool, nodes int32, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of, least := b.of(name), statusDelay(nodes)
	of.outstanding = outstanding
	clear(of.reported)
	if !written {
		return
	}
	if outstanding == 0 || now.Sub(of.written) > 2*maxStatusDelay {
		of.pause = least
	} else {
		of.pause = min(2*max(of.pause, least), maxStatusDelay)
	}
	of.written = now
}

// forget drops the series of a NodeENI that is gone.
func (b *statusBursts) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byName, name)
}
