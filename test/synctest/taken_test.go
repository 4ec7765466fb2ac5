// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/test/synctest/bubble"
)

// TestNodesOfATakenInstanceAreNotedOnce: each Node that names an instance that already is a node causes one Event.
func TestNodesOfATakenInstanceAreNotedOnce(t *testing.T) {
	const nodes = 60
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		r := c.Start(c.Defaults())
		taken := c.Launch(1, "a")[0]
		c.Must(c.User.Create(c.Context(), taken.DeepCopy()))
		c.Converge(10 * time.Minute)
		time.Sleep(time.Minute)
		before := r.WritesByKind()
		for n := range nodes {
			again := taken.DeepCopy()
			again.Name = taken.Name + "-again-" + string(rune('a'+n/26)) + string(rune('a'+n%26))
			c.Must(c.User.Create(c.Context(), again))
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Minute)
		after := r.WritesByKind()
		for _, kind := range []string{"POST events", "PATCH events"} {
			if got := after[kind] - before[kind]; got > nodes {
				t.Errorf("%s: %d for %d Nodes that name a taken instance", kind, got, nodes)
			}
		}
	})
}
