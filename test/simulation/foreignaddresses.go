// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
)

// mostForeignAddresses is how many addresses others assign to one interface: the smallest instance type takes ten.
const mostForeignAddresses = 2

// foreignAddresses is a program that assigns addresses of its own to the product's interfaces, as scripts, sidecars and
// VRRP hooks do. It has a random stream of its own, so that it shifts no other draw.
type foreignAddresses struct {
	random *rand.Rand
	acts   bool
	// on has, by interface, the addresses that it assigned and has not unassigned since.
	on map[string][]netip.Addr
}

func newForeignAddresses(seed uint64) *foreignAddresses {
	f := &foreignAddresses{random: rand.New(rand.NewPCG(seed, 0xf0)), on: map[string][]netip.Addr{}}
	f.acts = f.random.IntN(3) == 0
	return f
}

// moveForeignAddresses at times lets the other program act.
func (r *run) moveForeignAddresses() {
	f := r.foreign
	if !f.acts || r.faults.off || f.random.IntN(25) > 0 {
		return
	}
	var ours []eni.Interface
	for _, c := range r.clusters {
		for _, i := range r.truth().owned[c.name] {
			if i.Attachment != nil && !r.watch.tampered(i.ID) {
				ours = append(ours, i)
			}
		}
	}
	if len(ours) == 0 {
		return
	}
	i := ours[f.random.IntN(len(ours))]
	on := f.on[i.ID]
	if len(on) >= mostForeignAddresses || len(on) > 0 && f.random.IntN(2) == 0 {
		r.unassignForeign(i, on[0])
		return
	}
	r.assignForeign(i)
}

func (r *run) assignForeign(i eni.Interface) {
	cidr := ""
	for _, s := range subnets {
		if s.id == i.SubnetID {
			cidr = s.cidr
		}
	}
	block := netip.MustParsePrefix(cidr)
	if block.Bits() > 24 {
		return // no room next to the addresses that EC2 chooses
	}
	bytes := block.Addr().As4()
	bytes[3] = byte(200 + r.foreign.random.IntN(50))
	address := netip.AddrFrom4(bytes)
	_, err := r.model.AssignPrivateIPAddresses(r.call(), &ec2.AssignPrivateIPAddressesInput{
		NetworkInterfaceID: i.ID, PrivateIPAddresses: []string{address.String()},
	})
	if err != nil {
		return
	}
	r.note(nil, "a person assigns %s to %s", address, i.ID)
	r.foreign.on[i.ID] = append(r.foreign.on[i.ID], address)
	r.judged("I15")
	r.touched()
}

func (r *run) unassignForeign(i eni.Interface, address netip.Addr) {
	r.note(nil, "a person unassigns %s from %s", address, i.ID)
	_, _ = r.model.UnassignPrivateIPAddresses(r.call(), &ec2.UnassignPrivateIPAddressesInput{
		NetworkInterfaceID: i.ID, PrivateIPAddresses: []string{address.String()},
	})
	r.foreign.on[i.ID] = slices.DeleteFunc(r.foreign.on[i.ID], func(a netip.Addr) bool { return a == address })
	r.touched()
}

// unassigning checks I15: the product unassigns no address that another program assigned.
func (r *run) unassigning(p *process, q request) {
	if theirs := q.unassigns.Common(eni.Addresses{SecondaryIPv4: r.foreign.on[q.target]}).SecondaryIPv4; len(theirs) > 0 {
		r.violate("I15", "%s unassigns %v from %s, which another program assigned", p.name, theirs, q.target)
	}
}

// noteCounts records the numbers of addresses that a NodeENI declares.
func (r *run) noteCounts(c *cluster, nodeENI *v1alpha1.NodeENI) {
	spec, key := nodeENI.Spec, c.name+"/"+nodeENI.Name
	most := r.watch.counts[key]
	most.SecondaryIPv4 = max(most.SecondaryIPv4, int(spec.SecondaryPrivateIPAddressCount))
	most.IPv4Prefixes = max(most.IPv4Prefixes, leastPrefixes(spec))
	if spec.Pods != nil && spec.Pods.IPv4 != nil {
		most.IPv4Prefixes = max(most.IPv4Prefixes, int(spec.Pods.IPv4.Prefixes.Max))
	}
	most.IPv6 = max(most.IPv6, int(spec.IPv6AddressCount))
	most.IPv6Prefixes = max(most.IPv6Prefixes, leastIPv6Prefixes(spec))
	r.watch.counts[key] = most
}

// assigning checks I15: no call lets EC2 choose addresses that the interface has already. Such a call has no client
// token, and no record names the addresses of a second one. Addresses within the ranges of pods do not count, since
// they leave the interface again: EC2 can choose one.
func (r *run) assigning(p *process, q request) {
	i := r.truth().interfaces[q.target]
	most, known := r.watch.counts[p.cluster.name+"/"+r.spotOf(i).nodeENI]
	if q.assigns == (eni.AddressCounts{}) || !known || r.watch.tampered(q.target) {
		return
	}
	r.judged("I15")
	ofPods := slices.DeleteFunc(slices.Clone(i.SecondaryIPv4), func(a netip.Addr) bool { return !p.cluster.floats(a) })
	others := eni.Addresses{SecondaryIPv4: slices.Concat(r.foreign.on[i.ID], ofPods)}
	have, more := i.Without(others).Counts(), q.assigns
	if have.SecondaryIPv4+more.SecondaryIPv4 > most.SecondaryIPv4 && more.SecondaryIPv4 > 0 ||
		have.IPv4Prefixes+more.IPv4Prefixes > most.IPv4Prefixes && more.IPv4Prefixes > 0 ||
		have.IPv6+more.IPv6 > most.IPv6 && more.IPv6 > 0 ||
		have.IPv6Prefixes+more.IPv6Prefixes > most.IPv6Prefixes && more.IPv6Prefixes > 0 {
		r.violate("I15", "%s assigns %+v to %s, which has %v, without others %+v, and at most %+v were ever declared: %s",
			p.name, more, q.target, i.SecondaryIPv4, have, most, r.describe(i))
	}
}

// requested returns what an object records of an interface's addresses: those that the product requested, without those
// that pods use. An interface for pods, or one that is held, keeps all: its object does not say which of them pods use.
// A granted prefix stays, also when the interface is no network for pods any more: nothing returns it.
func (c *cluster) requested(i eni.Interface) eni.Addresses {
	n := c.api.interfaceOf(i.ID)
	if n == nil || n.Spec.Pods != nil || n.Held() || c.run.mayUseAll(i.ID) {
		return eni.Addresses{}
	}
	var requested eni.Addresses
	for _, text := range n.Status.Requested {
		if n.Status.Pods != nil && slices.Contains(n.Status.Pods.Prefixes, text) {
			continue
		}
		if prefix, err := netip.ParsePrefix(text); err == nil {
			if prefix.Addr().Is4() {
				requested.IPv4Prefixes = append(requested.IPv4Prefixes, prefix)
			} else {
				requested.IPv6Prefixes = append(requested.IPv6Prefixes, prefix)
			}
		} else if address := netip.MustParseAddr(text); address.Is4() {
			requested.SecondaryIPv4 = append(requested.SecondaryIPv4, address)
		} else {
			requested.IPv6 = append(requested.IPv6, address)
		}
	}
	return i.Common(requested)
}

// wrongAddresses reports whether an interface has fewer addresses than its NodeENI asks for, or more requested ones.
// Addresses that no record names as requested stay.
func (c expectedClaim) wrongAddresses(have, requested eni.AddressCounts) bool {
	spec := c.nodeENI.Spec
	if spec.Pods != nil { // its prefixes follow its pods, and stay while it is a pod network
		requested.IPv4Prefixes, requested.IPv6Prefixes = 0, 0
	}
	wrong := func(want int32, have, requested int) bool { return have < int(want) || requested > int(want) }
	return wrong(spec.SecondaryPrivateIPAddressCount, have.SecondaryIPv4, requested.SecondaryIPv4) ||
		wrong(int32(leastPrefixes(spec)), have.IPv4Prefixes, requested.IPv4Prefixes) ||
		wrong(spec.IPv6AddressCount, have.IPv6, requested.IPv6) ||
		wrong(int32(leastIPv6Prefixes(spec)), have.IPv6Prefixes, requested.IPv6Prefixes)
}
