// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// TestAPausedInterfaceOutlivesARestart restarts the controller while the NodeENI of an attached interface is paused, and while the
// ledger names another generation, as after two Nodes of one instance. The interface's ID in the NodeENIState is evidence for it,
// so that the node gets no second one.
func TestAPausedInterfaceOutlivesARestart(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		before := s.attached()
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"} })
		})
		s.state(func(state *v1alpha1.NodeENIState) { state.Spec.Members[0].Generation += 40 })
		for range 2 {
			s.must(s.play(time.Minute))
			s.restart()
		}
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Annotations = nil }) })
		s.must(s.play(30 * time.Minute))
		if diff := cmp.Diff(before, s.attached()); diff != "" {
			t.Errorf("attached (-before +after):\n%s", diff)
		}
	})
}

// state changes the NodeENIState of the node.
func (s *stage) state(change func(*v1alpha1.NodeENIState)) {
	s.Helper()
	var state v1alpha1.NodeENIState
	s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
	change(&state)
	status := state.DeepCopy()
	s.must(s.cache.Update(s.Context(), &state))
	status.ResourceVersion = state.ResourceVersion
	s.must(s.cache.Status().Update(s.Context(), status))
}
