// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/controller/node"
)

func objectMeta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// TestEventsOfAChange checks which events a change causes, and that an unchanged state causes none.
func TestEventsOfAChange(t *testing.T) {
	cases := map[string]struct {
		change func(*stage)
		within time.Duration
		want   []string
	}{
		"nothing changes": {change: func(*stage) {}},
		"the label is taken off": {change: func(s *stage) {
			s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) })
		}, want: []string{"Removed"}},
		"the subnet is exchanged": {change: func(s *stage) {
			s.both(func(c client.Client) {
				s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.SubnetIDs = []string{hosts} })
			})
		}, want: []string{v1alpha1.ReasonDrifted}},
		"a second subnet is not to be found": {change: func(s *stage) {
			s.both(func(c client.Client) {
				s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.SubnetIDs = []string{data, "subnet-0dead"} })
			})
		}, want: []string{"SubnetNotFound"}},
		"a detach does not end": {change: func(s *stage) {
			_, err := s.ec2.AddFault(fault.Fault{Kind: fault.StuckDetaching})
			s.must(err)
			s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) })
		}, within: 20 * time.Minute, want: []string{"ForceDetach", "Removed"}},
		"the node turns out to be no EC2 instance": {change: func(s *stage) {
			s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Spec.ProviderID = "kind://node-1" }) })
		}, want: []string{"NotAnEC2Instance"}},
		"EKS Auto Mode manages the instance": {change: func(s *stage) {
			s.both(func(c client.Client) {
				s.node(c, func(n *corev1.Node) { n.Labels["eks.amazonaws.com/compute-type"] = "auto" })
			})
		}, want: []string{"ManagedInstance"}},
		"the node has no providerID for a while": {change: func(s *stage) {
			s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Spec.ProviderID = "" }) })
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.must(s.play(time.Minute))
				if diff := cmp.Diff([]string{"Attached"}, s.told()); diff != "" {
					t.Fatal(diff)
				}
				tc.change(s)
				s.must(s.play(max(tc.within, 2*time.Minute)))
				if diff := cmp.Diff(tc.want, s.told()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				s.must(s.play(time.Minute))
				if again := s.told(); len(again) > 0 {
					t.Errorf("told once more: %v", again)
				}
			})
		})
	}
}

// TestARemovalIsToldOnce checks that a removal causes one event, although the cache has the node's old state for some
// time after the removal.
func TestARemovalIsToldOnce(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		s.linger()
		s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) })
		for told := 0; told == 0; {
			s.must(s.play(time.Second))
			if slices.Contains(s.told(), "Removed") {
				told++
			}
		}
		s.must(s.play(time.Minute))
		if again := s.told(); len(again) > 0 {
			t.Errorf("told once more: %v", again)
		}
	})
}

// linger keeps the last version of a deleted NodeENIState in the cache.
func (s *stage) linger() {
	var last v1alpha1.NodeENIState
	options := s.reconciler.Options
	options.Client = interceptor.NewClient(s.cache.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, object, opts...)
			state, ok := object.(*v1alpha1.NodeENIState)
			if ok && err != nil && last.Name == key.Name {
				last.DeepCopyInto(state)
				return nil
			}
			return err
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			err := c.Patch(ctx, object, patch, opts...)
			if state, ok := object.(*v1alpha1.NodeENIState); ok && err == nil && len(state.Finalizers) > 0 {
				last = *state.DeepCopy()
			}
			return err
		},
	})
	s.reconciler = node.New(options)
	s.start()
}

// TestABurstIsToldOfOnce checks that one Event on the Node lists interfaces that were attached together, and that each
// NodeENI gets one.
func TestABurstIsToldOfOnce(t *testing.T) {
	onStage(t, func(s *stage) {
		s.alsoDeclare("second")
		s.alsoDeclare("third")
		s.must(s.play(time.Minute))
		onNode, all := 0, 0
		for len(s.events.Events) > 0 {
			event := <-s.events.Events
			if all++; strings.Contains(event, "NodeENI data:") && strings.Contains(event, "NodeENI second:") && strings.Contains(event, "NodeENI third:") {
				onNode++
			}
		}
		if onNode != 1 || all != 4 {
			t.Errorf("%d Events, %d of them of all three interfaces, want 4 and 1", all, onNode)
		}
	})
}

// TestAnEventOfANodeENICountsAllItsInterfaces checks that the note explains the count: a reader must not conclude that
// one interface was attached twice.
func TestAnEventOfANodeENICountsAllItsInterfaces(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		for len(s.events.Events) > 0 {
			event := <-s.events.Events
			if strings.Contains(event, "node node-1: eni-") && strings.HasSuffix(event, "(repetitions may be of other interfaces)") {
				return
			}
		}
		t.Error("no Event of the NodeENI says that its count is of all interfaces")
	})
}

// notebook keeps the Events about Nodes by the object that they regard: client-go joins Events about the same object
// into a series, which has the note of the first.
type notebook struct {
	events.EventRecorder
	about map[string][]string
}

//nolint:revive // the arguments are those of [events.EventRecorder]
func (n notebook) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	if to, isReference := regarding.(*corev1.ObjectReference); isReference && to.Kind == "Node" && reason == "Attached" {
		n.about[to.FieldPath] = append(n.about[to.FieldPath], fmt.Sprintf(note, args...))
	}
}

// TestEventsOfTwoInterfacesAreTwo has a second interface attached some time after the first.
func TestEventsOfTwoInterfacesAreTwo(t *testing.T) {
	onStage(t, func(s *stage) {
		options := s.reconciler.Options
		about := map[string][]string{}
		options.Events = notebook{about: about}
		s.reconciler = node.New(options)
		s.must(s.play(time.Minute))
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.SubnetIDs = []string{data, hosts} })
		})
		s.must(s.play(2 * time.Minute))
		if len(about) != 2 {
			t.Errorf("Events regard %v, want two different interfaces", about)
		}
		for path, notes := range about {
			id := strings.TrimSuffix(strings.TrimPrefix(path, "interfaces{"), "}")
			if len(notes) != 1 || !strings.Contains(notes[0], id) || !strings.HasPrefix(id, "eni-") {
				t.Errorf("Events that regard %s say %q", path, notes)
			}
		}
	})
}
