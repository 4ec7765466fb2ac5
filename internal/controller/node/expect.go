// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

const (
	// expectFor is for how long after a Node was created its instance is looked at for interfaces of networks. A lifecycle hook
	// waits for less.
	expectFor = 10 * time.Minute
	// expectEvery is the time between two looks.
	expectEvery = 10 * time.Second
)

// expect looks at the instance of a node that was born with the startup taint, and that no NodeENI selects. A lifecycle hook makes
// its interfaces while it joins, and nothing tells the controller of them before the next listing.
func (r *Reconciler) expect(ctx context.Context, s *snapshot) error {
	if s.node == nil || !s.awaitsNetworks(r.Now()) {
		return nil
	}
	s.replacement = sooner(s.replacement, r.Now().Add(expectEvery))
	if _, err := r.Observer.DescribeInstance(ctx, s.instanceID); err != nil {
		return err
	}
	s.chooseInstances(r.Observer.InstancesOf(s.name), r.Observer.HasAny(s.instanceID))
	return nil
}

// awaitsNetworks reports whether the agent keeps pods off the node until it has interfaces, and no NodeENI promises it any.
func (s *snapshot) awaitsNetworks(now time.Time) bool {
	tainted := slices.ContainsFunc(s.node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.NotReadyTaint })
	selected := slices.ContainsFunc(s.nodeENIs, func(n v1alpha1.NodeENI) bool { return selects(&n, s.node.Labels) })
	return tainted && !selected && now.Sub(s.node.CreationTimestamp.Time) < expectFor
}
