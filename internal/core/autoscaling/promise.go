// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/instancetype"
)

// Promise is what a NodeOverlay of a cluster says about pod networks.
type Promise struct {
	Overlay string
	// Ready, Reason and Message are those of its condition Ready; Ready is empty without one.
	Ready, Reason, Message string
	// Capacity has the promised number of each resource of a pod network.
	Capacity map[string]int64
	// Pools and Types are the NodePools and instance types that it requires by In; nil if it requires none.
	Pools, Types []string
}

// Fault is what is wrong with a NodeOverlay, and the next step.
type Fault struct {
	Overlay     string
	Found, Next string
}

// mostNamed is how many instance types a command names.
const mostNamed = 6

// Faults compares the promises of all NodeOverlays with what nodes have. Pools are the NodePools of the cluster, nil if
// unknown. Karpenter accepts a NodeOverlay that matches no NodePool, and one whose resource no node has.
func Faults(promises []Promise, demands []Demand, pools []string) []Fault {
	var all []Fault
	promised := map[string]bool{}
	for _, p := range promises {
		for name := range p.Capacity {
			promised[name] = true
		}
	}
	for _, p := range promises {
		add := func(found, next string) { all = append(all, Fault{p.Overlay, found, next}) }
		p.refusal(add)
		p.missingPools(pools, add)
		for _, name := range slices.Sorted(maps.Keys(p.Capacity)) {
			p.number(name, demands, add)
		}
		for _, d := range demands {
			p.rest(d, promised, add)
		}
	}
	return all
}

// refusal reports that Karpenter does not use the NodeOverlay.
func (p Promise) refusal(add func(found, next string)) {
	switch {
	case p.Ready == "True":
	case p.Ready == "False" && p.Reason == "Conflict":
		add("Karpenter refuses it (Conflict): another NodeOverlay of the same weight is for the same resource and types",
			"Delete one of both, or give one another spec.weight.")
	case p.Ready == "False":
		add(fmt.Sprintf("Karpenter refuses it (%s): %s", p.Reason, strings.TrimSuffix(p.Message, ".")),
			"Correct what the message names: kubectl edit nodeoverlay "+p.Overlay)
	default:
		add("Karpenter has not evaluated it",
			"If it is older than a minute, set Karpenter's feature gate NodeOverlay=true (Helm: "+
				"settings.featureGates.nodeOverlay).")
	}
}

// missingPools reports that the NodeOverlay matches no NodePool.
func (p Promise) missingPools(pools []string, add func(found, next string)) {
	if p.Pools == nil || pools == nil || slices.ContainsFunc(p.Pools, func(name string) bool {
		return slices.Contains(pools, name)
	}) {
		return
	}
	add("it is for NodePool "+strings.Join(p.Pools, ", ")+", which does not exist, so it changes nothing",
		"Correct the values of karpenter.sh/nodepool: kubectl edit nodeoverlay "+p.Overlay)
}

// number reports a resource that nodes do not have, or not in this number.
func (p Promise) number(name string, demands []Demand, add func(found, next string)) {
	promised := p.Capacity[name]
	for _, d := range demands {
		switch {
		case slices.Contains(d.SomeZones, name):
			add(name+" is only on nodes of some zones, and Karpenter never initializes a node of the others for a pod that "+
				"requests it", "Use a NodeENI, a NodePool and a NodeOverlay for each zone.")
			return
		case !slices.Contains(d.Resources, name):
			continue
		case promised > d.Pods:
			add(fmt.Sprintf("it promises %s: %d, and a node has %d from the start: Karpenter plans pods for a node on "+
				"which they find no address", name, promised, d.Pods), p.again(d))
		case promised < d.Pods:
			add(fmt.Sprintf("it promises %s: %d, and a node has %d from the start: Karpenter launches more nodes than the "+
				"pods need", name, promised, d.Pods), p.again(d))
		}
		return
	}
	add(fmt.Sprintf("it promises %s, and no NodeENI gives nodes this resource: Karpenter never initializes a node for a "+
		"pod that requests it", name), "Remove the resource from spec.capacity, or kubectl delete nodeoverlay "+p.Overlay)
}

// rest reports what the NodeOverlay lacks of the NodeENI whose resources it promises, and the types without room.
func (p Promise) rest(d Demand, promised map[string]bool, add func(found, next string)) {
	if !slices.ContainsFunc(d.Resources, func(name string) bool { return p.Capacity[name] > 0 }) {
		return
	}
	for _, name := range d.Resources {
		if !promised[name] {
			add("no NodeOverlay promises "+name+", which nodes of NodeENI "+d.NodeENI+" have, too: no pod that requests it "+
				"brings a node", p.again(d))
		}
	}
	var without []string
	var why string
	for _, name := range p.Types {
		limits, known := instancetype.Offline(name)
		if !known { // a new type, which Karpenter knows
			continue
		}
		if lack := d.lack(limits); lack != "" {
			without, why = append(without, name), lack
		}
	}
	if len(without) > 0 {
		add(fmt.Sprintf("its instance type %s has no room for the interfaces of NodeENI %s, and Karpenter never initializes "+
			"a node without them: %s", strings.Join(without, ", "), d.NodeENI, why),
			"Take the type out of the NodePool and of the NodeOverlay: kubectl edit nodeoverlay "+p.Overlay)
	}
}

// again returns the command that prints the NodeOverlay as it must be.
func (p Promise) again(d Demand) string {
	pools, types := strings.Join(p.Pools, ","), strings.Join(p.Types, ",")
	if pools == "" {
		pools = "POOL"
	}
	if types == "" || len(p.Types) > mostNamed {
		types = "TYPES"
	}
	next := fmt.Sprintf("Print it again: kubectl eni autoscaling %s --karpenter --nodepool %s --instance-types %s | "+
		"kubectl apply -f -", d.NodeENI, pools, types)
	if p.Overlay != d.overlayName() {
		next += "; then kubectl delete nodeoverlay " + p.Overlay
	}
	return next
}
