// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/binary"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/instancetype"
	"github.com/multieni/multieni/internal/core/plan"
)

// isTrue reports whether the reason reported for a blocked object is true.
func (c *cluster) isTrue(reason plan.Reason, s desiredSlot, claim expectedClaim) bool {
	t := c.run.truth()
	limits, _ := instancetype.Offline(t.instances[s.instanceID].InstanceType)
	card := int(claim.nodeENI.Spec.NetworkCardIndex)
	switch reason {
	case plan.InstanceFull, plan.LimitReached:
		attached, onCard := c.slots(s.instanceID, card)
		return attached >= limits.Interfaces || onCard >= limits.MaxOnCard(card)
	case plan.NoSuchNetworkCard:
		return card >= len(limits.Cards)
	case plan.NoSuchDeviceIndex:
		last := int(claim.nodeENI.Spec.DeviceIndex) + len(claim.subnets) - 1
		return claim.nodeENI.Spec.DeviceIndexPolicy == v1alpha1.DeviceIndexExact && card < len(limits.Cards) &&
			last >= limits.MaxOnCard(card)
	case plan.SlotTaken:
		return c.anyTaken(s, claim)
	case plan.NotImported:
		return c.anyCopied(s)
	case plan.SubnetFull, plan.NoFreePrefix:
		return c.lacksRoom(claim)
	default:
		return false
	}
}

// anyCopied reports whether two interfaces have the tags of one of a NodeENI: a person copied them, or EC2 forgot a
// token.
func (c *cluster) anyCopied(s desiredSlot) bool {
	return slices.ContainsFunc(c.run.truth().ordered, func(i eni.Interface) bool {
		w := &c.run.watch
		return (w.strangers[i.ID] != nil || w.copies[i.ID] || w.twins[i.ID]) && i.Tags[identity.TagCluster] == c.name &&
			i.Tags[identity.TagNodeENI] == s.nodeENI
	})
}

// slots counts the slots of an instance that are taken, unusable, or reserved for a waiting object: all of them, and
// those on a card.
func (c *cluster) slots(instanceID string, card int) (all, onCard int) {
	for _, i := range c.run.truth().ordered {
		if i.AttachedTo(instanceID) {
			all++
			if i.Attachment.Slot.Card == card {
				onCard++
			}
		}
	}
	elsewhere := len(c.run.watch.ruined[instanceID]) + c.promised(instanceID)
	return all + elsewhere, onCard + elsewhere
}

// lacksRoom reports whether a subnet of the claim has too few free addresses for an interface of the claim.
func (c *cluster) lacksRoom(claim expectedClaim) bool {
	spec := claim.nodeENI.Spec
	return slices.ContainsFunc(claim.subnets, func(id string) bool {
		return c.run.broken.is(brokenSubnet, id) ||
			c.run.missingCapacity(id, 1+int(spec.SecondaryPrivateIPAddressCount), leastPrefixes(spec))
	})
}

// full reports whether the subnet of an interface has no room for the addresses that the interface lacks, and the
// status says so.
func (c *cluster) full(claim expectedClaim, i eni.Interface) bool {
	n, spec := c.api.interfaceOf(i.ID), claim.nodeENI.Spec
	lacking := int(spec.SecondaryPrivateIPAddressCount) - len(i.SecondaryIPv4)
	prefixes := c.run.grownPrefixes(spec, i) - len(i.IPv4Prefixes)
	return n != nil && c.run.missingCapacity(i.SubnetID, lacking, prefixes) &&
		slices.Contains([]plan.Reason{plan.SubnetFull, plan.NoFreePrefix}, plan.Reason(reasonOf(n)))
}

// prefixSize is how many addresses a delegated IPv4 prefix holds.
const prefixSize = 16

// missingCapacity reports whether a subnet has fewer free addresses than requested, or fewer whole free blocks of a
// prefix's size.
func (r *run) missingCapacity(subnetID string, addresses, prefixes int) bool {
	addresses, prefixes = max(0, addresses), max(0, prefixes)
	return r.truth().free[subnetID] < addresses+prefixes*prefixSize ||
		prefixes > 0 && r.freeBlocks(subnetID, addresses) < prefixes
}

// freeBlocks counts the blocks of a prefix's size that a request for prefixes and some addresses can get: those of a
// subnet in which no address is used. EC2 reserves the first four addresses and the last address of each subnet. The
// simulated EC2 chooses the lowest free addresses for a request before its prefixes. Such an address can take a whole
// block although other blocks have free addresses, and then EC2 refuses each repetition too.
func (r *run) freeBlocks(subnetID string, addresses int) int {
	var block netip.Prefix
	for _, s := range subnets {
		if s.id == subnetID {
			block = netip.MustParsePrefix(s.cidr)
		}
	}
	first := block.Addr()
	size := 1 << (32 - block.Bits())
	used := r.usedIn(subnetID, first, size)
	at := first
	for n := 0; n < size && addresses > 0; n++ {
		if !used[n] && !r.isReserved(subnetID, at) {
			used[n] = true
			addresses--
		}
		at = at.Next()
	}
	taken := map[int]bool{}
	for n := range used {
		taken[n/prefixSize] = true
	}
	return r.openBlocks(subnetID, first, size/prefixSize, taken)
}

// usedIn returns the addresses of a subnet that are used or that EC2 keeps for itself, by their offsets.
func (r *run) usedIn(subnetID string, first netip.Addr, size int) map[int]bool {
	used := map[int]bool{size - 1: true}
	for n := range keptAtStart {
		used[n] = true
	}
	for _, i := range r.truth().ordered {
		if i.SubnetID != subnetID {
			continue
		}
		for _, address := range append([]netip.Addr{i.PrimaryIPv4}, i.SecondaryIPv4...) {
			used[offset(first, address)] = true
		}
		for _, prefix := range i.IPv4Prefixes {
			for n := range prefixSize {
				used[offset(first, prefix.Addr())+n] = true
			}
		}
	}
	return used
}

// isReserved reports whether a reservation keeps EC2 from choosing an address for an interface.
func (r *run) isReserved(subnetID string, address netip.Addr) bool {
	return slices.ContainsFunc(r.truth().reservations, func(known *ec2.SubnetCIDRReservation) bool {
		return known.SubnetID == subnetID && known.CIDR.Contains(address)
	})
}

// offset is the distance of an address from the first one of its subnet.
func offset(first, address netip.Addr) int {
	a, b := first.As4(), address.As4()
	return int(binary.BigEndian.Uint32(b[:])) - int(binary.BigEndian.Uint32(a[:]))
}

// promised counts the slots of an instance that are reserved for objects that wait for addresses, a permission or a
// person who removes copied tags, with an unattached interface or with none: chance does not decide which object gets
// the last slot.
func (c *cluster) promised(instanceID string) (promised int) {
	claims := c.claims()
	for _, n := range c.api.interfaces() {
		wanted, is := c.claimOf(n, claims)
		if is && n.Spec.InstanceID == instanceID && !c.run.truth().interfaces[n.Status.ENIID].AttachedTo(instanceID) &&
			c.waits(plan.Reason(reasonOf(n)), spotOfObject(n), wanted) {
			promised++
		}
	}
	return promised
}

// claimOf returns the claim of an object: one of the claims or, if its NodeENI selects only a later Node of the
// instance and so retains the object, what the object asks for.
func (c *cluster) claimOf(n *v1alpha1.NetworkInterface, claims map[desiredSlot]expectedClaim) (expectedClaim, bool) {
	if claim, is := claims[spotOfObject(n)]; is {
		return claim, true
	}
	nodeENI, its := c.nodeENINamed(n.Spec.NodeENI.Name), c.nodesOf(n.Spec.InstanceID)
	if n.Spec.Origin == v1alpha1.OriginNetwork || nodeENI == nil ||
		!slices.ContainsFunc(its, func(node *corev1.Node) bool { return selects(nodeENI, node) }) {
		return expectedClaim{}, false
	}
	retained := expectedClaim{nodeENI: nodeENI, node: its[0]}
	for _, subnet := range n.Spec.Subnets {
		retained.subnets = append(retained.subnets, subnet.ID)
	}
	return retained, true
}

// waits reports whether the thing that an object is reported to wait for is really missing.
func (c *cluster) waits(reason plan.Reason, s desiredSlot, claim expectedClaim) bool {
	switch reason {
	case plan.NotImported:
		return c.anyCopied(s)
	case plan.SubnetFull, plan.NoFreePrefix:
		return c.lacksRoom(claim)
	case plan.Unauthorized:
		return slices.ContainsFunc(claim.nodeENI.Spec.SecurityGroupIDs, func(id string) bool {
			return c.run.broken.is(brokenGroup, id)
		})
	default:
		return false
	}
}

// anyTaken reports whether a slot that the claim can ask for is unusable or, if no other slot fits, held by another
// interface or reserved for another waiting object.
func (c *cluster) anyTaken(s desiredSlot, claim expectedClaim) bool {
	first := int(claim.nodeENI.Spec.DeviceIndex)
	asked := func(slot eni.Slot) bool {
		return slot.Card == int(claim.nodeENI.Spec.NetworkCardIndex) && slot.Device >= first &&
			slot.Device < first+len(subnets)
	}
	for slot := range c.run.watch.ruined[s.instanceID] {
		if asked(slot) {
			return true
		}
	}
	if claim.nodeENI.Spec.DeviceIndexPolicy == v1alpha1.DeviceIndexExact && c.anyKept(s, asked) {
		return true
	}
	return claim.nodeENI.Spec.DeviceIndexPolicy == v1alpha1.DeviceIndexExact &&
		slices.ContainsFunc(c.run.truth().ordered, func(i eni.Interface) bool {
			return i.AttachedTo(s.instanceID) && asked(i.Attachment.Slot)
		})
}

// anyKept reports whether a slot is reserved for a waiting object of another NodeENI.
func (c *cluster) anyKept(s desiredSlot, asked func(eni.Slot) bool) bool {
	claims := c.claims()
	return slices.ContainsFunc(c.api.interfaces(), func(n *v1alpha1.NetworkInterface) bool {
		wanted, is := c.claimOf(n, claims)
		slot := eni.Slot{Card: int(n.Spec.Slot.NetworkCardIndex), Device: int(n.Spec.Slot.DeviceIndex)}
		return is && n.Spec.InstanceID == s.instanceID && n.Spec.NodeENI.Name != s.nodeENI && asked(slot) &&
			c.waits(plan.Reason(reasonOf(n)), spotOfObject(n), wanted)
	})
}
