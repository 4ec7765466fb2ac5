// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podaddress"
)

// TestAddressBudget counts the addresses of a pod that takes one every 100 ms for ten minutes, and those of another pod on
// the node.
func TestAddressBudget(t *testing.T) {
	const tick, minutes = 100 * time.Millisecond, 10
	for name, tc := range map[string]struct {
		address func(n int) netip.Addr
		most    int
	}{
		"a new address each time": {
			func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}) }, arrivalBurst + arrivalsPerMinute*minutes,
		},
		"one address that flaps": {
			func(int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 4, 200}) }, flapBurst + flapsPerMinute*minutes,
		},
		"64 addresses that flap": {
			func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 4, byte(n % 64)}) }, arrivalBurst + arrivalsPerMinute*minutes,
		},
	} {
		t.Run(name, func(t *testing.T) {
			budget, begin := newAddressBudget(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			taken := 0
			for n := range int(minutes * time.Minute / tick) {
				now := begin.Add(time.Duration(n) * tick)
				if budget.take(podaddress.Address{Namespace: 1, Address: tc.address(n)}, now) {
					taken++
				}
				budget.prune(now)
				if quiet := n%600 == 599; quiet && !budget.take(podaddress.Address{Namespace: 2, Address: tc.address(n)}, now) {
					t.Errorf("after %s another pod's address is refused", now.Sub(begin))
				}
			}
			if taken > tc.most || taken < tc.most*9/10 {
				t.Errorf("%d addresses, want almost %d and no more", taken, tc.most)
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
		return podaddress.Namespace{ID: id, Links: []podaddress.Link{{Index: 2, OnNode: true, Addresses: []netip.Addr{netip.MustParseAddr(podIP)}}, link}}
	}
	all := []podaddress.Namespace{on(2, "10.1.0.9", "10.0.4.250"), on(1, p.podIP)}
	if p.address != "" {
		all[1] = on(1, p.podIP, p.address)
	}
	return all, true
}

// TestAPodThatChangesAllTheTimeCausesFewWrites counts the changes of the addresses that the agent writes in ten minutes in
// which a pod changes every 100 ms.
func TestAPodThatChangesAllTheTimeCausesFewWrites(t *testing.T) {
	const minutes = 10
	flapping := func(n int) string { return []string{"", "10.0.4.200"}[n%2] }
	still := func(int) string { return "10.1.0.1" }
	for name, tc := range map[string]struct {
		address, podIP func(n int) string
		most           int
	}{
		// That an address comes up and that it goes are a write each.
		"an address comes and goes":  {flapping, still, 2 * (flapBurst + minutes*flapsPerMinute)},
		"its address in the cluster": {func(int) string { return "10.0.4.200" }, func(n int) string { return fmt.Sprintf("10.1.0.%d", 1+n%200) }, 2},
		"a new address each time":    {func(n int) string { return fmt.Sprintf("10.0.4.%d", n%250) }, still, 2*(arrivalBurst+minutes*arrivalsPerMinute) + 100},
		"nothing changes":            {func(int) string { return "10.0.4.200" }, still, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				observed := &pod{}
				a := New(Options{PodAddresses: observed, API: &API{before: map[string][]podaddress.Presence{}}})
				a.interfaces = []podaddress.Interface{{ID: "eni-1", Link: 5}}
				n3 := &v1alpha1.NetworkInterface{Status: v1alpha1.NetworkInterfaceStatus{ENIID: "eni-1", SubnetID: "subnet-1"}}
				n3.Spec.Pods = &v1alpha1.PodSettings{Floating: []string{"10.0.4.0/24"}}
				one := &served{network: "n3", eni: "eni-1", object: n3}
				s := &snapshot{read: true, objects: []*v1alpha1.NetworkInterface{n3}, served: []*served{one}}
				writes, before := 0, map[string]presentAddress{}
				for n := range int(minutes * time.Minute / (100 * time.Millisecond)) {
					observed.address, observed.podIP = tc.address(n), tc.podIP(n)
					a.found, a.foundAll = a.findAddresses()
					a.updatePresent(s, one)
					a.forgetPresent(s)
					now := a.addresses(s)
					for name := range now {
						if _, was := before[name]; !was {
							writes++
						}
					}
					for name := range before {
						if _, is := now[name]; !is {
							writes++
						}
					}
					before = now
					if _, held := now["subnet-1-10.0.4.250"]; !held {
						t.Fatalf("change %d: the other pod's address is not held", n)
					}
					time.Sleep(100 * time.Millisecond)
				}
				t.Logf("%d writes", writes)
				if writes > tc.most+1 || writes == 0 {
					t.Errorf("%d writes, want at most %d", writes, tc.most)
				}
			})
		})
	}
}

// TestAnInterfaceIsHeldWhileAnAddressWaits lets one address come and go so often that the agent does not write it when it
// comes again.
func TestAnInterfaceIsHeldWhileAnAddressWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		times int
		held  bool
	}{
		"its budget lasts":    {flapBurst - 1, false},
		"its budget is spent": {flapBurst, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				observed := &pod{podIP: "10.1.0.1"}
				a := New(Options{PodAddresses: observed, API: &API{before: map[string][]podaddress.Presence{}}})
				a.interfaces = []podaddress.Interface{{ID: "eni-1", Link: 5}}
				one := &served{eni: "eni-1", object: &v1alpha1.NetworkInterface{Spec: v1alpha1.NetworkInterfaceSpec{
					Pods: &v1alpha1.PodSettings{Floating: []string{"10.0.4.192/27"}}}}}
				for range tc.times + 1 {
					for _, address := range []string{"", "10.0.4.200"} {
						observed.address = address
						a.found, a.foundAll = a.findAddresses()
						a.updatePresent(&snapshot{read: true}, one)
					}
				}
				// Addresses that the agent knows count elsewhere: here it decides about those that it may not know.
				if held := a.mayHaveBrought(one); held != tc.held {
					t.Errorf("held is %t with %d addresses that wait", held, a.waiting["eni-1"])
				}
			})
		})
	}
}
