// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// RestTime is how long no other pod gets an address that a pod released. Peers and EC2's connection tracking remember
// the former pod for a while.
const RestTime = 60 * time.Second

// keepTime is how long a lease is kept after its pod. No decision looks back further.
const keepTime = 10 * time.Minute

const maxText = 4096

// Holder is the link in a pod that has an address.
type Holder struct {
	// ContainerID and Interface identify the link in the runtime. One holder gets one address of each family.
	ContainerID string `json:"containerID"`
	Interface   string `json:"interface"`
	// Config is the name of the CNI configuration. The runtime's garbage collection covers one configuration.
	Config       string `json:"config"`
	PodNamespace string `json:"podNamespace,omitempty"`
	Pod          string `json:"pod,omitempty"`
	// PodUID distinguishes the pod from others of its name; empty if the runtime does not pass it.
	PodUID string `json:"podUID,omitempty"`
	// Netns is the path of the pod's network namespace, and NetnsID its inode.
	Netns   string `json:"netns"`
	NetnsID uint64 `json:"netnsID,omitempty"`
	// PIDNamespaceID is the inode of the PID namespace whose process a path below /proc names; 0 with any other path.
	PIDNamespaceID uint64 `json:"pidNamespaceID,omitempty"`
	// BootID identifies the boot of the node in which the pod started. No pod outlives it.
	BootID string `json:"bootID"`
	// Attachment is that of the network when the pod attached, and Link the index of the interface's link on the node; 0
	// with HostDevice, and in leases of earlier releases. EC2 can detach the interface, and the links of pods go with its
	// link. After the next attachment the link has another index.
	Attachment Attachment `json:"attachment,omitempty"`
	Link       int        `json:"link,omitempty"`
}

// Is reports whether both holders are the same link.
func (h Holder) Is(other Holder) bool {
	return h.ContainerID == other.ContainerID && h.Interface == other.Interface
}

// PodName returns NAMESPACE/NAME, or the container's ID if the runtime named no pod.
func (h Holder) PodName() string {
	if h.Pod == "" {
		return h.ContainerID
	}
	return h.PodNamespace + "/" + h.Pod
}

// Lease names the present or last holder of an address.
type Lease struct {
	Address netip.Addr `json:"address"`
	Holder
	// Since is the time at which the holder got the address on its present link.
	Since time.Time `json:"since"`
	// First is the time at which the same pod got the address in an earlier sandbox, or on an earlier link; zero if it did
	// not.
	First time.Time `json:"first,omitzero"`
	// Freed is the time at which the holder released the address; zero while it has the address.
	Freed time.Time `json:"freed,omitzero"`
	// Claim is the last write that let the address follow the pod; nil for none. The agent makes it.
	Claim *Claim `json:"claim,omitempty"`
	// Unreadable is set if the file of the lease is damaged: nothing but the address is known then.
	Unreadable bool `json:"-"`
}

// Claim is a write of the holder of an address, recorded before the agent sends it. After a restart the agent can thus
// tell whether another pod became the holder since.
type Claim struct {
	// Object is the UID of the FloatingAddress, and Sequence its number of holders with that of the write.
	Object   string `json:"object"`
	Sequence int64  `json:"sequence"`
}

// leaseFile is the content of the file of a lease.
type leaseFile struct {
	Version int `json:"version"`
	Lease
}

// ParseLease parses the file of a lease, of this release or of another.
func ParseLease(text []byte) (Lease, error) {
	var file leaseFile
	if err := decode(text, &file); err != nil {
		return Lease{}, err
	}
	if file.Version < 1 {
		return Lease{}, fmt.Errorf("version is %d, want 1 or more", file.Version)
	}
	if err := file.validate(); err != nil {
		return Lease{}, err
	}
	return file.Lease, nil
}

// Encode returns the content of the lease's file.
func (l Lease) Encode() ([]byte, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	return encode(leaseFile{LeaseVersion, l})
}

func (l Lease) validate() error {
	if !isAddress(l.Address) {
		return fmt.Errorf("address: %v is no address of IPv4 or IPv6", l.Address)
	}
	if l.ContainerID == "" || l.Interface == "" {
		return fmt.Errorf("containerID is %q and interface is %q, both are needed", l.ContainerID, l.Interface)
	}
	texts := []string{l.ContainerID, l.Interface, l.Config, l.PodNamespace, l.Pod, l.PodUID, l.Netns, l.BootID}
	if l.Claim != nil {
		texts = append(texts, l.Claim.Object)
	}
	if slices.ContainsFunc(texts, func(s string) bool { return len(s) > maxText }) {
		return fmt.Errorf("a text is longer than %d bytes", maxText)
	}
	return nil
}

// PodSince returns since when the pod has the address, also in earlier sandboxes.
func (l Lease) PodSince() time.Time {
	if l.First.IsZero() {
		return l.Since
	}
	return l.First
}

// InUse reports whether a pod has the address.
func (l Lease) InUse() bool { return l.Freed.IsZero() }

// Rests reports whether the holder released the address less than [RestTime] ago. A clock that went back by more than
// that does not prolong the rest.
func (l Lease) Rests(now time.Time) bool {
	age := now.Sub(l.Freed)
	return !l.InUse() && age < RestTime && age > -RestTime
}

// End ends the leases in use that the function selects, at the given time. It returns the changed ones.
func End(leases []Lease, at time.Time, ended func(Lease) bool) []Lease {
	var changed []Lease
	for _, l := range leases {
		if l.InUse() && ended(l) {
			l.Freed = at
			changed = append(changed, l)
		}
	}
	return changed
}

// HasLostLink reports whether the pod has lost its link: the link of the interface is on the node, and it is another
// one than when the pod attached or, with HostDevice, not in the pod. The argument link is its index as of the given
// time; 0 if it was not on the node. A later lease can be of a later link.
func (l Lease) HasLostLink(link int, at time.Time) bool {
	if !l.InUse() || link == 0 || !l.Since.Before(at) {
		return false
	}
	return l.Attachment == HostDevice || l.Attachment == IPVLAN && l.Link != 0 && l.Link != link
}

// Boot is the boot of a node.
type Boot struct {
	ID   string
	Time time.Time
}

// EndOfBoots ends the leases of pods from earlier boots of the node, and returns the changed ones. Their addresses rest
// from the boot on. A lease without a boot is from an unreadable file, and is as old as the file.
func EndOfBoots(leases []Lease, boot Boot) []Lease {
	return End(leases, boot.Time, func(l Lease) bool {
		if l.BootID == "" {
			return l.Since.Before(boot.Time)
		}
		return l.BootID != boot.ID
	})
}

// Sweep ends the leases of earlier boots, and those whose network namespace is gone: no runtime may ever end them. It
// returns the leases that a decision still needs, and those among them that it ended. The addresses of stale leases
// have been free for longer than any decision looks back, so the leases count for nothing.
func Sweep(leases []Lease, boot Boot, now time.Time, gone func(Lease) bool) (kept, ended, stale []Lease) {
	changed := map[netip.Addr]Lease{}
	for _, l := range EndOfBoots(leases, boot) {
		changed[l.Address] = l
	}
	for _, l := range End(leases, now, gone) {
		if _, already := changed[l.Address]; !already {
			changed[l.Address] = l
		}
	}
	for _, l := range leases {
		after, changes := changed[l.Address]
		if changes {
			l = after
		}
		switch {
		case l.isStale(now):
			stale = append(stale, l)
		case changes:
			kept, ended = append(kept, l), append(ended, l)
		default:
			kept = append(kept, l)
		}
	}
	return kept, ended, stale
}

// isStale reports whether the address has been free for longer than any decision looks back. A clock that went back by
// more than that makes a lease stale too, as with [Lease.Rests].
func (l Lease) isStale(now time.Time) bool { return !l.InUse() && now.Sub(l.Freed).Abs() > keepTime }
