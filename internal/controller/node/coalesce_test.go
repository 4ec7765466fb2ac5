// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/controller/node"
)

// unlabel removes the label, so that no NodeENI selects the node.
func (s *stage) unlabel() {
	s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) })
}

// TestWritesOfANode checks which writes a change costs for a node with three interfaces: interfaces that are created or
// removed together share a write.
func TestWritesOfANode(t *testing.T) {
	stuck := func(s *stage) {
		_, err := s.ec2.AddFault(fault.Fault{Kind: fault.StuckDetaching})
		s.must(err)
	}
	cases := map[string]struct {
		before, change func(*stage)
		want           []string
	}{
		"they are made": {want: []string{"create", "status"}},
		"they are removed": {
			change: (*stage).unlabel, want: []string{"patch", "delete"},
		},
		"their removal takes minutes": {
			before: stuck, change: (*stage).unlabel, want: []string{"status", "patch", "delete"},
		},
		"they are removed while an agent looks after them": {
			before: (*stage).reportLinks, change: (*stage).unlabel, want: []string{"status", "patch", "delete"},
		},
		"nothing changes": {change: func(*stage) {}},
		"an agent reports the pods on an interface": {change: (*stage).reportPods},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.alsoDeclare("second")
				s.alsoDeclare("third")
				writes := s.countWrites()
				if tc.change != nil {
					s.must(s.play(time.Minute))
					if tc.before != nil {
						tc.before(s)
					}
					*writes = nil
					tc.change(s)
				}
				s.must(s.play(20 * time.Minute))
				if diff := cmp.Diff(tc.want, *writes); diff != "" {
					t.Errorf("writes of the NodeENIState (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestANodeIsReadyAtOnce checks that a node is ready as soon as its last interface is attached, regardless of the time
// of the last write.
func TestANodeIsReadyAtOnce(t *testing.T) {
	onStage(t, func(s *stage) {
		s.alsoDeclare("second")
		for len(s.attached()) < 2 {
			s.must(s.play(time.Second))
		}
		s.must(s.play(time.Second))
		if st := s.status(nodeName); st.Attached != 2 {
			t.Errorf("the status says that %d are attached", st.Attached)
		}
	})
}

// TestTwoGenerationsOfOneMemberAreNeverStored checks that the controller does not overwrite a ledger that the cache
// does not have yet, and creates nothing.
func TestTwoGenerationsOfOneMemberAreNeverStored(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		member := v1alpha1.Member{NodeENI: "second", NodeENIUID: "uid-second", Generation: 7}
		stale := s.freezeStates()
		s.must(stale.promise(s, member))
		s.alsoDeclare("second")
		before := s.ec2.Calls().Actions["CreateNetworkInterface"].Count
		s.must(s.play(time.Minute))
		var state v1alpha1.NodeENIState
		s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
		if !slices.Contains(state.Spec.Members, member) || len(state.Spec.Members) != 2 {
			t.Errorf("the ledger says %+v, of which generation 7 was stored", state.Spec.Members)
		}
		if made := s.ec2.Calls().Actions["CreateNetworkInterface"].Count - before; made != 0 {
			t.Errorf("%d interfaces were asked for on a stale ledger", made)
		}
	})
}

// reportLinks makes the agent on the node report a link for every interface.
func (s *stage) reportLinks() {
	s.Helper()
	var state v1alpha1.NodeENIState
	s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
	for _, i := range state.Status.Interfaces {
		state.Status.Links = append(state.Status.Links, v1alpha1.LinkState{
			NodeENI: i.NodeENI, MACAddress: i.MACAddress, ENIID: i.ENIID, State: v1alpha1.LinkReady,
		})
	}
	s.must(s.cache.Status().Update(s.Context(), &state))
}

// reportPods has the agent on the node report that a pod uses the first interface.
func (s *stage) reportPods() {
	s.Helper()
	s.reportNetwork(v1alpha1.PodNetworkState{Ready: true, Used: 1, Pods: []v1alpha1.PodReference{{Namespace: "upf", Name: "upf-0"}}})
}

// reportNetwork has the agent on the node report the pod network of the first interface.
func (s *stage) reportNetwork(network v1alpha1.PodNetworkState) {
	s.Helper()
	s.reportNetworkOf(nodeName, network)
}

// reportNetworkOf has the agent on a node report the pod network of the first interface.
func (s *stage) reportNetworkOf(name string, network v1alpha1.PodNetworkState) {
	s.Helper()
	var state v1alpha1.NodeENIState
	s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: name}, &state))
	first := state.Status.Interfaces[0]
	network.Network, network.NodeENI, network.ENIID = first.NodeENI, first.NodeENI, first.ENIID
	state.Status.PodNetworks = []v1alpha1.PodNetworkState{network}
	s.must(s.cache.Status().Update(s.Context(), &state))
}

// countWrites returns the list that receives later writes of NodeENIStates.
func (s *stage) countWrites() *[]string {
	var writes []string
	note := func(what string, object client.Object) {
		if _, is := object.(*v1alpha1.NodeENIState); is {
			writes = append(writes, what)
		}
	}
	options := s.reconciler.Options
	options.Client = interceptor.NewClient(s.cache.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			note("create", object)
			return c.Create(ctx, object, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			note("patch", object)
			return c.Patch(ctx, object, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			note("delete", object)
			return c.Delete(ctx, object, opts...)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, _ string, config runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			writes = append(writes, "status")
			return c.Status().Apply(ctx, config, opts...)
		},
	})
	s.reconciler = node.New(options)
	s.start()
	return &writes
}

// staleStates is a cache with an old NodeENIState.
type staleStates struct{ shown v1alpha1.NodeENIState }

// freezeStates makes the reconciler read the node's current state regardless of later changes.
func (s *stage) freezeStates() *staleStates {
	s.Helper()
	stale := &staleStates{}
	s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &stale.shown))
	options := s.reconciler.Options
	options.Client = interceptor.NewClient(s.cache.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if state, is := object.(*v1alpha1.NodeENIState); is {
				stale.shown.DeepCopyInto(state)
				return nil
			}
			return c.Get(ctx, key, object, opts...)
		},
	})
	s.reconciler = node.New(options)
	s.start()
	return stale
}

// promise writes a member into the ledger, as a former leader does.
func (stale *staleStates) promise(s *stage, member v1alpha1.Member) error {
	state := stale.shown.DeepCopy()
	state.Spec.Members = append(state.Spec.Members, member)
	return s.cache.Update(s.Context(), state)
}
