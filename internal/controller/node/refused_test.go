// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/node"
)

// TestARefusedLedgerIsToldWithoutIt checks that one event, the NodeENIs and the metrics report a ledger that the API
// server refuses, until it is stored.
func TestARefusedLedgerIsToldWithoutIt(t *testing.T) {
	onStage(t, func(s *stage) {
		options, refused := s.reconciler.Options, true
		options.Client = interceptor.NewClient(s.cache.(client.WithWatch), interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
				if _, is := object.(*v1alpha1.NodeENIState); is && refused {
					return apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("NodeENIState").GroupKind(), nodeName, nil)
				}
				return c.Create(ctx, object, opts...)
			},
		})
		s.reconciler = node.New(options)
		s.start()
		if err := s.play(time.Minute); !apierrors.IsInvalid(err) {
			t.Fatal(err)
		}
		if n, changed := options.RefusedWrites.Count(), options.RefusedWrites.Changed(); n != 1 || !slices.Equal(changed, []string{nodeName}) {
			t.Errorf("%d refused, changed %v", n, changed)
		}
		if told := s.told(); !slices.Equal(told, []string{v1alpha1.ReasonStateRefused}) {
			t.Errorf("events tell of %v", told)
		}
		refused = false
		s.must(s.play(time.Minute))
		if n := options.RefusedWrites.Count(); n != 0 || len(s.attached()) != 1 {
			t.Errorf("%d refused, %v attached", n, s.attached())
		}
	})
}
