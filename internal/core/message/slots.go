// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Unusable is the holder of a slot that EC2 reports as taken although it returns no interface there.
const Unusable = "EC2, which shows no interface there; stopping and starting the instance can free it"

// Planned is the holder of a slot for an interface that does not exist yet.
func Planned(nodeENI string) string { return "NodeENI " + nodeENI }

// Holder is the holder of a slot that has an interface, with the probable owner. It says whether that is the VPC CNI.
func Holder(i eni.Interface) (holder string, cni bool) {
	var owner string
	switch {
	case i.Attachment != nil && i.Attachment.Slot == eni.Primary:
		owner = "the primary interface"
	case i.Tags[identity.TagNodeENI] != "":
		owner = Planned(i.Tags[identity.TagNodeENI])
	case i.Tags[identity.TagNodeTemplate] != "":
		owner = "AWSNodeTemplate " + i.Tags[identity.TagNodeTemplate]
	case i.Tags["node.k8s.amazonaws.com/instance_id"] != "":
		owner, cni = "the VPC CNI", true
	case i.RequesterManaged:
		owner = "an AWS service"
	default:
		owner = "not managed by multieni"
	}
	return fmt.Sprintf("%s (%s)", i.ID, owner), cni
}

// SlotTaken names the holder of a slot that was requested exactly.
func SlotTaken(slot eni.Slot, holder string) string {
	return fmt.Sprintf("%s is held by %s; free it, or ask for another deviceIndex, or set deviceIndexPolicy: Prefer", slot,
		holder)
}

// SlotLeft says that an interface is leaving a slot.
func SlotLeft(slot eni.Slot, holder string) string {
	return fmt.Sprintf("waiting for %s: %s is leaving it", slot, holder)
}

// NoSuchDeviceIndex names the last device index of a card without the slot.
func NoSuchDeviceIndex(slot eni.Slot, instanceType string, last int) string {
	return fmt.Sprintf("network card %d of %s has the device indices 0 to %d, and no %d; lower deviceIndex, or set "+
		"deviceIndexPolicy: Prefer, or use a larger instance type", slot.Card, instanceType, last, slot.Device)
}

// NoSuchNetworkCard names the cards of an instance type without the given one.
func NoSuchNetworkCard(card int, instanceType string, limits eni.Limits) string {
	return fmt.Sprintf("%s has %s, and no card %d; change networkCardIndex or the instance type", instanceType,
		limits.CardNames(), card)
}

// InstanceFull names the holders of all slots of an instance; cni is set if the VPC CNI is one.
func InstanceFull(instanceType string, most int, holders map[eni.Slot]string, cni bool) string {
	next := "use a larger instance type, or ask for fewer interfaces"
	if cni { // it can be configured to use fewer
		next = "use a larger instance type, ask for fewer interfaces, or let the VPC CNI keep fewer warm ENIs"
	}
	return fmt.Sprintf("%s takes %d interfaces and all are in use: %s; %s", instanceType, most, list(holders), next)
}

// CardFull names the holders of all slots of an instance with a full network card.
func CardFull(card int, instanceType string, most int, holders map[eni.Slot]string) string {
	return fmt.Sprintf("network card %d of %s takes %d interfaces and all are in use: %s; use another card or a larger "+
		"instance type", card, instanceType, most, list(holders))
}

func list(holders map[eni.Slot]string) string {
	var words []string
	for _, slot := range slices.SortedFunc(maps.Keys(holders), eni.CompareSlots) {
		words = append(words, fmt.Sprintf("%s at %s", holders[slot], slot))
	}
	return strings.Join(words, ", ")
}
