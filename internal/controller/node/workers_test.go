// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// join adds a Node with an instance of its own.
func (s *stage) join(name string) {
	s.Helper()
	launched, err := s.ec2.Launch(ec2.WorldInstance{InstanceType: "m5.xlarge", AvailabilityZone: zone, SubnetID: hosts})
	s.must(err)
	time.Sleep(time.Minute)
	s.both(func(c client.Client) {
		s.must(c.Create(s.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"eni": "on"}},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + launched[0].InstanceID},
		}))
	})
}

// declare adds NodeENIs like the first one.
func (s *stage) declare(names ...string) {
	s.Helper()
	s.both(func(c client.Client) {
		for _, name := range names {
			var n v1alpha1.NodeENI
			s.must(c.Get(s.Context(), client.ObjectKey{Name: "data"}, &n))
			n.ObjectMeta = metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1, Finalizers: n.Finalizers}
			status := n.Status
			s.must(c.Create(s.Context(), &n))
			n.Status = status
			s.must(c.Status().Update(s.Context(), &n))
		}
	})
}

func (s *stage) reconcile(name string) {
	s.Helper()
	_, err := s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	s.must(err)
}

func (s *stage) status(name string) v1alpha1.NodeENIStateStatus {
	s.Helper()
	var state v1alpha1.NodeENIState
	s.must(client.IgnoreNotFound(s.cache.Get(s.Context(), client.ObjectKey{Name: name}, &state)))
	return state.Status
}

// There is one worker. The other node does not occupy it, keeps its status, and is reconciled when the worker is free.
func TestANodeThatWaitsForAWorker(t *testing.T) {
	cases := map[string][]string{
		"and would have its first interface": nil,
		// Without a read the plan does not know that the instance is full, and plans more than is possible.
		"and is full already": {"b", "c", "d", "e", "f", "g"},
	}
	for name, more := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.declare(more...)
				if len(more) > 0 {
					s.must(s.play(2 * time.Minute))
				}
				before := s.status(nodeName)
				s.join("newcomer")
				s.must(s.observer.ResyncOnce(s.Context()))
				done := make(chan struct{})
				go func() { defer close(done); s.reconcile("newcomer") }()
				synctest.Wait() // until it waits for EC2
				begun := time.Now()
				s.reconcile(nodeName)
				if waited := time.Since(begun); waited > 0 {
					t.Errorf("its reconciliation took %s", waited)
				}
				if diff := cmp.Diff(before, s.status(nodeName)); diff != "" {
					t.Errorf("its status changed (-before +after):\n%s", diff)
				}
				<-done
				if called := <-s.reconciler.Admitted(); called != nodeName {
					t.Errorf("%s is called", called)
				}
			})
		})
	}
}

// A node that gets its worker from a reconciliation whose time is over must be reconciled like any other, or it would
// keep the worker forever.
func TestANodeThatIsLetInByOneOutOfTime(t *testing.T) {
	for range 10 { // a select with two ready cases chooses either
		onStage(t, func(s *stage) {
			s.join("newcomer")
			s.must(s.observer.ResyncOnce(s.Context()))
			ctx, cancel := context.WithCancel(s.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = s.reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: "newcomer"}})
			}()
			synctest.Wait() // until it waits for EC2
			s.reconcile(nodeName)
			cancel()
			<-done
			select {
			case called := <-s.reconciler.Admitted():
				if called != nodeName {
					t.Errorf("%s is called", called)
				}
			default:
				t.Error("nobody is called")
			}
		})
	}
}

// TestNoCallForANodeThatIsGone removes or pauses a Node while one of its calls waits for the request rate.
func TestNoCallForANodeThatIsGone(t *testing.T) {
	paused := map[string]string{v1alpha1.PausedAnnotation: ""}
	for name, tc := range map[string]struct {
		change func(*stage)
		want   int
	}{
		"the node goes": {func(s *stage) {
			s.both(func(c client.Client) {
				s.must(c.Delete(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}))
			})
		}, 0},
		"the node is paused":      {func(s *stage) { s.node(s.cache, func(n *corev1.Node) { n.Annotations = paused }) }, 0},
		"its NodeENI is paused":   {func(s *stage) { s.nodeENI(s.cache, func(n *v1alpha1.NodeENI) { n.Annotations = paused }) }, 0},
		"nothing happens to them": {func(*stage) {}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.must(s.observer.ResyncOnce(s.Context()))
				var all sync.WaitGroup
				newer := ratelimit.WithRequest(s.Context(), ratelimit.Request{Rank: ratelimit.Rank{Class: ratelimit.Attach, Since: time.Now().Add(time.Hour)}})
				for range 200 {
					all.Go(func() {
						_, _ = s.cloud.AttachInterface(newer, "eni-00000000000000bad", instanceID, eni.Slot{Device: 3})
					})
				}
				all.Go(func() {
					_, _ = s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: nodeName}})
				})
				time.Sleep(10 * time.Second)
				tc.change(s)
				all.Wait()
				attached := 0
				for _, call := range s.ec2.RecentCalls() {
					if call.Action == "AttachNetworkInterface" && call.Code == "" {
						attached++
					}
				}
				if created := s.ec2.Calls().Actions["CreateNetworkInterface"].Count; created != 1 || attached != tc.want {
					t.Errorf("%d interfaces were made and %d attached, want 1 and %d", created, attached, tc.want)
				}
			})
		})
	}
}
