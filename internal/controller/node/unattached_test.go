// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/identity"
)

// TestWhatServesNobodyYetIsNotDeletedOnTheWordOfACache has an interface that could not be attached yet, and a cache
// that differs from the API server. If the cache cannot be wrong, the controller does not read from the API server.
func TestWhatServesNobodyYetIsNotDeletedOnTheWordOfACache(t *testing.T) {
	off := func(n *corev1.Node) { n.Labels = map[string]string{"eni": "off"} }
	elsewhere := func(n *v1alpha1.NodeENI) {
		n.Spec.NodeSelector = map[string]v1alpha1.LabelValue{"eni": "elsewhere"}
		n.Generation = 2
	}
	cases := map[string]struct {
		change func(*stage)
		kept   bool
		// asked is how many objects are read from the API server.
		asked int
	}{
		"the label is gone":                           {change: func(s *stage) { s.node(s.cache, off); s.node(s.api, off) }, asked: 3},
		"the label is gone for the cache alone":       {change: func(s *stage) { s.node(s.cache, off) }, kept: true, asked: 3},
		"the selector is another":                     {change: func(s *stage) { s.nodeENI(s.cache, elsewhere); s.nodeENI(s.api, elsewhere) }, asked: 3},
		"the selector is another for the cache alone": {change: func(s *stage) { s.nodeENI(s.cache, elsewhere) }, kept: true, asked: 3},
		"the NodeENI is being deleted":                {change: func(s *stage) { s.both(s.deleteNodeENI) }},
		"the instance is terminated": {change: func(s *stage) {
			s.must(s.ec2.Terminate(instanceID))
			time.Sleep(2 * time.Second) // the longest time until EC2 returns it
		}},
		"the NodeENI does not exist, and garbage collection has confirmed that": {change: func(s *stage) {
			s.both(func(c client.Client) {
				s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Finalizers = nil })
				s.deleteNodeENI(c)
			})
			time.Sleep(identity.MinLeakAge)
			s.reconciler.GC.Run(s.Context(), s.observer)
			time.Sleep(identity.ConfirmInterval)
			s.reconciler.GC.Run(s.Context(), s.observer)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.refuseAttaching()
				tc.change(s)
				asked := 0
				s.intercept(func() { asked++ })
				s.must(s.play(time.Second))
				if kept := s.observer.Count() == 1; kept != tc.kept || asked != tc.asked {
					t.Errorf("kept: %t, want %t; %d objects were read from the API server, want %d", kept, tc.kept, asked, tc.asked)
				}
			})
		})
	}
}

// TestANodeAndANodeENIAreReadOfOneMoment has a Node that is always selected, first by one label and then by another.
// Label and selector change between the read of the Node and the read of the NodeENI.
func TestANodeAndANodeENIAreReadOfOneMoment(t *testing.T) {
	onStage(t, func(s *stage) {
		s.refuseAttaching()
		label := func(c client.Client, value string) {
			s.node(c, func(n *corev1.Node) { n.Labels = map[string]string{"eni": value} })
		}
		label(s.cache, "off")
		label(s.api, "off")
		s.nodeENI(s.api, func(n *v1alpha1.NodeENI) {
			n.Spec.NodeSelector, n.Generation = map[string]v1alpha1.LabelValue{"eni": "off"}, 2
		})
		exchanged := false
		s.intercept(func() {
			if !exchanged {
				exchanged = true
				return
			}
			label(s.api, "on")
			s.nodeENI(s.api, func(n *v1alpha1.NodeENI) {
				n.Spec.NodeSelector, n.Generation = map[string]v1alpha1.LabelValue{"eni": "on"}, 3
			})
		})
		s.must(s.play(time.Second))
		if s.observer.Count() != 1 {
			t.Error("it is deleted")
		}
	})
}

// refuseAttaching gives the node an interface that cannot be attached.
func (s *stage) refuseAttaching() {
	s.Helper()
	_, err := s.ec2.AddFault(fault.Fault{Kind: fault.Error, Action: "AttachNetworkInterface", Code: "InvalidParameterValue", Status: http.StatusBadRequest})
	s.must(err)
	s.must(s.play(time.Minute))
	if s.observer.Count() != 1 || len(s.attached()) != 0 {
		s.Fatalf("%d interfaces are there to begin with, %d of them attached", s.observer.Count(), len(s.attached()))
	}
}

// intercept calls a function before each object that is read from the API server.
func (s *stage) intercept(before func()) {
	options := s.reconciler.Options
	options.Reader = interceptor.NewClient(s.api.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			before()
			return c.Get(ctx, key, into, opts...)
		},
	})
	s.reconciler = node.New(options)
	s.start()
}
