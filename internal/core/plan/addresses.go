// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/message"
)

// A count of addresses is a floor. Other programs assign addresses to interfaces as well: the planner assigns what is
// missing, and unassigns only addresses that EC2 chose for our counts. It unassigns nothing that pods may use.

// demand is the demand for addresses of one interface.
type demand struct {
	// counts are the minimum counts, with the prefixes that pods want.
	counts eni.AddressCounts
	// requested are the addresses that multieni requested, and kept those that pods may use. If keepsAll is set, pods may
	// use any.
	requested eni.Addresses
	kept      eni.Addresses
	keepsAll  bool
	// floating are the addresses of the interface that follow pods.
	floating []netip.Addr
	// countedAt is the time from which a read certainly counts all addresses that EC2 assigned by a number; zero if it
	// does now.
	countedAt time.Time
	// most is the largest number of IPv4 prefixes that pods may have, and limit the largest one that the instance type
	// supports if that is less; else 0.
	most, limit int
}

// demandOf returns the demand for addresses of an existing interface.
func (p *planner) demandOf(m *item) demand {
	d := demand{
		counts: m.Settings.AddressCounts, requested: m.Requested.With(m.record.Requested), floating: m.Floating,
		keepsAll: m.Prefixes.Pods || m.Held, countedAt: p.countedAt(m),
	}
	for _, prefix := range m.Prefixes.Granted {
		if prefix.Addr().Is4() {
			d.kept.IPv4Prefixes = append(d.kept.IPv4Prefixes, prefix)
		} else {
			d.kept.IPv6Prefixes = append(d.kept.IPv6Prefixes, prefix)
		}
	}
	if !m.Prefixes.Pods {
		return d
	}
	d.most = m.Prefixes.Max
	if room := p.Limits.IPv4 - 1 - len(m.record.SecondaryIPv4); p.Limits.IPv4 > 0 && d.most > room {
		d.limit = max(room, 1) // a minimum above the limit is AddressLimit
		d.most = d.limit
	}
	d.counts.IPv4Prefixes = max(d.counts.IPv4Prefixes, min(m.Prefixes.Wanted, d.most))
	return d
}

// countedAt returns the time from which a read counts all addresses that EC2 assigned by a number, or zero if the read
// on which calls depend does. EC2 has no client token for these calls: a late one of an earlier leader, or one of this
// process without an answer, would assign more than the interface needs. The read of an interface can be older than the
// snapshot: one without the effect of a call counts for nothing.
func (p *planner) countedAt(m *item) time.Time {
	at, read := p.addressesSettledAt(m), p.now
	if p.Snapshot != nil {
		read = p.Snapshot.At
	}
	switch {
	case read.Before(at):
		return at
	case p.Snapshot != nil && !m.isLaunched && m.record.LastRead.Before(at):
		return p.now.Add(uncertainRecheck)
	default:
		return time.Time{}
	}
}

// addressesSettledAt returns the time from which a read of the interface certainly shows all changes of its addresses.
func (p *planner) addressesSettledAt(m *item) time.Time {
	at := p.Era.SettledAt()
	for _, last := range p.Attempts[m.Key.UID].Updates {
		change, _ := last.Call.(Change)
		switch change.To.(type) {
		case AssignAddresses, UnassignAddresses:
			if last.Class == eni.Transient {
				at = later(at, last.At.Add(inventory.StaleReadWindow))
			}
		}
	}
	return at
}

// granted returns the prefixes that pods may use: those that the object grants and the interface has, and those that
// EC2 named in an answer to this process or in a read that shows the effects of all earlier calls. An interface that is
// no network for pods any more keeps its grants while pods may use it.
func (p *planner) granted(m *item) []netip.Prefix {
	if !m.Prefixes.Pods && !m.Held {
		return nil
	}
	if m.record == nil || m.record.Missing {
		return m.Prefixes.Granted
	}
	r := m.record
	has := slices.Concat(r.IPv4Prefixes, r.IPv6Prefixes)
	answered := slices.Concat(r.Requested.IPv4Prefixes, r.Requested.IPv6Prefixes)
	settled := !r.LastRead.Before(p.addressesSettledAt(m))
	if p.isUnassigning(m) { // the answers can be older than that call
		answered = nil
	}
	granted := slices.Clone(m.Prefixes.Granted)
	if settled {
		granted = slices.DeleteFunc(granted, func(prefix netip.Prefix) bool { return !slices.Contains(has, prefix) })
	}
	if m.Goal != Serve || !m.Prefixes.Pods {
		return granted
	}
	for _, prefix := range has {
		if (settled || slices.Contains(answered, prefix)) && !slices.Contains(granted, prefix) {
			granted = append(granted, prefix)
		}
	}
	return granted
}

// awaitsGrant reports whether the interface has a prefix that pods may use once a read shows the effects of all calls.
func (p *planner) awaitsGrant(m *item) bool {
	if m.Goal != Serve || !m.Prefixes.Pods {
		return false
	}
	granted := p.granted(m)
	has := slices.Concat(m.record.IPv4Prefixes, m.record.IPv6Prefixes)
	return slices.ContainsFunc(has, func(prefix netip.Prefix) bool {
		return !slices.Contains(granted, prefix)
	})
}

// isUnassigning reports whether EC2 was asked to unassign addresses of the interface and has not answered.
func (p *planner) isUnassigning(m *item) bool {
	unassigns := func(call Call) bool {
		change, is := call.(Change)
		if !is || change.Key.UID != m.Key.UID {
			return false
		}
		_, is = change.To.(UnassignAddresses)
		return is
	}
	for _, last := range p.Attempts[m.Key.UID].Updates {
		if last.Class == eni.Transient && unassigns(last.Call) {
			return true
		}
	}
	return slices.ContainsFunc(p.InFlight, unassigns)
}

// fixed returns the addresses without those that follow pods.
func (d demand) fixed(all []netip.Addr) []netip.Addr { return without(all, d.floating) }

// surplus returns the addresses to unassign: the newest requested ones beyond the desired counts that no pod may use.
func (d demand) surplus(have eni.Addresses) eni.Addresses {
	if d.keepsAll {
		return eni.Addresses{}
	}
	ours := have.Common(d.requested)
	ours.SecondaryIPv4 = d.fixed(ours.SecondaryIPv4)
	free, counts := ours.Without(d.kept), ours.Counts()
	return eni.Addresses{
		SecondaryIPv4: last(free.SecondaryIPv4, counts.SecondaryIPv4-d.counts.SecondaryIPv4),
		IPv4Prefixes:  last(free.IPv4Prefixes, counts.IPv4Prefixes-d.counts.IPv4Prefixes),
		IPv6:          last(free.IPv6, counts.IPv6-d.counts.IPv6),
		IPv6Prefixes:  last(free.IPv6Prefixes, counts.IPv6Prefixes-d.counts.IPv6Prefixes),
	}
}

// changes returns the changes that bring the addresses of an interface to the desired counts. They unassign surplus
// addresses from the end, so that the oldest stay, and before they assign others, because both share one limit.
func (d demand) changes(have eni.Addresses) []Attribute {
	surplus, lacking := d.surplus(have), d.lacking(have)
	if !d.countedAt.IsZero() {
		lacking = eni.AddressCounts{}
	}
	more := func(family Family, addresses, prefixes int) Attribute {
		return AssignAddresses{Family: family, Addresses: addresses, Prefixes: prefixes, Had: have.Counts()}
	}
	return []Attribute{
		UnassignAddresses{IPv4, eni.Addresses{SecondaryIPv4: surplus.SecondaryIPv4, IPv4Prefixes: surplus.IPv4Prefixes}},
		UnassignAddresses{IPv6, eni.Addresses{IPv6: surplus.IPv6, IPv6Prefixes: surplus.IPv6Prefixes}},
		more(IPv4, lacking.SecondaryIPv4, 0),
		more(IPv4, 0, lacking.IPv4Prefixes),
		more(IPv6, lacking.IPv6, 0),
		more(IPv6, 0, lacking.IPv6Prefixes),
	}
}

// lacking returns the numbers of addresses to assign.
func (d demand) lacking(have eni.Addresses) eni.AddressCounts {
	counts := have.Counts()
	return eni.AddressCounts{
		SecondaryIPv4: max(0, d.counts.SecondaryIPv4-len(d.fixed(have.SecondaryIPv4))),
		IPv4Prefixes:  max(0, d.counts.IPv4Prefixes-counts.IPv4Prefixes),
		IPv6:          max(0, d.counts.IPv6-counts.IPv6),
		IPv6Prefixes:  max(0, d.counts.IPv6Prefixes-counts.IPv6Prefixes),
	}
}

// last returns the last n of all; n may be negative or too large.
func last[T interface{ netip.Addr | netip.Prefix }](all []T, n int) []T {
	if n = min(n, len(all)); n <= 0 {
		return nil
	}
	return all[len(all)-n:]
}

// addressProblem returns the problem of more addresses than one interface of the instance type supports; nil for fewer.
func addressProblem(m *item, limits eni.Limits, instanceType string) *Problem {
	want := m.Settings.AddressCounts
	v4, v6 := want.SecondaryIPv4+want.IPv4Prefixes, want.IPv6+want.IPv6Prefixes
	switch {
	case limits.IPv4 > 0 && 1+v4 > limits.IPv4:
		return &Problem{AddressLimit, message.TooManyIPv4(v4, limits.IPv4-1, instanceType, m.Prefixes.Max > 0)}
	case limits.IPv6 > 0 && v6 > limits.IPv6:
		return &Problem{AddressLimit, message.TooManyIPv6(v6, limits.IPv6, instanceType)}
	}
	return nil
}

// explainAddresses says why an interface has more addresses than its NodeENI asks for, or fewer than its pods may need.
// It can keep addresses that multieni requested and has no record of: a controller ended between its call and the
// record.
func (p *planner) explainAddresses(s step) step {
	m, i := s.m, s.m.record.Interface
	d := p.demandOf(m)
	awaited := p.awaitsGrant(m)
	switch {
	case !d.countedAt.IsZero() && (awaited || d.lacking(i.Addresses) != (eni.AddressCounts{})):
		s = s.requeue(d.countedAt)
	case awaited:
		s.needsRead = s.needsRead || p.Snapshot == nil
	}
	switch {
	case s.Phase != Attached || s.Problem.Reason != "":
	case d.keepsAll && d.inUse(i.Addresses):
		s.Problem = Problem{AddressesInUse, message.AddressesInUse(i.ID)}
	case d.limit > 0:
		s.Problem = Problem{PrefixesLimited,
			message.PrefixesLimited(m.Key.NodeENI, m.Prefixes.Max, p.slots.instanceType, d.limit)}
	case !d.keepsAll:
		s.Problem = d.keptAddresses(&i)
	}
	return s
}

// inUse reports whether the interface keeps requested addresses above the maximum counts because pods may use them.
func (d demand) inUse(have eni.Addresses) bool {
	d.counts.IPv4Prefixes = max(d.counts.IPv4Prefixes, d.most)
	unused := d
	unused.keepsAll, unused.kept = false, eni.Addresses{}
	return d.surplus(have).Counts() != unused.surplus(have).Counts()
}

// keptAddresses returns the problem of an interface that keeps more addresses of one form than its NodeENI asks for;
// the zero Problem if it does not.
func (d demand) keptAddresses(i *eni.Interface) Problem {
	fixed := i.Addresses
	fixed.SecondaryIPv4 = d.fixed(fixed.SecondaryIPv4)
	want, have, ours := d.counts, fixed.Counts(), fixed.Common(d.requested).Counts()
	for _, n := range []struct {
		form             message.Form
		want, have, ours int
	}{
		{message.SecondaryIPv4, want.SecondaryIPv4, have.SecondaryIPv4, ours.SecondaryIPv4},
		{message.IPv4Prefixes, want.IPv4Prefixes, have.IPv4Prefixes, ours.IPv4Prefixes},
		{message.IPv6, want.IPv6, have.IPv6, ours.IPv6},
		{message.IPv6Prefixes, want.IPv6Prefixes, have.IPv6Prefixes, ours.IPv6Prefixes},
	} {
		if n.want > 0 && n.have > n.want && n.ours < n.want {
			return Problem{AddressesKept, message.AddressesKept(i.ID, n.form, n.want, n.have, n.ours)}
		}
	}
	return Problem{}
}
