// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// finalized checks I7: a NodeENI disappears only after the last of its objects, so that EC2 has none of its interfaces.
func (r *run) finalized(c *cluster, nodeENI client.Object) {
	if c.isStripped(string(nodeENI.GetUID())) {
		return
	}
	r.judged("I7")
	for _, n := range c.api.interfaces() {
		if n.Spec.NodeENI.UID == nodeENI.GetUID() {
			r.violate("I7", "NodeENI %s is gone, and %s of it is left", nodeENI.GetName(), objectDigest(n))
		}
	}
}

// isOrphan reports whether the NodeENI of an object does not exist.
func (c *cluster) isOrphan(n *v1alpha1.NetworkInterface) bool {
	return n.Spec.Origin == v1alpha1.OriginDeclared && c.nodeENINamed(n.Spec.NodeENI.Name) == nil
}

// endsOrphans reports whether the grace period of an orphan ends before a quiet period that begins now ends, by the
// clock of some replica.
func (r *run) endsOrphans() bool {
	until := r.now.Add(lastWrites + restFor + 2*r.ahead())
	for _, c := range r.clusters {
		if slices.ContainsFunc(c.api.interfaces(), func(n *v1alpha1.NetworkInterface) bool {
			return c.isOrphan(n) && c.orphanedAt(n).Add(orphanGrace).Before(until)
		}) {
			return true
		}
	}
	return false
}
