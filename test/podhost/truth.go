// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podhost

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/awssim/ec2"
)

// Harm returns what a controller must never do to running pods: no two have one address, and the interface of each is
// attached to its node and has the prefix of the pod's address, unless the pod asked for an address of its own. It
// returns "" if all is well.
func Harm(state ec2.State, hosts ...*Host) string {
	holders := map[netip.Addr]string{}
	for _, h := range hosts {
		for _, p := range h.Pods() {
			pod := fmt.Sprintf("pod %s on node %s", p.Name, h.Node)
			if other := holders[p.Address]; other != "" {
				return fmt.Sprintf("%s and %s have address %v", pod, other, p.Address)
			}
			holders[p.Address] = pod
			if lacks := p.lacks(state, h.InstanceID); lacks != "" {
				return pod + " " + lacks
			}
		}
	}
	return ""
}

// lacks says what the pod's interface lacks, or "".
func (p Pod) lacks(state ec2.State, instanceID string) string {
	n := slices.IndexFunc(state.NetworkInterfaces, func(i *ec2.NetworkInterface) bool {
		return i.NetworkInterfaceID == p.ENI
	})
	if n < 0 {
		return fmt.Sprintf("uses %s, which EC2 does not have any more", p.ENI)
	}
	i := state.NetworkInterfaces[n]
	switch {
	case !isAttached(i, instanceID):
		return fmt.Sprintf("uses %s, which is not attached to %s: %+v", p.ENI, instanceID, i.Attachment)
	case !p.asked && !hasPrefixOf(i, p.Address):
		return fmt.Sprintf("has %v, and no prefix of %s has it: %v", p.Address, p.ENI, i.IPv4Prefixes)
	default:
		return ""
	}
}

func isAttached(i *ec2.NetworkInterface, instanceID string) bool {
	return i.Attachment != nil && i.Attachment.InstanceID == instanceID && i.Attachment.Status == ec2.Attached
}

func hasPrefixOf(i *ec2.NetworkInterface, address netip.Addr) bool {
	return slices.ContainsFunc(i.IPv4Prefixes, func(p ec2.IPv4Prefix) bool { return p.IPv4Prefix.Contains(address) })
}

// HoldersOf returns the interfaces that have an address besides their primary one.
func HoldersOf(state ec2.State, address netip.Addr) (ids []string) {
	for _, i := range state.NetworkInterfaces {
		has := func(a ec2.PrivateIPAddress) bool { return !a.Primary && a.PrivateIPAddress == address }
		if slices.ContainsFunc(i.PrivateIPAddresses, has) {
			ids = append(ids, i.NetworkInterfaceID)
		}
	}
	return ids
}
