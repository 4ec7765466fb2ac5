// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/observer"
	"github.com/multieni/multieni/plan"
	"github.com/multieni/multieni/selection"
)

// place is where an instance is; the VPC is empty while it is not known.
type place struct{ zone, vpcID string }

// desire says what is wanted of one instance of the subject.
func (r *Reconciler) desire(ctx context.Context, s *subject, instanceID string, at place, known observer.Known) (plan.Desired, error) {
	present := s.node != nil && s.instanceID == instanceID
	d := plan.Desired{Cluster: r.Cluster, Node: s.name, InstanceID: instanceID, NodeAbsent: !present}
	for n := range s.nodeENIs {
		claim, err := r.claim(ctx, s, &s.nodeENIs[n], present, at)
		if err != nil {
			return plan.Desired{}, err
		}
		d.Claims = append(d.Claims, claim)
	}
	d.Claims = append(d.Claims, r.leaks(s, known)...)
	return d, nil
}

// leaks releases the interfaces whose NodeENI is confirmed not to exist.
func (r *Reconciler) leaks(s *subject, known observer.Known) []plan.Claim {
	var claims []plan.Claim
	for _, record := range known.Owned {
		m := record.Member
		listed := slices.ContainsFunc(claims, func(c plan.Claim) bool { return c.NodeENIUID == m.NodeENIUID })
		since, gone := r.Sweeper.Gone(m.NodeENIUID)
		if listed || s.nodeENI(m.NodeENIUID) != nil || !gone {
			continue
		}
		claim := plan.Claim{NodeENI: m.NodeENI, NodeENIUID: m.NodeENIUID, Leaked: true, MissingSince: since}
		claim.Standing, claim.Why = plan.Judge(plan.Circumstances{NodeENIGone: true, NodePaused: s.node != nil && controller.Paused(s.node)})
		claims = append(claims, claim)
	}
	return claims
}

// claim says what one NodeENI asks. Its wishes are worked out only where it still may ask.
func (r *Reconciler) claim(ctx context.Context, s *subject, nodeENI *v1alpha1.NodeENI, present bool, at place) (plan.Claim, error) {
	claim := plan.Claim{
		NodeENI: nodeENI.Name, NodeENIUID: string(nodeENI.UID),
		Base:    eni.Slot{Card: int(nodeENI.Spec.NetworkCardIndex), Device: int(nodeENI.Spec.DeviceIndex)},
		Exact:   nodeENI.Spec.DeviceIndexPolicy == v1alpha1.DeviceIndexExact,
		Replace: nodeENI.Spec.UpdatePolicy == v1alpha1.UpdateReplace,
	}
	claim.Standing, claim.Why = plan.Judge(plan.Circumstances{
		NodeENIKnown: true, NodeENIDeleting: !nodeENI.DeletionTimestamp.IsZero(),
		NodePresent: present, Selected: present && selects(nodeENI, s.node.Labels),
		NodeENIPaused: controller.Paused(nodeENI), NodePaused: s.node != nil && controller.Paused(s.node),
	})
	if claim.Standing != plan.Wanted {
		return claim, nil
	}
	if why, err := r.mustWait(ctx, s, nodeENI); why != "" || err != nil {
		claim.Standing, claim.Why = plan.Held, why
		return claim, err
	}
	subnets, err := r.Resolver.Subnets(ctx, controller.SubnetTerms(nodeENI.Spec))
	if err != nil {
		return claim, fmt.Errorf("resolve the subnets of NodeENI %s: %w", nodeENI.Name, err)
	}
	groups, err := r.Resolver.SecurityGroups(ctx, controller.GroupTerms(nodeENI.Spec))
	if err != nil {
		return claim, fmt.Errorf("resolve the security groups of NodeENI %s: %w", nodeENI.Name, err)
	}
	fill(&claim, nodeENI.Spec, subnets, groups, at)
	return claim, nil
}

// fill works the wishes out.
func fill(claim *plan.Claim, spec v1alpha1.NodeENISpec, subnets selection.SubnetMatch, groups selection.GroupMatch, at place) {
	placements, _ := subnets.Place(at.zone, at.vpcID)
	claim.Resolved = len(subnets.Unknown) == 0
	claim.Lacking = subnets.Problems()
	if lacking := subnets.Lacking(at.zone, at.vpcID); lacking != nil {
		claim.Lacking = append(claim.Lacking, *lacking)
	}
	groupIDs, problems := groups.In(at.vpcID)
	if len(problems) > 0 {
		claim.NoGroups, groupIDs = &problems[0], nil
	}
	for _, p := range placements {
		claim.Wishes = append(claim.Wishes, plan.Wish{
			Ordinal: p.Ordinal,
			Subnets: subnetIDs(p.Candidates),
			Slot:    eni.Slot{Card: claim.Base.Card, Device: claim.Base.Device + p.Ordinal},
			Spec:    interfaceSpec(spec, groupIDs),
		})
	}
}

func interfaceSpec(spec v1alpha1.NodeENISpec, groupIDs []string) eni.Spec {
	return eni.Spec{
		Description:         spec.Description,
		Groups:              groupIDs,
		Tags:                v1alpha1.Strings(spec.Tags),
		SourceDestCheck:     ptr.Deref(spec.SourceDestCheck, true),
		DeleteOnTermination: ptr.Deref(spec.DeleteOnTermination, true),
		AddressCounts: eni.AddressCounts{
			SecondaryIPv4: int(spec.SecondaryPrivateIPAddressCount),
			IPv4Prefixes:  int(spec.IPv4PrefixCount),
			IPv6:          int(spec.IPv6AddressCount),
			IPv6Prefixes:  int(spec.IPv6PrefixCount),
		},
	}
}

func subnetIDs(subnets []eni.Subnet) []string {
	ids := make([]string, len(subnets))
	for n, s := range subnets {
		ids[n] = s.ID
	}
	return ids
}

func selects(nodeENI *v1alpha1.NodeENI, nodeLabels map[string]string) bool {
	selector := controller.Selector(nodeENI.Spec)
	return selector.Matches(labels.Set(nodeLabels))
}
