// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/podnet"
)

// TestSweep: leases end whose pods no runtime may ever end, and leases that count for nothing are stale.
func TestSweep(t *testing.T) {
	boot := podnet.Boot{ID: "b", Time: start.Add(-5 * time.Minute)}
	longAgo := podnet.Boot{ID: "b", Time: start.Add(-24 * time.Hour)}
	earlier := func(l *podnet.Lease) { l.BootID = "a" }
	free := func(at time.Time) func(*podnet.Lease) { return func(l *podnet.Lease) { l.Freed = at } }
	none := func(*podnet.Lease) {}
	for name, tc := range map[string]struct {
		boot   podnet.Boot
		change func(*podnet.Lease)
		gone   bool
		// stale is set if nothing needs the lease; otherwise freed is the end of the lease, zero while it is in use.
		stale bool
		freed time.Time
	}{
		"a running pod":                              {boot: boot, change: none},
		"a pod without its network namespace":        {boot: boot, change: none, gone: true, freed: start},
		"a pod of an earlier boot":                   {boot: boot, change: earlier, freed: boot.Time},
		"a pod of an earlier boot, and no namespace": {boot: boot, change: earlier, gone: true, freed: boot.Time},
		"a pod of a boot before yesterday":           {boot: longAgo, change: earlier, stale: true},
		"at rest":                                    {boot: boot, change: free(start.Add(-30 * time.Second)), gone: true, freed: start.Add(-30 * time.Second)},
		"idle":                                       {boot: boot, change: free(start.Add(-10 * time.Minute)), gone: true, freed: start.Add(-10 * time.Minute)},
		"idle for longer than a prefix must be":      {boot: boot, change: free(start.Add(-10*time.Minute - 1)), stale: true},
		"freed by a clock that went back":            {boot: boot, change: free(start.Add(10*time.Minute + 1)), stale: true},
	} {
		t.Run(name, func(t *testing.T) {
			leases := used("10.0.4.16")
			tc.change(&leases[0])
			was := leases[0].InUse()
			kept, ended, stale := podnet.Sweep(leases, tc.boot, start, func(podnet.Lease) bool { return tc.gone })
			if tc.stale {
				if len(kept)+len(ended) > 0 || len(stale) != 1 {
					t.Errorf("kept %v, ended %v, stale %v; want one stale lease", kept, ended, stale)
				}
				return
			}
			if len(kept) != 1 || len(stale) > 0 || !kept[0].Freed.Equal(tc.freed) {
				t.Fatalf("kept %v, stale %v; want one lease freed at %v", kept, stale, tc.freed)
			}
			if changes := was && !tc.freed.IsZero(); changes != (len(ended) == 1) || changes && ended[0] != kept[0] {
				t.Errorf("ended %v, kept %v", ended, kept)
			}
		})
	}
}

// No decision changes with the stale leases: not which address a pod gets, and not how many prefixes are wanted.
func TestStaleLeasesCountForNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := network(ipv4("10.0.4.16/28", "10.0.4.32/28", "10.0.4.48/28"), nil)
		var leases []podnet.Lease
		for _, a := range slices.Concat(all("10.0.4.16/28"), all("10.0.4.32/28"), all("10.0.4.48/28")) {
			switch one := used(a); rapid.IntRange(0, 3).Draw(t, "lease") {
			case 1:
				leases = append(leases, one...)
			case 2, 3:
				ago := time.Duration(rapid.IntRange(0, 1200).Draw(t, "freed")) * time.Second
				leases = append(leases, freed(one, start.Add(-ago))...)
			}
		}
		kept, _, _ := podnet.Sweep(leases, podnet.Boot{ID: "b"}, start, func(podnet.Lease) bool { return false })
		decisions := func(leases []podnet.Lease) []any {
			mine, err := n.Allocate(leases, nil, holder("next"), podnet.Request{}, start)
			return []any{mine, err, n.Wanted(leases, podnet.Demand{Min: 1, Max: 4, Spare: 4}, start)}
		}
		unexported := cmp.AllowUnexported(podnet.UnavailableError{})
		if diff := cmp.Diff(decisions(leases), decisions(kept), addresses, unexported); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A pod that names one network twice has two links, each with its own address, and the end of one link keeps the other.
func TestTwoLinksOfAPodHaveTwoLeases(t *testing.T) {
	n := network(ipv4("10.0.4.16/28"), nil)
	first, second := holder("pod"), holder("pod")
	second.Interface = "net2"
	leases, err := n.Allocate(nil, nil, first, podnet.Request{}, start)
	if err != nil {
		t.Fatal(err)
	}
	more, err := n.Allocate(leases, nil, second, podnet.Request{}, start)
	if err != nil || len(more) != 1 || more[0].Address == leases[0].Address {
		t.Fatalf("the second link gets %v, %v; the first has %v", more, err, leases)
	}
	ended := podnet.End(slices.Concat(leases, more), start, func(l podnet.Lease) bool { return l.Is(second) })
	if len(ended) != 1 || ended[0].Address != more[0].Address {
		t.Errorf("the end of the second link ends %v", ended)
	}
	n.Attachment, n.Addresses = podnet.HostDevice, []netip.Addr{address("10.0.4.5")}
	leases, err = n.Allocate(nil, nil, first, podnet.Request{}, start)
	if err != nil {
		t.Fatal(err)
	}
	if both, err := n.Allocate(leases, nil, second, podnet.Request{}, start); err == nil {
		t.Errorf("two links have the interface: %v and %v", leases, both)
	}
}

// Pods of one name with different UIDs are different pods: the report names both.
func TestUsageDistinguishesPodsOfOneName(t *testing.T) {
	leases := used("10.0.4.16", "10.0.4.17", "10.0.4.18")
	for i, uid := range []string{"b", "a", "b"} {
		leases[i].Pod, leases[i].PodUID = "upf-0", uid
	}
	want := []podnet.PodUsage{
		{Name: "upf/upf-0", UID: "a", Addresses: []netip.Addr{address("10.0.4.17")}},
		{Name: "upf/upf-0", UID: "b", Addresses: []netip.Addr{address("10.0.4.16"), address("10.0.4.18")}},
	}
	got := network(ipv4("10.0.4.16/28"), nil).Usage(leases, start).Pods
	if diff := cmp.Diff(want, got, addresses); diff != "" {
		t.Error(diff)
	}
}

// A damaged lease keeps its address in use, and names no pod.
func TestUsageOfAnUnreadableLease(t *testing.T) {
	leases := used("10.0.4.16", "10.0.4.17")
	leases[1].Unreadable = true
	got := network(ipv4("10.0.4.16/28"), nil).Usage(leases, start)
	if got.IPv4.Used != 2 || len(got.Pods) != 1 || !slices.Equal(got.Unreadable, []netip.Addr{address("10.0.4.17")}) {
		t.Errorf("%+v", got)
	}
}
