// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
)

// leastPrefixes returns how many IPv4 prefixes each interface of a NodeENI must have.
func leastPrefixes(spec v1alpha1.NodeENISpec) int {
	if spec.Pods != nil && spec.Pods.IPv4 != nil {
		return int(spec.Pods.IPv4.Prefixes.Min)
	}
	return int(spec.IPv4PrefixCount)
}

// leastIPv6Prefixes is the same for IPv6.
func leastIPv6Prefixes(spec v1alpha1.NodeENISpec) int {
	if spec.Pods != nil && spec.Pods.IPv6 != nil {
		return int(spec.Pods.IPv6.Prefixes)
	}
	return int(spec.IPv6PrefixCount)
}

// grownPrefixes returns how many IPv4 prefixes an interface must have for the present use of its network.
func (r *run) grownPrefixes(spec v1alpha1.NodeENISpec, i eni.Interface) int {
	least := leastPrefixes(spec)
	if spec.Pods == nil || spec.Pods.IPv4 == nil || i.Attachment == nil {
		return least
	}
	host := r.pods.hosts[i.Attachment.InstanceID]
	if host == nil {
		return least
	}
	for network, file := range host.files {
		if file.ENI != i.ID || !file.IsOpen() || file.IPv4 == nil {
			continue
		}
		usage := file.Usage(host.leases[network], host.now()).IPv4
		if usage.Free < int64(ptr.Deref(spec.Pods.IPv4.Spare, 0)) {
			return max(least, min(len(i.IPv4Prefixes)+1, int(spec.Pods.IPv4.Prefixes.Max)))
		}
	}
	return least
}

// serves reports whether pods can get addresses of an interface.
func (h *podHost) serves(id string) bool {
	for _, file := range h.files {
		if file.ENI == id && file.IsOpen() {
			return true
		}
	}
	return false
}

// lacksReports reports whether no agent reports how pods use an interface: two Nodes name the instance, the older one
// owns it, and the agent runs under the name of the other.
func (c *cluster) lacksReports(claim expectedClaim, i eni.Interface) bool {
	host := c.run.pods.hosts[i.Attachment.InstanceID]
	return host != nil && host.c == c && host.node != claim.node.Name
}

// checkPrefixes checks I19 when all is well: an interface has the prefixes that its pods need. Prefixes only grow, so
// idle ones stay.
func (c *cluster) checkPrefixes(claim expectedClaim, i eni.Interface) *Violation {
	spec := claim.nodeENI.Spec
	if !hasPrefixes(spec.Pods) || i.Attachment == nil || c.run.watch.tampered(i.ID) {
		return nil
	}
	c.run.judged("I19")
	host := c.run.pods.hosts[i.Attachment.InstanceID]
	if host != nil && host.c == c && !c.lacksReports(claim, i) && !host.serves(i.ID) && !host.forgotten[i.ID] {
		return &Violation{"I19", fmt.Sprintf("no pod of node %s can get an address of %s: %s", host.node, i.ID,
			c.run.describe(i))}
	}
	if need := c.run.grownPrefixes(spec, i); len(i.IPv4Prefixes) < need && !c.full(claim, i) {
		return &Violation{"I19", fmt.Sprintf("%s has %d prefixes, and its pods need %d: %s", i.ID, len(i.IPv4Prefixes),
			need, c.run.describe(i))}
	}
	return nil
}
