// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/reservation"
)

func (r *run) isOwnedBy(reserved *ec2.SubnetCIDRReservation, c *cluster, name string) bool {
	return reserved.Tags[identity.TagCluster] == c.name && reserved.Tags[identity.TagSubnetReservation] == name
}

// reserved checks I17 after EC2 made a reservation: it is the only one of its size for this version of the declaration.
func (r *run) reserved(p *process, name string, made *ec2.SubnetCIDRReservation) {
	r.judged("I17")
	object, is := p.cluster.api.get(subnetReservations, name).(*v1alpha1.SubnetReservation)
	if !is {
		return // if it remains in the end, it is a leak
	}
	of := declaration{string(object.UID), object.Generation}
	r.reserving.origin[made.SubnetCIDRReservationID], r.reserving.madeAt[made.SubnetCIDRReservationID] = of, r.now
	if object.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		r.reserving.left[made.SubnetCIDRReservationID] = true
	}
	if object.Spec.PrefixLength == nil || object.Status.ObservedGeneration != object.Generation {
		return // the process serves an earlier version, which the status names before each request
	}
	for _, other := range r.truth().reservations {
		same := other.SubnetID == made.SubnetID && other.CIDR.Bits() == made.CIDR.Bits() &&
			other.ReservationType == made.ReservationType
		if same && other.CIDR != made.CIDR && !r.seemsTaken(other) && r.isOwnedBy(other, p.cluster, name) &&
			r.reserving.origin[other.SubnetCIDRReservationID] == of {
			r.violate("I17", "%s reserves %s in %s for SubnetReservation %s next to %s", p.name, made.CIDR, made.SubnetID,
				name, other.CIDR)
		}
	}
}

// seemsTaken reports whether a read after the request can have returned a deleted reservation at the place of this one.
// A process that lost the answer then reserves another block, and deletes this one in the next poll.
func (r *run) seemsTaken(reserved *ec2.SubnetCIDRReservation) bool {
	return slices.ContainsFunc(r.reserving.deleted, func(d deletedReservation) bool {
		return d.subnetID == reserved.SubnetID && d.cidr.Overlaps(reserved.CIDR) &&
			r.reserving.madeAt[reserved.SubnetCIDRReservationID].Sub(d.at) < staleness
	})
}

// unreserving checks I17 before a deletion: the reservation is one of the cluster's, is not declared, and is not
// retained.
func (r *run) unreserving(p *process, id string) {
	at := slices.IndexFunc(r.truth().reservations, func(known *ec2.SubnetCIDRReservation) bool {
		return known.SubnetCIDRReservationID == id
	})
	if at < 0 {
		return
	}
	r.judged("I17")
	known := r.truth().reservations[at]
	r.reserving.deleted = append(r.reserving.deleted, deletedReservation{known.SubnetID, known.CIDR, r.now})
	name := known.Tags[identity.TagSubnetReservation]
	if name == "" || !r.isOwnedBy(known, p.cluster, name) {
		r.violate("I17", "%s deletes %s (%s), which is not of its cluster: %v", p.name, id, known.CIDR, known.Tags)
	}
	object, is := p.cluster.api.get(subnetReservations, name).(*v1alpha1.SubnetReservation)
	if lately := r.now.Sub(r.reserving.edited[p.cluster.name+"/"+name].at) < staleness; !is || lately || p.expired {
		return
	}
	if object.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		r.violate("I17", "%s deletes %s (%s), which SubnetReservation %s retains", p.name, id, known.CIDR, name)
	}
	if object.DeletionTimestamp.IsZero() && declares(object.Spec, known) && r.isOnlyOne(known) &&
		!recordsAnother(object, known) {
		r.violate("I17", "%s deletes %s (%s), which SubnetReservation %s declares", p.name, id, known.CIDR, name)
	}
}

// isOnlyOne reports whether this is the only reservation that can be the declared one.
func (r *run) isOnlyOne(known *ec2.SubnetCIDRReservation) bool {
	return !slices.ContainsFunc(r.truth().reservations, func(other *ec2.SubnetCIDRReservation) bool {
		return other != known && other.SubnetID == known.SubnetID && other.ReservationType == known.ReservationType &&
			other.CIDR.Bits() == known.CIDR.Bits()
	})
}

// recordsAnother reports whether the status has another block of the size. That block stays, and gets the declared
// type.
func recordsAnother(object *v1alpha1.SubnetReservation, known *ec2.SubnetCIDRReservation) bool {
	return slices.ContainsFunc(object.Status.Reservations, func(b v1alpha1.ReservedBlock) bool {
		cidr, err := netip.ParsePrefix(b.CIDR)
		return err == nil && b.SubnetID == known.SubnetID && cidr != known.CIDR && cidr.Bits() == known.CIDR.Bits()
	})
}

// declares reports whether a reservation fits a declaration.
func declares(spec v1alpha1.SubnetReservationSpec, known *ec2.SubnetCIDRReservation) bool {
	at := slices.IndexFunc(subnets, func(s place) bool { return s.id == known.SubnetID })
	if !selectsSubnet(spec, subnets[at]) || !strings.EqualFold(string(spec.Type), known.ReservationType) {
		return false
	}
	if spec.PrefixLength != nil {
		return known.CIDR.Bits() == int(*spec.PrefixLength)
	}
	return slices.Contains(spec.CIDRs, known.CIDR.String())
}

func selectsSubnet(spec v1alpha1.SubnetReservationSpec, s place) bool {
	return slices.Contains(spec.SubnetIDs, s.id) || slices.Contains(spec.SubnetNames, s.name) ||
		string(spec.SubnetSelector["Name"]) == s.name
}

// settledReservations checks I17 after convergence: each declaration is fulfilled or its status says why not, and the
// cluster has no other reservation.
func (c *cluster) settledReservations() *Violation {
	fault := func(format string, args ...any) *Violation { return &Violation{"I17", fmt.Sprintf(format, args...)} }
	for _, one := range c.api.all(subnetReservations) {
		object := one.(*v1alpha1.SubnetReservation)
		ready := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case !object.DeletionTimestamp.IsZero():
			return fault("SubnetReservation %s is still being deleted: %+v", object.Name, ready)
		case object.Status.ObservedGeneration != object.Generation || ready == nil:
			return fault("SubnetReservation %s says nothing of its generation %d", object.Name, object.Generation)
		case ready.Reason == string(reservation.Reserving) || ready.Reason == v1alpha1.ReasonUnreadable ||
			ready.Reason == v1alpha1.ReasonDeleting:
			return fault("SubnetReservation %s is not settled: %s: %s", object.Name, ready.Reason, ready.Message)
		}
		if wrong := c.wrongBlocks(object, ready.Status == "True"); wrong != "" {
			return fault("SubnetReservation %s: %s", object.Name, wrong)
		}
	}
	for _, known := range c.run.truth().reservations {
		name := known.Tags[identity.TagSubnetReservation]
		if !c.run.isOwnedBy(known, c, name) || c.run.reserving.left[known.SubnetCIDRReservationID] {
			continue
		}
		object, is := c.api.get(subnetReservations, name).(*v1alpha1.SubnetReservation)
		if !is || object.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete && !declares(object.Spec, known) {
			return fault("%s (%s in %s) of SubnetReservation %s is a leak", known.SubnetCIDRReservationID, known.CIDR,
				known.SubnetID, name)
		}
	}
	return nil
}

// wrongBlocks returns the first error in the status of a SubnetReservation; "" if there is none.
func (c *cluster) wrongBlocks(object *v1alpha1.SubnetReservation, isReady bool) string {
	for _, b := range object.Status.Reservations {
		switch {
		case b.Reason != "" && (isReady || b.Message == ""):
			return fmt.Sprintf("%s lacks a reason: %+v", b.CIDR, b)
		case b.Reason == "" && !c.isReserved(object, b):
			return fmt.Sprintf("EC2 has no such reservation: %+v", b)
		}
	}
	if isReady {
		return wrongNumberOfBlocks(object)
	}
	return ""
}

// isReserved reports whether EC2 has the reservation for a block.
func (c *cluster) isReserved(object *v1alpha1.SubnetReservation, b v1alpha1.ReservedBlock) bool {
	cidr, err := netip.ParsePrefix(b.CIDR)
	return err == nil && slices.ContainsFunc(c.run.truth().reservations, func(known *ec2.SubnetCIDRReservation) bool {
		return known.SubnetCIDRReservationID == b.ID && known.CIDR == cidr && known.SubnetID == b.SubnetID &&
			b.Owned == c.run.isOwnedBy(known, c, object.Name) && declares(object.Spec, known)
	})
}

// wrongNumberOfBlocks returns where a ready SubnetReservation has another number of blocks than declared: for a prefix
// length, one in each selected subnet.
func wrongNumberOfBlocks(object *v1alpha1.SubnetReservation) string {
	if object.Spec.PrefixLength == nil {
		if have, want := len(object.Status.Reservations), len(object.Spec.CIDRs); have != want {
			return fmt.Sprintf("%d blocks for %d", have, want)
		}
		return ""
	}
	perSubnet := map[string]int{}
	for _, b := range object.Status.Reservations {
		perSubnet[b.SubnetID]++
	}
	for _, s := range subnets {
		if selectsSubnet(object.Spec, s) && perSubnet[s.id] != 1 {
			return fmt.Sprintf("%d blocks in %s", perSubnet[s.id], s.id)
		}
	}
	return ""
}

// waitsForBlock reports whether the key of a reconciliation is that of a SubnetReservation that lacks a block.
func (r *run) waitsForBlock(key string) bool {
	for _, c := range r.clusters {
		if name, is := strings.CutPrefix(key, fmt.Sprintf("%s %s ", c.name, reservationQueue)); is {
			object, is := c.api.get(subnetReservations, name).(*v1alpha1.SubnetReservation)
			return is && object.Status.Reserved < object.Status.Blocks
		}
	}
	return false
}

// openBlocks counts the blocks of a prefix's size that EC2 can delegate: those in the parts reserved for prefixes if
// there are any, and none of those reserved explicitly.
func (r *run) openBlocks(subnetID string, first netip.Addr, blocks int, taken map[int]bool) (open int) {
	var own, all []netip.Prefix
	for _, known := range r.truth().reservations {
		if known.SubnetID == subnetID {
			all = append(all, known.CIDR)
			if known.ReservationType == "prefix" {
				own = append(own, known.CIDR)
			}
		}
	}
	at := first
	for n := range blocks {
		within := func(reserved netip.Prefix) bool { return reserved.Contains(at) }
		if !taken[n] && (slices.ContainsFunc(own, within) || len(own) == 0 && !slices.ContainsFunc(all, within)) {
			open++
		}
		for range prefixSize {
			at = at.Next()
		}
	}
	return open
}
