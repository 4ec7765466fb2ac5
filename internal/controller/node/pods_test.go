// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
)

// served returns the first interface of the NodeENIState, with the settings for the agent.
func (s *stage) served() v1alpha1.InterfaceState {
	s.Helper()
	var state v1alpha1.NodeENIState
	s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
	return state.Status.Interfaces[0]
}

// TestPodsKeepTheirNetworkWhenTheSpecLosesIt removes spec.pods while a pod has an address: the agent must still serve
// the network, and EC2 keeps the prefix, until the pod is gone.
func TestPodsKeepTheirNetworkWhenTheSpecLosesIt(t *testing.T) {
	onStage(t, func(s *stage) {
		pods := &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}}}
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = pods }) })
		s.must(s.play(2 * time.Minute))
		if got := s.served(); len(got.IPv4Prefixes) != 1 || got.Pods == nil {
			t.Fatalf("the interface has prefixes %v and pods %v", got.IPv4Prefixes, got.Pods)
		}
		s.reportPods()
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = nil }) })
		s.must(s.play(10 * time.Minute))
		if got := s.served(); len(got.IPv4Prefixes) != 1 || got.Pods == nil {
			t.Errorf("with a pod the interface has prefixes %v and pods %v", got.IPv4Prefixes, got.Pods)
		}
		s.reportNetwork(v1alpha1.PodNetworkState{Drained: true})
		s.must(s.play(10 * time.Minute))
		if got := s.served(); got.Pods != nil {
			t.Errorf("without a pod the interface has pods %v", got.Pods)
		}
	})
}

// TestAStatusWithPodsReplacesNoNewerOne makes a controller read an old version of the state, like a former leader: if
// it could overwrite a newer version, pods would use unassigned addresses.
func TestAStatusWithPodsReplacesNoNewerOne(t *testing.T) {
	for name, tc := range map[string]struct {
		pods *v1alpha1.NodeENIPods
		want int32
	}{
		"a network for pods": {&v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentHostDevice}, 0},
		"none":               {nil, 1400},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = tc.pods }) })
				s.must(s.play(2 * time.Minute))
				s.freezeStates()
				s.state(func(state *v1alpha1.NodeENIState) { state.Labels = map[string]string{"newer": "true"} })
				s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.MTU = new(int32(1400)) }) })
				_ = s.play(2 * time.Minute)
				if got := s.served().MTU; got != tc.want {
					t.Errorf("the state has MTU %d, want %d", got, tc.want)
				}
			})
		})
	}
}

// TestAFormerLeaderSaysNothingAboutPods lets a controller read the newest state after it lost its lease: what it knows
// of EC2 can still be older than what its successor changed.
func TestAFormerLeaderSaysNothingAboutPods(t *testing.T) {
	onStage(t, func(s *stage) {
		pods := &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentHostDevice}
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = pods }) })
		s.must(s.play(2 * time.Minute))
		s.with(func(o *node.Options) { o.Permit = func() error { return errors.New("the lease is lost") } })
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.MTU = new(int32(1400)) }) })
		if err := s.play(2 * time.Minute); err == nil || !strings.Contains(err.Error(), "the lease is lost") {
			t.Errorf("the reconciliation returned %v", err)
		}
		if got := s.served().MTU; got != 0 {
			t.Errorf("the state has MTU %d", got)
		}
	})
}

// TestADeletedStateTakesNoInterfaceFromPods deletes the NodeENIState, and with it the agent's report, before the label
// is removed: the controller waits for the agent's next report.
func TestADeletedStateTakesNoInterfaceFromPods(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.NodeENI){
		"a network for pods":                       func(*v1alpha1.NodeENI) {},
		"a network for pods until a moment before": func(n *v1alpha1.NodeENI) { n.Spec.Pods = nil },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				pods := &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentHostDevice}
				s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = pods }) })
				s.must(s.play(2 * time.Minute))
				s.reportNetwork(v1alpha1.PodNetworkState{Ready: true, Used: 1})
				s.both(func(c client.Client) { s.nodeENI(c, change) })
				s.must(s.play(2 * time.Minute))
				s.must(s.cache.Delete(s.Context(), &v1alpha1.NodeENIState{ObjectMeta: objectMeta(nodeName)}))
				s.must(s.play(2 * time.Minute))
				s.state(func(state *v1alpha1.NodeENIState) {
					if !state.DeletionTimestamp.IsZero() || len(state.Status.PodNetworks) > 0 {
						s.Fatal("the state is not a new one")
					}
					state.CreationTimestamp = metav1.Now() // the API server's
				})
				s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) })
				s.must(s.play(10 * time.Minute))
				if len(s.attached()) != 1 {
					s.Fatal("the interface is detached although the agent has not reported since")
				}
				s.reportNetwork(v1alpha1.PodNetworkState{Drained: true})
				s.must(s.play(10 * time.Minute))
				if len(s.attached()) != 0 {
					s.Errorf("the drained interface stays: %+v", s.served())
				}
			})
		})
	}
}

// TestAReportThatIsGoneEndsNoNetwork has another agent on the node remove the report: one without pod networks, or one of
// an earlier release. What the controller recorded before stays, also in the next controller.
func TestAReportThatIsGoneEndsNoNetwork(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.NodeENI){
		"the node leaves the selector": func(n *v1alpha1.NodeENI) { n.Spec.NodeSelector = map[string]v1alpha1.LabelValue{"other": "node"} },
		"the NodeENI has no pods more": func(n *v1alpha1.NodeENI) { n.Spec.Pods = nil },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				pods := &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}}}
				s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = pods }) })
				s.must(s.play(2 * time.Minute))
				if s.served().Pods.Opened {
					t.Error("the network is open without a report")
				}
				s.reportPods()
				s.must(s.play(time.Second))
				if !s.served().Pods.Opened {
					t.Fatal("the network that the agent reports is not recorded as open")
				}
				s.state(func(state *v1alpha1.NodeENIState) { state.Status.PodNetworks = nil })
				s.both(func(c client.Client) { s.nodeENI(c, change) })
				s.must(s.play(time.Hour))
				if got := s.served(); len(s.attached()) != 1 || len(got.IPv4Prefixes) != 1 || !got.Pods.Opened {
					t.Fatalf("%d interfaces are attached, and pods lose %+v", len(s.attached()), got)
				}
				prefix := s.served().IPv4Prefixes[0]
				s.reportNetwork(v1alpha1.PodNetworkState{
					Drained: true, Prefixes: []v1alpha1.PodPrefix{{CIDR: prefix, Phase: v1alpha1.PodPrefixDrained}},
				})
				s.must(s.play(time.Hour))
				if len(s.attached()) > 0 && len(s.served().IPv4Prefixes) > 0 {
					t.Errorf("a drained network keeps its interface and prefix: %+v", s.served())
				}
			})
		})
	}
}

// TestClocksDelayNoRemoval removes the label from a node without pods right after it got its interface, while the clock
// of the API server is ahead of EC2's: the NodeENIState seems to be younger than the attachment.
func TestClocksDelayNoRemoval(t *testing.T) {
	for _, ahead := range []time.Duration{0, 2 * time.Second, time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.must(s.play(30 * time.Second))
				s.state(func(state *v1alpha1.NodeENIState) { state.CreationTimestamp = metav1.NewTime(time.Now().Add(ahead)) })
				s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) })
				s.must(s.play(time.Minute))
				if left := s.attached(); len(left) > 0 {
					t.Errorf("%d interfaces stay: %+v", len(left), s.served())
				}
			})
		})
	}
}

// TestANodeENIThatNeverHadPodsWaitsForNoReport has a new NodeENIState for an older interface, as after an import.
func TestANodeENIThatNeverHadPodsWaitsForNoReport(t *testing.T) {
	for name, finalizers := range map[string][]string{
		"accepted":                      {v1alpha1.Finalizer},
		"accepted after the first plan": nil,
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				accept := func(finalizers []string) {
					s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Finalizers = finalizers }) })
				}
				s.must(s.play(2 * time.Minute))
				s.state(func(state *v1alpha1.NodeENIState) { state.Finalizers = nil })
				s.must(s.cache.Delete(s.Context(), &v1alpha1.NodeENIState{ObjectMeta: objectMeta(nodeName)}))
				accept(finalizers)
				s.must(s.play(time.Second))
				accept([]string{v1alpha1.Finalizer})
				s.must(s.play(time.Minute))
				s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) })
				s.must(s.play(time.Minute))
				if left := s.attached(); len(left) > 0 {
					t.Errorf("%d interfaces stay: %+v", len(left), s.served())
				}
			})
		})
	}
}

// TestALostStateDelaysARemovalOnce has a new NodeENIState for an interface that is older, so that a report can be lost: the
// NodeENI was changed, and can have declared pods before. The controller waits ten minutes by its own clock, and records the outcome: the next controller does not wait again.
func TestALostStateDelaysARemovalOnce(t *testing.T) {
	onStage(t, func(s *stage) {
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Generation = 2 })
		})
		s.must(s.play(2 * time.Minute))
		s.state(func(state *v1alpha1.NodeENIState) { state.Finalizers = nil })
		s.must(s.cache.Delete(s.Context(), &v1alpha1.NodeENIState{ObjectMeta: objectMeta(nodeName)}))
		s.must(s.play(9 * time.Minute))
		earlier := func() (ids []string) {
			s.state(func(state *v1alpha1.NodeENIState) { ids = state.Spec.EarlierInterfaces })
			return ids
		}
		if got := earlier(); len(got) != 1 {
			t.Fatalf("the new state names the earlier interfaces %v, want one", got)
		}
		s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels["another"] = "label" }) })
		s.must(s.play(2 * time.Minute))
		if got := earlier(); len(got) != 0 {
			t.Errorf("ten minutes later %v are still without a report", got)
		}
		s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) })
		s.must(s.play(time.Minute))
		if left := s.attached(); len(left) > 0 {
			t.Errorf("%d interfaces stay: %+v", len(left), s.served())
		}
	})
}

// TestALaunchInterfaceKeepsPrefixesWhileAReportMayBeLost has a new NodeENIState for an older launch interface. Its
// NodeENI has declared no pods, but the tags of the interface name no NodeENI: another one can have adopted it before,
// as a network for pods.
func TestALaunchInterfaceKeepsPrefixesWhileAReportMayBeLost(t *testing.T) {
	onStage(t, func(s *stage) {
		label := func(labels map[string]string) {
			s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = labels }) })
			s.must(s.play(2 * time.Minute))
		}
		count := func(prefixes int32) {
			s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.IPv4PrefixCount = prefixes }) })
		}
		check := func(want int, when string) {
			if got := s.served(); got.ENIID != s.attached()[0] || len(got.IPv4Prefixes) != want {
				t.Errorf("%s %s has %d prefixes, want %d", when, got.ENIID, len(got.IPv4Prefixes), want)
			}
		}
		s.launched(eni.Slot{Device: 1})
		label(nil)
		count(2)
		label(map[string]string{"eni": "on"})
		check(2, "after the adoption")
		count(1)
		s.must(s.play(7 * time.Minute))
		check(2, "while a report may be lost")
		s.must(s.play(2 * time.Minute))
		check(1, "after ten minutes without a report")
	})
}

// TestPodsThatTheLastReportDoesNotHave removes the label from a node whose agent reported its network without pods: a
// pod can have started since. The interface stays until the agent's report in the API server itself says that the
// network is drained.
func TestPodsThatTheLastReportDoesNotHave(t *testing.T) {
	onStage(t, func(s *stage) {
		pods := &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}}}
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = pods }) })
		s.must(s.play(2 * time.Minute))
		s.reportNetwork(v1alpha1.PodNetworkState{Ready: true, Free: 14})
		s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) })
		s.must(s.play(10 * time.Minute))
		if got := s.served(); len(s.attached()) != 1 || !got.Pods.Draining {
			t.Fatalf("%d interfaces are attached, and the agent is to drain: %+v", len(s.attached()), got.Pods)
		}
		s.live = func(state *v1alpha1.NodeENIState) { state.Status.PodNetworks[0].Drained = false }
		s.reportNetwork(v1alpha1.PodNetworkState{Drained: true})
		s.must(s.play(10 * time.Minute))
		if len(s.attached()) != 1 {
			t.Fatal("the interface is detached because of the cache alone")
		}
		s.live = nil
		s.must(s.play(10 * time.Minute))
		if len(s.attached()) != 0 {
			t.Errorf("the drained interface stays: %+v", s.served())
		}
	})
}

// TestNoPrefixOfPodsIsUnassignedOnTheWordOfACache has a cache with an earlier report that a prefix is drained. EC2
// assigned the same prefix again since, and pods use it.
func TestNoPrefixOfPodsIsUnassignedOnTheWordOfACache(t *testing.T) {
	onStage(t, func(s *stage) {
		pods := &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}}}
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = pods }) })
		s.must(s.play(2 * time.Minute))
		prefix := s.served().IPv4Prefixes[0]
		s.live = func(state *v1alpha1.NodeENIState) {
			for n := range state.Status.PodNetworks {
				state.Status.PodNetworks[n].Used = 1
				state.Status.PodNetworks[n].Prefixes = []v1alpha1.PodPrefix{{CIDR: prefix, Used: 1, Phase: v1alpha1.PodPrefixActive}}
			}
		}
		s.reportNetwork(v1alpha1.PodNetworkState{Ready: true, Prefixes: []v1alpha1.PodPrefix{{CIDR: prefix, Phase: v1alpha1.PodPrefixDrained}}})
		s.must(s.play(10 * time.Minute))
		if got := s.served().IPv4Prefixes; !slices.Equal(got, []string{prefix}) {
			t.Fatalf("the interface has %v, want %s, which pods use", got, prefix)
		}
		s.live = nil
		s.must(s.play(10 * time.Minute))
		if unassigned := s.ec2.Calls().Actions["UnassignPrivateIpAddresses"].Count; unassigned != 1 {
			t.Errorf("the drained prefix was unassigned %d times, want once", unassigned)
		}
	})
}

// TestTheStateLosesAPrefixBeforeEC2Unassigns keeps a controller from writing statuses while a prefix is drained. If EC2
// unassigned the prefix, the state would still list it, and only the agent's report would keep it from pods: an agent of
// another release can remove that report.
func TestTheStateLosesAPrefixBeforeEC2Unassigns(t *testing.T) {
	onStage(t, func(s *stage) {
		pods := &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}}}
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = pods }) })
		s.must(s.play(2 * time.Minute))
		prefix := s.served().IPv4Prefixes[0]
		s.reportNetwork(v1alpha1.PodNetworkState{Ready: true, Prefixes: []v1alpha1.PodPrefix{{CIDR: prefix, Phase: v1alpha1.PodPrefixDrained}}})
		s.with(func(o *node.Options) { o.Permit = func() error { return errors.New("no status") } })
		if err := s.play(2 * time.Minute); err == nil || !strings.Contains(err.Error(), "no status") {
			t.Errorf("the reconciliation returned %v", err)
		}
		unassigned := func() int { return s.ec2.Calls().Actions["UnassignPrivateIpAddresses"].Count }
		if listed := s.served().IPv4Prefixes; unassigned() != 0 || !slices.Equal(listed, []string{prefix}) {
			t.Errorf("EC2 got %d calls to unassign %s, and the state lists %v", unassigned(), prefix, listed)
		}
		s.with(func(o *node.Options) { o.Permit = nil })
		s.must(s.play(2 * time.Minute))
		if listed := s.served().IPv4Prefixes; unassigned() != 1 || len(listed) != 0 {
			t.Errorf("EC2 got %d calls, want 1; the state lists %v", unassigned(), listed)
		}
		if !s.reports(prefix) {
			t.Error("the agent's report is lost")
		}
	})
}

// TestANewLeaderListsNoPrefixThatTheOneBeforeMayHaveUnassigned has an interface with a prefix that the state does not
// list. The first reads of a new leader may be older than a call of the earlier leader that unassigned it.
func TestANewLeaderListsNoPrefixThatTheOneBeforeMayHaveUnassigned(t *testing.T) {
	onStage(t, func(s *stage) {
		ipv4 := &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}}
		pods := &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: ipv4}
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = pods }) })
		s.must(s.play(2 * time.Minute))
		listed := s.served().IPv4Prefixes
		_, err := s.cloud.AssignIPv4(s.Context(), s.served().ENIID, 0, 1)
		s.must(err)
		s.restart()
		s.must(s.play(inventory.StaleReadWindow - time.Second))
		if got := s.served().IPv4Prefixes; len(listed) != 1 || !slices.Equal(got, listed) {
			t.Errorf("the state lists %v, want only %v", got, listed)
		}
		s.must(s.play(2 * time.Minute))
		if got := s.served().IPv4Prefixes; len(got) != 2 {
			t.Errorf("the state lists %v, and a late read shows two prefixes", got)
		}
	})
}

// TestAStateThatIsCreatedAgainGetsNoPartOfAStatus deletes the state of a node with a drained prefix. The controller
// creates the state again and unassigns the prefix. The new state lists no prefix, so the first status that the
// controller writes is a whole one.
func TestAStateThatIsCreatedAgainGetsNoPartOfAStatus(t *testing.T) {
	onStage(t, func(s *stage) {
		pods := &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}}}
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = pods }) })
		s.must(s.play(2 * time.Minute))
		prefix := s.served().IPv4Prefixes[0]
		s.reportNetwork(v1alpha1.PodNetworkState{Ready: true, Prefixes: []v1alpha1.PodPrefix{{CIDR: prefix, Phase: v1alpha1.PodPrefixDrained}}})
		var state v1alpha1.NodeENIState
		s.must(s.cache.Get(t.Context(), client.ObjectKey{Name: nodeName}, &state))
		s.must(s.cache.Delete(t.Context(), &state))
		partial := 0
		s.with(func(o *node.Options) {
			o.Client = interceptor.NewClient(o.Client.(client.WithWatch), interceptor.Funcs{SubResourceApply: func(ctx context.Context,
				c client.Client, resource string, applied runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
				content := applied.(interface{ UnstructuredContent() map[string]any }).UnstructuredContent()
				written, _ := content["status"].(map[string]any)
				if content["kind"] == "NodeENIState" && written["conditions"] == nil {
					partial++
				}
				return c.SubResource(resource).Apply(ctx, applied, opts...)
			}})
		})
		s.must(s.play(5 * time.Minute))
		if unassigned := s.ec2.Calls().Actions["UnassignPrivateIpAddresses"].Count; partial > 0 || unassigned != 1 {
			t.Errorf("%d statuses without conditions, want none; %d calls to unassign, want 1", partial, unassigned)
		}
	})
}

// reports reports whether the last report of the agent has a prefix.
func (s *stage) reports(prefix string) (is bool) {
	s.state(func(state *v1alpha1.NodeENIState) {
		is = len(state.Status.PodNetworks) == 1 && slices.ContainsFunc(state.Status.PodNetworks[0].Prefixes,
			func(p v1alpha1.PodPrefix) bool { return p.CIDR == prefix })
	})
	return is
}

// TestWithoutPodsNothingIsAdded counts every EC2 call that changes something, and every write of the NodeENIState, of a NodeENI
// without pods: they create and attach the interface and let it end with the instance, and the state is stored and reported once.
func TestWithoutPodsNothingIsAdded(t *testing.T) {
	onStage(t, func(s *stage) {
		writes := s.countWrites()
		s.must(s.play(30 * time.Minute))
		got := map[string]int{}
		for action, calls := range s.ec2.Calls().Actions {
			if !strings.HasPrefix(action, "Describe") {
				got[action] = calls.Count
			}
		}
		want := map[string]int{"CreateNetworkInterface": 1, "AttachNetworkInterface": 1, "ModifyNetworkInterfaceAttribute": 1}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("changes of EC2 (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"create", "status"}, *writes); diff != "" {
			t.Errorf("writes of the NodeENIState (-want +got):\n%s", diff)
		}
		if i := s.served(); i.Pods != nil {
			t.Errorf("the agent is told of pods: %+v", i.Pods)
		}
	})
}
