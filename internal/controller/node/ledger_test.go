// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/node"
)

// TestWithoutTheDefinitionOfTheLedger has the API server drop the kind NodeENIState: interfaces can be removed still, and
// none can be made.
func TestWithoutTheDefinitionOfTheLedger(t *testing.T) {
	cases := map[string]struct {
		before time.Duration
		change func(*stage)
		want   int
	}{
		"an interface in use stays":           {time.Minute, func(*stage) {}, 1},
		"one that nothing wants is removed":   {time.Minute, func(s *stage) { s.both(s.deleteNodeENI) }, 0},
		"so is that of a node that leaves it": {time.Minute, func(s *stage) { s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) }) }, 0},
		"none is made":                        {0, func(*stage) {}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.must(s.play(tc.before))
				s.forgetLedgers()
				tc.change(s)
				_ = s.play(5 * time.Minute)
				if got := s.attached(); len(got) != tc.want {
					t.Errorf("%v are attached, want %d", got, tc.want)
				}
			})
		})
	}
}

// forgetLedgers removes the NodeENIStates with their definition.
func (s *stage) forgetLedgers() {
	s.Helper()
	s.both(func(c client.Client) {
		var state v1alpha1.NodeENIState
		if c.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state) == nil {
			state.Finalizers = nil
			s.must(c.Update(s.Context(), &state))
			s.must(c.Delete(s.Context(), &state))
		}
	})
	options := s.reconciler.Options
	options.Client = interceptor.NewClient(s.cache.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if _, is := object.(*v1alpha1.NodeENIState); is {
				return apierrors.NewMethodNotSupported(v1alpha1.SchemeGroupVersion.WithResource("nodeenistates").GroupResource(), "create")
			}
			return c.Create(ctx, object, opts...)
		},
	})
	s.reconciler = node.New(options)
	s.start()
}
