// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"fmt"
	"testing"
	"time"
)

// TestAStatusIsWrittenEverMoreSeldom checks that writes become less frequent while nodes change; the first and the last
// write are prompt.
func TestAStatusIsWrittenEverMoreSeldom(t *testing.T) {
	const nodes = 500
	var b statusBursts
	now, writes, longest := time.Unix(1_800_000_000, 0), 0, time.Duration(0)
	b.reported("data", 0, true, nodes, now)
	now = now.Add(time.Hour)
	for settled := 0; settled < nodes; {
		wait := b.changed("data", fmt.Sprint("node-", settled), nodes, now)
		if writes == 0 && wait != statusDelay(nodes) {
			t.Errorf("the first write waits for %s", wait)
		}
		longest = max(longest, wait)
		for due := now.Add(wait); now.Before(due) && settled < nodes; now = now.Add(100 * time.Millisecond) {
			settled++ // ten nodes a second
			wait = b.changed("data", fmt.Sprint("node-", settled), nodes, now)
		}
		if settled == nodes && wait != statusDelay(nodes) {
			t.Errorf("the last write waits for %s", wait)
		}
		writes++
		b.reported("data", nodes-settled, true, nodes, now)
	}
	if writes > 12 || longest > maxStatusDelay {
		t.Errorf("%d writes tell of %d nodes in 50 s, the longest after %s", writes, nodes, longest)
	}
}

// TestNothingIsKeptOfANodeENIThatIsGone checks that forget drops all state of a NodeENI.
func TestNothingIsKeptOfANodeENIThatIsGone(t *testing.T) {
	var b statusBursts
	b.changed("data", "node-1", 1, time.Unix(1, 0))
	b.forget("data")
	if len(b.byName) != 0 {
		t.Errorf("%v are remembered", b.byName)
	}
}
