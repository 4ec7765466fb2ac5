// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// stored returns what the API server stores about the interfaces of an instance, by interface ID. The argument states
// has the states of all nodes that have the instance, or had it; the present one is the last.
func (r *Reconciler) stored(ctx context.Context, s *snapshot, states []v1alpha1.NodeENIState, instanceID string,
	known observer.NodeInventory) (map[string]plan.Stored, error) {
	floating, err := r.floatingAddresses(ctx, s)
	if err != nil {
		return nil, err
	}
	all := map[string]plan.Stored{}
	controller.AddFacts(all, floating, func(i *plan.Stored, addresses plan.Floating) { i.Floating = addresses })
	controller.AddFacts(all, controller.RequestedAddresses(known.Requested, states...),
		func(i *plan.Stored, addresses eni.Addresses) { i.Requested = addresses })
	controller.AddFacts(all, controller.RecordsOfENA(states...),
		func(i *plan.Stored, record plan.ENA) { i.ENA = record })
	controller.AddFacts(all, devicesInUse(states),
		func(i *plan.Stored, message string) { i.DeviceInUse, i.DeviceMessage = true, message })
	controller.AddFacts(all, listedPrefixes(states),
		func(i *plan.Stored, prefixes []netip.Prefix) { i.ListedPrefixes = prefixes })
	controller.AddFacts(all, s.listedNetworks(), func(i *plan.Stored, network plan.ListedNetwork) { i.Listed = &network })
	controller.AddFacts(all, s.podNetworksOf(instanceID),
		func(i *plan.Stored, report plan.PodNetwork) { i.Report = &report })
	controller.AddFacts(all, r.reportsLost(s),
		func(i *plan.Stored, due time.Time) { i.MayLackReport, i.ReportDue = true, due })
	return all, nil
}

// listedPrefixes returns, by interface ID, the prefixes that states list.
func listedPrefixes(states []v1alpha1.NodeENIState) map[string][]netip.Prefix {
	listed := map[string][]netip.Prefix{}
	for n := range states {
		for _, i := range states[n].Status.Interfaces {
			if i.Unverified {
				continue
			}
			listed[i.ENIID] = append(listed[i.ENIID], controller.ParsePrefixes(slices.Concat(i.IPv4Prefixes, i.IPv6Prefixes))...)
		}
	}
	return listed
}

// devicesInUse returns the interfaces whose device the agent on the instance has not released, with its message. The
// agent can run under a former name of the node. What it reports under the present one, the last of the states, is
// newer.
func devicesInUse(states []v1alpha1.NodeENIState) map[string]string {
	held := map[string]string{}
	for n := range states {
		for _, link := range states[n].Status.Links {
			if holds(link) {
				held[link.ENIID] = link.Message
			} else {
				delete(held, link.ENIID)
			}
		}
	}
	return held
}

// holds reports whether the device of a link has or is about to get a driver for user space.
func holds(link v1alpha1.LinkState) bool {
	return link.State == v1alpha1.LinkBound || link.State == v1alpha1.LinkBinding
}
