// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/instancetype"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// declared draws interfaces that are often, not always, legal.
func declared(t *rapid.T) []launchtemplate.Interface {
	slot := rapid.Custom(func(t *rapid.T) eni.Slot {
		return eni.Slot{Card: rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "card"), Device: rapid.IntRange(0, 5).Draw(t, "device")}
	})
	slots := rapid.SliceOfNDistinct(slot, 0, 6, rapid.ID).Draw(t, "slots")
	if rapid.IntRange(0, 9).Draw(t, "primary") > 0 && !slices.Contains(slots, eni.Primary) {
		slots = append(slots, eni.Primary)
	}
	var all []launchtemplate.Interface
	for _, s := range slots {
		i := launchtemplate.Interface{
			Slot: s, Type: rapid.SampledFrom([]eni.Type{"", eni.Standard, eni.Standard, eni.EFA, eni.EFAOnly}).Draw(t, "type"),
			Description: rapid.StringMatching(`[a-z ]{0,8}`).Draw(t, "description"), DeleteOnTermination: rapid.Bool().Draw(t, "deleteOnTermination"),
			Management: rapid.SampledFrom([]launchtemplate.Management{launchtemplate.Unmanaged, launchtemplate.CNI}).Draw(t, "management"),
		}
		if i.Type != eni.EFAOnly || rapid.IntRange(0, 9).Draw(t, "addresses") == 0 {
			i.IPv4Prefixes, i.IPv6Prefixes = rapid.IntRange(0, 3).Draw(t, "ipv4Prefixes"), rapid.IntRange(0, 3).Draw(t, "ipv6Prefixes")
		}
		if rapid.Bool().Draw(t, "own") {
			i.Subnets, i.Groups = []eni.Subnet{subnet("subnet-n"+s.String(), "us-east-1a")}, []string{"sg-own"}
		}
		if rapid.IntRange(0, 9).Draw(t, "public") == 0 {
			public := rapid.Bool().Draw(t, "publicIP")
			i.PublicIP = &public
		}
		all = append(all, i)
	}
	return all
}

// TestATemplateYieldsExactlyTheDeclaredInterfaces checks every type that is eligible: the rendered template requests
// the declared interfaces and no others, in a form that EC2 accepts. Other declarations are refused with a reason.
func TestATemplateYieldsExactlyTheDeclaredInterfaces(t *testing.T) {
	limits, _ := instancetype.Offline("p5en.48xlarge")
	types := []launchtemplate.InstanceType{{Name: "p5en.48xlarge", Limits: limits}}
	rapid.Check(t, func(t *rapid.T) {
		n := plain()
		n.Interfaces = declared(t)
		r := launchtemplate.Render(n, types, nil)
		if len(r.Templates) == 0 {
			if len(r.Problems) == 0 {
				t.Fatal("nothing was rendered, and nothing is wrong")
			}
			return
		}
		for _, template := range r.Templates {
			want := n.Interfaces
			if len(want) == 0 {
				want = []launchtemplate.Interface{{DeleteOnTermination: true}}
			}
			if diff := cmp.Diff(slotsOf(want), slotsOf(template.Interfaces)); diff != "" {
				t.Fatalf("interfaces (-declared +rendered):\n%s", diff)
			}
			perCard := map[int]int{}
			for _, i := range template.Interfaces {
				perCard[i.Slot.Card]++
				if perCard[i.Slot.Card] > limits.MaxOnCard(i.Slot.Card) || len(i.Groups) == 0 {
					t.Fatalf("%v on %v, groups %v", i, limits, i.Groups)
				}
			}
		}
		shuffled := n
		shuffled.Interfaces = slices.Clone(n.Interfaces)
		rand.New(rand.NewSource(1)).Shuffle(len(shuffled.Interfaces), func(a, b int) {
			shuffled.Interfaces[a], shuffled.Interfaces[b] = shuffled.Interfaces[b], shuffled.Interfaces[a]
		})
		if again := launchtemplate.Render(shuffled, types, nil); len(again.Templates) != len(r.Templates) || again.Templates[0].Hash != r.Templates[0].Hash {
			t.Fatal("the order of the interfaces makes a difference")
		}
	})
}

func slotsOf(interfaces []launchtemplate.Interface) []eni.Slot {
	var slots []eni.Slot
	for _, i := range interfaces {
		slots = append(slots, i.Slot)
	}
	slices.SortFunc(slots, eni.CompareSlots)
	return slots
}

// TestAnInstanceAsLaunchedHasNotDrifted checks that an instance that was launched from a rendered template has no
// drift.
func TestAnInstanceAsLaunchedHasNotDrifted(t *testing.T) {
	limits, _ := instancetype.Offline("p5en.48xlarge")
	rapid.Check(t, func(t *rapid.T) {
		n := plain()
		n.Interfaces = declared(t)
		r := launchtemplate.Render(n, []launchtemplate.InstanceType{{Name: "p5en.48xlarge", Limits: limits}}, nil)
		for _, template := range r.Templates {
			var have []eni.Interface
			for _, i := range template.Interfaces {
				have = append(have, i.AsLaunched(""))
			}
			for _, d := range launchtemplate.CompareInterfaces(launchtemplate.Wanted{Interfaces: template.Interfaces}, have) {
				t.Errorf("differs at once: %s", d)
			}
		}
	})
}
