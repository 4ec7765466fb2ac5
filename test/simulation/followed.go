// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
)

const (
	// claimRetention is how long an agent reports an address that is gone.
	claimRetention = time.Minute
	// plannedBefore is how long a planned call can wait for the calls before it. A claim that came since is served by the
	// next plan.
	plannedBefore = 10 * time.Second
	// mostBrought is how many addresses pods bring up on one interface: the smallest instance type takes ten.
	mostBrought = 3
)

// followers draws what pods do with addresses that they bring up themselves. It has a random stream of its own, so that
// it shifts no other draw.
type followers struct {
	random *rand.Rand
	acts   bool
	// brought has every address that a pod ever brought up on an interface.
	brought map[string]map[netip.Addr]bool
	// healed are the hosts whose pods brought up addresses after the healing.
	healed map[*podHost]bool
}

func newFollowers(seed uint64) *followers {
	f := &followers{random: rand.New(rand.NewPCG(seed, 0xf1)), brought: map[string]map[netip.Addr]bool{},
		healed: map[*podHost]bool{}}
	f.acts = f.random.IntN(2) == 0
	return f
}

// floatingRanges are the ranges that a cluster declares, one in each subnet with room. Each cluster has ranges of its
// own.
func (c *cluster) floatingRanges(bits int) (ranges []string) {
	for _, s := range subnets {
		block := netip.MustParsePrefix(s.cidr)
		if block.Bits() > 24 {
			continue
		}
		ranges = append(ranges, netip.PrefixFrom(inBlock(block, c.firstFloating()), bits).String())
	}
	return ranges
}

func (c *cluster) firstFloating() byte {
	if c.name == "red" {
		return 160
	}
	return 168
}

func inBlock(block netip.Prefix, last byte) netip.Addr {
	bytes := block.Addr().As4()
	bytes[3] = last
	return netip.AddrFrom4(bytes)
}

// declareFollowing lets addresses of a NodeENI follow pods, in all of the cluster's ranges or in a half of each.
func (c *cluster) declareFollowing(pods *v1alpha1.NodeENIPods) {
	if f := c.run.followers; f.acts && pods != nil {
		pods.Floating = c.floatingRanges(29 + f.random.IntN(2))
	}
}

// followOnce starts pods of a host that bring up addresses after the healing, so that each run has some that must be
// served.
func (h *podHost) followOnce() {
	f := h.c.run.followers
	if !f.acts || f.healed[h] || len(h.files) == 0 {
		return
	}
	f.healed[h] = true
	h.startPod()
	for range mostBrought {
		h.moveAddress()
	}
}

// follow at times lets a pod of the host bring up an address on the interface that it uses, or drop one.
func (h *podHost) follow() {
	f := h.c.run.followers
	if f.acts && f.random.IntN(8) == 0 {
		h.moveAddress()
	}
}

func (h *podHost) moveAddress() {
	f := h.c.run.followers
	network, is := h.firstInUse()
	if !is {
		return
	}
	id := h.using[network][0].eni
	on := h.brought[id]
	if len(on) >= mostBrought || len(on) > 0 && f.random.IntN(2) == 0 {
		h.drop(id, slices.SortedFunc(maps.Keys(on), netip.Addr.Compare)[f.random.IntN(len(on))])
	} else if i, exists := h.c.run.truth().interfaces[id]; exists && h.hasLink(id) {
		h.bringUp(i)
	}
}

// firstInUse returns the first network, by name, that pods of the host use.
func (h *podHost) firstInUse() (network string, is bool) {
	for _, network := range slices.Sorted(maps.Keys(h.using)) {
		if len(h.using[network]) > 0 {
			return network, true
		}
	}
	return "", false
}

// bringUp adds an address. It is rarely outside the declared ranges.
func (h *podHost) bringUp(i eni.Interface) {
	f := h.c.run.followers
	at := slices.IndexFunc(subnets, func(s place) bool { return s.id == i.SubnetID })
	block := netip.MustParsePrefix(subnets[at].cidr)
	if block.Bits() > 24 {
		return
	}
	last := h.c.firstFloating() + byte(f.random.IntN(8))
	if f.random.IntN(6) == 0 {
		last = 150
	}
	address := inBlock(block, last)
	if h.brought[i.ID] == nil {
		h.brought[i.ID] = map[netip.Addr]bool{}
	}
	if h.brought[i.ID][address] {
		return
	}
	h.brought[i.ID][address] = true
	if f.brought[i.ID] == nil {
		f.brought[i.ID] = map[netip.Addr]bool{}
	}
	f.brought[i.ID][address] = true
	h.c.run.covers.Actors[bringsAddress]++
	h.c.run.watch.spent.needed += 2 // the address is assigned, and unassigned in the end
	h.c.run.note(nil, "%s: a pod of node %s brings up %s on %s", h.c.name, h.node, address, i.ID)
}

func (h *podHost) drop(id string, address netip.Addr) {
	h.c.run.note(nil, "%s: a pod of node %s drops %s from %s", h.c.name, h.node, address, id)
	delete(h.brought[id], address)
}

// forgetBrought removes the addresses of interfaces that no pod uses any more.
func (h *podHost) forgetBrought() {
	used := map[string]bool{}
	for _, pods := range h.using {
		for _, pod := range pods {
			used[pod.eni] = true
		}
	}
	maps.DeleteFunc(h.brought, func(id string, _ map[netip.Addr]bool) bool { return !used[id] })
}

// claims returns what the agent reports about an interface's addresses, from its last report and the present state of
// the kernel.
func (h *podHost) claims(id string, ranges []netip.Prefix,
	last *v1alpha1.PodNetworkState) (now []v1alpha1.PodAddressClaim) {
	reported := map[netip.Addr]bool{}
	at := metav1.NewMicroTime(h.c.run.now)
	if last != nil {
		for _, claim := range last.Claims {
			address := netip.MustParseAddr(claim.Address)
			switch present := h.brought[id][address]; {
			case present && claim.ReleasedAt == nil:
			case present:
				claim = h.newClaim(address, at)
			case claim.ReleasedAt == nil:
				claim.ReleasedAt = &at
			case h.c.run.now.Sub(claim.ReleasedAt.Time) >= claimRetention:
				continue
			}
			reported[address], now = true, append(now, claim)
		}
	}
	for address := range h.brought[id] {
		declared := slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(address) })
		if declared && !reported[address] {
			now = append(now, h.newClaim(address, at))
		}
	}
	slices.SortFunc(now, func(a, b v1alpha1.PodAddressClaim) int {
		return netip.MustParseAddr(a.Address).Compare(netip.MustParseAddr(b.Address))
	})
	return now
}

func (h *podHost) newClaim(address netip.Addr, at metav1.MicroTime) v1alpha1.PodAddressClaim {
	h.sequence++
	return v1alpha1.PodAddressClaim{Address: address.String(), Sequence: at.UnixMicro() + h.sequence, Since: at}
}

// floats reports whether an address is in a range that the cluster's NodeENIs declare.
func (c *cluster) floats(address netip.Addr) bool {
	return slices.ContainsFunc(c.floatingRanges(29), func(text string) bool {
		return netip.MustParsePrefix(text).Contains(address)
	})
}

// moving checks I18: a call moves only an address that a pod on the interface brought up, within declared ranges. It
// moves none from the interface that a live claim known to the process names, unless the claim is outlived. The cache
// of the process may have a claim that the API server does not have any more, as the process knows from a read past the
// cache.
func (r *run) moving(p *process, q request) {
	for _, address := range q.reassigns {
		r.judged("I18")
		if !p.cluster.floats(address) || !r.followers.brought[q.target][address] {
			r.violate("I18", "%s moves %s to %s, where no pod brought it up within the declared ranges", p.name,
				address, q.target)
		}
	}
	for _, address := range q.unassigns.SecondaryIPv4 {
		claimed := func(object client.Object) bool {
			claim := liveClaim(object.(*v1alpha1.NodeENIState), q.target, address)
			return claim != nil && r.now.Sub(claim.Since.Time) > plannedBefore &&
				!r.outlived(object.GetName(), q.target, address)
		}
		if slices.ContainsFunc(p.informers.known(states), claimed) &&
			slices.ContainsFunc(p.cluster.api.all(states), claimed) {
			r.violate("I18", "%s unassigns %s from %s, where a pod has it", p.name, address, q.target)
		}
	}
}

// outlived reports whether the claim of a node on an address of an interface is older than the pods of the instance: it
// booted, and registered under another name, so no agent changes the claim any more.
func (r *run) outlived(node, id string, address netip.Addr) bool {
	i, exists := r.truth().interfaces[id]
	if !exists || i.Attachment == nil {
		return false
	}
	host := r.pods.hosts[i.Attachment.InstanceID]
	return host != nil && host.node != node && !host.brought[id][address]
}

func liveClaim(state *v1alpha1.NodeENIState, id string, address netip.Addr) *v1alpha1.PodAddressClaim {
	for _, network := range state.Status.PodNetworks {
		for n, claim := range network.Claims {
			if network.ENIID == id && claim.Address == address.String() && claim.ReleasedAt == nil {
				return &network.Claims[n]
			}
		}
	}
	return nil
}

// followedOn returns the addresses of an interface that pods have, or had shortly before.
func followedOn(state *v1alpha1.NodeENIState, id string) (addresses []netip.Addr) {
	for _, network := range state.Status.PodNetworks {
		for _, claim := range controller.AddressClaims(state, network) {
			if claim.InterfaceID == id {
				addresses = append(addresses, claim.Address)
			}
		}
	}
	return addresses
}

// checkFollowed checks that each address with a live claim is on the interface of a claim.
// [expectedClaim.wrongAddresses] checks that EC2 has no address of the ranges without a claim.
func (c *cluster) checkFollowed() *Violation {
	wanted, holders, claimants := c.claims(), map[netip.Addr]string{}, map[netip.Addr][]string{}
	serves := func(id string) bool { // an interface that must be removed, or is retained, stays as it is
		i, exists := c.run.truth().interfaces[id]
		_, is := wanted[spotOf(i)]
		return exists && is && !c.run.watch.tampered(id)
	}
	for _, i := range c.run.truth().ordered {
		for _, address := range i.SecondaryIPv4 {
			holders[address] = i.ID
		}
	}
	inPrefix := func(address netip.Addr) bool { // pods can get an address of a prefix, and EC2 moves none
		return slices.ContainsFunc(c.run.truth().ordered, func(i eni.Interface) bool {
			return slices.ContainsFunc(i.IPv4Prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
		})
	}
	for _, object := range c.api.all(states) {
		for _, claim := range controller.FollowingClaims(object.(*v1alpha1.NodeENIState)) {
			if !claim.Released && serves(claim.InterfaceID) {
				claimants[claim.Address] = append(claimants[claim.Address], claim.InterfaceID)
			}
		}
	}
	for _, address := range slices.SortedFunc(maps.Keys(claimants), netip.Addr.Compare) {
		c.run.judged("I18")
		if !slices.Contains(claimants[address], holders[address]) && !inPrefix(address) {
			return &Violation{"I18", fmt.Sprintf("%s is on %q, and pods have it on %v", address, holders[address],
				claimants[address])}
		}
	}
	return nil
}
