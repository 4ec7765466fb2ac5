// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/controller/instance"
	"github.com/multieni/multieni/internal/core/identity"
)

// TestAnObjectGetsItsInterface follows an object until it is ready: one write of its status says all.
func TestAnObjectGetsItsInterface(t *testing.T) {
	onStage(t, func(s *stage) {
		name := s.declare(0)
		s.must(s.play(time.Minute))
		o, ids := s.get(name), s.attached()
		if len(ids) != 1 || o.Status.ENIID != ids[0] || !isReady(o) || o.Status.Evidence != v1alpha1.EvidenceCreated ||
			o.Status.AttachmentID == "" || o.Status.MACAddress == "" || o.Status.SubnetID != data || o.Status.Addresses.PrivateIP == "" {
			t.Errorf("attached are %v, and the status is %+v", ids, o.Status)
		}
		if tags := s.networkInterface(ids[0]).Tags; tags[identity.TagUID] != string(o.UID) || tags[identity.TagInterface] != name {
			t.Errorf("its tags are %v", tags)
		}
		if s.statuses > 2 {
			t.Errorf("the status was written %d times", s.statuses)
		}
		if len(s.waited) != 1 || s.waited[0] <= 0 || s.waited[0] > time.Minute {
			t.Errorf("it waited for %v", s.waited)
		}
		if told := s.told(); len(told) > 0 {
			t.Errorf("events tell of %v", told)
		}
		s.must(s.play(10 * time.Minute))
		if before := s.statuses; before > 2 || len(s.waited) != 1 {
			t.Errorf("later there are %d writes and the waits %v", before, s.waited)
		}
	})
}

// TestADeletedObject deletes an object, and checks what happens to its interface.
func TestADeletedObject(t *testing.T) {
	keep := func(o *v1alpha1.NetworkInterface) {
		o.Annotations = map[string]string{v1alpha1.OnDeleteAnnotation: v1alpha1.OnDeleteKeep}
	}
	for name, tc := range map[string]struct {
		before    func(*stage, string)
		gone, eni bool
	}{
		"nothing uses it":          {before: func(*stage, string) {}, gone: true},
		"pods use it":              {before: func(s *stage, name string) { s.answer(name, true) }, eni: true},
		"pods used it":             {before: func(s *stage, name string) { s.answer(name, true); s.answer(name, false) }, gone: true},
		"its turn has not come":    {before: func(s *stage, name string) { s.waits = map[string]bool{name: true} }, eni: true},
		"the interface is to stay": {before: func(s *stage, name string) { s.change(name, keep) }, gone: true, eni: true},
		"the node is paused":       {before: func(s *stage, _ string) { s.pauseNode(true) }, eni: true},
		"the kind is being deleted": {before: func(s *stage, _ string) {
			s.definition = &metav1.Time{Time: time.Now()}
		}, gone: true, eni: true},
		"the kind and the NodeENI are being deleted": {before: func(s *stage, _ string) {
			s.definition = &metav1.Time{Time: time.Now()}
			s.must(s.api.Delete(s.Context(), &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "data"}}))
		}, gone: true},
		"the API server has another state of it": {before: func(s *stage, name string) {
			s.with(func(o *instance.Options) { o.Reader = heldReader{o.Reader} })
		}, eni: true},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				name := s.declare(0)
				s.must(s.play(time.Minute))
				tc.before(s, name)
				s.delete(name)
				s.must(s.play(3 * time.Minute))
				if gone := s.get(name) == nil; gone != tc.gone {
					t.Errorf("the object is gone: %t, want %t", gone, tc.gone)
				}
				if there := s.owned() == 1; there != tc.eni {
					t.Errorf("the interface exists: %t, want %t", there, tc.eni)
				}
			})
		})
	}
}

// TestAKindLetsGoOfAnObjectThatAwaitsItsTurn deletes the kind after an object whose turn has not come. No successor of
// another interface can be created then, so the turn would never come.
func TestAKindLetsGoOfAnObjectThatAwaitsItsTurn(t *testing.T) {
	onStage(t, func(s *stage) {
		name := s.declare(0)
		s.must(s.play(time.Minute))
		s.waits = map[string]bool{name: true}
		s.delete(name)
		s.must(s.play(3 * time.Minute))
		if s.get(name) == nil {
			t.Fatal("the object is gone before its turn")
		}
		s.definition = &metav1.Time{Time: time.Now()}
		s.must(s.play(3 * time.Minute))
		if s.get(name) != nil || s.owned() != 1 {
			t.Errorf("the object is %+v, and %d interfaces are left, want one", s.get(name), s.owned())
		}
	})
}

// heldReader returns objects that pods use.
type heldReader struct{ client.Reader }

func (h heldReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := h.Reader.Get(ctx, key, o, opts...)
	if i, is := o.(*v1alpha1.NetworkInterface); is {
		i.Status.Node = &v1alpha1.NodeReport{Open: true}
	}
	return err
}

// TestPodsLetGoOfAnInterface waits for the agent before it detaches, and says so.
func TestPodsLetGoOfAnInterface(t *testing.T) {
	onStage(t, func(s *stage) {
		name := s.declare(0)
		s.must(s.play(time.Minute))
		s.answer(name, true)
		s.delete(name)
		s.must(s.play(2 * time.Minute))
		if ready := meta.FindStatusCondition(s.get(name).Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Reason != "InUseByPods" {
			t.Errorf("its condition is %+v", ready)
		}
		s.answer(name, false)
		s.must(s.play(2 * time.Minute))
		if s.get(name) != nil || s.owned() != 0 {
			t.Errorf("the object is %+v, and %d interfaces are left", s.get(name), s.owned())
		}
	})
}

// TestAnObjectWithoutAnInterface deletes objects that have none, and that need none.
func TestAnObjectWithoutAnInterface(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Second)) // the object is not in the first list
		name := s.declare(0, func(o *v1alpha1.NetworkInterface) {
			o.Spec.Problem = &v1alpha1.InterfaceProblem{Reason: "NoSubnetInZone", Message: "none of its subnets is in the zone"}
			o.Spec.Subnets = nil
		})
		s.must(s.play(time.Minute))
		stalled := meta.FindStatusCondition(s.get(name).Status.Conditions, v1alpha1.ConditionStalled)
		if stalled == nil || stalled.Reason != "NoSubnetInZone" || s.owned() != 0 {
			t.Errorf("its condition is %+v, and %d interfaces exist", stalled, s.owned())
		}
		if told := s.told(); len(told) != 1 || told[0] != "NoSubnetInZone" {
			t.Errorf("events tell of %v", told)
		}
		s.delete(name)
		s.must(s.play(10 * time.Second))
		if s.get(name) != nil {
			t.Error("the object is not gone")
		}
	})
}

// TestAnOrphanKeepsItsInterface removes the NodeENI by force.
func TestAnOrphanKeepsItsInterface(t *testing.T) {
	onStage(t, func(s *stage) {
		name := s.declare(0)
		s.must(s.play(time.Minute))
		other := s.declare(1)
		var n v1alpha1.NodeENI
		s.must(s.api.Get(s.Context(), client.ObjectKey{Name: "data"}, &n))
		n.Finalizers = nil
		s.must(s.api.Update(s.Context(), &n))
		s.must(s.api.Delete(s.Context(), &n))
		s.must(s.play(5 * time.Minute))
		if o := s.get(name); !isReady(o) || len(s.attached()) != 1 {
			t.Errorf("the orphan is %+v, and attached are %v", o.Status, s.attached())
		}
		if o := s.get(other); o.Status.ENIID != "" {
			t.Errorf("an interface was created for an orphan: %+v", o.Status)
		}
	})
}

// TestNothingIsMadeWithoutANode deletes the Node of an instance that runs.
func TestNothingIsMadeWithoutANode(t *testing.T) {
	onStage(t, func(s *stage) {
		name := s.declare(0)
		s.must(s.play(time.Minute))
		s.must(s.api.Delete(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}))
		other := s.declare(1)
		s.must(s.play(20 * time.Minute))
		if o := s.get(name); !isReady(o) || s.get(other).Status.ENIID != "" || s.owned() != 1 {
			t.Errorf("%d interfaces exist; the statuses are %+v and %+v", s.owned(), o.Status, s.get(other).Status)
		}
	})
}

// TestAnEndedInstance terminates an instance: its objects stay while its Node exists.
func TestAnEndedInstance(t *testing.T) {
	onStage(t, func(s *stage) {
		name := s.declare(0)
		s.must(s.play(time.Minute))
		s.answer(name, true)
		s.must(s.ec2.Terminate(instanceID))
		s.must(s.play(5 * time.Minute))
		if s.get(name) == nil || s.get(name).DeletionTimestamp != nil {
			t.Error("the object goes before the Node")
		}
		s.must(s.api.Delete(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}))
		s.must(s.play(5 * time.Minute))
		if s.get(name) != nil || s.owned() != 0 {
			t.Errorf("the object is %+v, and %d interfaces are left", s.get(name), s.owned())
		}
	})
}

// TestAVanishedInterface has another program delete an interface. The object is spent once it is ten minutes old.
func TestAVanishedInterface(t *testing.T) {
	onStage(t, func(s *stage) {
		name := s.declare(0)
		s.must(s.play(time.Minute))
		uid, id := s.get(name).UID, s.attached()[0]
		s.must(s.cloud.DetachInterface(s.Context(), s.get(name).Status.AttachmentID, false))
		time.Sleep(time.Minute)
		s.must(s.cloud.DeleteInterface(s.Context(), id))
		s.must(s.play(5 * time.Minute))
		if o := s.get(name); o == nil || o.UID != uid || isReady(o) {
			t.Errorf("after five minutes the object is %+v", o)
		}
		s.must(s.play(15 * time.Minute))
		if o := s.get(name); o != nil {
			t.Errorf("after twenty minutes the object is %+v", o)
		}
	})
}

// TestAVanishedInterfaceWaitsForNoTurn deletes the object of an interface that another program deleted.
func TestAVanishedInterfaceWaitsForNoTurn(t *testing.T) {
	onStage(t, func(s *stage) {
		name := s.declare(0)
		s.must(s.play(time.Minute))
		s.must(s.cloud.DetachInterface(s.Context(), s.get(name).Status.AttachmentID, false))
		time.Sleep(time.Minute)
		s.must(s.cloud.DeleteInterface(s.Context(), s.get(name).Status.ENIID))
		s.waits = map[string]bool{name: true}
		s.delete(name)
		s.must(s.play(10 * time.Minute))
		if o := s.get(name); o != nil {
			t.Errorf("the object is %+v", o)
		}
	})
}

// crashAfterCreate declares an object and ends the controller after the creation of its interface and before any record
// of it.
func (s *stage) crashAfterCreate() (name string) {
	s.Helper()
	_, err := s.ec2.AddFault(fault.Fault{Kind: fault.Hang, Action: "AttachNetworkInterface", Delay: time.Hour})
	s.must(err)
	name = s.declare(0)
	s.must(s.observer.ResyncOnce(s.Context()))
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	_, _ = s.reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: instanceID}})
	if s.owned() != 1 || s.get(name).Status.ENIID != "" {
		s.Fatalf("%d interfaces exist, and the status is %+v", s.owned(), s.get(name).Status)
	}
	s.ec2.ClearFaults()
	return name
}

func TestANewLeaderFindsWhatTheOneBeforeMade(t *testing.T) {
	onStage(t, func(s *stage) {
		name := s.crashAfterCreate()
		s.restart()
		s.must(s.play(5 * time.Minute))
		if o := s.get(name); !isReady(o) || s.owned() != 1 || o.Status.Evidence != v1alpha1.EvidenceCreated {
			t.Errorf("%d interfaces exist, and the status is %+v", s.owned(), o.Status)
		}
	})
}

// TestADeletedObjectAsksForWhatTheLeaderBeforeMade: EC2's answer to the client token proves that no pod uses the
// interface, so that its removal waits for no agent.
func TestADeletedObjectAsksForWhatTheLeaderBeforeMade(t *testing.T) {
	onStage(t, func(s *stage) {
		name := s.crashAfterCreate()
		s.delete(name)
		s.restart()
		s.must(s.play(5 * time.Minute))
		if s.get(name) != nil || s.owned() != 0 {
			t.Errorf("%d interfaces exist, and the object is %+v", s.owned(), s.get(name))
		}
	})
}

// TestARefusedStatusIsToldWithoutIt checks that one event, the NodeENIs and the metrics report a status that the API
// server refuses, until it is stored.
func TestARefusedStatusIsToldWithoutIt(t *testing.T) {
	onStage(t, func(s *stage) {
		s.onStatus = func() error {
			return apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("NetworkInterface").GroupKind(), "data", nil)
		}
		s.declare(0)
		if err := s.play(time.Minute); err == nil {
			t.Fatal("the refusal is no error")
		}
		refused := s.reconciler.RefusedWrites
		if n, changed := refused.Count(), refused.Changed(); n != 1 || len(changed) != 1 || changed[0] != "data" {
			t.Errorf("%d refused, changed %v", n, changed)
		}
		if told := s.told(); len(told) != 1 || told[0] != v1alpha1.ReasonStateRefused {
			t.Errorf("events tell of %v", told)
		}
		s.onStatus = nil
		s.must(s.play(time.Minute))
		if n := refused.Count(); n != 0 || len(s.attached()) != 1 {
			t.Errorf("%d refused, %v attached", n, s.attached())
		}
	})
}

// TestAFormerLeaderWritesNothing loses the lease.
func TestAFormerLeaderWritesNothing(t *testing.T) {
	onStage(t, func(s *stage) {
		s.with(func(o *instance.Options) { o.Permit = func() error { return errors.New("the lease is lost") } })
		name := s.declare(0)
		if err := s.play(time.Minute); err == nil {
			t.Error("a loss of the lease is no error")
		}
		if o := s.get(name); o.Status.ENIID != "" || s.statuses > 0 {
			t.Errorf("%d writes; the status is %+v", s.statuses, o.Status)
		}
		s.delete(name)
		_ = s.play(10 * time.Minute)
		if s.get(name) == nil {
			t.Error("the object is gone")
		}
	})
}
