// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package autoscaling tells autoscalers of nodes about pod networks. An autoscaler simulates a node before it launches
// one. The resource of a pod network is on a node only after the agent reports it, so the simulation needs the number
// from elsewhere: Karpenter from a NodeOverlay, Cluster Autoscaler from tags of the node group.
package autoscaling

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/instancetype"
)

// Demand is what the interfaces of a NodeENI need of a node, and what they offer to pods.
type Demand struct {
	NodeENI string
	// Interfaces is the number of interfaces on network card Card of each node.
	Interfaces, Card int
	// Counts are the addresses and prefixes that each interface has from the start, in addition to its primary address.
	Counts eni.AddressCounts
	// Resources are the names of the resources that a node in any zone has.
	Resources []string
	// SomeZones are the names of the resources that only nodes of some zones have.
	SomeZones []string
	// Pods is the number of each resource that a node has from the start. An autoscaler must not expect more: prefixes
	// above the minimum come only while pods use the others, and EC2 can have no free one.
	Pods int64
}

// Types returns the instance types that match a pattern such as "m6i.*" and have room for the interfaces, and why the
// others that match do not. Karpenter never initializes a node that lacks a resource of its NodeOverlay, so a type
// without room must not be in one. An error names a pattern that matches no known type.
func (d Demand) Types(patterns []string) (fit []string, refused map[string]string, err error) {
	refused = map[string]string{}
	for _, pattern := range patterns {
		matches := 0
		for _, name := range instancetype.Names() {
			is, err := path.Match(pattern, name)
			if err != nil {
				return nil, nil, fmt.Errorf("instance type %q is not a valid pattern; write it like m6i.large or m6i.*", pattern)
			}
			if !is {
				continue
			}
			matches++
			limits, _ := instancetype.Offline(name)
			if why := d.lack(limits); why != "" {
				refused[name] = why
				continue
			}
			fit = append(fit, name)
		}
		if matches == 0 {
			return nil, nil, fmt.Errorf("no known instance type is like %q; write it like m6i.large or m6i.*", pattern)
		}
	}
	slices.Sort(fit)
	return slices.Compact(fit), refused, nil
}

// lack returns what an instance type lacks for the interfaces; "" if they fit.
func (d Demand) lack(limits eni.Limits) string {
	room := limits.MaxOnCard(d.Card)
	if d.Card == 0 {
		room-- // the primary interface
	}
	v4, v6 := d.Counts.SecondaryIPv4+d.Counts.IPv4Prefixes, d.Counts.IPv6+d.Counts.IPv6Prefixes
	switch {
	case d.Interfaces > min(room, limits.Interfaces-1):
		return fmt.Sprintf("network card %d has room for %d interfaces in addition to the primary one, and the NodeENI "+
			"has %d", d.Card, max(0, min(room, limits.Interfaces-1)), d.Interfaces)
	case d.Counts.IPv4Prefixes+d.Counts.IPv6Prefixes > 0 && limits.XenHypervisor:
		return "EC2 delegates no prefixes to instances on Xen"
	case 1+v4 > limits.IPv4:
		return fmt.Sprintf("an interface takes %d IPv4 prefixes and addresses in addition to the primary "+
			"one, and the NodeENI needs %d", limits.IPv4-1, v4)
	case v6 > limits.IPv6:
		return fmt.Sprintf("an interface takes %d IPv6 prefixes and addresses, and the NodeENI needs %d", limits.IPv6, v6)
	default:
		return ""
	}
}

// NodeOverlay is an object of Karpenter (karpenter.sh/v1alpha1).
type NodeOverlay struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       NodeOverlaySpec   `json:"spec"`
}

// NodeOverlaySpec has the instance types of a NodeOverlay, and the resources that it adds to them.
type NodeOverlaySpec struct {
	Requirements []Requirement     `json:"requirements"`
	Capacity     map[string]string `json:"capacity"`
}

// Requirement is a requirement of a NodeOverlay on the labels of a node.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

// NodeOverlay returns the overlay of nodes of these NodePools and types. It names the pools, because Karpenter matches
// no label that a pool has only in its requirements, and lists the types, because a type that Karpenter learns of later
// may have no room.
func (d Demand) NodeOverlay(pools, types []string) NodeOverlay {
	capacity := map[string]string{}
	for _, name := range d.Resources {
		capacity[name] = fmt.Sprint(d.Pods)
	}
	return NodeOverlay{
		APIVersion: "karpenter.sh/v1alpha1", Kind: "NodeOverlay",
		Metadata: map[string]string{"name": d.overlayName()},
		Spec: NodeOverlaySpec{
			Requirements: []Requirement{
				{Key: "karpenter.sh/nodepool", Operator: "In", Values: pools},
				{Key: "node.kubernetes.io/instance-type", Operator: "In", Values: types},
			},
			Capacity: capacity,
		},
	}
}

func (d Demand) overlayName() string { return "multieni-" + d.NodeENI }

// The prefixes of the tags from which Cluster Autoscaler makes the model node of an empty group
// (kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/README.md).
const (
	resourceTag = "k8s.io/cluster-autoscaler/node-template/resources/"
	labelTag    = "k8s.io/cluster-autoscaler/node-template/label/"
)

// mostKeyCharacters is the maximum length of a tag's key (Amazon EC2 user guide, "Tag your Amazon EC2 resources").
const mostKeyCharacters = 128

// Tags returns the tags of a node group with which Cluster Autoscaler scales it up from zero. The labels are those of
// the NodeENI's node selector. An error names a key that is too long for a tag.
func (d Demand) Tags(labels map[string]string) (map[string]string, error) {
	resources := map[string]int64{}
	for _, name := range d.Resources {
		resources[name] = d.Pods
	}
	tags, long := Tags(labels, resources)
	if len(long) > 0 {
		key := long[0]
		return nil, fmt.Errorf("NodeENI %s cannot be scaled up from zero by Cluster Autoscaler: the tag %s has %d "+
			"characters, and AWS allows %d; choose a name that is %d shorter", d.NodeENI, key, len(key),
			mostKeyCharacters, len(key)-mostKeyCharacters)
	}
	return tags, nil
}

// Tags returns the tags of an Auto Scaling group with which Cluster Autoscaler expects labels and resources of its
// nodes, and the sorted keys that are too long for a tag.
func Tags(labels map[string]string, resources map[string]int64) (tags map[string]string, long []string) {
	tags = map[string]string{}
	for key, value := range labels {
		tags[labelTag+key] = value
	}
	for name, n := range resources {
		tags[resourceTag+name] = fmt.Sprint(n)
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if len(key) > mostKeyCharacters {
			long = append(long, key)
			delete(tags, key)
		}
	}
	return tags, long
}
