// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
)

// AddressTexts formats the secondary addresses and prefixes as in a NodeENIState.
func AddressTexts(a eni.Addresses) []string {
	return slices.Concat(Texts(a.SecondaryIPv4), Texts(a.IPv4Prefixes), Texts(a.IPv6), Texts(a.IPv6Prefixes))
}

// Texts formats each value; nil without values.
func Texts[T fmt.Stringer](values []T) []string {
	var all []string
	for _, v := range values {
		all = append(all, v.String())
	}
	return all
}

// parseAddresses parses the output of AddressTexts.
func parseAddresses(recorded []string) eni.Addresses {
	var a eni.Addresses
	for _, text := range recorded {
		prefix, noPrefix := netip.ParsePrefix(text)
		address, noAddress := netip.ParseAddr(text)
		switch {
		case noPrefix == nil && prefix.Addr().Is4():
			a.IPv4Prefixes = append(a.IPv4Prefixes, prefix)
		case noPrefix == nil:
			a.IPv6Prefixes = append(a.IPv6Prefixes, prefix)
		case noAddress == nil && address.Is4():
			a.SecondaryIPv4 = append(a.SecondaryIPv4, address)
		case noAddress == nil:
			a.IPv6 = append(a.IPv6, address)
		}
	}
	return a
}

// ParsePrefixes parses the prefixes among the output of AddressTexts.
func ParsePrefixes(recorded []string) []netip.Prefix {
	a := parseAddresses(recorded)
	return slices.Concat(a.IPv4Prefixes, a.IPv6Prefixes)
}

// RequestedAddresses returns the requested addresses by interface ID: from EC2's answers to this process or, for other
// interfaces, from the records of earlier processes.
func RequestedAddresses(known map[string]eni.Addresses, states ...v1alpha1.NodeENIState) map[string]eni.Addresses {
	requested := map[string]eni.Addresses{}
	for n := range states {
		for _, i := range states[n].Status.Interfaces {
			if len(i.RequestedAddresses) > 0 {
				requested[i.ENIID] = parseAddresses(i.RequestedAddresses)
			}
		}
	}
	maps.Copy(requested, known)
	return requested
}
