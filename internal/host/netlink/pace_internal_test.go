// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"testing"
	"time"
)

// TestReadPace counts the reads of a namespace with events all the time for a minute, and those of another one on the
// node with an event every ten seconds, which never waits.
func TestReadPace(t *testing.T) {
	const noisy, quiet, minute = 1, 2, time.Minute
	for name, tc := range map[string]struct {
		entries int
		fails   bool
		most    int
	}{
		"few addresses":      {10, false, readBurst + 60*readsPerSecond},
		"10,000 addresses":   {10_000, false, 1 + 60*readsPerSecond/readBurst},
		"a read that fails":  {0, true, 7}, // 0, 1, 3, 7, 15 and 31 s after the first
		"a million of them":  {1_000_000, false, 1 + 60*readsPerSecond/readBurst},
		"hundred and a link": {101, false, (readBurst + 60*readsPerSecond) / 2},
	} {
		t.Run(name, func(t *testing.T) {
			var pace readPace
			begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			reads := 0
			for after := time.Duration(0); after < minute; after += 5 * time.Millisecond {
				now := begin.Add(after)
				if at := pace.due(noisy, now); !at.After(now) {
					reads++
					if tc.fails {
						pace.failed(noisy, now)
					} else {
						pace.read(noisy, tc.entries, now)
					}
				}
				if after%(10*time.Second) == 0 {
					if at := pace.due(quiet, now); at.After(now) {
						t.Errorf("after %s the other namespace waits", after)
					}
					pace.read(quiet, 10, now)
				}
			}
			if reads > tc.most+1 || reads < tc.most*8/10 {
				t.Errorf("%d reads, want about %d and no more", reads, tc.most)
			}
			if at := pace.due(noisy, begin.Add(minute)); at.After(begin.Add(minute + lastReadRetry)) {
				t.Errorf("the next read waits until %s", at)
			}
			pace.forget(noisy)
			if at := pace.due(noisy, begin.Add(minute)); at.After(begin.Add(minute)) {
				t.Error("a namespace with the ID of one that ended waits")
			}
		})
	}
}
