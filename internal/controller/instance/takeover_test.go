// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/controller/instance"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// prepare gives the instance an interface that a lifecycle hook made for a network.
func (s *stage) prepare() {
	s.Helper()
	key := identity.Interface{
		Cluster: cluster, NodeENI: "multus", Node: instanceID, InstanceID: instanceID, UID: identity.NetworkUID("multus", 0, time.Now()),
		Name: identity.ObjectName("multus", instanceID, 0),
	}
	made, err := s.cloud.CreateInterface(s.Context(), executor.CreateRequest{
		Token: key.Token(), SubnetID: data, Groups: []string{group}, Tags: key.Tags(time.Now(), nil),
	})
	s.must(err)
	attachment, err := s.cloud.AttachInterface(s.Context(), made.ID, instanceID, eni.Slot{Device: 1})
	s.must(err)
	s.must(s.cloud.SetDeleteOnTermination(s.Context(), made.ID, attachment.ID, true))
	time.Sleep(2 * time.Minute) // until the era of the process is settled
	s.ec2.ResetCalls()
}

// TestATakeoverShowsWithoutACall makes EC2 never answer, or never allow, the call that writes the tags of an interface
// that a hook made. The object has the interface at once and is ready, without any other call.
func TestATakeoverShowsWithoutACall(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"the tags may not be written":   {Kind: fault.Error, Code: "UnauthorizedOperation", Status: http.StatusForbidden},
		"every request is one too many": {Kind: fault.Throttle},
		"nobody answers":                {Kind: fault.Hang, Delay: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.prepare()
				f.Action = "CreateTags"
				_, err := s.ec2.AddFault(f)
				s.must(err)
				object := s.declare(0)
				s.must(s.observer.ResyncOnce(s.Context()))
				begun := time.Now()
				s.reconcile(instanceID)
				s.reconcile(instanceID)
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("it took %s", took)
				}
				s.servedAndReady(object)
				s.must(s.play(time.Hour))
				s.servedAndReady(object)
				for action, calls := range s.ec2.Calls().Actions {
					if !strings.HasPrefix(action, "Describe") && action != "CreateTags" {
						t.Errorf("%s was called %d times", action, calls.Count)
					}
				}
				s.ec2.ClearFaults()
				s.must(s.play(time.Hour))
				s.servedAndReady(object)
				if tags := s.networkInterface(s.attached()[0]).Tags; tags[identity.TagUID] != string(s.get(object).UID) {
					t.Errorf("its tags are %v", tags)
				}
			})
		})
	}
}

// servedAndReady fails unless the object has the one interface and is ready.
func (s *stage) servedAndReady(name string) {
	s.Helper()
	if o := s.get(name); !isReady(o) || o.Status.Evidence != v1alpha1.EvidenceTakenOver || s.owned() != 1 || o.Status.Phase != v1alpha1.PhaseAttached {
		s.Errorf("%d interfaces exist, and the status is %+v", s.owned(), o.Status)
	}
}

// recordedReader returns objects that record an interface.
type recordedReader struct{ client.Reader }

func (r recordedReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, opts...)
	if i, is := o.(*v1alpha1.NetworkInterface); is {
		i.Status.ENIID, i.Status.Evidence = "eni-00000000000000001", v1alpha1.EvidenceTakenOver
	}
	return err
}

// TestANewLeaderMakesNothingForAnObjectWithAnInterface has a cache that does not show yet what the leader before
// recorded. EC2 does not know the client token of an object that took an interface over.
func TestANewLeaderMakesNothingForAnObjectWithAnInterface(t *testing.T) {
	onStage(t, func(s *stage) {
		s.declare(0)
		s.with(func(o *instance.Options) { o.Reader = recordedReader{o.Reader} })
		s.must(s.play(5 * time.Minute))
		if s.owned() != 0 {
			t.Errorf("%d interfaces were made", s.owned())
		}
		s.with(func(o *instance.Options) { o.Reader = s.api })
		s.must(s.play(5 * time.Minute))
		if s.owned() != 1 {
			t.Errorf("%d interfaces were made for an object without one", s.owned())
		}
	})
}

// TestWhatWasTakenOverIsHeld deletes an object whose interface an earlier object may have opened to pods: its agent must
// answer first.
func TestWhatWasTakenOverIsHeld(t *testing.T) {
	onStage(t, func(s *stage) {
		s.prepare()
		name := s.declare(0)
		s.must(s.play(time.Minute))
		s.servedAndReady(name)
		s.delete(name)
		s.must(s.play(10 * time.Minute))
		if len(s.attached()) != 1 {
			t.Fatal("the interface is detached before an agent answered for it")
		}
		s.answer(name, false)
		s.must(s.play(5 * time.Minute))
		if s.get(name) != nil || s.owned() != 0 {
			t.Errorf("the object is %+v, and %d interfaces exist", s.get(name), s.owned())
		}
	})
}

// TestALetGoInterfaceIsTakenOver lets go of an interface and declares it again.
func TestALetGoInterfaceIsTakenOver(t *testing.T) {
	onStage(t, func(s *stage) {
		name := s.declare(0)
		s.must(s.play(2 * time.Minute))
		id := s.get(name).Status.ENIID
		s.change(name, func(o *v1alpha1.NetworkInterface) {
			o.Annotations = map[string]string{v1alpha1.OnDeleteAnnotation: v1alpha1.OnDeleteKeep}
		})
		s.delete(name)
		s.must(s.play(10 * time.Second))
		s.declare(0)
		s.must(s.play(2 * time.Minute))
		s.servedAndReady(name)
		if got := s.get(name).Status.ENIID; got != id {
			t.Errorf("the object has %s, want %s", got, id)
		}
	})
}
