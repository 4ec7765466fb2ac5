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

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
)

const (
	// plannedBefore is how long a call can be under way after the controller has read the holder.
	plannedBefore = 10 * time.Second
	// mostBrought is how many addresses pods bring up on one interface: the smallest instance type takes ten.
	mostBrought = 3
	// mostCreations is how often an address gets an object within creationsWithin. An object lives for a minute at least,
	// unless a user deletes it or an edit excludes the address.
	mostCreations, creationsWithin = 12, 10 * time.Minute
)

// followers draws what pods do with addresses that they bring up themselves. It has a random stream of its own, so that
// it shifts no other draw.
type followers struct {
	random *rand.Rand
	acts   bool
	// brought has every address that a pod ever brought up on an interface.
	brought map[string]map[netip.Addr]bool
	// assigned has the addresses that processes assigned, as INTERFACE ADDRESS.
	assigned map[string]bool
	// healed are the hosts whose pods brought up addresses after the healing.
	healed map[*podHost]bool
	// created has the times at which each address got an object, and heldSince when its holder was written, by CLUSTER
	// OBJECT.
	created   map[string][]time.Time
	heldSince map[string]time.Time
}

func newFollowers(seed uint64) *followers {
	f := &followers{random: rand.New(rand.NewPCG(seed, 0xf1)), brought: map[string]map[netip.Addr]bool{},
		assigned: map[string]bool{}, healed: map[*podHost]bool{}, created: map[string][]time.Time{},
		heldSince: map[string]time.Time{}}
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
	f := c.run.followers
	if !f.acts || pods == nil {
		return
	}
	if pods.Attachment == v1alpha1.PodAttachmentHostDevice && f.random.IntN(2) == 0 {
		pods.Attachment, pods.Namespaces = v1alpha1.PodAttachmentObserved, nil
	}
	pods.Floating = c.floatingRanges(29 + f.random.IntN(2))
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
	for range h.c.run.mostBrought() {
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
	if len(on) >= h.c.run.mostBrought() || len(on) > 0 && f.random.IntN(2) == 0 {
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
	h.bringUpAddress(i, inBlock(block, last))
}

// bringUpAddress adds an address, unless the pod has it.
func (h *podHost) bringUpAddress(i eni.Interface, address netip.Addr) {
	if h.brought[i.ID] == nil {
		h.brought[i.ID] = map[netip.Addr]bool{}
	}
	if h.brought[i.ID][address] {
		return
	}
	h.brought[i.ID][address] = true
	h.cameAt[i.ID+" "+address.String()] = h.c.run.now
	if h.agent == servesPods {
		h.came[v1alpha1.FloatingAddressName(i.SubnetID, address.String())] = true
	}
	h.noteBrought(i.ID, address)
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

// checkCreations checks that agents and the controller do not create and delete the object of an address without end.
func (c *cluster) checkCreations(name string) {
	r := c.run
	r.judged("I13")
	key := c.name + " " + name
	times := append(r.followers.created[key], r.now)
	r.followers.created[key] = times
	if earlier := len(times) - 1 - mostCreations; earlier >= 0 && r.now.Sub(times[earlier]) <= creationsWithin {
		r.violate("I13", "agents of %s created FloatingAddress %s more than %d times within %s", c.name, name, mostCreations,
			seconds(creationsWithin))
	}
}

// assignmentDigest summarizes what a controller says of an address, for the trace.
func assignmentDigest(st v1alpha1.FloatingAddressStatus) string {
	text := "no assignment"
	if a := st.Assignment; a != nil {
		text = fmt.Sprintf("assigned to %s for holder %d, found %t", a.ENIID, a.Sequence, a.Found)
	}
	for _, c := range st.Conditions {
		text += fmt.Sprintf(", %s %s %s", c.Type, c.Status, c.Reason)
	}
	return text
}

// holding returns the object of an address in the subnet of an interface, or nil.
func (c *cluster) holding(id string, address netip.Addr) *v1alpha1.FloatingAddress {
	name := v1alpha1.FloatingAddressName(c.run.truth().interfaces[id].SubnetID, address.String())
	object, _ := c.api.get(floatingAddresses, name).(*v1alpha1.FloatingAddress)
	return object
}

// holdsStill reports whether the object names an interface as the holder, and has named it for longer than a call can
// be under way.
func (c *cluster) holdsStill(object *v1alpha1.FloatingAddress, id string) bool {
	return object != nil && object.DeletionTimestamp.IsZero() && object.Status.Holder != nil &&
		object.Status.Holder.ENIID == id && c.run.now.Sub(c.run.followers.heldSince[c.name+" "+object.Name]) > plannedBefore
}

// floats reports whether an address is in a range that the cluster's NodeENIs declare.
func (c *cluster) floats(address netip.Addr) bool {
	return c.grantsFixed(address) || slices.ContainsFunc(c.floatingRanges(29), func(text string) bool {
		return netip.MustParsePrefix(text).Contains(address)
	})
}

// moving checks I18: a call moves only an address that a pod on the interface brought up, within declared ranges. It
// takes none from the holder that the API server has, unless the call was under way when that became the holder.
func (r *run) moving(p *process, q request) {
	for _, address := range q.reassigns {
		r.judged("I18")
		if !p.cluster.floats(address) || !r.followers.brought[q.target][address] {
			r.violate("I18", "%s moves %s to %s, where no pod brought it up within the declared ranges", p.name,
				address, q.target)
		}
		object := p.cluster.holding(q.target, address)
		if object != nil && object.Status.Holder != nil && object.Status.Holder.ENIID != q.target && !p.expired &&
			p.cluster.holdsStill(object, object.Status.Holder.ENIID) {
			r.violate("I18", "%s moves %s to %s, and %s has been its holder for long", p.name, address, q.target,
				object.Status.Holder.ENIID)
		}
		r.takingBack(p, q.target, address)
		r.followers.assigned[q.target+" "+address.String()] = true
	}
	for _, address := range q.unassigns.SecondaryIPv4 {
		object := p.cluster.holding(q.target, address)
		if p.cluster.holdsStill(object, q.target) && !p.expired && r.hasBrought(q.target, address) {
			r.violate("I18", "%s unassigns %s from %s, where a pod has it", p.name, address, q.target)
		}
	}
}

// noteEndOf notes that an address has no object any more. It stays on an interface whose tags another program changed
// meanwhile: the product touches none without the cluster's tags. The product may not have read restored tags yet.
func (r *run) noteEndOf(object *v1alpha1.FloatingAddress) {
	for _, id := range controller.InterfacesOf(object) {
		restored := r.faults.off && r.now.Sub(r.watch.meddled[id]) <= staleness
		if restored || r.watch.tampered(id) {
			delete(r.followers.assigned, id+" "+object.Spec.Address)
		}
	}
}

// hasBrought reports whether a pod has an address on an interface.
func (r *run) hasBrought(id string, address netip.Addr) bool {
	i, exists := r.truth().interfaces[id]
	if !exists || i.Attachment == nil {
		return false
	}
	host := r.pods.hosts[i.Attachment.InstanceID]
	return host != nil && (host.brought[id][address] || host.leasesFixed(id, address))
}

// checkFollowed checks that each address that pods have is on the interface of one of them, which is its holder, and
// that nothing is left of an address that no pod has. The holder can be an interface without tags, which is not among
// the claimants.
func (c *cluster) checkFollowed() *Violation {
	claimants := c.claimants()
	at := map[netip.Addr]string{}
	for _, i := range c.run.truth().ordered {
		for _, address := range i.SecondaryIPv4 {
			at[address] = i.ID
		}
	}
	for _, address := range slices.SortedFunc(maps.Keys(claimants), netip.Addr.Compare) {
		c.run.judged("I18")
		object := c.holding(claimants[address][0], address)
		if cannotFollow(c.run.truth().ordered, address, object) {
			continue
		}
		if object == nil || object.Status.Holder == nil || object.Status.Holder.ENIID != at[address] ||
			!c.run.hasBrought(at[address], address) {
			return &Violation{"I18", fmt.Sprintf("%s is on %q, and pods have it on %v: %s", address, at[address],
				claimants[address], holdingDigest(object))}
		}
	}
	for _, object := range c.api.all(floatingAddresses) {
		address := object.(*v1alpha1.FloatingAddress)
		holder := address.Status.Holder
		if holder != nil && c.lacksAgent(holder.ENIID) {
			continue
		}
		if holder == nil || !c.run.hasBrought(holder.ENIID, netip.MustParseAddr(address.Spec.Address)) {
			return &Violation{"I18", fmt.Sprintf("no pod has %s, and its object is there: %s", address.Name,
				holdingDigest(address))}
		}
	}
	return c.checkLeftAddresses(at)
}

// cannotFollow reports whether EC2 moves an address nowhere: a prefix has it, and pods can get it from there, or EC2
// chose it for another interface, and its object says so.
func cannotFollow(all []eni.Interface, address netip.Addr, object *v1alpha1.FloatingAddress) bool {
	return inPrefix(all, address) || isPrimaryOfAny(all, address) && saysRefused(object)
}

// lacksAgent reports whether no Node names the instance of an interface, so that no agent can say that its pods ended.
func (c *cluster) lacksAgent(id string) bool {
	i, exists := c.run.truth().interfaces[id]
	return exists && i.Attachment != nil && len(c.nodesOf(i.Attachment.InstanceID)) == 0
}

// checkLeftAddresses checks that EC2 has no address that a process assigned and that has no object.
func (c *cluster) checkLeftAddresses(at map[netip.Addr]string) *Violation {
	wanted := c.claims()
	for _, address := range slices.SortedFunc(maps.Keys(at), netip.Addr.Compare) {
		id := at[address]
		i := c.run.truth().interfaces[id]
		_, served := wanted[spotOf(i)]
		ours := c.run.followers.assigned[id+" "+address.String()] && !slices.Contains(c.run.foreign.on[id], address)
		if ours && served && !c.run.watch.tampered(id) && c.holding(id, address) == nil {
			return &Violation{"I18", fmt.Sprintf("%s has %s, and no pod holds it", id, address)}
		}
	}
	return nil
}

func holdingDigest(object *v1alpha1.FloatingAddress) string {
	if object == nil {
		return "it has no object"
	}
	holder := "no pod"
	if object.Status.Holder != nil {
		holder = object.Status.Holder.NodeName + " " + object.Status.Holder.ENIID
	}
	return "held by " + holder + ", " + assignmentDigest(object.Status)
}

func inPrefix(all []eni.Interface, address netip.Addr) bool {
	return slices.ContainsFunc(all, func(i eni.Interface) bool {
		return slices.ContainsFunc(i.IPv4Prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
	})
}

// claimants returns the interfaces on which pods have an address within the ranges of the interface. An interface that
// must be removed, or is retained, stays as it is.
func (c *cluster) claimants() map[netip.Addr][]string {
	wanted, all := c.claims(), map[netip.Addr][]string{}
	for _, object := range c.api.all(states) {
		state := object.(*v1alpha1.NodeENIState)
		for _, said := range state.Status.Interfaces {
			i, exists := c.run.truth().interfaces[said.ENIID]
			_, is := wanted[spotOf(i)]
			if !exists || !is || c.run.watch.tampered(said.ENIID) || said.Phase != v1alpha1.PhaseAttached ||
				i.Attachment == nil || c.run.pods.hosts[i.Attachment.InstanceID] == nil {
				continue
			}
			host := c.run.pods.hosts[i.Attachment.InstanceID]
			ranges := controller.FloatingRanges(said.Pods)
			for address := range host.brought[i.ID] {
				declared := slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(address) })
				if host.node == state.Name && declared {
					all[address] = append(all[address], i.ID)
				}
			}
		}
	}
	return all
}
