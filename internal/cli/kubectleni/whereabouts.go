// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/podnetwork"
	"github.com/multieni/multieni/internal/core/netattach"
)

// renderWhereabouts renders the definitions with whereabouts of the named NodeENIs, or of all.
func renderWhereabouts(c *cobra.Command, api client.Reader, names []string) (nads, error) {
	var nodeENIs v1alpha1.NodeENIList
	if err := api.List(c.Context(), &nodeENIs); err != nil {
		return nads{}, unlisted("NodeENIs", err)
	}
	for _, name := range names {
		if !slices.ContainsFunc(nodeENIs.Items, func(n v1alpha1.NodeENI) bool { return n.Name == name }) {
			return nads{}, fmt.Errorf("there is no NodeENI %s; see kubectl get nodeeni", name)
		}
	}
	blocks, err := explicitBlocks(c, api)
	if err != nil {
		return nads{}, err
	}
	var all nads
	for i := range nodeENIs.Items {
		n := &nodeENIs.Items[i]
		if len(names) > 0 && !slices.Contains(names, n.Name) {
			continue
		}
		ranges, err := rangesOf(n, blocks)
		if err != nil {
			return nads{}, err
		}
		namespaces := []string{""}
		if n.Spec.Pods != nil {
			if namespaces, err = podNamespaces(c, api, n.Spec.Pods); err != nil {
				return nads{}, err
			}
		}
		for _, namespace := range namespaces {
			for _, definition := range netattach.WhereaboutsDefinitions(ranges) {
				all.Items = append(all.Items, podnetwork.Object(namespace, definition))
			}
		}
	}
	if len(all.Items) == 0 {
		return nads{}, errors.New("no SubnetReservation of type Explicit has a reserved block in a subnet of the NodeENIs; " +
			"see kubectl get subnetreservations, and kubectl eni subnets")
	}
	return all, nil
}

// explicitBlocks returns the blocks that EC2 has reserved for SubnetReservations of type Explicit, by subnet.
func explicitBlocks(c *cobra.Command, api client.Reader) (map[string][]netip.Prefix, error) {
	var reservations v1alpha1.SubnetReservationList
	if err := api.List(c.Context(), &reservations); err != nil {
		return nil, unlisted("SubnetReservations", err)
	}
	blocks := map[string][]netip.Prefix{}
	for _, r := range reservations.Items {
		for _, block := range r.Status.Reservations {
			cidr, err := netip.ParsePrefix(block.CIDR)
			if r.Spec.Type == v1alpha1.SubnetReservationExplicit && block.ID != "" && err == nil {
				blocks[block.SubnetID] = append(blocks[block.SubnetID], cidr)
			}
		}
	}
	return blocks, nil
}

// rangesOf returns the blocks in the subnets of a NodeENI.
func rangesOf(n *v1alpha1.NodeENI, blocks map[string][]netip.Prefix) ([]netattach.Range, error) {
	var ranges []netattach.Range
	for _, subnet := range n.Status.Subnets {
		cidr, err := netip.ParsePrefix(subnet.CIDR)
		if err != nil || len(blocks[subnet.ID]) == 0 {
			continue
		}
		ordinal, err := ordinalIn(n, subnet)
		if err != nil {
			return nil, err
		}
		for _, block := range blocks[subnet.ID] {
			ranges = append(ranges, netattach.Range{
				Network: netattach.Network{NodeENI: n.Name, Ordinal: ordinal}, Zone: subnet.Zone, Subnet: cidr, Block: block,
			})
		}
	}
	return ranges, nil
}

// ordinalIn returns the number of the interface in a subnet among those of the NodeENI on a node of its zone.
func ordinalIn(n *v1alpha1.NodeENI, subnet v1alpha1.ResolvedSubnet) (int, error) {
	var zone []string
	for _, other := range n.Status.Subnets {
		if other.Zone == subnet.Zone {
			zone = append(zone, other.ID)
		}
	}
	if everyNodeHasOne := len(n.Spec.SubnetIDs)+len(n.Spec.SubnetNames) == 0; everyNodeHasOne || len(zone) == 1 {
		return 0, nil
	}
	listed := slices.DeleteFunc(slices.Clone(n.Spec.SubnetIDs), func(id string) bool { return !slices.Contains(zone, id) })
	if at := slices.Index(listed, subnet.ID); at >= 0 {
		return at, nil
	}
	return 0, fmt.Errorf("NodeENI %s selects %d subnets of zone %s, and not by subnetIDs: the link of each is not known; "+
		"list them as subnetIDs, or write the NetworkAttachmentDefinition by hand", n.Name, len(zone), subnet.Zone)
}
