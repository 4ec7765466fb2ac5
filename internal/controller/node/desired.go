// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
	"github.com/multieni/multieni/internal/observer"
)

// desire says what is wanted of one instance of the subject.
func (r *Reconciler) desire(ctx context.Context, s *snapshot, instanceID string, at selector.Location, known observer.NodeInventory) (plan.Desired, error) {
	present := s.present(instanceID)
	if present {
		clear(s.generations)
	}
	d := plan.Desired{
		Cluster: r.Cluster, Node: s.name, InstanceID: instanceID, InstanceTags: r.InstanceTags, NodeAbsent: !present, Paused: s.paused(),
	}
	if present && !s.paused() {
		d.InPlaceUpdates = r.Repairs.Of(instanceID)
	}
	for n := range s.nodeENIs {
		claim, err := r.claim(ctx, s, &s.nodeENIs[n], present, at)
		if err != nil {
			return plan.Desired{}, err
		}
		d.Claims = append(d.Claims, claim)
		// A node that its NodeENI selects is held only until its turn comes.
		if present && (claim.Mode != plan.Retain || !selects(&s.nodeENIs[n], s.node.Labels)) {
			s.generations[s.nodeENIs[n].UID] = s.nodeENIs[n].Generation
		}
	}
	d.Claims = append(d.Claims, r.leaks(s, known)...)
	return d, nil
}

// leaks releases the interfaces whose NodeENI is confirmed not to exist.
func (r *Reconciler) leaks(s *snapshot, known observer.NodeInventory) []plan.Claim {
	var claims []plan.Claim
	for _, record := range known.Owned {
		m := record.Member
		listed := slices.ContainsFunc(claims, func(c plan.Claim) bool { return c.NodeENIUID == m.NodeENIUID })
		absence, gone := r.GC.Gone(m.NodeENIUID)
		if listed || s.nodeENI(m.NodeENIUID) != nil || !gone {
			continue
		}
		claim := plan.Claim{NodeENI: m.NodeENI, NodeENIUID: m.NodeENIUID, Leaked: true, MissingSince: absence.Since, Grace: absence.Grace}
		claim.Mode, claim.Why = plan.ModeFor(plan.SelectionFacts{NodeENIGone: true, NodePaused: s.paused()})
		claims = append(claims, claim)
	}
	return claims
}

// claim says what one NodeENI asks. Its wishes are worked out only where it still may ask, or may again after a pause.
func (r *Reconciler) claim(ctx context.Context, s *snapshot, nodeENI *v1alpha1.NodeENI, present bool, at selector.Location) (plan.Claim, error) {
	claim := controller.NewClaim(nodeENI)
	circumstances := plan.SelectionFacts{
		NodeENIKnown: true, NodeENIDeleting: !nodeENI.DeletionTimestamp.IsZero(),
		NodePresent: present, Selected: present && selects(nodeENI, s.node.Labels),
		DuplicateSelected: slices.ContainsFunc(s.duplicateNodes, func(n corev1.Node) bool { return selects(nodeENI, n.Labels) }),
		NodeENIPaused:     controller.Paused(nodeENI), NodePaused: s.paused(),
	}
	claim.Selects = circumstances.Selected
	claim.Mode, claim.Why = plan.ModeFor(circumstances)
	if unpaused, _ := plan.ModeFor(circumstances.Unpaused()); unpaused != plan.Ensure {
		return claim, nil
	}
	if claim.Mode == plan.Ensure {
		if why, err := r.mustWait(ctx, s, nodeENI); why != "" || err != nil {
			claim.Mode, claim.Why = plan.Retain, why
			return claim, err
		}
	}
	subnets, err := r.Resolver.Subnets(ctx, controller.SubnetTerms(nodeENI.Spec))
	if err != nil {
		return claim, fmt.Errorf("resolve the subnets of NodeENI %s: %w", nodeENI.Name, err)
	}
	groups, err := r.Resolver.SecurityGroups(ctx, controller.GroupTerms(nodeENI.Spec))
	if err != nil {
		return claim, fmt.Errorf("resolve the security groups of NodeENI %s: %w", nodeENI.Name, err)
	}
	controller.ResolveClaim(&claim, nodeENI.Spec, selector.Found{Subnets: subnets, Groups: groups}, at)
	return claim, nil
}

func selects(nodeENI *v1alpha1.NodeENI, nodeLabels map[string]string) bool {
	selector := controller.Selector(nodeENI.Spec)
	return selector.Matches(labels.Set(nodeLabels))
}
