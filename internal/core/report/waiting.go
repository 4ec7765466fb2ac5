// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"

	"github.com/multieni/multieni/internal/core/terminal"
)

// WaitingPods are pods that request an address of a pod network, and that the scheduler finds no node for.
type WaitingPods struct {
	Network string `json:"network"`
	// NodeENI has the network; empty if none does.
	NodeENI string `json:"nodeENI,omitempty"`
	// Pods are NAMESPACE/NAME, sorted.
	Pods []string `json:"pods"`
	// Nodes is the number of nodes that offer addresses of the network; all of these are in use.
	Nodes int `json:"nodes"`
}

// Cause says why the pods wait.
func (w WaitingPods) Cause() string {
	switch {
	case w.NodeENI == "":
		return "they request an address of network " + w.Network + ", which no NodeENI has"
	case w.Nodes == 0:
		return "no node offers addresses of network " + w.Network + ", and autoscalers do not know that new ones will"
	default:
		return fmt.Sprintf("the scheduler finds no free address of network %s on the nodes that offer it (%d)", w.Network,
			w.Nodes)
	}
}

// Next returns the next step.
func (w WaitingPods) Next() string {
	if w.NodeENI == "" {
		return "Correct the name in the request of the pods; kubectl eni nads lists the networks."
	}
	tell := fmt.Sprintf("with an autoscaler, tell it: kubectl eni autoscaling %s --karpenter --nodepool POOL, or "+
		"--cluster-autoscaler (docs/autoscaling.md).", w.NodeENI)
	if w.Nodes == 0 {
		return fmt.Sprintf("Without an autoscaler, label nodes as NodeENI %s selects them; %s", w.NodeENI, tell)
	}
	return fmt.Sprintf("Raise pods.ipv4.prefixes of NodeENI %s, or add nodes that it selects; %s", w.NodeENI, tell)
}

// text prints the pods as a paragraph.
func (w WaitingPods) text(p Page) string {
	return p.paragraph(p.sign(terminal.Bad)+" ", "PodsPending — "+p.Names(w.Pods)) +
		p.paragraph("  ", w.Cause()) + p.paragraph("  → ", w.Next())
}

// PodDemand is a pod that the scheduler finds no node for.
type PodDemand struct {
	// Name is NAMESPACE/NAME.
	Name string
	// Networks are those whose addresses the pod requests.
	Networks []string
	// Lacking are the networks with too few free addresses on every node, as the scheduler says.
	Lacking []string
}

// Waiting groups pods by the network that keeps them from a node. Offers has the number of nodes that offer each
// network, and owners the NodeENI of each network. A pod that requests a network which nodes offer waits for it only if
// the scheduler says so.
func Waiting(pods []PodDemand, offers map[string]int, owners map[string]string) []WaitingPods {
	groups := map[string]*WaitingPods{}
	for _, pod := range pods {
		for _, network := range pod.Networks {
			if offers[network] > 0 && !slices.Contains(pod.Lacking, network) {
				continue
			}
			if groups[network] == nil {
				groups[network] = &WaitingPods{Network: network, NodeENI: owners[network], Nodes: offers[network]}
			}
			groups[network].Pods = append(groups[network].Pods, pod.Name)
		}
	}
	var all []WaitingPods
	for _, network := range slices.Sorted(maps.Keys(groups)) {
		slices.Sort(groups[network].Pods)
		all = append(all, *groups[network])
	}
	return all
}
