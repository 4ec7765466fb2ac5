// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/core/selector"
)

// Resolve returns the matches of the selectors of a NodeENI.
func Resolve(ctx context.Context, r *resolver.Resolver, nodeENI *v1alpha1.NodeENI) (*selector.Found, error) {
	subnets, err := r.Subnets(ctx, SubnetTerms(nodeENI.Spec))
	if err != nil {
		return nil, fmt.Errorf("resolve the subnets of NodeENI %s: %w", nodeENI.Name, err)
	}
	groups, err := r.SecurityGroups(ctx, GroupTerms(nodeENI.Spec))
	if err != nil {
		return nil, fmt.Errorf("resolve the security groups of NodeENI %s: %w", nodeENI.Name, err)
	}
	return &selector.Found{Subnets: subnets, Groups: groups}, nil
}

// maxFloating is the largest number of ranges that an object can have (the schema of floating).
const maxFloating = 32

// FloatingOf returns, by subnet ID, the blocks that EC2 has reserved for explicitly requested addresses, for a NodeENI
// whose addresses follow pods within SubnetReservations; nil for others.
func FloatingOf(ctx context.Context, c client.Reader, nodeENI *v1alpha1.NodeENI) (map[string][]string, error) {
	if !UsesReservations(nodeENI) {
		return nil, nil
	}
	var reservations v1alpha1.SubnetReservationList
	if err := c.List(ctx, &reservations, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	blocks := map[string][]string{}
	for n := range reservations.Items {
		if reservations.Items[n].Spec.Type != v1alpha1.SubnetReservationExplicit {
			continue
		}
		for _, block := range reservations.Items[n].Status.Reservations {
			if block.ID != "" && block.Reason == "" {
				blocks[block.SubnetID] = append(blocks[block.SubnetID], block.CIDR)
			}
		}
	}
	for id := range blocks {
		slices.Sort(blocks[id])
		blocks[id] = slices.Compact(blocks[id])
		blocks[id] = blocks[id][:min(len(blocks[id]), maxFloating)]
	}
	return blocks, nil
}

// UsesReservations reports whether the addresses of a NodeENI follow pods within SubnetReservations.
func UsesReservations(nodeENI *v1alpha1.NodeENI) bool {
	pods := nodeENI.Spec.Pods
	return pods != nil && pods.Attachment == v1alpha1.PodAttachmentObserved && len(pods.Floating) == 0
}
