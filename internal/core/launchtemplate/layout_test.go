// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// withEFAs is an instance type with a number of EFAs.
func withEFAs(efas int, name string, cards ...int) launchtemplate.InstanceType {
	kind := sized(name, cards...)
	kind.Limits.EFAs = efas
	return kind
}

// Each family has an arrangement of its own. What a layout adds depends on the number of cards, of slots on each card
// and of EFAs.
func TestArrangementOfALayoutFollowsFamilyAndLimits(t *testing.T) {
	const none, ip, bandwidth = launchtemplate.NoLayout, launchtemplate.IPOptimized, launchtemplate.BandwidthOptimized
	for name, tc := range map[string]struct {
		layout launchtemplate.Layout
		kind   launchtemplate.InstanceType
		want   []string
	}{
		"no layout":              {none, withEFAs(2, "p5.x", 2, 2), []string{"0/0 interface"}},
		"an empty layout":        {"", withEFAs(2, "p5.x", 2, 2), []string{"0/0 interface"}},
		"a type without EFAs":    {ip, sized("p5.x", 2, 2), []string{"0/0 interface"}},
		"one card":               {ip, withEFAs(1, "m5n.x", 2), []string{"0/0 interface", "0/1 efa-only"}},
		"one card of one slot":   {ip, withEFAs(1, "m5n.x", 1), []string{"0/0 interface"}},
		"one card for bandwidth": {bandwidth, withEFAs(1, "m5n.x", 2), []string{"0/0 interface", "0/1 efa-only"}},
		"fewer EFAs than cards": {
			ip, withEFAs(2, "p6-b300.x", 2, 2, 2), []string{"0/0 interface", "1/0 efa-only", "2/0 efa-only"},
		},
		"p5 saves addresses": {ip, withEFAs(5, "p5.x", 2, 2, 2, 2, 2), []string{
			"0/0 interface", "0/1 efa-only", "1/0 efa-only", "2/0 efa-only", "3/0 efa-only", "4/0 efa-only",
		}},
		"p5 has an IP interface on each fourth card": {bandwidth, withEFAs(5, "p5.x", 2, 2, 2, 2, 2), []string{
			"0/0 interface", "0/1 efa-only", "1/0 efa-only", "2/0 efa-only", "3/0 efa-only", "4/0 efa-only", "4/1 interface",
		}},
		"p5e is arranged as p5": {bandwidth, withEFAs(5, "p5e.x", 2, 2, 2, 2, 1), []string{
			"0/0 interface", "0/1 efa-only", "1/0 efa-only", "2/0 efa-only", "3/0 efa-only", "4/0 efa-only",
		}},
		"p5en has an IP interface on each card": {bandwidth, withEFAs(3, "p5en.x", 2, 2, 2), []string{
			"0/0 interface", "0/1 efa-only", "1/0 efa-only", "1/1 interface", "2/0 efa-only", "2/1 interface",
		}},
		"p6-b200 is arranged as p5en": {bandwidth, withEFAs(2, "p6-b200.x", 2, 2), []string{
			"0/0 interface", "0/1 efa-only", "1/0 efa-only", "1/1 interface",
		}},
		"p6-b300 keeps its first card for IP": {bandwidth, withEFAs(1, "p6-b300.x", 2, 2), []string{
			"0/0 interface", "1/0 efa-only", "1/1 interface",
		}},
		"another family has its EFAs at device 1": {ip, withEFAs(2, "p4d.x", 2, 2), []string{
			"0/0 interface", "0/1 efa-only", "1/1 efa-only",
		}},
		"another family, a card of one slot": {ip, withEFAs(2, "p4d.x", 2, 1), []string{
			"0/0 interface", "0/1 efa-only", "1/0 efa-only",
		}},
		"another family has IP traffic on its EFAs": {bandwidth, withEFAs(2, "p4d.x", 2, 2), []string{"0/0 efa", "1/1 efa"}},
		"another family, fewer EFAs than cards": {bandwidth, withEFAs(1, "p4d.x", 2, 2), []string{
			"0/0 interface", "1/1 efa-only",
		}},
		"a family that only begins like p5": {bandwidth, withEFAs(2, "p5x.x", 2, 2), []string{"0/0 efa", "1/1 efa"}},
	} {
		t.Run(name, func(t *testing.T) {
			same(t, "interfaces", tc.want, arranged(tc.layout.Interfaces(tc.kind.Name, tc.kind.Limits, nil)))
		})
	}
}

// A layout fills the gaps of a declaration: it changes no declared interface, and adds none to a slot or EFA to a card
// that the declaration already uses.
func TestLayoutFillsTheGapsOfADeclaration(t *testing.T) {
	const none, ip, bandwidth = launchtemplate.NoLayout, launchtemplate.IPOptimized, launchtemplate.BandwidthOptimized
	standard, efa, efaOnly := ofType(eni.Standard), ofType(eni.EFA), ofType(eni.EFAOnly)
	for name, tc := range map[string]struct {
		layout   launchtemplate.Layout
		family   string
		declared []launchtemplate.Interface
		want     []string
	}{
		"no layout, no primary": {
			none, "p5en.x", list(interfaceIn(1, 1, standard), interfaceIn(0, 1, standard)),
			[]string{"0/1 interface", "1/1 interface"},
		},
		"a layout, no primary": {
			ip, "p5en.x", list(interfaceIn(0, 2, standard)),
			[]string{"0/0 interface", "0/1 efa-only", "0/2 interface", "1/0 efa-only"},
		},
		"an EFA as primary": {
			ip, "p5en.x", list(interfaceIn(0, 0, efa)), []string{"0/0 efa", "1/0 efa-only"},
		},
		"an EFA on the first card": {
			ip, "p5en.x", list(interfaceIn(0, 2, efa)),
			[]string{"0/0 interface", "0/2 efa", "1/0 efa-only"},
		},
		"an EFA on a further card": {
			bandwidth, "p5en.x", list(interfaceIn(1, 2, efaOnly)),
			[]string{"0/0 interface", "0/1 efa-only", "1/1 interface", "1/2 efa-only"},
		},
		"a standard interface in the slot of an EFA": {
			ip, "p5en.x", list(interfaceIn(1, 0, standard)),
			[]string{"0/0 interface", "0/1 efa-only", "1/0 interface"},
		},
		"an EFA in the slot of an IP interface": {
			bandwidth, "p5en.x", list(interfaceIn(1, 1, efaOnly)),
			[]string{"0/0 interface", "0/1 efa-only", "1/1 efa-only"},
		},
		"a standard primary where IP traffic uses EFAs": {
			bandwidth, "p4d.x", list(interfaceIn(0, 0, standard)),
			[]string{"0/0 interface", "0/1 efa-only", "1/1 efa"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := withEFAs(2, tc.family, 4, 4)
			same(t, "interfaces", tc.want, arranged(tc.layout.Interfaces(tc.family, kind.Limits, tc.declared)))
		})
	}
}

// EC2 deletes the interfaces that a layout adds together with the instance, and the VPC CNI ignores them.
func TestInterfacesOfALayoutEndWithTheInstance(t *testing.T) {
	kind := withEFAs(2, "p5en.x", 2, 2)
	added := func(card, device int, kind eni.Type) launchtemplate.Interface {
		return launchtemplate.Interface{
			Slot: eni.Slot{
				Card: card, Device: device,
			}, Type: kind, DeleteOnTermination: true, Management: launchtemplate.Unmanaged,
		}
	}
	same(t, "interfaces", []launchtemplate.Interface{
		{Slot: eni.Primary, Type: eni.Standard, DeleteOnTermination: true},
		added(0, 1, eni.EFAOnly), added(1, 0, eni.EFAOnly), added(1, 1, eni.Standard),
	}, launchtemplate.BandwidthOptimized.Interfaces(kind.Name, kind.Limits, nil))
}

// A layout keeps the declared interfaces, gives each slot once, in order, and respects each card's limit with what it
// adds. Its result is a declaration to which the layout adds nothing.
func TestLayoutsKeepDeclarationsAndAreIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := sized(
			rapid.SampledFrom([]string{"p5.x", "p5en.x", "p4d.x", "m5n.x"}).Draw(t, "name"),
			rapid.SliceOfN(rapid.IntRange(1, 4), 1, 6).Draw(t, "cards")...)
		kind.Limits.EFAs = rapid.IntRange(0, 6).Draw(t, "EFAs")
		layout := rapid.SampledFrom([]launchtemplate.Layout{
			launchtemplate.NoLayout, launchtemplate.IPOptimized, launchtemplate.BandwidthOptimized,
		}).Draw(t, "layout")
		all := declared(t)
		before := slices.Clone(all)
		result := layout.Interfaces(kind.Name, kind.Limits, all)
		if diff := cmp.Diff(before, all, byValue); diff != "" {
			t.Fatalf("the declaration changed (-before +after):\n%s", diff)
		}
		if !slices.IsSortedFunc(result, func(a, b launchtemplate.Interface) int { return eni.CompareSlots(a.Slot, b.Slot) }) {
			t.Fatalf("not in the order of slots: %v", arranged(result))
		}
		if slots := slotsOf(result); len(slices.Compact(slots)) < len(result) {
			t.Fatalf("a slot is used twice: %v", arranged(result))
		}
		for _, i := range result {
			at := slices.IndexFunc(all, func(d launchtemplate.Interface) bool { return d.Slot == i.Slot })
			if at >= 0 && !cmp.Equal(all[at], i, byValue) {
				t.Fatalf("declared %v became %v", all[at], i)
			}
			if at < 0 && i.Slot.Device >= kind.Limits.MaxOnCard(i.Slot.Card) {
				t.Fatalf("%s was added to %v", i.Slot, kind.Limits.Cards)
			}
		}
		if diff := cmp.Diff(result, layout.Interfaces(kind.Name, kind.Limits, result), byValue); diff != "" {
			t.Fatalf("a second time (-first +second):\n%s", diff)
		}
	})
}
