// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package subnetreservation

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/reservation"
	"github.com/multieni/multieni/internal/core/selector"
	"github.com/multieni/multieni/internal/core/text"
)

// maxMessage is the most bytes of a block's message (api/v1alpha1).
const maxMessage = 1024

// snapshot is the input and the plan of one reconciliation.
type snapshot struct {
	desired  reservation.Desired
	recorded []reservation.Block
	subnets  []subnetPlan
	// elsewhere are blocks outside of the selected subnets. kept are blocks of subnets that a term without a match may
	// mean.
	elsewhere, kept []reservation.Block
	// leaving are recorded blocks whose reservation may not be deleted yet.
	leaving []reservation.Block
	// released are the IDs of reservations in subnets that are not selected any more.
	released []string
	// deleted are the IDs of reservations that EC2 does not have any more.
	deleted map[string]bool
	// undeleted reports whether a deletion failed.
	undeleted bool
	// problem is a problem of the selection or of a deletion; nil for none.
	problem *status.Outcome
}

// subnetPlan is one selected subnet with its plan.
type subnetPlan struct {
	reservation.Observed
	plan reservation.Plan
}

// created records the answer to the request for a block.
func (s *subnetPlan) created(cidr netip.Prefix, id string, err error) {
	for n := range s.plan.Blocks {
		b := &s.plan.Blocks[n]
		if b.CIDR != cidr || b.Reason != reservation.Reserving {
			continue
		}
		if err != nil {
			b.Reason, b.Message = reservation.Refused(eni.ErrorClass(err), err, s.Subnet)
		} else {
			b.ID, b.Owned, b.Reason, b.Message = id, true, "", ""
		}
	}
}

// observe reads the selected subnets and plans them.
func (r *Reconciler) observe(ctx context.Context, object *v1alpha1.SubnetReservation) (snapshot, error) {
	s := snapshot{desired: desired(object, r.owner(object)), recorded: recorded(object.Status), deleted: map[string]bool{}}
	match, err := r.Resolver.Subnets(ctx, terms(object.Spec))
	if err != nil {
		return s, err
	}
	subnets, unselected := match.Subnets(), s.recordedSubnets()
	slices.SortStableFunc(subnets, func(a, b eni.Subnet) int { return strings.Compare(a.Zone, b.Zone) })
	if len(subnets) > reservation.MaxSubnets {
		s.kept = s.recorded
		s.problem = stalled(string(reservation.TooManySubnets), fmt.Sprintf(
			"the selection matches %d subnets, and the maximum is %d; divide it among several SubnetReservations",
			len(subnets), reservation.MaxSubnets))
		return s, nil
	}
	for _, subnet := range subnets {
		delete(unselected, subnet.ID)
		p, err := r.plan(ctx, &s, subnet)
		if err != nil {
			return s, err
		}
		s.subnets = append(s.subnets, p)
	}
	s.elsewhere = s.desired.Elsewhere(subnets)
	if len(match.Unknown) > 0 {
		s.keep(unselected)
		s.problem = notFound(match)
	} else if err := r.releaseIn(ctx, &s, unselected); err != nil {
		return s, err
	}
	s.leaving = s.desired.Leaving(s.all(), s.recorded)
	return s, nil
}

// plan plans one subnet. It reads the subnet's interfaces only if a block is not reserved yet.
func (r *Reconciler) plan(ctx context.Context, s *snapshot, subnet eni.Subnet) (p subnetPlan, err error) {
	p.Subnet, p.Recorded = subnet, s.recordedIn(subnet.ID)
	if p.Reservations, err = r.reservations(ctx, subnet.ID); err != nil {
		return p, err
	}
	if p.plan = s.desired.Plan(p.Observed); len(p.plan.Create) == 0 {
		return p, nil
	}
	if p.Interfaces, err = r.EC2.SubnetInterfaces(ctx, subnet.ID); err != nil {
		return p, err
	}
	p.plan = s.desired.Plan(p.Observed)
	return p, nil
}

// releaseIn finds the owned reservations of subnets that are not selected. EC2 may not have a subnet any more.
func (r *Reconciler) releaseIn(ctx context.Context, s *snapshot, subnetIDs map[string]bool) error {
	for _, id := range slices.Sorted(maps.Keys(subnetIDs)) {
		reservations, err := r.reservations(ctx, id)
		if err != nil && eni.ErrorClass(err) != eni.NotFound {
			return err
		}
		s.released = append(s.released, s.desired.Release(reservation.Observed{Reservations: reservations,
			Recorded: s.recordedIn(id)})...)
	}
	return nil
}

// unconfirmed is a block without an ID that is not declared any more: EC2 may return its reservation later.
type unconfirmed struct {
	owner    reservation.Owner
	subnetID string
	cidr     netip.Prefix
}

// settle drops the blocks whose reservation was deleted, and those that EC2 did not return for two minutes. After a
// failed deletion it keeps all blocks without an ID: the reservation can belong to one of them.
func (r *Reconciler) settle(s *snapshot) {
	s.leaving = slices.DeleteFunc(s.leaving, func(b reservation.Block) bool {
		if b.ID != "" {
			return s.deleted[b.ID]
		}
		key := unconfirmed{s.desired.Owner, b.SubnetID, b.CIDR}
		since, known := r.leavingSince[key]
		if !known {
			since = r.Now()
			r.leavingSince[key] = since
		}
		if r.Now().Sub(since) < inventory.VisibilityWindow || s.undeleted {
			return false
		}
		delete(r.leavingSince, key)
		return true
	})
}

func (s *snapshot) recordedIn(subnetID string) []reservation.Block {
	return slices.DeleteFunc(slices.Clone(s.recorded), func(b reservation.Block) bool { return b.SubnetID != subnetID })
}

func (s *snapshot) recordedSubnets() map[string]bool {
	ids := map[string]bool{}
	for _, b := range s.recorded {
		if b.SubnetID != "" {
			ids[b.SubnetID] = true
		}
	}
	return ids
}

// keep keeps the recorded blocks of subnets.
func (s *snapshot) keep(subnetIDs map[string]bool) {
	for _, id := range slices.Sorted(maps.Keys(subnetIDs)) {
		s.kept = append(s.kept, s.recordedIn(id)...)
	}
}

// note records that a deletion failed, and returns the error.
func (s *snapshot) note(err error) error {
	if err != nil {
		o := undeleted(err)
		s.problem, s.undeleted = &o, true
	}
	return err
}

func (s *snapshot) all() []reservation.Block {
	var all []reservation.Block
	for _, subnet := range s.subnets {
		all = append(all, subnet.plan.Blocks...)
	}
	return slices.Concat(all, s.kept, s.elsewhere, s.leaving)
}

// blocks returns the blocks in the form of the status.
func (s *snapshot) blocks() []v1alpha1.ReservedBlock {
	var blocks []v1alpha1.ReservedBlock
	for _, b := range s.all() {
		block := v1alpha1.ReservedBlock{
			SubnetID: b.SubnetID, Zone: b.Zone, ID: b.ID, Owned: b.Owned, Reason: string(b.Reason),
			Message: text.Clip(b.Message, maxMessage),
		}
		if b.CIDR.IsValid() {
			block.CIDR = b.CIDR.String()
		}
		blocks = append(blocks, block)
	}
	return blocks
}

func (s *snapshot) outcome() status.Outcome {
	if s.problem != nil {
		return *s.problem
	}
	switch reason, message := reservation.Summary(s.all()); reason {
	case "":
		return status.Outcome{State: status.Ready, Reason: v1alpha1.ReasonReserved, Message: message}
	case reservation.Reserving, reservation.Releasing:
		return status.Outcome{State: status.Progressing, Reason: v1alpha1.ReasonReserving, Message: message}
	default:
		return *stalled(string(reason), message)
	}
}

func (s *snapshot) requeueAfter() time.Duration {
	switch s.outcome().State {
	case status.Ready:
		return rereadInterval
	case status.Progressing:
		return requestInterval
	default:
		return recheckInterval
	}
}

func stalled(reason, message string) *status.Outcome {
	return &status.Outcome{State: status.Stalled, Reason: reason, Message: message}
}

func notFound(match selector.SubnetMatch) *status.Outcome {
	return stalled(string(match.Problems()[0].Reason), fmt.Sprintf(
		"EC2 has no subnet with %s; create it, or correct the SubnetReservation; until then no "+
			"reservation is deleted", strings.Join(match.Unknown, ", ")))
}

func paused() status.Outcome {
	return *stalled(v1alpha1.ReasonPaused,
		"nothing changes in EC2 until a user removes the annotation "+v1alpha1.PausedAnnotation)
}

func unreadable(err error) status.Outcome {
	o := status.Outcome{State: status.Progressing, Reason: v1alpha1.ReasonUnreadable,
		Message: fmt.Sprintf("EC2 cannot be read, and the controller tries again: %v", err)}
	if eni.ErrorClass(err) == eni.Unauthorized {
		o.State, o.Message = status.Stalled, fmt.Sprintf(
			"EC2 refuses a read to the controller's role: %v; allow it in the role's policy "+
				"(deploy/iam/controller.json has all actions)", err)
	}
	return o
}

// undeleted is the outcome while an undeclared reservation cannot be deleted.
func undeleted(err error) status.Outcome {
	o := status.Outcome{State: status.Progressing, Reason: v1alpha1.ReasonDeleting,
		Message: fmt.Sprintf("a reservation is not deleted yet, and the controller tries again: %v", err)}
	if eni.ErrorClass(err) == eni.Unauthorized {
		o.State, o.Reason = status.Stalled, string(reservation.Unauthorized)
		o.Message = fmt.Sprintf("EC2 does not allow the controller to delete a reservation: %v; attach the policy "+
			"subnet-reservations (multieni iam-policy) to the controller's role", err)
	}
	return o
}

// mayBeInvisible reports whether an unconfirmed reservation may exist.
func mayBeInvisible(object *v1alpha1.SubnetReservation) bool {
	return slices.ContainsFunc(recorded(object.Status), reservation.Block.MayBeInvisible)
}

func terms(spec v1alpha1.SubnetReservationSpec) selector.SubnetTerms {
	return selector.SubnetTerms{IDs: spec.SubnetIDs, Names: spec.SubnetNames, Tags: v1alpha1.Strings(spec.SubnetSelector)}
}

func desired(object *v1alpha1.SubnetReservation, owner reservation.Owner) reservation.Desired {
	d := reservation.Desired{
		Owner: owner, Type: eni.ReservationType(strings.ToLower(string(object.Spec.Type))),
		Retain: object.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain,
	}
	if object.Spec.PrefixLength != nil {
		d.PrefixLength = int(*object.Spec.PrefixLength)
	}
	for _, cidr := range object.Spec.CIDRs {
		if block, err := netip.ParsePrefix(cidr); err == nil {
			d.Blocks = append(d.Blocks, block)
		}
	}
	return d
}

// recorded returns the blocks of a status.
func recorded(st v1alpha1.SubnetReservationStatus) []reservation.Block {
	var blocks []reservation.Block
	for _, b := range st.Reservations {
		cidr, _ := netip.ParsePrefix(b.CIDR) // the zero value without a block
		blocks = append(blocks, reservation.Block{
			SubnetID: b.SubnetID, Zone: b.Zone, CIDR: cidr, ID: b.ID, Owned: b.Owned,
			Reason: reservation.Reason(b.Reason), Message: b.Message,
		})
	}
	return blocks
}
