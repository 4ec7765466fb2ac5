// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
)

// AddressTexts formats the secondary addresses and prefixes as in status.requested.
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

// Addresses parses the output of [AddressTexts].
func Addresses(recorded []string) eni.Addresses {
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
