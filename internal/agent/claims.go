// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podaddress"
)

// reasonUnobserved says that the agent cannot see the addresses in network namespaces of pods.
const reasonUnobserved = "AddressesNotObserved"

// PodAddresses observes the network namespaces of pods.
type PodAddresses interface {
	// Namespaces returns the namespaces, and whether all of them were read.
	Namespaces() (namespaces []podaddress.Namespace, complete bool)
	// Events sends a value after changes.
	Events() <-chan struct{}
}

// interfacesOf returns the interfaces of the state. Pods may have addresses on their links.
func interfacesOf(s *snapshot) []podaddress.Interface {
	var interfaces []podaddress.Interface
	for _, i := range s.state.Status.Interfaces {
		one := podaddress.Interface{ID: i.ENIID, MAC: i.MACAddress, Own: prefixesOf(i)}
		one.Subnet, _ = netip.ParsePrefix(i.SubnetCIDR) // zero if it is not known
		for _, link := range s.facts.Links {
			if link.MAC == i.MACAddress && link.Device != "" {
				one.Link = link.Index
			}
		}
		interfaces = append(interfaces, one)
	}
	return interfaces
}

// observe stores the addresses that pods have on links of the state's interfaces.
func (a *Agent) observe(s *snapshot) {
	a.interfaces = interfacesOf(s)
	a.found, a.foundAll = a.findAddresses()
}

// findAddresses returns the addresses that pods have on links of the interfaces of the last pass, by the interface's
// ID. known is false without an observer, and until the observer has read all namespaces.
func (a *Agent) findAddresses() (found map[string][]podaddress.Address, known bool) {
	if a.PodAddresses == nil {
		return nil, false
	}
	namespaces, complete := a.PodAddresses.Namespaces()
	return podaddress.Find(namespaces, a.interfaces), complete
}

// addressesChanged reports whether the addresses differ from those of the last pass. Most events are of pods that use
// no interface of ours.
func (a *Agent) addressesChanged() bool {
	found, known := a.findAddresses()
	return known != a.foundAll || !maps.EqualFunc(found, a.found, slices.Equal[[]podaddress.Address])
}

// prefixesOf returns the addresses of an interface that are never claimed: the primary one, and delegated prefixes.
func prefixesOf(i v1alpha1.InterfaceState) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range slices.Concat([]string{i.PrivateIP + "/32"}, i.IPv4Prefixes) {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}

// addClaims adds the address claims of one interface to the state of its network. The last claims are kept in memory,
// because the API server may not have returned the report of them yet. Without an observer the claims stay as they were.
func (a *Agent) addClaims(s *snapshot, state *v1alpha1.PodNetworkState, ranges []netip.Prefix) {
	last, remembered := a.claims[state.ENIID]
	if !remembered {
		last = claimsOf(LastReport(s.state, state.Network, state.ENIID))
		for _, claim := range last {
			a.sequences.Use(claim.Sequence)
		}
	}
	if a.PodAddresses != nil {
		last = a.claimFound(last, state.ENIID, ranges, time.Now())
	}
	if !s.recalled {
		a.claims[state.ENIID] = last
	}
	kept, omitted := podaddress.Limit(last, v1alpha1.MaxClaimsOfNetwork)
	state.ClaimsOmitted = int32(omitted)
	for _, claim := range kept {
		state.Claims = append(state.Claims, apiClaim(claim))
	}
}

// claimFound returns the claims on addresses of an interface after the last observation.
func (a *Agent) claimFound(last []podaddress.Claim, interfaceID string, ranges []netip.Prefix,
	now time.Time) []podaddress.Claim {
	found, waiting := podaddress.Admit(last, a.found[interfaceID], ranges,
		func(f podaddress.Address) bool { return a.budget.take(f, now) })
	a.waiting[interfaceID] = waiting
	claims := podaddress.Claims(last, found, ranges, &a.sequences, now)
	if !a.foundAll {
		return podaddress.Unreleased(last, claims)
	}
	return claims
}

// seesAll reports whether the claims on addresses of an interface are those of all pods.
func (a *Agent) seesAll(interfaceID string) bool {
	return a.PodAddresses == nil || a.foundAll && a.waiting[interfaceID] == 0
}

// forgetClaims drops the claims of interfaces that are no longer reported.
func (a *Agent) forgetClaims(s *snapshot) {
	a.budget.prune(time.Now())
	for id := range a.claims {
		if !slices.ContainsFunc(s.networks, func(n v1alpha1.PodNetworkState) bool { return n.ENIID == id }) {
			delete(a.claims, id)
			delete(a.waiting, id)
		}
	}
}

// liveClaims returns the number of addresses that pods brought up themselves and still have.
func liveClaims(state *v1alpha1.PodNetworkState) int32 {
	live := state.ClaimsOmitted
	for _, claim := range state.Claims {
		if claim.ReleasedAt == nil {
			live++
		}
	}
	return live
}

func claimsOf(last *v1alpha1.PodNetworkState) []podaddress.Claim {
	if last == nil {
		return nil
	}
	var claims []podaddress.Claim
	for _, c := range last.Claims {
		address, err := netip.ParseAddr(c.Address)
		if err != nil {
			continue
		}
		podIP, _ := netip.ParseAddr(c.PodIP)
		claim := podaddress.Claim{Address: address, Sequence: c.Sequence, Since: c.Since.Time, PodIP: podIP}
		if c.ReleasedAt != nil {
			claim.ReleasedAt = c.ReleasedAt.Time
		}
		claims = append(claims, claim)
	}
	return claims
}

func apiClaim(c podaddress.Claim) v1alpha1.PodAddressClaim {
	claim := v1alpha1.PodAddressClaim{Address: c.Address.String(), Sequence: c.Sequence, Since: microTime(c.Since)}
	if !c.ReleasedAt.IsZero() {
		released := microTime(c.ReleasedAt)
		claim.ReleasedAt = &released
	}
	if c.PodIP.IsValid() {
		claim.PodIP = c.PodIP.String()
	}
	return claim
}

// microTime returns the time with the precision that the API server keeps.
func microTime(t time.Time) metav1.MicroTime {
	return metav1.NewMicroTime(t.Truncate(time.Microsecond))
}

// floating returns the ranges of addresses that pods bring up themselves.
func floating(pods *v1alpha1.InterfacePods) []netip.Prefix {
	var ranges []netip.Prefix
	for _, text := range pods.Floating {
		if r, err := netip.ParsePrefix(text); err == nil {
			ranges = append(ranges, r)
		}
	}
	return ranges
}

// howToObserve is the next step for an agent without an observer.
const howToObserve = "set pods.observeAddresses=true in the values of the chart"

// qualify unsets Drained while the agent does not know whether a pod has an address within the ranges. If the agent may
// not observe addresses, the message says so.
func (a *Agent) qualify(state *v1alpha1.PodNetworkState, pods *v1alpha1.InterfacePods) {
	switch {
	case len(pods.Floating) == 0:
	case a.PodAddresses == nil && state.Reason == v1alpha1.ReasonNetworkReady:
		state.Message += "; the agent may not observe addresses within pods.floating: " + howToObserve
	case !a.seesAll(state.ENIID):
		state.Drained = false
	}
}

// completeObserved completes the state of a network with attachment Observed.
func (a *Agent) completeObserved(state *v1alpha1.PodNetworkState) {
	state.Used, state.Free, state.Capacity = liveClaims(state), 0, 0
	if state.Reason == v1alpha1.ReasonNetworkDraining {
		return
	}
	state.Message = "addresses within pods.floating follow the pods that bring them up"
	if a.PodAddresses == nil {
		state.Ready, state.Reason = false, reasonUnobserved
		state.Message = "the agent may not observe the network namespaces of pods; " + howToObserve
	}
}
