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
	// moved is when EC2 accepted the last move of an address by a process, and arrived the last interface on which an
	// agent wrote that an address came up, by CLUSTER OBJECT.
	moved   map[string]time.Time
	arrived map[string]string
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
		moved: map[string]time.Time{}, arrived: map[string]string{},
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
	h.startObserved()
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
