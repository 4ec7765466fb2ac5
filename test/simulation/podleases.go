// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/podnet"
)

// disks draws what happens to the files of nodes, and which pods end without a call of the CNI program. It has a random
// stream of its own, so that it shifts no other draw.
type disks struct{ random *rand.Rand }

func newDisks(seed uint64) *disks { return &disks{rand.New(rand.NewPCG(seed, 0xd5))} }

// beginBoot gives the host another boot ID.
func (h *podHost) beginBoot() {
	h.bootsBegun++
	h.boot = podnet.Boot{ID: fmt.Sprintf("boot-%d", h.bootsBegun), Time: h.now()}
}

// current returns the leases of a network as the agent and the CNI program read them: first those end whose pods are
// gone. The network namespaces tell that of pods of this boot alone.
func (h *podHost) current(at string) []podnet.Lease {
	gone := func(l podnet.Lease) bool {
		return l.BootID == h.boot.ID &&
			!slices.ContainsFunc(h.using[at], func(p runningPod) bool { return l.Is(p.holder) })
	}
	kept, _, _ := podnet.Sweep(h.leases[at], h.boot, h.now(), gone)
	h.leases[at] = kept
	return kept
}

// put stores the lease of an address, in place of the former one.
func (h *podHost) put(at string, lease podnet.Lease) {
	h.leases[at] = append(slices.DeleteFunc(h.leases[at], func(l podnet.Lease) bool {
		return l.Address == lease.Address
	}), lease)
}

// damageFile at times damages one file of the host: a lease, the file of a network, or the checkpoint.
func (h *podHost) damageFile() {
	r := h.c.run
	switch r.disks.random.IntN(300) {
	case 0:
		h.damageLease()
	case 1:
		if h.checkpoint != nil {
			h.loseCheckpoint() // the agent reports the error, and starts without one
			r.covers.Actors[damagesCheckpoint]++
			r.note(nil, "%s: the checkpoint of node %s is damaged", h.c.name, h.node)
		}
	case 2:
		for _, network := range slices.Sorted(maps.Keys(h.files)) {
			if h.loseFile(network) {
				r.covers.Actors[damagesNetwork]++
				r.note(nil, "%s: the file of network %s of node %s is damaged", h.c.name, network, h.node)
				return
			}
		}
	default:
	}
}

// damageLease damages the file of a lease in use. Only its name has the address then.
func (h *podHost) damageLease() {
	for _, network := range slices.Sorted(maps.Keys(h.leases)) {
		for n, lease := range h.leases[network] {
			if !lease.InUse() || lease.Unreadable {
				continue
			}
			h.leases[network][n] = podnet.Lease{Address: lease.Address, Since: h.now(),
				Holder: podnet.Holder{ContainerID: "unreadable", Interface: "unreadable"}, Unreadable: true}
			h.c.run.covers.Actors[damagesLease]++
			h.c.run.note(nil, "%s: the lease of %s of network %s of node %s is damaged", h.c.name, lease.Address, network,
				h.node)
			return
		}
	}
}

// deleteDamaged lets a user delete the damaged leases of addresses that no pod has, as the agent's report says.
func (h *podHost) deleteDamaged() {
	for network := range h.leases {
		h.leases[network] = slices.DeleteFunc(h.leases[network], func(l podnet.Lease) bool {
			return l.Unreadable && l.InUse() && !h.has(network, l.Address)
		})
	}
}

// has reports whether a pod has an address of a network.
func (h *podHost) has(network string, address netip.Addr) bool {
	return slices.ContainsFunc(h.using[network], func(p runningPod) bool { return slices.Contains(p.addresses, address) })
}

// metadata is the answer of instance metadata.
func (h *podHost) metadata() eni.Metadata {
	m := eni.Metadata{InstanceID: h.instance}
	for _, i := range h.c.run.truth().ordered {
		if !i.AttachedTo(h.instance) {
			continue
		}
		if i.Attachment.Slot == eni.Primary {
			m.PrimaryMAC = i.MAC
		}
		m.Interfaces = append(m.Interfaces, i)
	}
	return m
}
