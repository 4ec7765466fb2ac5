// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/instancetype"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// efasNotKnown is the message of a type whose EFAs are in no table.
const efasNotKnown = "how many Elastic Fabric Adapters it takes is not known offline: EC2 tells who may call " +
	"ec2:DescribeInstanceTypes"

// verdictOn is the verdict on a type with the interfaces of a node template.
func verdictOn(
	t *testing.T, n launchtemplate.NodeTemplate, kind launchtemplate.InstanceType,
) launchtemplate.TypeVerdict {
	t.Helper()
	r := launchtemplate.Render(n, []launchtemplate.InstanceType{kind}, nil)
	if len(r.Types) != 1 {
		t.Fatalf("%d verdicts, problems %v", len(r.Types), r.Problems)
	}
	return r.Types[0]
}

func tracked(i *launchtemplate.Interface) { i.ConnectionTracking.TCPEstablished = 3600 }

func express(i *launchtemplate.Interface) { i.ENAExpress = eni.ENAExpressTCPAndUDP }

// The first limit that the interfaces exceed is the reason: of a card, then of the instance, then of one interface. The
// message has the limit and what is declared. A limit that is reached exactly is not exceeded.
func TestReasonIsTheFirstLimitThatIsExceeded(t *testing.T) {
	limit := func(set func(*eni.Limits), kind launchtemplate.InstanceType) launchtemplate.InstanceType {
		set(&kind.Limits)
		return kind
	}
	efa := ofType(eni.EFA)
	for name, tc := range map[string]struct {
		kind          launchtemplate.InstanceType
		more          []launchtemplate.Interface
		reason, words string
	}{
		"each limit reached": {
			withEFAs(1, "m9.x", 2, 1), list(interfaceIn(0, 1, prefixed(9, 10)), interfaceIn(1, 0, efa)), "", "",
		},
		"no second card": {
			sized("m9.x", 4), list(interfaceIn(1, 0)), "NoSuchNetworkCard", "it has network card 0 alone, and no card 1",
		},
		"no third card": {
			sized("m9.x", 4, 4), list(interfaceIn(2, 0), interfaceIn(1, 0)),
			"NoSuchNetworkCard", "it has network cards 0 to 1, and no card 2",
		},
		"too many on the first card": {
			sized("m9.x", 1, 1), list(at(1), interfaceIn(2, 0)),
			"TooManyInterfacesOnCard", "network card 0 takes 1 interfaces, and 2 are declared",
		},
		"too many on the second card": {
			sized("m9.x", 4, 2), list(interfaceIn(1, 0), interfaceIn(1, 1), interfaceIn(1, 2)),
			"TooManyInterfacesOnCard", "network card 1 takes 2 interfaces, and 3 are declared",
		},
		"no such device on the first card": {
			sized("m9.x", 3), list(at(3)), "NoSuchDeviceIndex",
			"network card 0 has the device indices 0 to 2, and 3 is declared",
		},
		"no such device on the second card": {
			sized("m9.x", 4, 2), list(interfaceIn(1, 2)), "NoSuchDeviceIndex",
			"network card 1 has the device indices 0 to 1, and 2 is declared",
		},
		"too many over all cards": {
			limit(func(l *eni.Limits) { l.Interfaces = 2 }, sized("m9.x", 2, 2)), list(at(1), interfaceIn(1, 1, efa)),
			"TooManyInterfaces", "it takes 2 interfaces over all cards, and 3 are declared",
		},
		"no EFA": {sized("m9.x", 2), list(interfaceIn(0, 1, efa)), "NoEFA", "it takes no Elastic Fabric Adapter"},
		"no connection tracking": {
			limit(func(l *eni.Limits) { l.XenHypervisor = true }, sized("m9.x", 2)), list(interfaceIn(0, 1, tracked)),
			"ConnectionTrackingUnsupported", "its interfaces take no timeouts of connection tracking: it is no Nitro type",
		},
		"no ENA Express": {
			sized("m9.x", 2), list(interfaceIn(0, 1, tracked, express)),
			"ENAExpressUnsupported", "EC2 does not say that it supports ENA Express (ec2:DescribeInstanceTypes)",
		},
		"both ENA settings": {
			limit(func(l *eni.Limits) { l.ENAExpress = true }, sized("m9.x", 2)), list(interfaceIn(0, 1, tracked, express)), "", "",
		},
		"unknown EFAs": {
			limit(func(l *eni.Limits) { l.EFAsUnknown = true }, sized("m9.x", 2)), list(interfaceIn(0, 1, efa)),
			"UnknownEFAs", efasNotKnown,
		},
		"unknown EFAs, none declared": {
			limit(func(l *eni.Limits) { l.EFAsUnknown = true }, sized("m9.x", 2)), list(at(1)), "", "",
		},
		"too many EFAs, and IPv4 addresses": {
			withEFAs(1, "m9.x", 2, 2), list(interfaceIn(0, 1, efa, prefixed(20, 0)), interfaceIn(1, 1, ofType(eni.EFAOnly))),
			"TooManyEFAs", "it takes 1 Elastic Fabric Adapters, and 2 are declared",
		},
		"too many IPv4 addresses": {
			sized("m9.x", 4), list(at(2), interfaceIn(0, 1, prefixed(10, 11), named("n3"))), "TooManyIPv4Addresses",
			`an interface takes 10 IPv4 addresses and prefixes, and interface "n3" (card 0 device 1) asks for 11 ` +
				"with its primary one",
		},
		"too many IPv6 addresses": {
			sized("m9.x", 4), list(interfaceIn(0, 1, prefixed(9, 11))), "TooManyIPv6Addresses",
			"an interface takes 10 IPv6 addresses and prefixes, and the interface at card 0 device 1 asks for 11",
		},
		"no IPv6": {
			limit(func(l *eni.Limits) { l.IPv6 = 0 }, sized("m9.x", 4)), list(interfaceIn(0, 1, prefixed(20, 1))),
			"TooManyIPv6Addresses", "it has no IPv6",
		},
		"no IPv6, none declared": {
			limit(func(l *eni.Limits) { l.IPv6 = 0 }, sized("m9.x", 4)), list(interfaceIn(0, 1, prefixed(9, 0))), "", "",
		},
		"an IPv4 prefix on Xen": {
			limit(func(l *eni.Limits) { l.XenHypervisor = true }, sized("m9.x", 4)), list(interfaceIn(0, 1, prefixed(1, 0))),
			"PrefixesUnsupported", "its interfaces take no prefixes: it is no Nitro type",
		},
		"an IPv6 prefix on Xen": {
			limit(func(l *eni.Limits) { l.XenHypervisor = true }, sized("m9.x", 4)), list(interfaceIn(0, 1, prefixed(0, 1))),
			"PrefixesUnsupported", "its interfaces take no prefixes: it is no Nitro type",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := verdictOn(t, declaring(append(tc.more, at(0))...), tc.kind)
			same(t, "reason and message", []string{tc.reason, tc.words}, []string{string(v.Reason), v.Message})
			if v.Eligible() != (tc.reason == "") {
				t.Errorf("eligible is %t", v.Eligible())
			}
		})
	}
}

// A type that is not a candidate has a reason of choice first, then one of knowledge, then one of the layout.
func TestReasonsForWhichATypeIsNoCandidate(t *testing.T) {
	unknown := launchtemplate.InstanceType{Name: "m9.x"}
	efasUnknown := sized("m9.x", 4)
	efasUnknown.Limits.EFAsUnknown = true
	for name, tc := range map[string]struct {
		change        func(*launchtemplate.NodeTemplate)
		kind          launchtemplate.InstanceType
		reason, words string
	}{
		"excluded, and of another architecture": {func(n *launchtemplate.NodeTemplate) {
			n.Types.Exclude, n.Image.Architecture = []string{"m9.*"}, "arm64"
		}, unknown, "Excluded", "spec.instanceTypes does not choose it"},
		"of another architecture, with unknown limits": {func(n *launchtemplate.NodeTemplate) {
			n.Image.Architecture = "arm64"
		}, unknown, "OtherArchitecture", "the image is for arm64"},
		"unknown limits, with a layout": {func(n *launchtemplate.NodeTemplate) {
			n.Layout = launchtemplate.IPOptimized
		}, unknown, "UnknownLimits", "nothing says how many interfaces it takes"},
		"unknown EFAs, with a layout": {
			func(n *launchtemplate.NodeTemplate) { n.Layout = launchtemplate.IPOptimized }, efasUnknown, "UnknownEFAs",
			efasNotKnown,
		},
		"no EFAs, with a layout": {
			func(n *launchtemplate.NodeTemplate) { n.Layout = launchtemplate.BandwidthOptimized }, sized("m9.x", 4), "NoEFA",
			"it takes no Elastic Fabric Adapter, which layout BandwidthOptimized is about",
		},
		"unknown EFAs, layout None": {
			func(n *launchtemplate.NodeTemplate) { n.Layout = launchtemplate.NoLayout }, efasUnknown, "", "",
		},
		"no EFAs, layout None": {
			func(n *launchtemplate.NodeTemplate) { n.Layout = launchtemplate.NoLayout }, sized("m9.x", 4), "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := plain()
			tc.change(&n)
			v := verdictOn(t, n, tc.kind)
			same(t, "reason and message", []string{tc.reason, tc.words}, []string{string(v.Reason), v.Message})
		})
	}
}

// A filter chooses what any pattern includes, or all types without one, except for what any pattern excludes.
func TestTypeFilter(t *testing.T) {
	all := []string{"c5.large", "m5.large", "m5.metal"}
	for name, tc := range map[string]struct {
		filter launchtemplate.TypeFilter
		want   []string
	}{
		"no patterns": {launchtemplate.TypeFilter{}, all},
		"two included": {
			launchtemplate.TypeFilter{Include: []string{"m5.metal", "c?.*"}}, []string{"c5.large", "m5.metal"},
		},
		"excluded alone": {
			launchtemplate.TypeFilter{Exclude: []string{"x", "*.metal"}}, []string{"c5.large", "m5.large"},
		},
		"included and excluded": {
			launchtemplate.TypeFilter{Include: all, Exclude: []string{"m5.*"}}, []string{"c5.large"},
		},
		"a pattern matches whole":      {launchtemplate.TypeFilter{Include: []string{"m5", "large"}}, nil},
		"a malformed pattern":          {launchtemplate.TypeFilter{Include: []string{"m5.[large"}}, nil},
		"a malformed pattern excluded": {launchtemplate.TypeFilter{Exclude: []string{"m5.[large"}}, all},
	} {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Types = tc.filter
			var chosen []string
			for _, v := range launchtemplate.Render(n, of(t, all...), nil).Types {
				if v.Reason != launchtemplate.Excluded {
					chosen = append(chosen, v.Name)
				}
			}
			same(t, "chosen types", tc.want, chosen)
		})
	}
}

// The number of pods is the VPC CNI's formula for the interfaces of card 0 that the CNI can use. A verdict counts all
// interfaces and EFAs with which an instance is launched.
func TestVerdictCountsPodsAndInterfaces(t *testing.T) {
	for name, tc := range map[string]struct {
		interfaces []launchtemplate.Interface
		want       launchtemplate.TypeVerdict
	}{
		"the primary interface alone":  {nil, launchtemplate.TypeVerdict{MaxPods: 4*9 + 2, Interfaces: 1}},
		"one that the CNI may not use": {list(at(1)), launchtemplate.TypeVerdict{MaxPods: 3*9 + 2, Interfaces: 2}},
		"one that the CNI may use": {
			list(interfaceIn(0, 1, forCNI)), launchtemplate.TypeVerdict{MaxPods: 4*9 + 2, Interfaces: 2},
		},
		"one on another card": {
			list(interfaceIn(1, 0)), launchtemplate.TypeVerdict{MaxPods: 4*9 + 2, Interfaces: 2},
		},
		"one without addresses": {
			list(interfaceIn(0, 1, forCNI, ofType(eni.EFAOnly))),
			launchtemplate.TypeVerdict{MaxPods: 3*9 + 2, Interfaces: 2, EFAs: 1},
		},
		"an EFA of each kind": {
			list(interfaceIn(0, 1, ofType(eni.EFA)), interfaceIn(1, 1, ofType(eni.EFAOnly))),
			launchtemplate.TypeVerdict{MaxPods: 3*9 + 2, Interfaces: 3, EFAs: 2},
		},
		"more than the first card takes": {list(at(1), at(2), at(3), at(4)), launchtemplate.TypeVerdict{Interfaces: 5}},
		"prefixes do not change the number of pods": {
			list(interfaceIn(0, 1, prefixed(3, 0))), launchtemplate.TypeVerdict{MaxPods: 3*9 + 2, Interfaces: 2},
		},
		"all slots of the first card": {
			list(at(1), at(2), at(3)), launchtemplate.TypeVerdict{MaxPods: 9 + 2, Interfaces: 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := verdictOn(t, declaring(append(tc.interfaces, at(0))...), withEFAs(4, "m9.x", 4, 4))
			tc.want.Name, tc.want.Reason, tc.want.Message = v.Name, v.Reason, v.Message
			same(t, "verdict", tc.want, v)
		})
	}
}

// The problem of a node template without eligible types counts the types for each reason, the most frequent one first,
// with the first type of each by name. Excluded types are no candidates and are not counted.
func TestProblemWithoutAnEligibleType(t *testing.T) {
	types := []launchtemplate.InstanceType{
		sized("m9.b", 2), {Name: "m9.c"}, sized("m9.a", 1, 1), sized("m9.d", 1), sized("c9.x", 1),
		sized("m9.f", 8, 8), sized("m9.e", 2),
	}
	n := declaring(at(0), at(1), interfaceIn(1, 0, ofType(eni.EFA)))
	n.Types = launchtemplate.TypeFilter{Include: []string{"m9.[a-e]"}}
	same(t, "problems", []string{"NoEligibleInstanceType spec.networkInterfaces: none of the 5 chosen instance types " +
		"can carry the interfaces: 2 for TooManyInterfacesOnCard (m9.a: network card 0 takes 1 interfaces, and 2 are " +
		"declared), 2 for NoSuchNetworkCard (m9.b: it has network card 0 alone, and no card 1), " +
		"1 for UnknownLimits (m9.c: nothing says how many interfaces it takes); declare fewer, or choose larger types",
	}, textOf(launchtemplate.Render(n, types, nil).Problems))

	n.Types.Include = []string{"x9.*"}
	same(t, "problems of a filter that matches none", []string{"NoEligibleInstanceType spec.instanceTypes: no instance " +
		`type matches; check include and exclude, for example include: ["m5.*"]`,
	}, textOf(launchtemplate.Render(n, types, nil).Problems))

	n.Types.Include = nil
	types[5].Limits.EFAs = 1
	same(t, "problems with one eligible type", []string{}, textOf(launchtemplate.Render(n, types, nil).Problems))
}

// Offline has each type of the table once, by name, with limits.
func TestOfflineTypesAreTheTable(t *testing.T) {
	var names []string
	for _, kind := range launchtemplate.Offline() {
		names = append(names, kind.Name)
		limits, _ := instancetype.Offline(kind.Name)
		same(t, kind.Name, limits, kind.Limits)
	}
	same(t, "names", instancetype.Names(), names)
}

// A type that can carry interfaces can carry fewer of them, and a larger type can carry the same ones.
func TestEligibilityIsMonotonic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := sized("m9.x", rapid.SliceOfN(rapid.IntRange(1, 5), 1, 3).Draw(t, "cards")...)
		kind.Limits.EFAs = rapid.IntRange(0, 3).Draw(t, "EFAs")
		kind.Limits.IPv4, kind.Limits.IPv6 = rapid.IntRange(1, 4).Draw(t, "IPv4"), rapid.IntRange(0, 4).Draw(t, "IPv6")
		all := declared(t)
		eligible := func(interfaces []launchtemplate.Interface, kind launchtemplate.InstanceType) bool {
			return launchtemplate.Render(declaring(interfaces...), []launchtemplate.InstanceType{kind}, nil).Types[0].Eligible()
		}
		if !eligible(all, kind) {
			return
		}
		larger := kind
		larger.Limits.Cards = append(slices.Clone(kind.Limits.Cards), 1)
		larger.Limits.Cards[0]++
		larger.Limits.Interfaces += rapid.IntRange(0, 2).Draw(t, "more interfaces")
		larger.Limits.EFAs++
		larger.Limits.IPv4++
		larger.Limits.IPv6++
		if !eligible(all, larger) {
			t.Fatalf("%+v carries %v, and %+v does not", kind.Limits, arranged(all), larger.Limits)
		}
		if len(all) > 0 {
			if fewer := slices.Delete(slices.Clone(all), 0, 1); !eligible(fewer, kind) {
				t.Fatalf("%+v carries %v, and not %v", kind.Limits, arranged(all), arranged(fewer))
			}
		}
	})
}
