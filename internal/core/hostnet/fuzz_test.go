// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// Every program on a node can write a link's alias. A parsed state contains only our settings, and is the same after a
// round trip.
func FuzzParseOriginalState(f *testing.F) {
	for _, seed := range []string{
		"multieni name=storage up=1 mtu=1500 4.rp_filter=0 6.accept_ra=2 was=uplink+of+rack+4",
		"multieni name=a name=b name=", "multieni", "multieni up=x mtu=99999999999999999999 was=%zz 4.rp_filter=-1 tap=1",
		"uplink of rack 4", "", "multieni was=%00%0a name=x=y",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, alias string) {
		state := hostnet.ParseOriginalState(alias)
		if state == nil {
			return
		}
		for setting := range state.Settings {
			if !slices.Contains(hostnet.Settings(), setting) {
				t.Errorf("%q contains the unknown setting %q", alias, setting)
			}
		}
		if diff := cmp.Diff(state, hostnet.ParseOriginalState(state.String())); diff != "" {
			t.Errorf("%q, written as %q, reads differently (-first +second):\n%s", alias, state, diff)
		}
	})
}
