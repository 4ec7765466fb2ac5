// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net/netip"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/plan"
)

// maxFloating is the largest number of ranges that the agent can get (the schema of floating).
const maxFloating = 32

// floatingAddresses returns the addresses that follow the pods of the node, by interface ID.
func (r *Reconciler) floatingAddresses(ctx context.Context, s *snapshot) (map[string]plan.Floating, error) {
	if s.state == nil {
		return nil, nil
	}
	all := map[string]plan.Floating{}
	for _, i := range s.state.Status.Interfaces {
		if i.ENIID == "" {
			continue
		}
		var objects v1alpha1.FloatingAddressList
		err := r.Client.List(ctx, &objects, controller.AddressesOn(i.ENIID), client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, err
		}
		floating := plan.Floating{Ranges: controller.FloatingRanges(i.Pods)}
		for n := range objects.Items {
			last := objects.Items[n].Status.Assignment
			address, err := netip.ParseAddr(objects.Items[n].Spec.Address)
			if err == nil && last != nil && last.ENIID == i.ENIID {
				floating.Addresses = append(floating.Addresses, address)
			}
		}
		if len(floating.Ranges)+len(floating.Addresses) > 0 {
			all[i.ENIID] = floating
		}
	}
	return all, nil
}

// floating returns the ranges in which addresses on an interface in a subnet follow pods: the declared ones within the
// subnet, or, with attachment Observed, the blocks of the subnet's SubnetReservations of type Explicit. Of a declared
// range around the subnet it returns the subnet. An agent creates an object for each address in these ranges, and the
// controller deletes objects of addresses outside the subnet: they would create and delete one without end.
func (s *snapshot) floating(pods *v1alpha1.NodeENIPods, subnet v1alpha1.ResolvedSubnet) []string {
	if pods == nil {
		return nil
	}
	within, err := netip.ParsePrefix(subnet.CIDR)
	if err != nil {
		return nil
	}
	if len(pods.Floating) == 0 && pods.Attachment == v1alpha1.PodAttachmentObserved {
		return s.explicitBlocks(subnet.ID)
	}
	var ranges []string
	for _, text := range pods.Floating {
		switch r, err := netip.ParsePrefix(text); {
		case err != nil || !r.Overlaps(within):
			continue
		case r.Bits() < within.Bits():
			text = within.String()
		}
		if !slices.Contains(ranges, text) {
			ranges = append(ranges, text)
		}
	}
	return ranges
}

// explicitBlocks returns the blocks that EC2 has reserved in a subnet for explicitly requested addresses.
func (s *snapshot) explicitBlocks(subnetID string) []string {
	var blocks []string
	for n := range s.reservations {
		if s.reservations[n].Spec.Type != v1alpha1.SubnetReservationExplicit {
			continue
		}
		for _, block := range s.reservations[n].Status.Reservations {
			if block.SubnetID == subnetID && block.ID != "" && block.Reason == "" {
				blocks = append(blocks, block.CIDR)
			}
		}
	}
	slices.Sort(blocks)
	blocks = slices.Compact(blocks)
	return blocks[:min(len(blocks), maxFloating)]
}

// usesReservations reports whether the addresses of a NodeENI follow pods within SubnetReservations.
func usesReservations(nodeENI *v1alpha1.NodeENI) bool {
	pods := nodeENI.Spec.Pods
	return pods != nil && pods.Attachment == v1alpha1.PodAttachmentObserved && len(pods.Floating) == 0
}
