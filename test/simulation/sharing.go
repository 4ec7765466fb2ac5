// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
)

// registerAgain lets a kubelet register its instance under another name, or deletes one of two Nodes of an instance,
// the old one or the new one.
func (c *cluster) registerAgain() {
	r := c.run
	node, is := c.any(nodes).(*corev1.Node)
	if !is {
		return
	}
	ref, err := eni.ParseProviderID(node.Spec.ProviderID)
	if err != nil {
		return
	}
	if shared := c.nodesOf(ref.ID); len(shared) > 1 && r.chance(0.6) {
		gone := shared[r.pick(len(shared))]
		r.note(nil, "%s: node %s of instance %s goes, another one stays", c.name, gone.Name, ref.ID)
		_ = c.api.delete(nodes, gone.Name, "")
		return
	}
	if name := c.freeName(nodes, "node-", mostNodes); name != "" {
		r.note(nil, "%s: node %s registers again as %s", c.name, node.Name, name)
		c.addNode(name, node.Spec.ProviderID)
	}
}

// nodesOf returns the Nodes of an instance, the oldest first. The oldest one owns the instance.
func (c *cluster) nodesOf(instanceID string) []*corev1.Node {
	return nodesIn(c.api.all(nodes), instanceID)
}

func nodesIn(all []client.Object, instanceID string) []*corev1.Node {
	var its []*corev1.Node
	for _, object := range all {
		node := object.(*corev1.Node)
		if ref, err := eni.ParseProviderID(node.Spec.ProviderID); err == nil && ref.ID == instanceID {
			its = append(its, node)
		}
	}
	slices.SortStableFunc(its, func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return its
}

// anySelected reports whether a NodeENI selects one of the Nodes. As long as it does, its interfaces on their instance
// stay.
func anySelected(nodeENI *v1alpha1.NodeENI, its []*corev1.Node) bool {
	return slices.ContainsFunc(its, func(node *corev1.Node) bool { return selects(nodeENI, node) })
}

// selectsOthers reports whether a NodeENI selects at most Nodes of the instance other than the one that owns it.
func (c *cluster) selectsOthers(s desiredSlot) bool {
	nodeENI, its := c.nodeENINamed(s.nodeENI), c.nodesOf(s.instanceID)
	return nodeENI != nil && len(its) > 1 && !selects(nodeENI, its[0])
}

// ignores reports whether a NodeENI selects only Nodes of the instance other than the one that owns it, and the process
// has not received these Nodes or their labels: it knows other Nodes only from its cache.
func (p *process) ignores(s desiredSlot) bool {
	if !p.cluster.selectsOthers(s) {
		return false
	}
	owner := p.cluster.nodesOf(s.instanceID)[0].Name
	received := nodesIn(p.informers.known(nodes), s.instanceID)
	return !anySelected(p.cluster.nodeENINamed(s.nodeENI), slices.DeleteFunc(received, func(node *corev1.Node) bool {
		return node.Name == owner
	}))
}
