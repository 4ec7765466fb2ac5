// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// A count of addresses is a floor. Other programs assign addresses to interfaces as well: the planner assigns what is
// missing, and unassigns only addresses that EC2's answers to our calls named.

// addressDemand is the demand for addresses of one interface.
type addressDemand struct {
	// want are the minimum counts.
	want eni.AddressCounts
	// requested are the addresses that multieni requested.
	requested eni.Addresses
	// network is the agent's report about the pods that use the interface; nil without a report.
	network *PodNetwork
	// settledAt is the time from which a read certainly shows the effect of the last call that unassigned prefixes; zero
	// if it does now.
	settledAt time.Time
	// countedAt is the time from which a read certainly counts all addresses that EC2 assigned by a number; zero if it
	// does now.
	countedAt time.Time
	// recheckAt is the time from which a missing report proves that no pod uses the interface; zero if that does not
	// depend on the time.
	recheckAt time.Time
	// grown is the number of IPv4 prefixes that pods need, and most is the demand that leads to it.
	grown int
	most  PrefixDemand
	// limit is the largest number of IPv4 prefixes that the instance type supports, if pods may need more; else 0.
	limit        int
	instanceType string
	// floating are the addresses of the interface that follow pods.
	floating Floating
}

// Floating are the addresses of an interface that follow pods. They are neither floor nor surplus: the planner does not
// count them, and unassigns none.
type Floating struct {
	// Ranges are the declared ranges.
	Ranges []netip.Prefix
	// Addresses are those that were assigned before an edit of the ranges.
	Addresses []netip.Addr
}

// fixed returns the addresses without those that follow pods.
func (f Floating) fixed(all []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool {
		return slices.Contains(f.Addresses, a) ||
			slices.ContainsFunc(f.Ranges, func(r netip.Prefix) bool { return r.Contains(a) })
	})
}

// surplus returns the addresses to unassign: the newest requested ones beyond the desired counts that no pod needs.
func (d addressDemand) surplus(have eni.Addresses) eni.Addresses {
	ours := have.Common(d.requested)
	ours.SecondaryIPv4 = d.floating.fixed(ours.SecondaryIPv4)
	free, counts := releasable(ours, d.network), ours.Counts()
	surplus := eni.Addresses{
		SecondaryIPv4: last(free.SecondaryIPv4, counts.SecondaryIPv4-d.want.SecondaryIPv4),
		IPv4Prefixes:  last(free.IPv4Prefixes, counts.IPv4Prefixes-d.want.IPv4Prefixes),
		IPv6:          last(free.IPv6, counts.IPv6-d.want.IPv6),
		IPv6Prefixes:  last(free.IPv6Prefixes, counts.IPv6Prefixes-d.want.IPv6Prefixes),
	}
	// No pod gets an address of a drained prefix any more, so it does not count towards the minimum.
	if d.network != nil && d.most.Pods {
		surplus.IPv4Prefixes, surplus.IPv6Prefixes = free.IPv4Prefixes, free.IPv6Prefixes
	}
	return surplus
}

// lags reports whether the agent's report may still list a prefix that the interface has lost, or loses now. EC2 may
// assign the same prefix again, and the old report must not count for the new one. After a call that unassigned
// prefixes, a stale read can still have them.
func (d addressDemand) lags(have eni.Addresses) bool {
	switch {
	case d.network == nil:
		return false
	case !d.settledAt.IsZero():
		return true
	}
	for prefix := range d.network.Prefixes {
		if !slices.Contains(have.IPv4Prefixes, prefix) && !slices.Contains(have.IPv6Prefixes, prefix) {
			return true
		}
	}
	return false
}

// changes returns the changes that bring the addresses of an interface to the desired counts. They unassign surplus
// addresses from the end, so that the oldest stay, and before they assign others, because both share one limit.
func (d addressDemand) changes(have eni.Addresses) []Attribute {
	surplus, requested := d.surplus(have), have.Common(d.requested)
	fewer := func(family Family, surplus eni.Addresses) Attribute {
		return UnassignAddresses{Family: family, Surplus: surplus, Requested: requested}
	}
	kept, lacking := have.Without(surplus), d.lacking(have)
	switch {
	case !d.countedAt.IsZero():
		lacking = eni.AddressCounts{}
	case d.lags(kept):
		lacking.IPv4Prefixes, lacking.IPv6Prefixes = 0, 0
	}
	more := func(family Family, addresses, prefixes int) Attribute {
		return AssignAddresses{Family: family, Addresses: addresses, Prefixes: prefixes, Had: have.Counts(),
			Requested: requested}
	}
	return []Attribute{
		fewer(IPv4, eni.Addresses{SecondaryIPv4: surplus.SecondaryIPv4, IPv4Prefixes: surplus.IPv4Prefixes}),
		fewer(IPv6, eni.Addresses{IPv6: surplus.IPv6, IPv6Prefixes: surplus.IPv6Prefixes}),
		more(IPv4, lacking.SecondaryIPv4, 0),
		more(IPv4, 0, lacking.IPv4Prefixes),
		more(IPv6, lacking.IPv6, 0),
		more(IPv6, 0, lacking.IPv6Prefixes),
	}
}

// lacking returns the numbers of addresses to assign.
func (d addressDemand) lacking(have eni.Addresses) eni.AddressCounts {
	counts := have.Counts()
	others := d.floating.fixed(have.SecondaryIPv4)
	return eni.AddressCounts{
		SecondaryIPv4: max(0, d.want.SecondaryIPv4-len(others)),
		IPv4Prefixes:  max(0, max(d.want.IPv4Prefixes, d.grown)-counts.IPv4Prefixes),
		IPv6:          max(0, d.want.IPv6-counts.IPv6),
		IPv6Prefixes:  max(0, d.want.IPv6Prefixes-counts.IPv6Prefixes),
	}
}

// last returns the last n of all; n may be negative or too large.
func last[T interface{ netip.Addr | netip.Prefix }](all []T, n int) []T {
	if n = min(n, len(all)); n <= 0 {
		return nil
	}
	return all[len(all)-n:]
}

// inUse reports whether the interface keeps requested addresses above the maximum counts because of pods.
func (d addressDemand) inUse(have eni.Addresses) bool {
	if d.network == nil {
		return false
	}
	have.SecondaryIPv4 = d.floating.fixed(have.SecondaryIPv4)
	most := d
	most.want.IPv4Prefixes = max(d.want.IPv4Prefixes, d.most.Max)
	without := most
	without.network = nil
	released, could := most.surplus(have).Counts(), without.surplus(have).Counts()
	return released.SecondaryIPv4 < could.SecondaryIPv4 || released.IPv4Prefixes < could.IPv4Prefixes ||
		released.IPv6 < could.IPv6 || released.IPv6Prefixes < could.IPv6Prefixes
}

// explainAddresses says why an interface has more addresses than its NodeENI asks for, or fewer than its pods may need.
// It can keep addresses that multieni requested and has no record of: a controller ended between its call and the
// record, or an earlier release had no records.
func (s step) explainAddresses(d addressDemand) step {
	m, i := s.m, s.Interface
	if i != nil && !d.countedAt.IsZero() && d.lacking(i.Addresses) != (eni.AddressCounts{}) {
		s = s.requeue(d.countedAt)
	}
	if i != nil && !d.recheckAt.IsZero() && d.inUse(i.Addresses) {
		s = s.requeue(d.recheckAt)
	}
	if d.network != nil && !d.settledAt.IsZero() {
		s = s.requeue(d.settledAt)
	}
	if m.Settings == nil || i == nil || s.Phase != Attached || s.Why.Reason != "" {
		return s
	}
	if d.inUse(i.Addresses) {
		s.Why = Problem{AddressesInUse, fmt.Sprintf(
			"%s keeps more addresses than its NodeENI asks for, because pods use them or can start to: %s; multieni "+
				"unassigns prefixes once the agent has drained them",
			i.ID, d.network.pods())}
		return s
	}
	if d.limit > 0 {
		s.Why = Problem{PrefixesLimited,
			fmt.Sprintf("pods.ipv4.prefixes.max of NodeENI %s is %d, and an interface of %s takes %d prefixes in addition to "+
				"its addresses; it grows up to that; lower max, or use a larger instance type", m.NodeENI, m.PodPrefixes.Max,
				d.instanceType, d.limit)}
		return s
	}
	s.Why = m.keptAddresses(i, d)
	return s
}

// keptAddresses returns the problem of an interface that keeps more addresses of one form than its NodeENI asks for;
// the zero Problem if it does not.
func (m *Interface) keptAddresses(i *eni.Interface, d addressDemand) Problem {
	fixed := i.Addresses
	fixed.SecondaryIPv4 = d.floating.fixed(fixed.SecondaryIPv4)
	want, have, ours := m.Settings.Spec.AddressCounts, fixed.Counts(), fixed.Common(d.requested).Counts()
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
			return Problem{AddressesKept,
				fmt.Sprintf("%s keeps its %d %s, although its NodeENI asks for %d: multieni has a record of requesting only %d, "+
					"and the others may be in use; unassign those that nothing uses with aws ec2 %s --network-interface-id %s",
					i.ID, form.have, form.name, form.want, form.ours, unassignCommand(form.name), i.ID)}
		}
	}
	return Problem{}
}

// unassignCommand returns the AWS CLI command that unassigns a form of addresses.
func unassignCommand(form string) string {
	if strings.HasPrefix(form, "IPv6") {
		return "unassign-ipv6-addresses"
	}
	return "unassign-private-ip-addresses"
}
