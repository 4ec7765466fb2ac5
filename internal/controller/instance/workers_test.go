// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"context"
	"net/http"
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
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/instance"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// join adds a Node with an instance of its own and an object, and returns the instance.
func (s *stage) join(name string) string {
	s.Helper()
	launched, err := s.ec2.Launch(ec2.WorldInstance{InstanceType: "m5.xlarge", AvailabilityZone: zone, SubnetID: hosts})
	s.must(err)
	time.Sleep(time.Minute)
	id := launched[0].InstanceID
	s.must(s.api.Create(s.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"eni": "on"}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + id},
	}))
	s.declareOn(id, name, 0)
	return id
}

// There is one worker. The other instance does not occupy it, keeps its status, and is reconciled when the worker is
// free.
func TestAnInstanceThatWaitsForAWorker(t *testing.T) {
	onStage(t, func(s *stage) {
		name := s.declare(0)
		before := s.get(name).Status
		newcomer := s.join("newcomer")
		s.must(s.observer.ResyncOnce(s.Context()))
		done := make(chan struct{})
		go func() { defer close(done); s.reconcile(newcomer) }()
		synctest.Wait() // until it waits for EC2
		begun := time.Now()
		s.reconcile(instanceID)
		if waited := time.Since(begun); waited > 0 {
			t.Errorf("its reconciliation took %s", waited)
		}
		if diff := cmp.Diff(before, s.get(name).Status); diff != "" {
			t.Errorf("its status changed (-before +after):\n%s", diff)
		}
		<-done
		if called := <-s.reconciler.Admitted(); called != instanceID {
			t.Errorf("%s is called", called)
		}
	})
}

// An instance that gets its worker from a reconciliation whose time is over must be reconciled like any other, or it
// would keep the worker forever.
func TestAnInstanceThatIsLetInByOneOutOfTime(t *testing.T) {
	for range 10 { // a select with two ready cases chooses either
		onStage(t, func(s *stage) {
			s.declare(0)
			newcomer := s.join("newcomer")
			s.must(s.observer.ResyncOnce(s.Context()))
			ctx, cancel := context.WithCancel(s.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = s.reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: newcomer}})
			}()
			synctest.Wait() // until it waits for EC2
			s.reconcile(instanceID)
			cancel()
			<-done
			select {
			case called := <-s.reconciler.Admitted():
				if called != instanceID {
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
	for name, tc := range map[string]struct {
		change func(*stage)
		want   int
	}{
		"the node goes": {func(s *stage) {
			s.must(s.api.Delete(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}))
		}, 0},
		"the node is paused": {func(s *stage) { s.pauseNode(true) }, 0},
		"its NodeENI is paused": {func(s *stage) {
			var n v1alpha1.NodeENI
			s.must(s.api.Get(s.Context(), client.ObjectKey{Name: "data"}, &n))
			n.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""}
			s.must(s.api.Update(s.Context(), &n))
		}, 0},
		"nothing happens to them": {func(*stage) {}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.declare(0)
				s.must(s.observer.ResyncOnce(s.Context()))
				var all sync.WaitGroup
				newer := ratelimit.WithRequest(s.Context(), ratelimit.Request{Rank: ratelimit.Rank{Class: ratelimit.Attach, Since: time.Now().Add(time.Hour)}})
				for range 200 {
					all.Go(func() {
						_, _ = s.cloud.AttachInterface(newer, "eni-00000000000000bad", instanceID, eni.Slot{Device: 3})
					})
				}
				all.Go(func() {
					_, _ = s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: instanceID}})
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

// TestAPauseHoldsRepairs pauses a node before an in-place update of a launch interface.
func TestAPauseHoldsRepairs(t *testing.T) {
	onStage(t, func(s *stage) {
		id := s.launched(eni.Slot{Device: 2})
		s.with(func(o *instance.Options) { o.Repairs = &controller.InPlaceUpdates{} })
		s.must(s.play(time.Minute))

		s.pauseNode(true)
		want := "as the template says"
		s.reconciler.Repairs.Set("uid-template", map[string][]plan.InPlaceUpdate{
			instanceID: {{InterfaceID: id, Owner: "default", OwnerUID: "uid-template", Description: &want}},
		})
		s.must(s.play(time.Minute))
		if got := s.networkInterface(id).Description; got == want {
			t.Error("the node is paused, and the interface is repaired")
		}
		s.pauseNode(false)
		s.must(s.play(time.Minute))
		if got := s.networkInterface(id).Description; got != want {
			t.Errorf("the node is not paused any more, and the description is %q, want %q", got, want)
		}
	})
}

// TestCreationStopsAtTheUnattachedLimit declares a second interface while one cannot be attached, in a cluster with an
// unattached limit of one.
func TestCreationStopsAtTheUnattachedLimit(t *testing.T) {
	onStage(t, func(s *stage) {
		s.with(func(o *instance.Options) { o.MaxUnattached = 1 })
		_, err := s.ec2.AddFault(fault.Fault{Kind: fault.Error, Action: "AttachNetworkInterface", Code: "InvalidParameterValue", Status: http.StatusBadRequest})
		s.must(err)
		s.declare(0)
		s.must(s.play(time.Minute))
		s.declare(1)
		s.must(s.play(time.Minute))
		if n := s.observer.Count(); n != 1 || !s.reconciler.CreationBlocked() {
			t.Errorf("%d interfaces were made, want 1; blocked: %t, want true", n, s.reconciler.CreationBlocked())
		}
		s.ec2.ClearFaults()
		s.must(s.play(time.Hour))
		if n := len(s.attached()); n != 2 || s.reconciler.CreationBlocked() {
			t.Errorf("%d interfaces are attached in the end, want 2; blocked: %t, want false", n, s.reconciler.CreationBlocked())
		}
	})
}

// launched gives the instance a launch interface, and returns its ID.
func (s *stage) launched(at eni.Slot) string {
	s.Helper()
	made, err := s.cloud.CreateInterface(s.Context(), executor.CreateRequest{SubnetID: data, Groups: []string{group}, Token: "launched", Tags: map[string]string{
		identity.TagCluster: cluster, identity.TagNodeTemplate: "default", identity.TagNodeTemplateUID: "uid-template", identity.TagNoManage: "true",
	}})
	s.must(err)
	_, err = s.cloud.AttachInterface(s.Context(), made.ID, instanceID, at)
	s.must(err)
	return made.ID
}
