// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/node"
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

// TestACacheWithoutTheStateIsNoEvidence has a cache that lacks the NodeENIState for one reconciliation, as after a user
// deleted it and the controller created it again. Without a state an attached interface serves by its tags, but the
// ledger names a later generation: the interface stays unverified.
func TestACacheWithoutTheStateIsNoEvidence(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		s.state(func(state *v1alpha1.NodeENIState) {
			state.Spec.Members[0].Generation += 40
			state.Status.Interfaces = nil
		})
		s.restart()
		lacks := true
		s.with(func(o *node.Options) {
			o.Client = interceptor.NewClient(s.cache.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
					if _, is := object.(*v1alpha1.NodeENIState); is && lacks {
						return apierrors.NewNotFound(schema.GroupResource{Resource: "nodeenistates"}, key.Name)
					}
					return c.Get(ctx, key, object, opts...)
				},
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if _, is := list.(*v1alpha1.NodeENIStateList); is && lacks {
						return nil
					}
					return c.List(ctx, list, opts...)
				},
			})
		})
		s.must(s.observer.ResyncOnce(s.Context()))
		_, err := s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: nodeName}})
		if !apierrors.IsAlreadyExists(err) {
			t.Errorf("the reconciliation with such a cache returned %v, want that the state exists", err)
		}
		lacks = false
		s.must(s.play(time.Minute))
		s.state(func(state *v1alpha1.NodeENIState) {
			if got := state.Status.Unverified; len(got) != 1 || got[0].ENIID != s.attached()[0] {
				t.Errorf("the unverified interfaces are %+v, want %s", got, s.attached()[0])
			}
		})
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
