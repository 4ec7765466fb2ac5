// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// TestWhatTrailsIsDoneOnce records, or does not record, DeleteOnTermination of an interface between the plan that
// requests it and the deferred work that makes the call.
func TestWhatTrailsIsDoneOnce(t *testing.T) {
	for name, tc := range map[string]struct{ noted, calls int }{
		"it is outstanding":            {noted: 0, calls: 1},
		"it was carried out meanwhile": {noted: 1, calls: 0},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				var beside []func(context.Context)
				options := s.reconciler.Options
				options.Go = func(work func(context.Context)) { beside = append(beside, work) }
				s.reconciler = node.New(options)
				s.must(s.play(20 * time.Second))
				if len(beside) != 1 || len(s.attached()) != 1 {
					t.Fatalf("%d pieces of work trail behind, and %v are attached; want one each", len(beside), s.attached())
				}
				for range tc.noted {
					s.observer.RecordChange(time.Now(), s.attached()[0], func(i eni.Interface) eni.Interface {
						i.Attachment.DeleteOnTermination = true
						return i
					}, inventory.Effect{Aspect: "DeleteOnTermination", IsVisible: func(i eni.Interface) bool {
						return i.Attachment != nil && i.Attachment.DeleteOnTermination
					}})
				}
				beside[0](s.Context())
				if got := s.ec2.Calls().Actions["ModifyNetworkInterfaceAttribute"].Count; got != tc.calls {
					t.Errorf("%d calls, want %d", got, tc.calls)
				}
			})
		})
	}
}

// staggered is EC2 where one create takes a long time, and DeleteOnTermination takes longer than the attachment after
// it.
type staggered struct {
	executor.Cloud
	slow string
}

func (c staggered) CreateInterface(ctx context.Context, request executor.CreateRequest) (eni.Interface, error) {
	if request.Tags[identity.TagNodeENI] == c.slow {
		time.Sleep(3 * time.Second)
	}
	return c.Cloud.CreateInterface(ctx, request)
}

func (c staggered) SetDeleteOnTermination(ctx context.Context, interfaceID, attachmentID string, on bool) error {
	time.Sleep(time.Second)
	return c.Cloud.SetDeleteOnTermination(ctx, interfaceID, attachmentID, on)
}

// TestDeferredCallsNeedNoSecondRead has a node whose second interface is created later than the first one is attached:
// the calls for DeleteOnTermination of both follow the attachments, and the instance is read once.
func TestDeferredCallsNeedNoSecondRead(t *testing.T) {
	onStage(t, func(s *stage) {
		s.declare("slow")
		options := s.reconciler.Options
		options.Applier = executor.New(staggered{s.cloud, "slow"}, s.observer, executor.Options{Members: 2, Removals: 1, Now: time.Now})
		s.reconciler = node.New(options)
		s.start()
		s.must(s.play(20 * time.Second))
		calls := s.ec2.Calls().Actions
		if len(s.attached()) != 2 || calls["ModifyNetworkInterfaceAttribute"].Count != 2 {
			t.Fatalf("%v are attached, with %d changes; want two each", s.attached(), calls["ModifyNetworkInterfaceAttribute"].Count)
		}
		if got := calls["DescribeInstances"].Count; got != 1 {
			t.Errorf("the instance was read %d times, want once", got)
		}
	})
}

// withoutAddresses is EC2 whose subnet has no free address.
type withoutAddresses struct{ executor.Cloud }

func (withoutAddresses) AssignIPv4(context.Context, string, int, int) (eni.Addresses, error) {
	return eni.Addresses{}, &eni.APIError{
		Class: eni.NoAddresses, Operation: "AssignPrivateIpAddresses", Code: "InsufficientFreeAddressesInSubnet",
	}
}

// TestDeferredCallsDoNotWaitForARefusedUpdate edits two settings of an attached interface. EC2 refuses the first call
// at each attempt; the controller still makes the deferred call for DeleteOnTermination.
func TestDeferredCallsDoNotWaitForARefusedUpdate(t *testing.T) {
	onStage(t, func(s *stage) {
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.DeleteOnTermination = new(false) })
		})
		s.with(func(o *node.Options) {
			o.Applier = executor.New(withoutAddresses{s.cloud}, s.observer, executor.Options{Members: 1, Removals: 1, Now: time.Now})
		})
		s.must(s.play(20 * time.Second))
		if ids := s.attached(); len(ids) != 1 || s.networkInterface(ids[0]).Attachment.DeleteOnTermination {
			t.Fatalf("%v are attached; want one interface that stays when its instance ends", ids)
		}
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) {
				n.Generation = 2
				n.Spec.SecondaryPrivateIPAddressCount, n.Spec.DeleteOnTermination = 1, new(true)
			})
		})
		s.must(s.play(3 * time.Minute))
		if !s.networkInterface(s.attached()[0]).Attachment.DeleteOnTermination {
			t.Error("DeleteOnTermination is not set three minutes after the edit")
		}
	})
}
