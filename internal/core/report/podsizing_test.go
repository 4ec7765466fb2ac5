// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"testing"

	"github.com/multieni/multieni/internal/core/report"
)

// The number of prefixes is enough if each pod that a node allows has an address.
func TestPodSizing(t *testing.T) {
	for name, c := range map[string]struct {
		prefixes, pods, enough int
		says                   string
	}{
		"too few": {1, 29, 2, "n3: pods.ipv4.prefixes.min: 1 gives each node 16 × 1 = 16 addresses from the start, and its nodes allow 29 pods: " +
			"if a node runs more than 16 of them on this network, set min: 2, so that pods need no request of an address; " +
			"autoscalers of nodes do not know such a request (docs/autoscaling.md)"},
		"as many as pods": {2, 32, 2, "n3: pods.ipv4.prefixes.min: 2 gives each node 16 × 2 = 32 addresses from the start, and its nodes allow 32 pods: " +
			"pods need no request of an address"},
		"one pod more": {2, 33, 3, "n3: pods.ipv4.prefixes.min: 2 gives each node 16 × 2 = 32 addresses from the start, and its nodes allow 33 pods: " +
			"if a node runs more than 32 of them on this network, set min: 3, so that pods need no request of an address; " +
			"autoscalers of nodes do not know such a request (docs/autoscaling.md)"},
	} {
		t.Run(name, func(t *testing.T) {
			got := report.NewPodSizing("n3", c.prefixes, c.pods)
			if got.Enough != c.enough || got.String() != c.says {
				t.Errorf("%+v\n%s\nwant %d prefixes and\n%s", got, got, c.enough, c.says)
			}
		})
	}
}
