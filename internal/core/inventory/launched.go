// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// launchInterfaces are the interfaces that EC2 created with their instances from a published template. They are not
// members, so actions for members do not apply to them.
type launchInterfaces struct {
	byInstance map[string]map[string]*launchInterface
	// at has, by interface ID, the instance of the interface.
	at map[string]string
}

func newLaunched() launchInterfaces {
	return launchInterfaces{byInstance: map[string]map[string]*launchInterface{}, at: map[string]string{}}
}

type launchInterface struct {
	Record
	seenBegun, missedFirst time.Time
	pending                expectations
}

// Launched returns the launch interfaces of an instance, the primary one included, ordered by slot. Their tags name no
// object.
func (v *Inventory) Launched(instanceID string) []Record {
	return v.launched.of(instanceID)
}

// LaunchedFrom returns the launch interfaces of all instances that were launched from an AWSNodeTemplate, by instance.
func (v *Inventory) LaunchedFrom(nodeTemplateUID string) map[string][]Record {
	all := map[string][]Record{}
	for instanceID, interfaces := range v.launched.byInstance {
		for _, b := range interfaces {
			if b.Tags[identity.TagNodeTemplateUID] == nodeTemplateUID {
				all[instanceID] = v.launched.of(instanceID)
				break
			}
		}
	}
	return all
}

func (l launchInterfaces) of(instanceID string) []Record {
	var all []Record
	for _, id := range slices.Sorted(maps.Keys(l.byInstance[instanceID])) {
		r := l.byInstance[instanceID][id].Record
		r.Interface = r.Clone()
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b Record) int {
		return eni.CompareSlots(a.Attachment.Slot, b.Attachment.Slot)
	})
	return all
}

// saw merges an interface from a read that began at the given time. It removes one that is no launch interface any
// more.
func (l launchInterfaces) saw(cluster string, begun time.Time, seen eni.Interface) {
	_, verdict := identity.Read(cluster, seen.Tags)
	isBorn := verdict == identity.Launched && !seen.RequesterManaged && seen.Attachment != nil &&
		seen.AttachedTo(seen.Attachment.InstanceID) && seen.Attachment.InstanceID != ""
	now := &launchInterface{seenBegun: begun}
	if was, known := l.get(seen.ID); known {
		was.pending = was.pending.unexpired(begun)
		if begun.Before(was.seenBegun) || !was.pending.shownBy(seen) {
			return
		}
		now.pending, now.Requested = was.pending, was.Requested
		l.drop(seen.ID)
	}
	if isBorn {
		now.Interface, now.LastRead = seen.Clone(), begun
		put(l.byInstance, seen.Attachment.InstanceID, seen.ID, now)
		l.at[seen.ID] = seen.Attachment.InstanceID
	}
}

func (l launchInterfaces) get(id string) (*launchInterface, bool) {
	b, known := l.byInstance[l.at[id]][id]
	return b, known
}

func (l launchInterfaces) drop(id string) {
	cut(l.byInstance, l.at[id], id)
	delete(l.at, id)
}

// missed records which interfaces of an instance a read omitted. It removes those that a second read, at least
// [AbsenceConfirmation] later, omits as well.
func (l launchInterfaces) missed(begun time.Time, instanceID string, shown map[string]bool) {
	for id, b := range l.byInstance[instanceID] {
		switch {
		case shown[id] || begun.Before(b.seenBegun):
		case b.missedFirst.IsZero():
			b.missedFirst = begun
		case begun.Sub(b.missedFirst) >= AbsenceConfirmation:
			l.drop(id)
		}
	}
}

// did records the effect of a call on an interface. Reads without it are stale until [StaleReadWindow] has passed.
func (l launchInterfaces) did(now time.Time, after eni.Interface, effect Effect) {
	if b, known := l.get(after.ID); known {
		b.Interface, b.seenBegun = after.Clone(), now
		b.pending = b.pending.and(now, after, effect)
	}
}
