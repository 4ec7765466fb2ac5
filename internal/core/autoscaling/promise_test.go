// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling_test

import (
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/autoscaling"
	"github.com/multieni/multieni/internal/core/eni"
)

const (
	n3 = "addresses.networking.k8s.aws/n3"
	n6 = "addresses.networking.k8s.aws/n6"
)

// A NodeOverlay is compared with what a node has, with the NodePools, and with what Karpenter says about it.
func TestFaults(t *testing.T) {
	good := func() autoscaling.Promise {
		return autoscaling.Promise{
			Overlay: "multieni-n3", Ready: "True", Capacity: map[string]int64{n3: 16}, Pools: []string{"upf"}, Types: []string{"m6i.large"},
		}
	}
	demand := func() autoscaling.Demand {
		return autoscaling.Demand{
			NodeENI: "n3", Interfaces: 1, Counts: eni.AddressCounts{IPv4Prefixes: 1}, Resources: []string{n3}, Pods: 16,
		}
	}
	const again = "kubectl eni autoscaling n3 --karpenter --nodepool upf --instance-types m6i.large | kubectl apply -f -"
	for name, c := range map[string]struct {
		change func(*autoscaling.Promise, *autoscaling.Demand)
		found  string // "" if nothing is wrong
		next   string
	}{
		"as printed":         {func(*autoscaling.Promise, *autoscaling.Demand) {}, "", ""},
		"prefixes.min rose":  {func(_ *autoscaling.Promise, d *autoscaling.Demand) { d.Pods = 32 }, "promises " + n3 + ": 16, and a node has 32", again},
		"prefixes.min fell":  {func(p *autoscaling.Promise, _ *autoscaling.Demand) { p.Capacity[n3] = 64 }, "they find no address", again},
		"nothing promised":   {func(p *autoscaling.Promise, _ *autoscaling.Demand) { p.Capacity[n3] = 0 }, "promises " + n3 + ": 0", again},
		"of another name":    {func(p *autoscaling.Promise, _ *autoscaling.Demand) { p.Overlay, p.Capacity[n3] = "mine", 64 }, "promises", "; then kubectl delete nodeoverlay mine"},
		"without NodePool":   {func(p *autoscaling.Promise, _ *autoscaling.Demand) { p.Pools, p.Capacity[n3] = nil, 64 }, "promises", "--nodepool POOL"},
		"of many types":      {func(p *autoscaling.Promise, _ *autoscaling.Demand) { p.Types, p.Capacity[n3] = make([]string, 7), 64 }, "promises", "--instance-types TYPES"},
		"a deleted NodeENI":  {func(_ *autoscaling.Promise, d *autoscaling.Demand) { d.NodeENI, d.Resources = "n6", []string{n6} }, "no NodeENI gives nodes this resource", "kubectl delete nodeoverlay multieni-n3"},
		"a second network":   {func(_ *autoscaling.Promise, d *autoscaling.Demand) { d.Resources = append(d.Resources, n3+"--1") }, "no NodeOverlay promises " + n3 + "--1", again},
		"some zones only":    {func(_ *autoscaling.Promise, d *autoscaling.Demand) { d.Resources, d.SomeZones = nil, []string{n3} }, "only on nodes of some zones", "for each zone"},
		"a type that is new": {func(p *autoscaling.Promise, _ *autoscaling.Demand) { p.Types = []string{"x99.large"} }, "", ""},
		"a type without room": {
			func(p *autoscaling.Promise, d *autoscaling.Demand) {
				p.Types, d.Counts.IPv4Prefixes = []string{"m6i.large", "t3.small"}, 4
			},
			"its instance type t3.small has no room for the interfaces of NodeENI n3", "kubectl edit nodeoverlay multieni-n3",
		},
		"a NodePool that is gone": {func(p *autoscaling.Promise, _ *autoscaling.Demand) { p.Pools = []string{"former"} }, "it is for NodePool former, which does not exist", "karpenter.sh/nodepool"},
		"one NodePool of two":     {func(p *autoscaling.Promise, _ *autoscaling.Demand) { p.Pools = []string{"former", "upf"} }, "", ""},
		"any NodePool":            {func(p *autoscaling.Promise, _ *autoscaling.Demand) { p.Pools = nil }, "", ""},
		"a conflict":              {func(p *autoscaling.Promise, _ *autoscaling.Demand) { p.Ready, p.Reason = "False", "Conflict" }, "refuses it (Conflict)", "spec.weight"},
		"invalid": {
			func(p *autoscaling.Promise, _ *autoscaling.Demand) {
				p.Ready, p.Reason, p.Message = "False", "RuntimeValidation", "no such label."
			},
			"refuses it (RuntimeValidation): no such label", "kubectl edit nodeoverlay multieni-n3",
		},
		"Karpenter without the feature": {func(p *autoscaling.Promise, _ *autoscaling.Demand) { p.Ready = "" }, "has not evaluated it", "NodeOverlay=true"},
		"Karpenter at work":             {func(p *autoscaling.Promise, _ *autoscaling.Demand) { p.Ready = "Unknown" }, "has not evaluated it", "NodeOverlay=true"},
	} {
		t.Run(name, func(t *testing.T) {
			p, d := good(), demand()
			c.change(&p, &d)
			faults := autoscaling.Faults([]autoscaling.Promise{p}, []autoscaling.Demand{d}, []string{"upf", "smf"})
			if c.found == "" {
				if len(faults) > 0 {
					t.Fatalf("faults are %+v, want none", faults)
				}
				return
			}
			if len(faults) != 1 || faults[0].Overlay != p.Overlay || !strings.Contains(faults[0].Found, c.found) || !strings.Contains(faults[0].Next, c.next) {
				t.Errorf("faults are %+v, want one with %q and %q", faults, c.found, c.next)
			}
		})
	}
}

// Two NodeOverlays can share the networks of a NodeENI.
func TestTwoOverlaysPromiseAllTogether(t *testing.T) {
	d := autoscaling.Demand{NodeENI: "n3", Resources: []string{n3, n3 + "--1"}, Pods: 16}
	promises := []autoscaling.Promise{
		{Overlay: "first", Ready: "True", Capacity: map[string]int64{n3: 16}},
		{Overlay: "second", Ready: "True", Capacity: map[string]int64{n3 + "--1": 16}},
	}
	if faults := autoscaling.Faults(promises, []autoscaling.Demand{d}, nil); len(faults) > 0 {
		t.Errorf("faults are %+v, want none", faults)
	}
}
