// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
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
