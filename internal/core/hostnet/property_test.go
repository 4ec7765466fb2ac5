// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/hostnet"
)

const interfaces = 4

// TestConfigurationIsReached draws desired links and a host: the operations reach the desired state, after which none
// are left.
func TestConfigurationIsReached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, links := kernels(interfaces).Draw(t, "host"), desires(interfaces).Draw(t, "links")
		settle(t, k, links)
		for _, o := range hostnet.Observe(links, k.Facts()) {
			if o.State != hostnet.Ready {
				t.Fatalf("%s is %s: %s", o.Link.Name, o.State, o.Message)
			}
		}
	})
}

// A change of the desired links, with changes of other programs in between, leads to the same state as the new desired
// links alone.
func TestHistoryLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := kernels(interfaces).Draw(t, "host")
		fresh := k.Clone()
		settle(t, k, desires(interfaces).Draw(t, "first"))
		then := desires(interfaces).Draw(t, "then")
		settle(t, k, then)
		settle(t, fresh, then)
		if diff := cmp.Diff(fresh.String(), k.String()); diff != "" {
			t.Fatalf("history shows (-fresh +changed):\n%s", diff)
		}
	})
}

// TestDisturbancesAreMended checks that every change of other programs to our links is reverted, and that their own
// links stay as they are.
func TestDisturbancesAreMended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, links := kernels(interfaces).Draw(t, "host"), desires(interfaces).Draw(t, "links")
		settle(t, k, links)
		disturb(t, k, interfaces)
		others := foreign(k, links)
		settle(t, k, links)
		if diff := cmp.Diff(others, foreign(k, links)); diff != "" {
			t.Fatalf("links of others changed:\n%s", diff)
		}
	})
}

// A link that is no longer desired has its original state, even if the agent ended at any operation.
func TestRemovalUndoesWhatWasDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := kernels(interfaces).Draw(t, "host")
		before := k.String()
		for range rapid.IntRange(1, 4).Draw(t, "crashes") {
			links := desires(interfaces).Draw(t, "links")
			operations := hostnet.Diff(hostnet.Configure(links, k.Facts()), k.Facts())
			apply(t, k, operations[:rapid.IntRange(0, len(operations)).Draw(t, "crash after")])
		}
		settle(t, k, nil)
		if diff := cmp.Diff(before, k.String()); diff != "" {
			t.Fatalf("traces are left (-before +after):\n%s", diff)
		}
	})
}

// The order of the links makes no difference.
func TestOrderMeansNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, links := kernels(interfaces).Draw(t, "host"), desires(interfaces).Draw(t, "links")
		one := hostnet.Configure(links, k.Facts())
		slices.Reverse(links)
		if diff := cmp.Diff(one.String(), hostnet.Configure(links, k.Facts()).String()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A record is the same after a round trip through its text.
func TestRecordSurvivesItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		record := hostnet.OriginalState{
			AltNames: rapid.SliceOfN(rapid.StringMatching("net-[a-z0-9_.-]{1,11}"), 0, 2).Draw(t, "altnames"),
			Up:       rapid.Bool().Draw(t, "up"), MTU: rapid.IntRange(68, 65535).Draw(t, "mtu"),
			Settings: rapid.MapOf(rapid.SampledFrom(hostnet.Settings()), rapid.IntRange(-1, 9)).Draw(t, "settings"),
			Alias:    rapid.String().Draw(t, "alias"),
		}
		parsed := hostnet.ParseOriginalState(record.String())
		if parsed == nil || parsed.String() != record.String() || parsed.Alias != record.Alias {
			t.Fatalf("%s became %v", record, parsed)
		}
		bare := record
		bare.Alias = ""
		if length := len(bare.String()); length > 255 {
			t.Fatalf("%d characters do not fit into an alias: %s", length, bare)
		}
	})
}
