// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"slices"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/inventory"
)

// TestPatience polls an interface whose transition does not end, at most once every two seconds.
func TestPatience(t *testing.T) {
	const poll = 2 * time.Second
	var p inventory.PollBackoff
	begun := time.Unix(1_800_000_000, 0)
	asked := func(from, to time.Duration) (n int, longest time.Duration) {
		last := from
		for at := from; at < to; at += poll {
			if slices.Contains(p.Due(begun.Add(at), poll, []string{"eni-1"}), "eni-1") {
				n, longest, last = n+1, max(longest, at-last), at
			}
		}
		return n, longest
	}
	if n, _ := asked(0, 32*time.Second); n != 16 {
		t.Errorf("%d times within 32 s, want each time", n)
	}
	if n, longest := asked(32*time.Second, 20*time.Minute); n > 70 || longest > time.Minute {
		t.Errorf("%d times in the next twenty minutes, at most %s apart", n, longest)
	}
	if n, longest := asked(20*time.Minute, 80*time.Minute); n < 59 || n > 60 || longest != time.Minute {
		t.Errorf("%d times in an hour, at most %s apart, want once a minute", n, longest)
	}
	p.Restart("eni-1")
	if n, _ := asked(80*time.Minute, 80*time.Minute+32*time.Second); n != 16 {
		t.Errorf("%d times within 32 s of something else, want each time", n)
	}
}

// TestNothingIsAskedTooSoon polls often: EC2 needs at least a second, and an earlier poll is useless.
func TestNothingIsAskedTooSoon(t *testing.T) {
	const poll = 300 * time.Millisecond
	var p inventory.PollBackoff
	begun := time.Unix(1_800_000_000, 0)
	var asked []time.Duration
	for at := time.Duration(0); at < 2*time.Second; at += poll {
		if len(p.Due(begun.Add(at), poll, []string{"eni-1"})) > 0 {
			asked = append(asked, at)
		}
	}
	if want := []time.Duration{2 * poll, 3 * poll, 4 * poll, 5 * poll, 6 * poll}; !slices.Equal(asked, want) {
		t.Errorf("asked after %v, want %v", asked, want)
	}
}

// TestPatienceWithOneIsNotThatWithAnother has one interface that is stuck for long, while another one, which was stuck
// before, changes and settles.
func TestPatienceWithOneIsNotThatWithAnother(t *testing.T) {
	const poll = 2 * time.Second
	var p inventory.PollBackoff
	now := time.Unix(1_800_000_000, 0)
	p.Due(now, poll, []string{"eni-1", "eni-2"})
	now = now.Add(time.Hour)
	p.Due(now, poll, []string{"eni-1"})
	p.Due(now.Add(poll), poll, []string{"eni-1", "eni-2"})
	if due := p.Due(now.Add(2*poll), poll, []string{"eni-1", "eni-2"}); !slices.Equal(due, []string{"eni-2"}) {
		t.Errorf("%v are due, want eni-2 alone", due)
	}
}
