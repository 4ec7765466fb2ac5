// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
)

// interference changes the instance or an interface as another program would, and returns a description.
func (h *hostile) interference() string {
	kinds := []string{"nothing", "attach", "leave", "detach", "delete", "stop", "start", "assign", "unassign"}
	kind := rapid.SampledFrom(kinds).Draw(h.rt, "interference")
	switch kind {
	case "attach":
		if slot := device(rapid.IntRange(1, 5).Draw(h.rt, "slot")); h.checkSlot(slot) == nil {
			h.occupy(slot)
		}
	case "leave":
		if i, ok := h.pick(func(i eni.Interface) bool {
			return ownerOf(i) == "" && i.Attachment != nil && i.Attachment.Slot != eni.Primary
		}); ok {
			h.drop(i.ID)
		}
	case "detach":
		if i, ok := h.pick(func(i eni.Interface) bool { return ownerOf(i) != "" && i.Ready() }); ok {
			i.Attachment.Status = eni.AttachmentDetaching
			h.due[i.ID] = h.clock.Add(4 * time.Second)
			h.set(i)
			kind += " " + i.ID
		}
	case "delete":
		if i, ok := h.pick(func(i eni.Interface) bool { return ownerOf(i) != "" }); ok {
			h.drop(i.ID)
			kind += " " + i.ID
		}
	case "assign":
		if i, ok := h.pick(func(i eni.Interface) bool { return ownerOf(i) != "" && len(h.foreign[i.ID].Prefixes()) < 4 }); ok {
			added := h.more(eni.Interface{}, rapid.SampledFrom([]int{4, 6}).Draw(h.rt, "family"), rapid.IntRange(0, 1).Draw(h.rt, "addresses"), rapid.IntRange(0, 1).Draw(h.rt, "prefixes")).Addresses
			h.foreign[i.ID] = h.foreign[i.ID].With(added)
			i.Addresses = withSecondary(i.Addresses, i.Addresses.With(added))
			h.set(i)
			kind += " " + i.ID
		}
	case "unassign":
		if i, ok := h.pick(func(i eni.Interface) bool { return len(h.foreign[i.ID].Prefixes()) > 0 }); ok {
			i.Addresses = withSecondary(i.Addresses, i.Addresses.Without(h.foreign[i.ID]))
			delete(h.foreign, i.ID)
			h.set(i)
			kind += " " + i.ID
		}
	case "stop":
		h.instance.State = eni.InstanceStopping
	case "start":
		h.instance.State = eni.InstanceRunning
	}
	return fmt.Sprintf("somebody: %s", kind)
}

// withSecondary returns addresses with other secondary addresses and prefixes.
func withSecondary(a, secondary eni.Addresses) eni.Addresses {
	secondary.PrimaryIPv4, secondary.PublicIP, secondary.CarrierIP = a.PrimaryIPv4, a.PublicIP, a.CarrierIP
	return secondary
}

func (h *hostile) pick(fits func(eni.Interface) bool) (eni.Interface, bool) {
	var all []eni.Interface
	for _, i := range h.now() {
		if fits(i) {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return eni.Interface{}, false
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(h.rt, "which")], true
}
