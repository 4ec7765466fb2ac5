// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// A count of addresses is a floor. Other programs assign addresses to interfaces as well: the planner assigns what is
// missing, and unassigns only addresses that EC2's answers to our calls named.

// addressChanges brings the addresses of an interface to the desired counts. It unassigns surplus addresses from the end,
// so that the oldest stay, and does so before it assigns others, because both share one limit.
func addressChanges(want eni.AddressCounts, have, requested eni.Addresses) []Attribute {
	requested = have.Common(requested)
	surplus := eni.Addresses{
		SecondaryIPv4: exceeding(requested.SecondaryIPv4, want.SecondaryIPv4),
		IPv4Prefixes:  exceeding(requested.IPv4Prefixes, want.IPv4Prefixes),
		IPv6:          exceeding(requested.IPv6, want.IPv6),
		IPv6Prefixes:  exceeding(requested.IPv6Prefixes, want.IPv6Prefixes),
	}
	counts := have.Counts()
	missing := eni.AddressCounts{
		SecondaryIPv4: max(0, want.SecondaryIPv4-counts.SecondaryIPv4),
		IPv4Prefixes:  max(0, want.IPv4Prefixes-counts.IPv4Prefixes),
		IPv6:          max(0, want.IPv6-counts.IPv6),
		IPv6Prefixes:  max(0, want.IPv6Prefixes-counts.IPv6Prefixes),
	}
	fewer := func(family Family, surplus eni.Addresses) Attribute {
		return UnassignAddresses{Family: family, Surplus: surplus, Requested: requested}
	}
	more := func(family Family, addresses, prefixes int) Attribute {
		return AssignAddresses{Family: family, Addresses: addresses, Prefixes: prefixes, Had: counts, Requested: requested}
	}
	return []Attribute{
		fewer(IPv4, eni.Addresses{SecondaryIPv4: surplus.SecondaryIPv4, IPv4Prefixes: surplus.IPv4Prefixes}),
		fewer(IPv6, eni.Addresses{IPv6: surplus.IPv6, IPv6Prefixes: surplus.IPv6Prefixes}),
		more(IPv4, missing.SecondaryIPv4, 0),
		more(IPv4, 0, missing.IPv4Prefixes),
		more(IPv6, missing.IPv6, 0),
		more(IPv6, 0, missing.IPv6Prefixes),
	}
}

func exceeding[T interface{ netip.Addr | netip.Prefix }](all []T, n int) []T {
	if len(all) <= n {
		return nil
	}
	return all[n:]
}

// explainAddresses says that an interface keeps more addresses than its NodeENI asks for, although no record says that
// another program assigned them: a controller ended between its call and the record, or an earlier release had none.
func (m *member) explainAddresses(requested eni.Addresses) {
	i := m.Interface
	if m.desired == nil || i == nil || m.Phase != Attached || m.Why.Reason != "" {
		return
	}
	want, have, ours := m.desired.Spec.AddressCounts, i.Counts(), i.Common(requested).Counts()
	for _, form := range []struct {
		name             string
		want, have, ours int
	}{
		{"secondary IPv4 addresses", want.SecondaryIPv4, have.SecondaryIPv4, ours.SecondaryIPv4},
		{"IPv4 prefixes", want.IPv4Prefixes, have.IPv4Prefixes, ours.IPv4Prefixes},
		{"IPv6 addresses", want.IPv6, have.IPv6, ours.IPv6},
		{"IPv6 prefixes", want.IPv6Prefixes, have.IPv6Prefixes, ours.IPv6Prefixes},
	} {
		if form.want > 0 && form.have > form.want && form.ours < form.want {
			m.Why = Problem{AddressesKept, fmt.Sprintf("%s keeps its %d %s, although %d are asked for: a record says of only %d that multieni requested them, "+
				"and the others may be in use; unassign those that nothing uses with aws ec2 %s --network-interface-id %s",
				i.ID, form.have, form.name, form.want, form.ours, unassignCommand(form.name), i.ID)}
			return
		}
	}
}

// unassignCommand is the AWS CLI's command for a form of addresses.
func unassignCommand(form string) string {
	if strings.HasPrefix(form, "IPv6") {
		return "unassign-ipv6-addresses"
	}
	return "unassign-private-ip-addresses"
}
