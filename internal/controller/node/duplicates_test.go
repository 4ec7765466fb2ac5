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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// again is the name of the second Node that the instance of the stage's node registers.
const again = "again"

// TestTwoNodesOfOneInstance lets the instance of a node register under another name while its first Node still exists.
// Regardless of the changes of the two Nodes, no call is made twice, and no desired interface is detached.
func TestTwoNodesOfOneInstance(t *testing.T) {
	off := func(n *corev1.Node) { n.Labels = nil }
	pause := func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} }
	cases := map[string]struct {
		// sooner makes it register before an interface exists.
		sooner bool
		labels map[string]string
		change func(*stage)
		// node is the only one that has the interface at the end; detached means that the interface was detached.
		node     string
		detached bool
		told     []string
	}{
		"it registers":                                  {node: nodeName, told: []string{"InstanceHasAnotherNode"}},
		"it registers before all is done":               {sooner: true, node: nodeName, told: []string{"InstanceHasAnotherNode", "Attached"}},
		"it registers without labels":                   {labels: map[string]string{}, node: nodeName},
		"the first one goes":                            {change: (*stage).firstNodeGoes, node: again, told: []string{"InstanceHasAnotherNode", "Attached"}},
		"the first one goes before all is done":         {sooner: true, change: (*stage).firstNodeGoes, node: again, told: []string{"InstanceHasAnotherNode", "Attached"}},
		"the first one is not selected any more":        {change: func(s *stage) { s.change(nodeName, off) }, node: nodeName, told: []string{"InstanceHasAnotherNode"}},
		"neither is selected any more":                  {change: func(s *stage) { s.change(nodeName, off); s.change(again, off) }, detached: true, told: []string{"InstanceHasAnotherNode", "Removed"}},
		"neither is, and one is paused":                 {change: func(s *stage) { s.change(again, pause); s.change(nodeName, off); s.change(again, off) }, node: nodeName, told: []string{"InstanceHasAnotherNode"}},
		"its NodeENI is deleted":                        {change: func(s *stage) { s.both(s.deleteNodeENI) }, detached: true, told: []string{"InstanceHasAnotherNode", "Removed"}},
		"the first one goes, the other is not selected": {labels: map[string]string{}, change: (*stage).firstNodeGoes, detached: true, told: []string{"Removed"}},
		"the second one goes": {change: func(s *stage) {
			s.both(func(c client.Client) { s.must(c.Delete(s.Context(), &corev1.Node{ObjectMeta: objectMeta(again)})) })
		}, node: nodeName, told: []string{"InstanceHasAnotherNode"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				names := []string{nodeName, again}
				if !tc.sooner {
					s.playAll(time.Minute, names, func() {})
					s.told()
				}
				time.Sleep(time.Second)
				s.register(tc.labels)
				if tc.sooner {
					s.must(s.observer.ResyncOnce(s.Context()))
					s.reconcile(again)
					s.reconcile(nodeName)
				} else {
					s.playAll(10*time.Second, names, func() {})
				}
				if tc.change != nil {
					tc.change(s)
				}
				s.playAll(5*time.Minute, names, func() {})

				if diff := cmp.Diff(tc.told, s.told()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				calls := s.ec2.Calls().Actions
				for action, want := range map[string]int{"CreateNetworkInterface": 1, "AttachNetworkInterface": 1, "DetachNetworkInterface": count(tc.detached)} {
					if got := calls[action].Count; got != want {
						t.Errorf("%d calls of %s, want %d", got, action, want)
					}
				}
				s.checkHolder(names, tc.node)
			})
		})
	}
}

// TestOneInstanceUnderOneNameAtATime deletes the first Node during the create call for its interface: the second one
// must wait for the end of the call, or it would create another.
func TestOneInstanceUnderOneNameAtATime(t *testing.T) {
	onStage(t, func(s *stage) {
		options := s.reconciler.Options
		options.Concurrency = 2
		s.reconciler = node.New(options)
		s.start()
		s.register(nil)
		s.must(s.observer.ResyncOnce(s.Context()))
		for _, f := range []fault.Fault{
			{Kind: fault.Delay, Action: "CreateNetworkInterface", Delay: 10 * time.Second, Count: 1},
			{Kind: fault.HideNew, Age: 15 * time.Second},
		} {
			_, err := s.ec2.AddFault(f)
			s.must(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); s.reconcile(nodeName) }()
		time.Sleep(5 * time.Second) // until it waits for EC2's answer
		s.firstNodeGoes()
		s.reconcile(again)
		<-done
		s.playAll(time.Minute, []string{nodeName, again}, func() {})
		s.checkHolder([]string{nodeName, again}, again)
		if created := s.ec2.Calls().Actions["CreateNetworkInterface"]; created.Count-created.Failed != 1 {
			t.Errorf("of %d calls %d failed, and all but one should", created.Count, created.Failed)
		}
	})
}

// TestNewsUnderAFormerNameReachesWhoHasTheInstance deletes the first Node. The other one must be triggered by changes
// of an interface whose tags still name the first one: it may have to remove that interface.
func TestNewsUnderAFormerNameReachesWhoHasTheInstance(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		s.register(nil)
		s.firstNodeGoes()
		s.reconcile(nodeName)
		select {
		case name := <-s.observer.Changed():
			if name != again {
				t.Errorf("%s is told", name)
			}
		default:
			t.Error("nobody is told")
		}
	})
}

// TestAFormerNodeKeepsTheLedgerUntilTheNewOneHasIt has the ledgers of two former nodes of an instance name its
// interface. Neither ledger counts for the other node.
func TestAFormerNodeKeepsTheLedgerUntilTheNewOneHasIt(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		var state v1alpha1.NodeENIState
		s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
		s.both(func(c client.Client) {
			s.must(c.Create(s.Context(), &v1alpha1.NodeENIState{
				ObjectMeta: metav1.ObjectMeta{Name: "former", Finalizers: state.Finalizers}, Spec: state.Spec,
			}))
		})
		s.register(nil)
		s.firstNodeGoes()
		formerNodes := []string{nodeName, "former"}
		for _, name := range formerNodes {
			s.reconcile(name)
			var kept v1alpha1.NodeENIState
			s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: name}, &kept))
			if diff := cmp.Diff(state.Spec.Members, kept.Spec.Members); diff != "" {
				t.Errorf("the ledger of %s, while the new node has none (-want +got):\n%s", name, diff)
			}
		}
		s.playAll(time.Minute, append(formerNodes, again), func() {})
		s.checkHolder(append(formerNodes, again), again)
	})
}

// TestTwoLeadersDoNotForgetAnInterface has a former leader resume in the middle of a write. It removes an interface from a
// former node's ledger, because the ledger of the new node has it. Meanwhile its successor removed it from the latter: the
// new node is gone, and the former one is back.
func TestTwoLeadersDoNotForgetAnInterface(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		first := s.stateOf(nodeName)
		s.both(func(c client.Client) {
			s.must(c.Create(s.Context(), &v1alpha1.NodeENIState{
				ObjectMeta: metav1.ObjectMeta{Name: again, Finalizers: first.Finalizers}, Spec: first.Spec,
			}))
		})
		s.register(nil)
		s.firstNodeGoes()
		successor := s.reconciler
		s.with(func(o *node.Options) {
			o.Client = interceptor.NewClient(s.cache.(client.WithWatch), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if object.GetName() != nodeName || successor == nil {
						return c.Patch(ctx, object, patch, opts...)
					}
					former := s.reconciler
					s.reconciler, successor = successor, nil
					s.both(func(c client.Client) {
						s.must(c.Delete(ctx, &corev1.Node{ObjectMeta: objectMeta(again)}))
						s.must(c.Create(ctx, &corev1.Node{
							ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "uid-back", Labels: map[string]string{"eni": "on"}},
							Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + instanceID},
						}))
					})
					s.reconcile(again)
					s.reconciler = former
					err := c.Patch(ctx, object, patch, opts...)
					if !apierrors.IsConflict(err) {
						t.Errorf("the former leader wrote the ledger: %v", err)
					}
					return err
				},
			})
		})
		_, _ = s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: nodeName}})
		if got := s.stateOf(nodeName).Spec.Members; len(got) != 1 {
			t.Errorf("the ledger is %v, want the interface", got)
		}
	})
}

// TestADeviceThatAnAgentHoldsUnderAFormerNameStays has the agent report, under the name of the first Node, that a program
// drives the interface. The second Node gets the instance, and is not selected.
func TestADeviceThatAnAgentHoldsUnderAFormerNameStays(t *testing.T) {
	for state, detached := range map[v1alpha1.LinkPhase]bool{v1alpha1.LinkBound: false, v1alpha1.LinkReady: true} {
		t.Run(string(state), func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.must(s.play(time.Minute))
				first := s.stateOf(nodeName)
				first.Status.Links = []v1alpha1.LinkState{{NodeENI: "data", ENIID: s.attached()[0], State: state}}
				s.must(s.cache.Status().Update(s.Context(), first))
				s.register(map[string]string{})
				s.firstNodeGoes()
				for range 20 {
					s.must(s.observer.ResyncOnce(s.Context()))
					s.reconcile(again)
					time.Sleep(10 * time.Second)
				}
				if got := len(s.attached()) == 0; got != detached {
					t.Errorf("detached: %t, want %t", got, detached)
				}
			})
		})
	}
}

// checkHolder fails unless one of the nodes, or none if there is no name, has an interface, and the others have no
// state.
func (s *stage) checkHolder(names []string, holder string) {
	s.Helper()
	for _, name := range names {
		var state v1alpha1.NodeENIState
		err := s.cache.Get(s.Context(), client.ObjectKey{Name: name}, &state)
		if (err == nil) != (name == holder) {
			s.Errorf("the state of %s: %v, %v", name, state.Spec, err)
		}
	}
	for _, i := range s.ec2.State().NetworkInterfaces {
		if i.Tags[identity.TagCluster] == cluster && i.Tags[identity.TagNode] != holder {
			s.Errorf("%s is that of node %q by its tags, want %q", i.NetworkInterfaceID, i.Tags[identity.TagNode], holder)
		}
	}
	if got := len(s.attached()); got != count(holder != "") {
		s.Errorf("%d are attached", got)
	}
}

func count(is bool) int { return map[bool]int{true: 1}[is] }

// TestWhoIsConcernedByANode checks which names are reconciled when a Node changes.
func TestWhoIsConcernedByANode(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		s.register(nil)
		var second corev1.Node
		s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: again}, &second))
		s.both(func(c client.Client) { s.must(c.Delete(s.Context(), &corev1.Node{ObjectMeta: objectMeta(nodeName)})) })
		if got := s.reconciler.DuplicateNodes(s.Context(), &second); !slices.Equal(got, []string{nodeName}) {
			t.Errorf("the second Node concerns %v: its instance is in the ledger of the first", got)
		}
		second.Spec.ProviderID = ""
		if got := s.reconciler.DuplicateNodes(s.Context(), &second); len(got) > 0 {
			t.Errorf("a Node without an instance concerns %v", got)
		}
	})
}

// register adds a second Node that names the instance of the first.
func (s *stage) register(labels map[string]string) {
	s.Helper()
	if labels == nil {
		labels = map[string]string{"eni": "on"}
	}
	s.both(func(c client.Client) {
		s.must(c.Create(s.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: again, UID: "uid-again", Labels: labels, CreationTimestamp: metav1.Now()},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + instanceID},
		}))
	})
}

func (s *stage) change(name string, change func(*corev1.Node)) {
	s.Helper()
	s.both(func(c client.Client) {
		var n corev1.Node
		s.must(c.Get(s.Context(), client.ObjectKey{Name: name}, &n))
		change(&n)
		s.must(c.Update(s.Context(), &n))
	})
}

func (s *stage) firstNodeGoes() {
	s.Helper()
	s.both(func(c client.Client) { s.must(c.Delete(s.Context(), &corev1.Node{ObjectMeta: objectMeta(nodeName)})) })
}

// TestAnInterfaceLeftAloneTriggersNoNode has an interface on an instance with forged tags that name the Node of another
// instance: a reconciliation of that Node triggers the one that has the instance only until the interface is denied.
func TestAnInterfaceLeftAloneTriggersNoNode(t *testing.T) {
	onStage(t, func(s *stage) {
		s.join("node-2")
		names := []string{nodeName, "node-2"}
		s.playAll(time.Minute, names, func() {})
		invented := identity.Member{
			Cluster: cluster, NodeENI: "data", Node: "node-2", InstanceID: instanceID,
			Key: identity.Key{Owner: "uid-data", Ordinal: 7}, Generation: identity.GenerationAt(time.Now()),
		}
		made, err := s.cloud.CreateInterface(s.Context(), executor.CreateRequest{
			Token: "invented", SubnetID: data, Groups: []string{group}, Tags: invented.Tags(time.Now().Add(-48*time.Hour), nil),
		})
		s.must(err)
		_, err = s.cloud.AttachInterface(s.Context(), made.ID, instanceID, eni.Slot{Device: 3})
		s.must(err)
		time.Sleep(time.Minute)
		s.must(s.observer.ResyncOnce(s.Context()))
		s.drainChanged()
		if got := s.triggered("node-2"); !slices.Equal(got, []string{nodeName}) {
			t.Errorf("triggered %v for an interface that it has not seen, want it", got)
		}
		s.playAll(time.Minute, []string{nodeName}, func() {})
		if denied := s.observer.Denied(); !slices.Equal(denied, []string{made.ID}) {
			t.Fatalf("%v are left alone, want %s", denied, made.ID)
		}
		if got := s.triggered("node-2"); len(got) > 0 {
			t.Errorf("triggered %v for an interface that is left alone", got)
		}
	})
}

// triggered returns the nodes that the reconciliation of another one triggers.
func (s *stage) triggered(by string) (names []string) {
	s.Helper()
	s.reconcile(by)
	for {
		select {
		case name := <-s.observer.Changed():
			names = append(names, name)
		default:
			return names
		}
	}
}

// TestANodeThatEndsLeadsToItsPreJoinInterfaces checks that a change of a Node also concerns the name in the tags of a
// pre-join interface. The interface is not attached, so no change in EC2 announces it after the end of its instance.
func TestANodeThatEndsLeadsToItsPreJoinInterfaces(t *testing.T) {
	onStage(t, func(s *stage) {
		s.createPreJoin(instanceID)
		s.must(s.play(time.Minute))
		was := &corev1.Node{}
		was.Name, was.Spec.ProviderID = "node-2", "aws:///"+zone+"/"+instanceID
		if got := s.reconciler.DuplicateNodes(s.Context(), was); !slices.Contains(got, instanceID) {
			t.Errorf("the end of the Node concerns %v, want also %s", got, instanceID)
		}
	})
}
