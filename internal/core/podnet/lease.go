// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// RestTime is how long an address that a pod gave up goes to no other pod. Peers and EC2's connection tracking know the
// former pod for a while.
const RestTime = 60 * time.Second

const maxText = 4096

// Holder is the link in a pod that has an address.
type Holder struct {
	// ContainerID and Interface are what the runtime names the link by. One holder gets one address of each family.
	ContainerID string `json:"containerID"`
	Interface   string `json:"interface"`
	// Config is the name of the CNI configuration. The runtime's garbage collection covers one configuration.
	Config       string `json:"config"`
	PodNamespace string `json:"podNamespace,omitempty"`
	Pod          string `json:"pod,omitempty"`
	// Netns is the path of the pod's network namespace, and NetnsID its inode.
	Netns   string `json:"netns"`
	NetnsID uint64 `json:"netnsID,omitempty"`
	// BootID is the boot of the node that the pod started in. No pod outlives it.
	BootID string `json:"bootID"`
}

// Is reports whether the other holder is the same link.
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

// Lease says who has an address, or who had it.
type Lease struct {
	Version int        `json:"version"`
	Address netip.Addr `json:"address"`
	Holder
	Since time.Time `json:"since"`
	// Freed is when the holder gave the address up; zero while it has the address.
	Freed time.Time `json:"freed,omitzero"`
}

// ParseLease reads the file of a lease.
func ParseLease(text []byte) (Lease, error) {
	var l Lease
	if err := decode(text, &l); err != nil {
		return Lease{}, err
	}
	if err := l.validate(); err != nil {
		return Lease{}, err
	}
	return l, nil
}

// Encode returns the file of the lease.
func (l Lease) Encode() ([]byte, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	return encode(l)
}

func (l Lease) validate() error {
	if l.Version != Version {
		return fmt.Errorf("version is %d, this program knows %d", l.Version, Version)
	}
	if !isAddress(l.Address) {
		return fmt.Errorf("address: %v is no address of IPv4 or IPv6", l.Address)
	}
	if l.ContainerID == "" || l.Interface == "" {
		return fmt.Errorf("containerID is %q and interface is %q, both are needed", l.ContainerID, l.Interface)
	}
	texts := []string{l.ContainerID, l.Interface, l.Config, l.PodNamespace, l.Pod, l.Netns, l.BootID}
	if slices.ContainsFunc(texts, func(s string) bool { return len(s) > maxText }) {
		return fmt.Errorf("a text is longer than %d bytes", maxText)
	}
	return nil
}

// InUse reports whether a pod has the address.
func (l Lease) InUse() bool { return l.Freed.IsZero() }

// Rests reports whether the address was given up less than [RestTime] ago. A clock that went back by more than that
// does not prolong the rest.
func (l Lease) Rests(now time.Time) bool {
	age := now.Sub(l.Freed)
	return !l.InUse() && age < RestTime && age > -RestTime
}

// End ends the leases in use that the function selects, at a time. It returns those that it changed.
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

// Boot is the boot of a node.
type Boot struct {
	ID   string
	Time time.Time
}

// EndOfBoots ends the leases of pods that an earlier boot of the node ended. It returns those that it changed. Their
// addresses rest from the boot on. A lease without a boot is a file that no program can read: it is as old as the file.
func EndOfBoots(leases []Lease, boot Boot) []Lease {
	return End(leases, boot.Time, func(l Lease) bool {
		if l.BootID == "" {
			return l.Since.Before(boot.Time)
		}
		return l.BootID != boot.ID
	})
}
