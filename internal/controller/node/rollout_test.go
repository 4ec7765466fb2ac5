// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestReplacementsKeepMaxUnavailable moves the interfaces of three nodes to another device index, which requires new
// interfaces. At any time at most maxUnavailable nodes lack theirs.
func TestReplacementsKeepMaxUnavailable(t *testing.T) {
	cases := map[string]struct {
		maxUnavailable int32
		// before runs when all three have their interfaces, and meanwhile when the first has just lost its interface.
		before, meanwhile func(*stage)
		// most is how many nodes lacked their interface at once, and moved how many have a new one at the end.
		most, moved int
	}{
		"one after the other": {maxUnavailable: 1, most: 1, moved: 3},
		"two at a time":       {maxUnavailable: 2, most: 2, moved: 3},
		"all at once":         {maxUnavailable: 9, most: 3, moved: 3},
		"another node lacks one": {maxUnavailable: 1, before: func(s *stage) {
			s.say("other", v1alpha1.InterfaceState{Phase: v1alpha1.PhaseBlocked, Reason: string(plan.SubnetFull)})
		}},
		"another node lacks one, and two may": {maxUnavailable: 2, most: 1, moved: 3, before: func(s *stage) {
			s.say("other", v1alpha1.InterfaceState{Phase: v1alpha1.PhaseAttaching, ENIID: "eni-1"})
		}},
		"another node could never have one": {maxUnavailable: 1, most: 1, moved: 3, before: func(s *stage) {
			s.say("other", v1alpha1.InterfaceState{Phase: v1alpha1.PhaseBlocked, Reason: string(plan.NoSubnetInZone)})
		}},
		"a new interface cannot be attached": {maxUnavailable: 1, most: 1, moved: 0, before: func(s *stage) {
			_, err := s.ec2.AddFault(fault.Fault{Kind: fault.Error, Action: "AttachNetworkInterface", Code: "InvalidParameterValue", Status: http.StatusBadRequest})
			s.must(err)
		}},
		"an earlier instance of each node left an interface, and the cache is late": {maxUnavailable: 1, most: 1, moved: 3, before: func(s *stage) {
			s.hideStates()
			for _, name := range []string{nodeName, "node-2", "node-3"} {
				s.leaveBehind(name)
			}
		}},
		"the node is paused in the middle, and the cache is late": {maxUnavailable: 1, most: 1, moved: 0, before: (*stage).hideStates, meanwhile: func(s *stage) {
			s.both(func(c client.Client) {
				s.node(c, func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} })
			})
		}},
		"another controller takes over in the middle": {maxUnavailable: 1, most: 1, moved: 3, meanwhile: func(s *stage) {
			s.reconciler = node.New(s.reconciler.Options)
			s.start()
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				names := []string{nodeName, "node-2", "node-3"}
				s.join(names[1])
				s.join(names[2])
				s.playAll(time.Minute, names, func() {})
				if tc.before != nil {
					tc.before(s)
				}
				s.both(func(c client.Client) {
					s.nodeENI(c, func(n *v1alpha1.NodeENI) {
						n.Spec.DeviceIndex, n.Spec.DeviceIndexPolicy = 2, v1alpha1.DeviceIndexExact
						n.Spec.UpdatePolicy, n.Spec.MaxUnavailable = v1alpha1.UpdateReplace, tc.maxUnavailable
					})
				})
				most := 0
				s.playAll(5*time.Minute, names, func() {
					lacking := len(names) - len(s.attached())
					if lacking > 0 && tc.meanwhile != nil {
						tc.meanwhile(s)
						tc.meanwhile = nil
					}
					most = max(most, lacking)
				})
				if most != tc.most || s.moved() != tc.moved {
					t.Errorf("%d were without their interface at once and %d have a new one, want %d and %d", most, s.moved(), tc.most, tc.moved)
				}
				s.checkWaiting(names, tc.moved)
			})
		})
	}
}

// TestAReplacementFollowsTheInstance registers the node again under another name during its replacement, while the cache has
// no NodeENIStates: the other node waits until the instance has its interface again.
func TestAReplacementFollowsTheInstance(t *testing.T) {
	onStage(t, func(s *stage) {
		s.join("node-2")
		names := []string{nodeName, "node-2"}
		s.playAll(time.Minute, names, func() {})
		s.hideStates()
		s.moveAll()
		most, renamed := 0, false
		s.playAll(10*time.Minute, append(names, "renamed"), func() {
			lacking := len(names) - len(s.attached())
			if lacking > 0 && !renamed {
				renamed = true
				s.rename(nodeName, "renamed")
			}
			most = max(most, lacking)
		})
		if !renamed || most != 1 || s.moved() != 2 {
			t.Errorf("%d were without their interface at once and %d have a new one, want 1 and 2", most, s.moved())
		}
	})
}

// TestANameDoesNotCarryThePermission registers the node again under another name during its replacement, and the other
// node under the free name, while the cache has no NodeENIStates. The name does not give the other instance the
// permission of the first.
func TestANameDoesNotCarryThePermission(t *testing.T) {
	onStage(t, func(s *stage) {
		s.join("node-2")
		names := []string{nodeName, "node-2", "renamed"}
		s.playAll(time.Minute, names, func() {})
		s.hideStates()
		s.moveAll()
		most, renamed := 0, false
		s.playAll(10*time.Minute, names, func() {
			lacking := 2 - len(s.attached())
			if lacking > 0 && !renamed {
				renamed = true
				s.rename(nodeName, "renamed")
				s.rename("node-2", nodeName)
			}
			most = max(most, lacking)
		})
		if !renamed || most != 1 || s.moved() != 2 {
			t.Errorf("%d were without their interface at once and %d have a new one, want 1 and 2", most, s.moved())
		}
	})
}

// TestAnInstanceThatIsGoneReplacesNothing terminates the instance of the node during its replacement, and another
// instance takes over its name: the other node is next.
func TestAnInstanceThatIsGoneReplacesNothing(t *testing.T) {
	onStage(t, func(s *stage) {
		s.join("node-2")
		names := []string{nodeName, "node-2"}
		s.playAll(time.Minute, names, func() {})
		s.hideStates()
		s.moveAll()
		gone := false
		s.playAll(10*time.Minute, names, func() {
			if gone || len(s.attached()) == 2 {
				return
			}
			gone = true
			s.must(s.ec2.Terminate(instanceID))
			s.both(func(c client.Client) {
				s.node(c, func(n *corev1.Node) { n.Spec.ProviderID = "aws:///" + zone + "/" + nextInstanceID })
			})
		})
		if !gone || s.moved() != 2 {
			t.Errorf("%d nodes have a new interface, want 2", s.moved())
		}
	})
}

// moveAll declares another device index for all interfaces, with maxUnavailable 1.
func (s *stage) moveAll() {
	s.Helper()
	s.both(func(c client.Client) {
		s.nodeENI(c, func(n *v1alpha1.NodeENI) {
			n.Spec.DeviceIndex, n.Spec.DeviceIndexPolicy = 2, v1alpha1.DeviceIndexExact
			n.Spec.UpdatePolicy, n.Spec.MaxUnavailable = v1alpha1.UpdateReplace, 1
		})
	})
}

// rename registers a node again under another name.
func (s *stage) rename(from, to string) {
	s.Helper()
	s.both(func(c client.Client) {
		var n corev1.Node
		s.must(c.Get(s.Context(), client.ObjectKey{Name: from}, &n))
		again := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: to, UID: types.UID("uid-" + to), Labels: n.Labels}, Spec: n.Spec}
		s.must(c.Delete(s.Context(), &n))
		s.must(c.Create(s.Context(), &again))
	})
}

// hideStates makes lists of NodeENIStates empty, like those of a cache without them.
func (s *stage) hideStates() {
	options := s.reconciler.Options
	options.Client = interceptor.NewClient(s.cache.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, is := list.(*v1alpha1.NodeENIStateList); is {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	s.reconciler = node.New(options)
	s.start()
}

// leaveBehind gives a node an interface of a previous instance, which EC2 does not delete.
func (s *stage) leaveBehind(name string) {
	s.Helper()
	member := identity.Member{
		Cluster: cluster, NodeENI: "data", Node: name, InstanceID: nextInstanceID,
		Key: identity.Key{Owner: "uid-data"}, Generation: identity.GenerationAt(time.Now()),
	}
	made, err := s.cloud.CreateInterface(s.Context(), executor.CreateRequest{
		Token: name, SubnetID: data, Groups: []string{group}, Tags: member.Tags(time.Now(), nil),
	})
	s.must(err)
	_, err = s.ec2.AddFault(fault.Fault{
		Kind: fault.Error, Action: "DeleteNetworkInterface", Resource: made.ID, Code: "InternalError", Status: http.StatusInternalServerError,
	})
	s.must(err)
}

// checkWaiting fails unless every node that keeps its old interface reports that it waits for the rollout.
func (s *stage) checkWaiting(names []string, moved int) {
	s.Helper()
	waiting := 0
	for _, name := range names {
		for _, i := range s.status(name).Interfaces {
			if i.Phase == v1alpha1.PhaseAttached && i.Reason == string(plan.Replacing) && strings.Contains(i.Message, "maxUnavailable") {
				waiting++
			}
		}
	}
	if kept := len(s.attached()) - moved; waiting != kept {
		s.Errorf("%d nodes say that they wait for their turn, want %d", waiting, kept)
	}
}

// playAll runs the reconciler and the observer for several nodes, and calls look after every reconciliation.
func (s *stage) playAll(d time.Duration, names []string, look func()) {
	s.Helper()
	for begun := time.Now(); time.Since(begun) < d; time.Sleep(stepOf(d)) {
		for _, name := range names {
			s.must(s.observer.ResyncOnce(s.Context()))
			s.reconcile(name)
			s.drainChanged()
			s.drainAdmitted()
			look()
		}
	}
}

func (s *stage) drainAdmitted() {
	for {
		select {
		case <-s.reconciler.Admitted():
		default:
			return
		}
	}
}

// moved counts the interfaces that are attached at device index 2.
func (s *stage) moved() (n int) {
	for _, i := range s.ec2.State().NetworkInterfaces {
		if i.Tags[identity.TagCluster] == cluster && i.Attachment != nil && i.Attachment.Status == ec2.Attached && i.Attachment.DeviceIndex == 2 {
			n++
		}
	}
	return n
}

// say writes one interface into the state of another node.
func (s *stage) say(name string, i v1alpha1.InterfaceState) {
	s.Helper()
	i.Member = v1alpha1.Member{NodeENI: "data", NodeENIUID: "uid-data"}
	s.both(func(c client.Client) {
		state := &v1alpha1.NodeENIState{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeENIStateSpec{InstanceID: "i-00000000000000009", Zone: zone}}
		s.must(c.Create(s.Context(), state))
		state.Status.Interfaces = []v1alpha1.InterfaceState{i}
		s.must(c.Status().Update(s.Context(), state))
	})
}

// TestWhoFailsKeepsNobodyFromTrying has a full subnet that gets free addresses again. The first node to try fails for
// another reason; the other one does not wait for the next attempt of the first.
func TestWhoFailsKeepsNobodyFromTrying(t *testing.T) {
	onStage(t, func(s *stage) {
		names := []string{nodeName, "node-2"}
		s.join(names[1])
		full, err := s.ec2.AddFault(fault.Fault{Kind: fault.SubnetFull, Resource: data})
		s.must(err)
		s.playAll(time.Minute, names, func() {})
		s.ec2.RemoveFault(full.ID)
		_, err = s.ec2.AddFault(fault.Fault{Kind: fault.Error, Action: "CreateNetworkInterface", Code: "InternalError", Status: http.StatusInternalServerError, Count: 1})
		s.must(err)
		s.playAll(plan.SubnetFullBackoff, names, func() {})
		if got := s.attached(); len(got) != len(names) {
			t.Errorf("%v are attached, want one of each of %v", got, names)
		}
	})
}

// TestWaitingForAReplacementCostsNothing has a node that waits to replace its interface, because another one lacks its
// own: it checks again within half a minute, without a call to EC2 or the API server.
func TestWaitingForAReplacementCostsNothing(t *testing.T) {
	onStage(t, func(s *stage) {
		names := []string{nodeName}
		s.playAll(time.Minute, names, func() {})
		s.say("other", v1alpha1.InterfaceState{Phase: v1alpha1.PhaseBlocked, Reason: string(plan.SubnetFull)})
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) {
				n.Spec.DeviceIndex, n.Spec.DeviceIndexPolicy, n.Spec.UpdatePolicy = 2, v1alpha1.DeviceIndexExact, v1alpha1.UpdateReplace
			})
		})
		s.playAll(time.Minute, names, func() {})
		s.checkWaiting(names, 0)
		before := s.stateOf(nodeName).ResourceVersion
		s.ec2.ResetCalls()
		for range 10 {
			result, err := s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: nodeName}})
			s.must(err)
			if result.RequeueAfter <= 0 || result.RequeueAfter > 30*time.Second {
				t.Fatalf("it asks again after %s", result.RequeueAfter)
			}
			time.Sleep(result.RequeueAfter)
		}
		if after := s.stateOf(nodeName).ResourceVersion; after != before {
			t.Errorf("its state was written: version %s, then %s", before, after)
		}
		for action, calls := range s.ec2.Calls().Actions {
			t.Errorf("%d calls of %s", calls.Count, action)
		}
	})
}

// TestATurnOfAnotherNodeWritesNoState has an interface that must move to a slot that another one has, and another node that
// lacks its interface for three minutes. The node waits for its turn then, and cannot read that the slot is taken.
func TestATurnOfAnotherNodeWritesNoState(t *testing.T) {
	onStage(t, func(s *stage) {
		names := []string{nodeName}
		s.playAll(time.Minute, names, func() {})
		foreign, err := s.cloud.CreateInterface(s.Context(), executor.CreateRequest{SubnetID: data, Groups: []string{group}, Token: "foreign"})
		s.must(err)
		_, err = s.cloud.AttachInterface(s.Context(), foreign.ID, instanceID, eni.Slot{Device: 2})
		s.must(err)
		s.playAll(time.Minute, names, func() {})
		s.moveAll()
		s.playAll(time.Minute, names, func() {})
		before := s.stateOf(nodeName)
		if got := before.Status.Interfaces[0].Reason; got != string(plan.SlotTaken) {
			t.Fatalf("the reason is %s, want %s", got, plan.SlotTaken)
		}
		s.say("other", v1alpha1.InterfaceState{Phase: v1alpha1.PhaseAttaching, ENIID: "eni-1"})
		s.playAll(3*time.Minute, names, func() {})
		s.both(func(c client.Client) {
			s.must(c.Delete(s.Context(), &v1alpha1.NodeENIState{ObjectMeta: metav1.ObjectMeta{Name: "other"}}))
		})
		s.playAll(time.Minute, names, func() {})
		if after := s.stateOf(nodeName); after.ResourceVersion != before.ResourceVersion {
			t.Errorf("the state was written: %s, %s", after.Status.Interfaces[0].Reason, after.Status.Interfaces[0].Message)
		}
	})
}

func (s *stage) stateOf(name string) *v1alpha1.NodeENIState {
	s.Helper()
	state := &v1alpha1.NodeENIState{}
	s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: name}, state))
	return state
}
