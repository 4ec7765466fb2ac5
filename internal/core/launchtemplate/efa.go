// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// Layout selects the EFA interfaces that an instance type gets in addition to the declared interfaces.
type Layout string

const (
	// NoLayout adds nothing.
	NoLayout Layout = "None"
	// IPOptimized adds an EFA on every network card that supports one. Only the primary interface has an IP address.
	IPOptimized Layout = "IPOptimized"
	// BandwidthOptimized also adds the IP interfaces that are needed for all of the instance's IP bandwidth.
	BandwidthOptimized Layout = "BandwidthOptimized"
)

// layoutSpec is AWS's recommended arrangement of the interfaces of a family (EC2 user guide, "Maximize network
// bandwidth on Amazon EC2 instances with multiple network cards").
type layoutSpec struct {
	// further is the device index of the EFA on the cards beyond the first.
	further int
	// every is the distance between the further cards that get an IP interface in addition to the EFA: a card gets one
	// if its index is a multiple of every. It is 0 when IP traffic uses the EFA itself, whose type is then efa.
	every int
}

// layoutFor falls back to the arrangement of P4d and Trn1: one adapter for EFA and IP on each card, at device 1.
func layoutFor(instanceType string) layoutSpec {
	switch family, _, _ := strings.Cut(instanceType, "."); family {
	case "p5", "p5e":
		return layoutSpec{further: 0, every: 4}
	case "p5en", "p6-b200", "p6-b300":
		return layoutSpec{further: 0, every: 1}
	default:
		return layoutSpec{further: 1}
	}
}

// Interfaces returns the interfaces an instance of the type gets: the declared ones, and those the layout adds where
// none is declared. A type without EFA gets the declared ones only.
func (l Layout) Interfaces(instanceType string, limits eni.Limits, declared []Interface) []Interface {
	all := slices.Clone(declared)
	plain := l == NoLayout || l == ""
	if !slices.ContainsFunc(all, at(eni.Primary)) && (len(all) == 0 || !plain) {
		all = append(all, Interface{Slot: eni.Primary, Type: l.primary(instanceType, limits), DeleteOnTermination: true})
	}
	if plain || limits.EFAs == 0 {
		return bySlot(all)
	}
	primary := all[slices.IndexFunc(all, at(eni.Primary))]
	for _, i := range l.adapters(instanceType, limits, primary.IsEFA()) {
		onCard := slices.ContainsFunc(declared, func(d Interface) bool {
			return i.IsEFA() && d.IsEFA() && d.Slot.Card == i.Slot.Card
		})
		if !onCard && !slices.ContainsFunc(all, at(i.Slot)) {
			all = append(all, i)
		}
	}
	return bySlot(all)
}

func at(slot eni.Slot) func(Interface) bool {
	return func(i Interface) bool { return i.Slot == slot }
}

// primary is the type of the primary interface: the first adapter itself where IP and EFA share adapters.
func (l Layout) primary(instanceType string, limits eni.Limits) eni.Type {
	if l.shared(instanceType, limits) {
		return eni.EFA
	}
	return eni.Standard
}

// shared reports whether IP traffic uses the EFA interfaces themselves.
func (l Layout) shared(instanceType string, limits eni.Limits) bool {
	return l == BandwidthOptimized && len(limits.Cards) > 1 && limits.EFAs >= len(limits.Cards) &&
		layoutFor(instanceType).every == 0
}

// adapters returns the interfaces that the layout adds. primaryIsEFA says whether the primary interface is itself an
// EFA.
func (l Layout) adapters(instanceType string, limits eni.Limits, primaryIsEFA bool) []Interface {
	a := layoutFor(instanceType)
	efa := eni.EFAOnly
	if l.shared(instanceType, limits) {
		efa = eni.EFA
	}
	var added []Interface
	add := func(card, device int, kind eni.Type) {
		added = append(added, Interface{
			Slot: eni.Slot{Card: card, Device: device}, Type: kind, DeleteOnTermination: true, Management: Unmanaged,
		})
	}
	// If there are fewer adapters than cards, the first card is kept for IP.
	if limits.EFAs >= len(limits.Cards) && limits.MaxOnCard(0) > 1 && !primaryIsEFA {
		add(0, 1, eni.EFAOnly)
	}
	for card := 1; card < len(limits.Cards); card++ {
		device := min(a.further, limits.MaxOnCard(card)-1)
		add(card, device, efa)
		if l == BandwidthOptimized && a.every > 0 && card%a.every == 0 && limits.MaxOnCard(card) > 1 {
			add(card, 1, eni.Standard)
		}
	}
	return added
}
