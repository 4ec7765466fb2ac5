// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/identity"
)

// TestWithoutTheDefinitionOfTheLedger deletes the CustomResourceDefinition of NodeENIState: the controller can still
// remove interfaces, and creates none.
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
	s.refuseLedgers()
}

// refuseLedgers starts a controller for which the API server has no kind NodeENIState. The objects in its cache stay
// there.
func (s *stage) refuseLedgers() {
	s.Helper()
	states := v1alpha1.SchemeGroupVersion.WithResource("nodeenistates").GroupResource()
	options := s.reconciler.Options
	options.Client = interceptor.NewClient(s.cache.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if _, is := object.(*v1alpha1.NodeENIState); is {
				return apierrors.NewMethodNotSupported(states, "create")
			}
			return c.Create(ctx, object, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if _, is := object.(*v1alpha1.NodeENIState); is {
				return apierrors.NewNotFound(states, object.GetName())
			}
			return c.Patch(ctx, object, patch, opts...)
		},
	})
	s.reconciler = node.New(options)
	s.start()
}

// TestTheLedgerOfAPreviousInstance replaces an instance of the node while the last created interface is not yet visible
// in EC2, with a controller that was just started. Until it would be visible, the NodeENI must stay.
func TestTheLedgerOfAPreviousInstance(t *testing.T) {
	cases := map[string]struct {
		// shown is when EC2 returns the interface, if it does.
		shown time.Duration
	}{
		"it was never made":        {},
		"it was, and is seen late": {shown: time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				member := identity.Member{
					Cluster: cluster, NodeENI: "data", Node: nodeName, InstanceID: instanceID,
					Key: identity.Key{Owner: "uid-data"}, Generation: identity.GenerationAt(time.Now()),
				}
				s.both(func(c client.Client) {
					s.promise(c, member)
					s.deleteNodeENI(c)
					s.node(c, func(n *corev1.Node) { n.Spec.ProviderID = "aws:///" + zone + "/" + nextInstanceID })
				})
				s.must(s.play(time.Minute))
				if got := s.promisedFor(); !slices.Equal(got, []string{"uid-data"}) {
					t.Fatalf("after a minute the ledger speaks of %v", got)
				}
				if tc.shown > 0 {
					_, err := s.cloud.CreateInterface(s.Context(), executor.CreateRequest{
						Token: member.Token(), SubnetID: data, Groups: []string{group}, Tags: member.Tags(member.Generation.Time(), nil),
					})
					s.must(err)
				}
				s.must(s.play(2 * time.Minute))
				if got := s.promisedFor(); len(got) > 0 {
					t.Errorf("after three minutes the ledger speaks of %v", got)
				}
				for _, i := range s.ec2.State().NetworkInterfaces {
					if i.Tags[identity.TagCluster] == cluster {
						t.Errorf("%s is left", i.NetworkInterfaceID)
					}
				}
			})
		})
	}
}

// promise writes the ledger of the node with one interface in it.
func (s *stage) promise(c client.Client, m identity.Member) {
	s.Helper()
	s.must(c.Create(s.Context(), &v1alpha1.NodeENIState{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.NodeENIStateSpec{InstanceID: m.InstanceID, Zone: zone, Members: []v1alpha1.Member{
			{NodeENI: m.NodeENI, NodeENIUID: types.UID(m.Owner), Generation: int64(m.Generation)},
		}},
	}))
}

// promisedFor returns the UIDs of the NodeENIs that the node's ledger names.
func (s *stage) promisedFor() []string {
	s.Helper()
	var state v1alpha1.NodeENIState
	if err := s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state); err != nil {
		s.must(client.IgnoreNotFound(err))
		return nil
	}
	return controller.Owners(&state)
}

// TestAnInstanceDoesNotWaitForTheOneBefore gives the node's new instance its interface at once, while the interface of
// the previous instance may still become visible.
func TestAnInstanceDoesNotWaitForTheOneBefore(t *testing.T) {
	onStage(t, func(s *stage) {
		before := identity.Member{NodeENI: "data", InstanceID: instanceID, Key: identity.Key{Owner: "uid-data"}, Generation: identity.GenerationAt(time.Now())}
		s.both(func(c client.Client) {
			s.promise(c, before)
			s.node(c, func(n *corev1.Node) { n.Spec.ProviderID = "aws:///" + zone + "/" + nextInstanceID })
		})
		s.must(s.play(20 * time.Second))
		if got := s.attached(); len(got) != 1 {
			t.Errorf("attached are %v", got)
		}
		var state v1alpha1.NodeENIState
		s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
		previous := state.Spec.PreviousInstances
		if state.Spec.InstanceID != nextInstanceID || len(previous) != 1 || previous[0].InstanceID != instanceID || previous[0].Members[0].Generation != int64(before.Generation) {
			t.Errorf("the ledger is that of %s, and of %v before", state.Spec.InstanceID, previous)
		}
	})
}

// TestADeletedLedger deletes the state of a node that needs it. The controller creates it again, but not while the
// deleted ledger was the only record of an interface that may still become visible.
func TestADeletedLedger(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		state := func() (state v1alpha1.NodeENIState) {
			s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
			return state
		}
		doubtful := state()
		doubtful.Spec.Members = append(doubtful.Spec.Members, v1alpha1.Member{NodeENI: "data", NodeENIUID: "uid-data", Ordinal: 7, Generation: time.Now().Unix()})
		s.must(s.cache.Update(s.Context(), &doubtful))
		s.must(s.cache.Delete(s.Context(), &doubtful))
		s.must(s.play(time.Minute))
		if now := state(); now.DeletionTimestamp.IsZero() || len(now.Spec.Members) != 2 {
			t.Errorf("after a minute it was deleted at %v, and promises %v", now.DeletionTimestamp, now.Spec.Members)
		}
		s.must(s.play(2 * time.Minute))
		if now := state(); !now.DeletionTimestamp.IsZero() || len(now.Spec.Members) != 1 {
			t.Errorf("after three minutes it was deleted at %v, and promises %v", now.DeletionTimestamp, now.Spec.Members)
		}
	})
}

// TestADeletedLedgerThatACacheKeeps removes the definition of the ledger, so that no watch reports to the cache that
// the deleted state of the node is gone. The controller still removes what the node does not need any more.
func TestADeletedLedgerThatACacheKeeps(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		s.declare("more")
		s.must(s.play(time.Minute))
		var state v1alpha1.NodeENIState
		s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
		s.must(s.cache.Delete(s.Context(), &state))
		s.refuseLedgers()
		s.both(s.deleteNodeENI)
		_ = s.play(5 * time.Minute)
		if got := s.attached(); len(got) != 1 {
			t.Errorf("%v are attached, want that of the NodeENI which stays", got)
		}
	})
}

// TestALedgerThatAnotherProcessChangedIsNotOverwritten has another process change the ledger between the controller's
// read and its write: the write fails, so that two generations of one member are never stored.
func TestALedgerThatAnotherProcessChangedIsNotOverwritten(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		var written []error
		options := s.reconciler.Options
		options.Client = interceptor.NewClient(s.cache.(client.WithWatch), interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if _, is := object.(*v1alpha1.NodeENIState); !is || len(written) > 0 {
					return c.Patch(ctx, object, patch, opts...)
				}
				var state v1alpha1.NodeENIState
				s.must(c.Get(ctx, client.ObjectKeyFromObject(object), &state))
				state.Spec.Members[0].Generation++
				s.must(c.Update(ctx, &state))
				written = append(written, c.Patch(ctx, object, patch, opts...))
				return written[0]
			},
		})
		s.reconciler = node.New(options)
		s.start()
		s.declare("more")
		s.must(s.play(time.Minute))
		if len(written) != 1 || !apierrors.IsConflict(written[0]) {
			t.Errorf("the write of the ledger returned %v, want a conflict", written)
		}
	})
}

// TestALedgerThatAnotherLeaderFillsIsNotDeleted has another leader add a member to an empty ledger after the controller
// released it and before the deletion. The deletion fails, and the ledger gets its finalizer back.
func TestALedgerThatAnotherLeaderFillsIsNotDeleted(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		label := func(labels map[string]string) {
			s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = labels }) })
		}
		var deleted []error
		options := s.reconciler.Options
		options.Client = interceptor.NewClient(s.cache.(client.WithWatch), interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
				if _, is := object.(*v1alpha1.NodeENIState); !is || len(deleted) > 0 {
					return c.Delete(ctx, object, opts...)
				}
				var state v1alpha1.NodeENIState
				s.must(c.Get(ctx, client.ObjectKeyFromObject(object), &state))
				state.Spec.Members = []v1alpha1.Member{{NodeENI: "data", NodeENIUID: "uid-data", Ordinal: 7, Generation: time.Now().Unix()}}
				s.must(c.Update(ctx, &state))
				label(map[string]string{"eni": "on"})
				deleted = append(deleted, c.Delete(ctx, object, opts...))
				return deleted[0]
			},
		})
		s.reconciler = node.New(options)
		s.start()
		label(nil)
		s.must(s.play(5 * time.Minute))
		if len(deleted) != 1 || !apierrors.IsConflict(deleted[0]) {
			t.Errorf("the deletion of the ledger returned %v, want a conflict", deleted)
		}
		var state v1alpha1.NodeENIState
		s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
		if len(state.Spec.Members) != 1 || state.Spec.Members[0].Ordinal != 7 || len(state.Finalizers) != 1 {
			t.Errorf("the ledger has %v and the finalizers %v, want the member of the other leader and a finalizer", state.Spec.Members, state.Finalizers)
		}
	})
}
