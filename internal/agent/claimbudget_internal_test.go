// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podaddress"
)

// TestClaimBudget counts the claims of a pod that takes an address every 100 ms for ten minutes, and those of another
// pod on the node.
func TestClaimBudget(t *testing.T) {
	const tick, minutes = 100 * time.Millisecond, 10
	for name, tc := range map[string]struct {
		address func(n int) netip.Addr
		most    int
	}{
		"a new address each time": {
			func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}) }, claimBurst + claimsPerMinute*minutes,
		},
		"one address that flaps": {
			func(int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 4, 200}) }, flapBurst + flapsPerMinute*minutes,
		},
		"64 addresses that flap": {
			func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 4, byte(n % 64)}) }, claimBurst + claimsPerMinute*minutes,
		},
	} {
		t.Run(name, func(t *testing.T) {
			budget, begin := newClaimBudget(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			claims := 0
			for n := range int(minutes * time.Minute / tick) {
				now := begin.Add(time.Duration(n) * tick)
				if budget.take(podaddress.Address{Namespace: 1, Address: tc.address(n)}, now) {
					claims++
				}
				budget.prune(now)
				if quiet := n%600 == 599; quiet && !budget.take(podaddress.Address{Namespace: 2, Address: tc.address(n)}, now) {
					t.Errorf("after %s another pod's claim is refused", now.Sub(begin))
				}
			}
			if claims > tc.most || claims < tc.most*9/10 {
				t.Errorf("%d claims, want almost %d and no more", claims, tc.most)
			}
			budget.prune(begin.Add(time.Hour))
			if len(budget.pods)+len(budget.flaps) > 0 {
				t.Errorf("%d budgets of pods and %d of addresses remain", len(budget.pods), len(budget.flaps))
			}
		})
	}
}

// pod is the observation of a test: a pod on the link of an interface, and another one that keeps its address.
type pod struct{ address, podIP string }

func (p *pod) Events() <-chan struct{} { return nil }

func (p *pod) Namespaces() ([]podaddress.Namespace, bool) {
	on := func(id int, podIP string, addresses ...string) podaddress.Namespace {
		link := podaddress.Link{Index: 3, HostLink: 5}
		for _, address := range addresses {
			link.Addresses = append(link.Addresses, netip.MustParseAddr(address))
		}
		return podaddress.Namespace{ID: id, Links: []podaddress.Link{{Index: 2, Addresses: []netip.Addr{netip.MustParseAddr(podIP)}}, link}}
	}
	all := []podaddress.Namespace{on(2, "10.1.0.9", "10.0.4.250"), on(1, p.podIP)}
	if p.address != "" {
		all[1] = on(1, p.podIP, p.address)
	}
	return all, true
}

// TestAPodThatChangesAllTheTimeCausesFewReports counts the reports of claims in ten minutes in which a pod changes every
// 100 ms.
func TestAPodThatChangesAllTheTimeCausesFewReports(t *testing.T) {
	const minutes = 10
	flapping := func(n int) string { return []string{"", "10.0.4.200"}[n%2] }
	still := func(int) string { return "10.1.0.1" }
	for name, tc := range map[string]struct {
		address, podIP func(n int) string
		most           int
	}{
		// A claim and its release are a report each.
		"an address comes and goes":  {flapping, still, 2 * (flapBurst + minutes*flapsPerMinute)},
		"its address in the cluster": {func(int) string { return "10.0.4.200" }, func(n int) string { return fmt.Sprintf("10.1.0.%d", 1+n%200) }, int(minutes * time.Minute / podInterval)},
		"a new address each time":    {func(n int) string { return fmt.Sprintf("10.0.4.%d", n%250) }, still, 2*(claimBurst+minutes*claimsPerMinute) + 100},
		"nothing changes":            {func(int) string { return "10.0.4.200" }, still, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				observed := &pod{}
				a := New(Options{PodAddresses: observed})
				a.interfaces = []podaddress.Interface{{ID: "eni-1", Link: 5}}
				s := &snapshot{state: &v1alpha1.NodeENIState{}}
				reports := 0
				for n := range int(minutes * time.Minute / (100 * time.Millisecond)) {
					observed.address, observed.podIP = tc.address(n), tc.podIP(n)
					a.found, a.foundAll = a.findAddresses()
					network := v1alpha1.PodNetworkState{Network: "n3", ENIID: "eni-1"}
					a.addClaims(s, &network, []netip.Prefix{netip.MustParsePrefix("10.0.4.0/24")})
					s.networks = []v1alpha1.PodNetworkState{network}
					a.forgetClaims(s)
					if a.podsDue(s) {
						reports++
						a.podsReported = time.Now()
						s.state.Status.PodNetworks = s.networks
					}
					if !slices.ContainsFunc(network.Claims, func(c v1alpha1.PodAddressClaim) bool { return c.Address == "10.0.4.250" && c.ReleasedAt == nil }) {
						t.Fatalf("change %d: the other pod's address is not claimed", n)
					}
					time.Sleep(100 * time.Millisecond)
				}
				t.Logf("%d reports", reports)
				if reports > tc.most+1 || reports == 0 {
					t.Errorf("%d reports, want at most %d", reports, tc.most)
				}
			})
		})
	}
}

// The API server refuses a report with two networks of one interface.
func TestOneOfEachInterface(t *testing.T) {
	listed := v1alpha1.PodNetworkState{Network: "n3", ENIID: "eni-1", Drained: true}
	copied := v1alpha1.PodNetworkState{Network: "copy", ENIID: "eni-1"}
	other := v1alpha1.PodNetworkState{Network: "n6", ENIID: "eni-2", Drained: true}
	all := OneOfEachInterface([]v1alpha1.PodNetworkState{listed, other, copied})
	if len(all) != 2 || all[0].Network != "n3" || all[0].Drained || !all[1].Drained {
		t.Errorf("reported %+v", all)
	}
}
