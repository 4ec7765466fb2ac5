// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	// readsPerSecond and readBurst bound the reads of one namespace. A pod that starts causes fewer.
	readsPerSecond = 4
	readBurst      = 20
	// entriesPerRead is the number of links and addresses that count as one more read.
	entriesPerRead = 100
	// firstReadRetry and lastReadRetry are the shortest and the longest wait after a failed read.
	firstReadRetry = time.Second
	lastReadRetry  = time.Minute
)

// readPace decides when each namespace may be read. A pod that changes its links or addresses all the time, or has very
// many, must not delay the reads of other pods' namespaces.
type readPace struct {
	namespaces map[int]*namespacePace
}

type namespacePace struct {
	reads *rate.Limiter
	// failures is the number of successive failed reads; the next one is at retryAt at the earliest.
	failures int
	retryAt  time.Time
}

func (p *readPace) of(id int) *namespacePace {
	if p.namespaces == nil {
		p.namespaces = map[int]*namespacePace{}
	}
	if p.namespaces[id] == nil {
		p.namespaces[id] = &namespacePace{reads: rate.NewLimiter(readsPerSecond, readBurst)}
	}
	return p.namespaces[id]
}

// due returns the time from which a namespace may be read; it is not after now if it may be read now.
func (p *readPace) due(id int, now time.Time) time.Time {
	of, known := p.namespaces[id]
	if !known {
		return now
	}
	at := of.retryAt
	if lacking := 1 - of.reads.TokensAt(now); lacking > 0 {
		if refilled := now.Add(time.Duration(lacking * float64(time.Second) / readsPerSecond)); refilled.After(at) {
			at = refilled
		}
	}
	return at
}

// read records a read that found a number of links and addresses.
func (p *readPace) read(id, entries int, now time.Time) {
	of := p.of(id)
	of.reads.ReserveN(now, min(1+entries/entriesPerRead, readBurst))
	of.failures, of.retryAt = 0, time.Time{}
}

// failed records a failed read.
func (p *readPace) failed(id int, now time.Time) {
	of := p.of(id)
	of.reads.ReserveN(now, 1)
	of.retryAt = now.Add(min(firstReadRetry<<min(of.failures, 10), lastReadRetry))
	of.failures++
}

// forget drops a namespace that ended.
func (p *readPace) forget(id int) { delete(p.namespaces, id) }
