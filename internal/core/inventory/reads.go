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

// ObserveInterfaces merges the result of a read that began at the given time, and returns the identities of those that
// it changed. It ignores foreign interfaces.
func (v *Inventory) ObserveInterfaces(begun time.Time, interfaces ...eni.Interface) []identity.Interface {
	var changed []identity.Interface
	for _, seen := range interfaces {
		tagged, ours := v.tagged(seen)
		v.launched.saw(v.cluster, begun, seen)
		if !ours {
			changed = append(changed, v.dropForeign(begun, seen)...)
			continue
		}
		if gone, ok := v.deleted[seen.ID]; ok && begun.Before(gone.Add(VisibilityWindow)) {
			continue
		}
		before := v.made(seen.ID)
		if v.merge(begun, tagged, seen) {
			changed = append(changed, tagged)
			if before.InstanceID != "" && before.InstanceID != tagged.InstanceID {
				changed = append(changed, before) // a user changed its tags; also reconcile the instance that has it
			}
		}
	}
	return changed
}

// ObserveList merges a complete list of the cluster's interfaces that began at the given time. It returns the
// identities of those that changed.
func (v *Inventory) ObserveList(begun time.Time, all []eni.Interface) []identity.Interface {
	changed := v.ObserveInterfaces(begun, all...)
	shown := make(map[string]bool, len(all))
	for _, i := range all {
		shown[i.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(v.entries)) {
		if !shown[id] {
			changed = append(changed, v.ObserveAbsence(begun, id)...)
		}
	}
	for instanceID := range v.launched.byInstance {
		v.launched.missed(begun, instanceID, shown)
	}
	v.forget(begun)
	return changed
}

// ObserveInstance merges a complete read of one instance: an interface that was created for the instance, and is not in
// the read although its tags or its attachment name the instance, was omitted. It returns the identities of those that
// changed.
func (v *Inventory) ObserveInstance(look eni.InstanceSnapshot) []identity.Interface {
	if look.Instance.State.Terminating() {
		// The end of an instance reverts the effects of our calls, so reads need not show them.
		for _, e := range v.byInstance[look.Instance.ID] {
			e.pending = nil
		}
	}
	changed := v.ObserveInterfaces(look.At, look.Interfaces...)
	shown := map[string]bool{}
	for _, i := range look.Interfaces {
		shown[i.ID] = true
	}
	v.launched.missed(look.At, look.Instance.ID, shown)
	for _, r := range v.Of(look.Instance.ID) {
		switch {
		case shown[r.ID], !r.isReadWith(look.Instance.ID):
		case look.Instance.State == eni.InstanceTerminated && r.diesWithInstance():
			v.drop(look.At, v.entries[r.ID])
			changed = append(changed, r.Tagged)
		default:
			changed = append(changed, v.ObserveAbsence(look.At, r.ID)...)
		}
	}
	return changed
}

// isReadWith reports whether reads of an instance show the interface. One with damaged tags belongs to the instance
// that it was attached to, and no read shows it there after its detachment.
func (r Record) isReadWith(instanceID string) bool {
	return r.Tags[identity.TagInstanceID] == instanceID || r.AttachedTo(instanceID)
}

// diesWithInstance reports whether EC2 deletes the interface with its instance. If so, its absence after the
// termination needs no second read.
func (r Record) diesWithInstance() bool {
	return r.AttachedTo(r.Tagged.InstanceID) && r.Attachment.DeleteOnTermination
}

// ObserveAbsence merges a read that began at the given time and omitted an interface. The first such read makes it
// Missing, and a read that confirms the absence removes it. It returns the interface's identity if something changed.
func (v *Inventory) ObserveAbsence(begun time.Time, id string) []identity.Interface {
	e, ok := v.entries[id]
	if !ok || begun.Before(e.newestReadBegan) || begun.Before(e.madeAt.Add(VisibilityWindow)) {
		return nil
	}
	if !e.Missing {
		e.Missing, e.absentSince = true, begun
		v.moving[id] = true
		return []identity.Interface{e.Tagged}
	}
	if begun.Sub(e.absentSince) < AbsenceConfirmation {
		return nil
	}
	v.drop(begun, e)
	return []identity.Interface{e.Tagged}
}

// dropForeign removes an interface whose tags, by a read that counts, no longer name this cluster. A user changed them,
// and multieni never changes foreign interfaces.
func (v *Inventory) dropForeign(begun time.Time, seen eni.Interface) []identity.Interface {
	e, known := v.entries[seen.ID]
	if !known || !e.accepts(begun, seen) {
		return nil
	}
	v.drop(begun, e)
	return []identity.Interface{e.Tagged}
}

// merge stores a read unless it is older than the last one, and reports whether something changed.
func (v *Inventory) merge(begun time.Time, tagged identity.Interface, seen eni.Interface) bool {
	was, known := v.entries[seen.ID]
	if known && !was.accepts(begun, seen) {
		return v.finished(begun, was, seen)
	}
	changed := !known || was.Missing || was.Tagged != tagged
	e, _ := v.entry(begun, tagged, seen)
	e.newestReadBegan, e.LastRead = begun, begun
	e.forgetUnassigned(begun, seen)
	return v.set(begun, e, seen) || changed
}

// accepts reports whether a read that began at the given time is no older than the last one, and shows all effects of
// our calls that have not expired.
func (e *entry) accepts(begun time.Time, seen eni.Interface) bool {
	e.pending = e.pending.unexpired(begun)
	return !begun.Before(e.newestReadBegan) && e.pending.shownBy(seen)
}

// finished merges the end of an attach from a read that is otherwise ignored as stale, because it does not show all
// effects of our calls. EC2 returns "attached" only if it is true, so a concurrent change of another aspect need not
// delay it.
func (v *Inventory) finished(begun time.Time, e *entry, seen eni.Interface) bool {
	was, now := e.Attachment, seen.Attachment
	if was == nil || now == nil || now.ID != was.ID || was.Status != eni.AttachmentAttaching ||
		now.Status != eni.AttachmentAttached {
		return false
	}
	i := e.Clone()
	i.Attachment.Status = eni.AttachmentAttached
	return v.set(begun, e, i)
}

// NeverOwned reports whether an interface cannot belong to a member, regardless of its tags: an AWS service created it
// for itself, or it is an instance's primary interface.
func NeverOwned(i eni.Interface) bool {
	return i.RequesterManaged || i.Attachment != nil && i.Attachment.Slot == eni.Primary
}

// Equal reports whether two reads of an interface have the same content.
func Equal(a, b eni.Interface) bool {
	return sameAttachment(a.Attachment, b.Attachment) && sameAddresses(a.Addresses, b.Addresses) &&
		a.ID == b.ID && a.Type == b.Type && a.Status == b.Status && a.Description == b.Description && a.MAC == b.MAC &&
		a.SubnetID == b.SubnetID && a.SourceDestCheck == b.SourceDestCheck &&
		a.ConnectionTracking == b.ConnectionTracking &&
		slices.Equal(a.Groups, b.Groups) && maps.Equal(a.Tags, b.Tags)
}

func sameAttachment(a, b *eni.Attachment) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

func sameAddresses(a, b eni.Addresses) bool {
	return a.PrimaryIPv4 == b.PrimaryIPv4 &&
		slices.Equal(a.SecondaryIPv4, b.SecondaryIPv4) && slices.Equal(a.IPv4Prefixes, b.IPv4Prefixes) &&
		slices.Equal(a.IPv6, b.IPv6) && slices.Equal(a.IPv6Prefixes, b.IPv6Prefixes)
}
