// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/plan"
)

// errBusy keeps an instance from being worked on under two names at once.
var errBusy = errors.New("the instance is worked on under the name of another node")

// nodesOf returns the Nodes that name an instance, the oldest first: that one has it. A kubelet that registered again under
// another name is not told from a Node that names an instance by mistake or malice, and neither is to take anything away.
func (r *Reconciler) nodesOf(ctx context.Context, instanceID string) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, controller.OfInstance(instanceID), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return nodes.Items, nil
}

// findDuplicateNodes finds out which other Nodes name the node's instance, and reports whether the instance is this node's all the same.
func (r *Reconciler) findDuplicateNodes(ctx context.Context, s *snapshot, node *corev1.Node, instanceID string) (bool, error) {
	nodes, err := r.nodesOf(ctx, instanceID)
	if err != nil {
		return false, err
	}
	if len(nodes) > 0 && nodes[0].Name != s.name {
		r.skip(ctx, node, "InstanceHasAnotherNode", fmt.Errorf("instance %s is node %s already, whose Node is older; delete the one of the two that is no node any more", instanceID, nodes[0].Name))
		return false, nil
	}
	s.duplicateNodes = slices.DeleteFunc(nodes, func(n corev1.Node) bool { return n.Name == s.name })
	return true, nil
}

// instancesToRelease finds the instances that are another node's by now.
func (r *Reconciler) instancesToRelease(ctx context.Context, s *snapshot) error {
	s.release = map[string]string{}
	for _, id := range s.instances {
		if s.present(id) {
			continue
		}
		nodes, err := r.nodesOf(ctx, id)
		if err != nil {
			return err
		}
		if len(nodes) > 0 && nodes[0].Name != s.name {
			s.release[id] = nodes[0].Name
		}
	}
	return nil
}

// releaseInstance leaves an instance to the node that has it, and tells that one: what is news of interfaces whose tags name this node still
// comes here.
func (r *Reconciler) releaseInstance(ctx context.Context, s *snapshot, instanceID string) (plan.Plan, error) {
	known := r.Observer.Of(instanceID)
	if len(known.Owned) > 0 {
		r.Observer.EnqueueNode(ctx, s.release[instanceID])
	}
	observed := plan.Observed{
		Owned: known.Owned, UsedGenerations: known.UsedGenerations, ObservedSince: known.Since, Ledger: s.ledger(instanceID), Backoffs: r.volatileOf(instanceID).backoffs,
	}
	if err := r.addEvidence(ctx, s, instanceID, &observed); err != nil {
		return plan.Plan{}, err
	}
	p := plan.ReleaseInstance(observed, r.Now())
	return p, r.store(ctx, s, instanceID, nil, p)
}

// paused reports whether somebody wants nothing changed on the node, under whichever of its names.
func (s *snapshot) paused() bool {
	return s.node != nil && controller.Paused(s.node) ||
		slices.ContainsFunc(s.duplicateNodes, func(n corev1.Node) bool { return controller.Paused(&n) })
}

// DuplicateNodes returns the names under which the instances that versions of a Node name are known beside its own: of the Node that
// has the instance, or that loses it to this one, and of ledgers, in order. What becomes of the Node concerns them, and none
// of the others that name the instance: of a thousand that do so by mistake each would concern all.
func (r *Reconciler) DuplicateNodes(ctx context.Context, versions ...client.Object) []string {
	names := map[string]bool{}
	for _, version := range versions {
		for _, id := range controller.Indexed(version, controller.InstanceIDs) {
			nodes, err := r.nodesOf(ctx, id)
			states, err2 := r.states(ctx, controller.OfInstance(id))
			if err := errors.Join(err, err2); err != nil {
				r.Log.Error("what else an instance is could not be listed", "instance", id, "err", err)
			}
			others := slices.DeleteFunc(nodes, func(n corev1.Node) bool { return n.Name == version.GetName() })
			for n := range others[:min(1, len(others))] {
				names[others[n].Name] = true
			}
			for n := range states {
				names[states[n].Name] = true
			}
		}
		delete(names, version.GetName())
	}
	return slices.Sorted(maps.Keys(names))
}
