// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/report"
	"github.com/multieni/multieni/internal/core/selector"
)

func newSubnets() *cobra.Command {
	var s screen
	var e cloud
	c := &cobra.Command{
		Use:   "subnets [ID]...",
		Short: "Show what holds the addresses of the subnets, and the free /28s",
		Long: `Show the subnets that NodeENIs select, or those that you name: how many addresses are free,
how many /28 EC2 can delegate, a picture of the blocks, the CIDR reservations, and who holds
the addresses: NodeENIs, the VPC CNI, others. A subnet with many free addresses can have no
free /28, and EC2 does not show that.

The command calls EC2 with your own AWS credentials: three requests for each subnet.`,
		Example: `  kubectl eni subnets
  kubectl eni subnets subnet-0f59b4f14737be9ad
  kubectl eni subnets -o json | jq '.subnets[] | {id, free, freePrefixes}'`,
		RunE: s.show(func(c *cobra.Command, api client.Client, ids []string) (textOutput, error) {
			selectedBy, err := selectedSubnets(c.Context(), api)
			if err != nil {
				return nil, err
			}
			if len(ids) == 0 {
				ids = slices.Sorted(maps.Keys(selectedBy))
			}
			cloud, err := e.connect(c.Context(), api)
			if err != nil {
				return nil, err
			}
			return readSubnets(c.Context(), cloud, ids, selectedBy)
		}),
	}
	e.bind(c.Flags())
	s.bind(c, "wide", "json", "yaml")
	return c
}

// selectedSubnets returns the names of the NodeENIs that select each subnet, by the subnet's ID.
func selectedSubnets(ctx context.Context, api client.Reader) (map[string][]string, error) {
	var nodeENIs v1alpha1.NodeENIList
	if err := api.List(ctx, &nodeENIs); err != nil {
		return nil, unlisted("NodeENIs", err)
	}
	selectedBy := map[string][]string{}
	for _, n := range nodeENIs.Items {
		for _, subnet := range n.Status.Subnets {
			selectedBy[subnet.ID] = append(selectedBy[subnet.ID], n.Name)
		}
	}
	return selectedBy, nil
}

// readSubnets reads subnets with their interfaces and reservations.
func readSubnets(ctx context.Context, cloud ec2, ids []string, selectedBy map[string][]string) (report.Subnets, error) {
	view := report.Subnets{Subnets: []report.Subnet{}}
	if len(ids) == 0 {
		return view, nil
	}
	known, err := cloud.Subnets(ctx, selector.SubnetTerms{IDs: ids})
	if err != nil {
		return view, err
	}
	if missing := missingSubnets(ids, known); len(missing) > 0 {
		return view, fmt.Errorf("EC2 has no %s in %s; aws ec2 describe-subnets --region %s lists the subnets",
			strings.Join(missing, ", "), cloud.region, cloud.region)
	}
	for _, subnet := range known {
		interfaces, err := cloud.SubnetInterfaces(ctx, subnet.ID)
		if err != nil {
			return view, err
		}
		reservations, err := cloud.SubnetReservations(ctx, subnet.ID)
		if err != nil {
			return view, err
		}
		one, err := report.NewSubnet(subnet, interfaces, reservations, selectedBy[subnet.ID])
		if err != nil {
			return view, err
		}
		view.Subnets = append(view.Subnets, one)
	}
	slices.SortFunc(view.Subnets, report.CompareSubnets)
	return view, nil
}

func missingSubnets(ids []string, known []eni.Subnet) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return slices.ContainsFunc(known, func(s eni.Subnet) bool { return s.ID == id })
	})
}
