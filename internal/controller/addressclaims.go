// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"net/netip"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/podnet"
)

// StatesClaiming is the list option for the NodeENIStates with a claim on an address.
func StatesClaiming(address netip.Addr) client.ListOption {
	return client.MatchingFields{stateClaims: address.String()}
}

// ClaimedAddresses returns the addresses that a state claims, without duplicates.
func ClaimedAddresses(state *v1alpha1.NodeENIState) []string {
	var addresses []string
	for _, network := range state.Status.PodNetworks {
		for _, claim := range network.Claims {
			addresses = append(addresses, claim.Address)
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// AddressClaims returns a state's claims on addresses of one interface.
func AddressClaims(state *v1alpha1.NodeENIState, network v1alpha1.PodNetworkState) []plan.AddressClaim {
	var claims []plan.AddressClaim
	for _, c := range network.Claims {
		if address, err := netip.ParseAddr(c.Address); err == nil {
			claims = append(claims, plan.AddressClaim{
				Address: address, InterfaceID: network.ENIID, Node: state.Name, Sequence: c.Sequence, Since: c.Since.Time,
				Released: c.ReleasedAt != nil, Pod: c.PodIP,
			})
		}
	}
	return claims
}

// FollowingClaims returns the claims of a state that may move addresses: those within the current ranges of the claim's
// interface and within its subnet, except the addresses that EC2 reserves there.
func FollowingClaims(state *v1alpha1.NodeENIState) []plan.AddressClaim {
	var all []plan.AddressClaim
	for _, network := range state.Status.PodNetworks {
		at := slices.IndexFunc(state.Status.Interfaces, func(i v1alpha1.InterfaceState) bool {
			return i.ENIID == network.ENIID
		})
		if at < 0 || state.Status.Interfaces[at].Phase != v1alpha1.PhaseAttached {
			continue
		}
		i := state.Status.Interfaces[at]
		subnet, err := netip.ParsePrefix(i.SubnetCIDR)
		ranges := FloatingRanges(i.Pods)
		for _, claim := range AddressClaims(state, network) {
			within := slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(claim.Address) })
			if err == nil && within && subnet.Contains(claim.Address) && !podnet.Reserved(subnet, claim.Address) {
				all = append(all, claim)
			}
		}
	}
	return all
}

// FloatingRanges returns the ranges in which addresses of an interface follow pods.
func FloatingRanges(pods *v1alpha1.InterfacePods) []netip.Prefix {
	if pods == nil {
		return nil
	}
	var ranges []netip.Prefix
	for _, text := range pods.Floating {
		if r, err := netip.ParsePrefix(text); err == nil {
			ranges = append(ranges, r)
		}
	}
	return ranges
}
