// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/identity"
)

// TestNoLiveInterfaceIsDetachedOnTheWordOfACache has a cache that differs from the API server, like that of a replica
// whose first list was old or whose watch is silent.
func TestNoLiveInterfaceIsDetachedOnTheWordOfACache(t *testing.T) {
	off := func(n *corev1.Node) { n.Labels = map[string]string{"eni": "off"} }
	elsewhere := func(n *v1alpha1.NodeENI) {
		n.Spec.NodeSelector = map[string]v1alpha1.LabelValue{"eni": "elsewhere"}
	}
	cases := map[string]struct {
		change func(*stage)
		kept   bool
		fails  bool
	}{
		"the label is gone":                              {change: func(s *stage) { s.node(s.cache, off); s.node(s.api, off) }},
		"the label is gone for the cache alone":          {change: func(s *stage) { s.node(s.cache, off) }, kept: true},
		"the selector is another":                        {change: func(s *stage) { s.nodeENI(s.cache, elsewhere); s.nodeENI(s.api, elsewhere) }},
		"the selector is another for the cache alone":    {change: func(s *stage) { s.nodeENI(s.cache, elsewhere) }, kept: true},
		"the NodeENI is being deleted":                   {change: func(s *stage) { s.both(s.deleteNodeENI) }},
		"the NodeENI is being deleted by an old account": {change: func(s *stage) { s.deleteNodeENI(s.cache); s.reborn() }, kept: true},
		"the node is gone, the cache has an old one": {change: func(s *stage) {
			s.node(s.cache, off)
			s.must(s.api.Delete(s.Context(), &corev1.Node{ObjectMeta: objectMeta(nodeName)}))
		}, kept: true},
		"the node is another instance, the cache has the old one": {change: func(s *stage) {
			s.node(s.cache, off)
			s.node(s.api, func(n *corev1.Node) { n.Spec.ProviderID = "aws:///" + zone + "/i-00000000000000002" })
		}, kept: true},
		"the node is paused, the cache does not know": {change: func(s *stage) {
			s.node(s.cache, off)
			s.node(s.api, func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""}; off(n) })
		}, kept: true},
		"the API server does not answer": {change: func(s *stage) {
			s.node(s.cache, off)
			s.silence()
		}, kept: true, fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.must(s.play(time.Minute))
				if len(s.attached()) != 1 {
					t.Fatalf("%v are attached to begin with", s.attached())
				}
				tc.change(s)
				err := s.play(5 * time.Minute)
				if kept := len(s.attached()) == 1; kept != tc.kept || (err != nil) != tc.fails {
					t.Errorf("kept: %t, want %t; error: %v", kept, tc.kept, err)
				}
			})
		})
	}
}

// TestALostNodeENIThatIsBackLosesNothingToACache loses a NodeENI, which is created again while the watch is silent: at
// the end of the interface's grace period, the cache does not have the NodeENI.
func TestALostNodeENIThatIsBackLosesNothingToACache(t *testing.T) {
	for name, tc := range map[string]struct {
		accepted, fails bool
	}{
		"accepted": {accepted: true}, "not accepted yet": {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.must(s.play(time.Minute))
				s.reborn()
				if !tc.accepted {
					s.nodeENI(s.api, func(n *v1alpha1.NodeENI) { n.Finalizers = nil })
				}
				s.nodeENI(s.cache, func(n *v1alpha1.NodeENI) { n.Finalizers = nil })
				s.deleteNodeENI(s.cache)
				for range 3 {
					s.reconciler.GC.Run(s.Context(), s.observer)
					time.Sleep(identity.AttachedOrphanGrace)
				}
				err := s.play(5 * time.Minute)
				if len(s.attached()) != 1 || (err != nil) != tc.fails {
					t.Errorf("attached are %v; error: %v", s.attached(), err)
				}
			})
		})
	}
}

func (s *stage) deleteNodeENI(c client.Client) {
	s.must(c.Delete(s.Context(), &v1alpha1.NodeENI{ObjectMeta: objectMeta("data")}))
}

// reborn gives the API server another NodeENI of the same name.
func (s *stage) reborn() {
	s.nodeENI(s.api, func(n *v1alpha1.NodeENI) { n.Finalizers = nil })
	s.deleteNodeENI(s.api)
	var old v1alpha1.NodeENI
	s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: "data"}, &old))
	again := &v1alpha1.NodeENI{ObjectMeta: objectMeta("data"), Spec: old.Spec}
	again.UID, again.Finalizers = "uid-another", []string{v1alpha1.Finalizer}
	s.must(s.api.Create(s.Context(), again))
}

// silence makes the API server answer nothing.
func (s *stage) silence() {
	options := s.reconciler.Options
	options.Reader = interceptor.NewClient(s.api.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no answer")
		},
	})
	s.reconciler = node.New(options)
}
