// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

// offerSource offers the version of a launch template that is used as it is.
func (r *Reconciler) offerSource(ctx context.Context, object *v1alpha1.AWSNodeTemplate, f *facts) error {
	s := f.rendering.Source
	made := templateVersion{launchtemplate.Template{Data: s.Data}, s.Name, s.ID, s.Resolved, f.sourceCreatedAt}
	subnets := []string{""}
	if len(launchtemplate.SubnetIDs(s.Data)) == 0 && !listed(object, made) {
		var err error
		if subnets, err = r.subnetsToTry(ctx, s.Data); err != nil {
			return err
		}
	}
	if len(subnets) == 0 {
		f.warnings = append(f.warnings, notDryRun+"the launch template names neither a subnet nor a security group by "+
			"ID, so the VPC in which to ask EC2 whether it would launch is not known; name the security groups of the nodes "+
			"there")
		f.offers = append(f.offers, made)
		return nil
	}
	return r.offer(ctx, object, f, made, subnets)
}

// subnetsToTry returns a subnet of each zone in which a launch template without subnets can be tried: those with the
// most free addresses in the VPC of its security groups.
func (r *Reconciler) subnetsToTry(ctx context.Context, data launchtemplate.Document) ([]string, error) {
	groups := data.GroupIDs()
	if len(groups) == 0 {
		return nil, nil
	}
	match, err := r.Resolver.SecurityGroups(ctx, selector.GroupTerms{IDs: groups})
	if err != nil || len(match.VPCs()) == 0 {
		return nil, err
	}
	subnets, err := r.EC2.SubnetsOf(ctx, match.VPCs()[0])
	if err != nil {
		return nil, err
	}
	slices.SortFunc(subnets, func(a, b eni.Subnet) int {
		return cmp.Or(cmp.Compare(b.FreeIPv4, a.FreeIPv4), cmp.Compare(a.ID, b.ID))
	})
	var ids []string
	seen := map[string]bool{}
	for _, s := range subnets {
		if zone := data.Zone(); !seen[s.Zone] && (zone == "" || zone == s.Zone) {
			ids, seen[s.Zone] = append(ids, s.ID), true
		}
	}
	return ids, nil
}

// checkSourceGroups reports the security groups of a launch template that EC2 does not have.
func (r *Reconciler) checkSourceGroups(
	ctx context.Context, data launchtemplate.Document,
) ([]launchtemplate.Problem, error) {
	ids := data.GroupIDs()
	if len(ids) == 0 {
		return nil, nil
	}
	match, err := r.Resolver.SecurityGroups(ctx, selector.GroupTerms{IDs: ids})
	if err != nil {
		return nil, err
	}
	found, problems := match.ForVPC("")
	if !slices.ContainsFunc(problems, func(p plan.Problem) bool { return p.Reason == plan.SecurityGroupNotFound }) {
		return nil, nil
	}
	unknown := slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(found, id) })
	return []launchtemplate.Problem{{Reason: launchtemplate.NoSecurityGroups, Path: "spec.launchTemplateRef",
		Message: fmt.Sprintf("EC2 has no security group %s; correct the launch template, or make the group",
			strings.Join(unknown, ", "))}}, nil
}
