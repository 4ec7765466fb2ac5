// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// podNetwork is the spec.pods of a network with one prefix.
func podNetwork() *v1alpha1.NodeENIPods {
	return &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}}}
}

// TestAnOldReportEndsNoNetwork removes spec.pods while the last report of the agent still says that the network is drained.
// The agent first learns that the network is to drain, so it does not open the network again.
func TestAnOldReportEndsNoNetwork(t *testing.T) {
	onStage(t, func(s *stage) {
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = podNetwork() }) })
		s.must(s.play(2 * time.Minute))
		s.reportNetwork(v1alpha1.PodNetworkState{Drained: true})
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = nil }) })
		var told []string
		for range 60 {
			s.must(s.play(time.Second))
			switch got := s.served().Pods; {
			case got == nil:
				told = append(told, "no network")
			case got.Draining:
				told = append(told, "draining")
			default:
				told = append(told, "open to pods")
			}
		}
		if told = slices.Compact(told); !slices.Contains(told, "draining") || told[len(told)-1] != "no network" {
			t.Errorf("the agent reads %q, want that the network drains before it ends", told)
		}
	})
}

// TestAnOpenNetworkOutlivesAWaitForAWorker has a new leader whose list lacks the interface of a network with a pod, and
// an update of a launch interface that waits for the only worker for updates. The state of the node, which alone says that the
// interface is a network for pods, stays until the leader has read the instance.
func TestAnOpenNetworkOutlivesAWaitForAWorker(t *testing.T) {
	onStage(t, func(s *stage) {
		launch := s.launched(eni.Slot{Device: 2})
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = podNetwork() }) })
		s.must(s.play(2 * time.Minute))
		s.reportPods()
		s.must(s.play(time.Minute))
		before := s.served()

		s.unlabel()
		s.state(func(state *v1alpha1.NodeENIState) { state.Spec.Members = nil })
		s.join("newcomer")
		for range 12 { // until it has its interface
			s.must(s.observer.ResyncOnce(s.Context()))
			s.reconcile("newcomer")
			time.Sleep(10 * time.Second)
		}
		of := func(cluster string) {
			s.must(s.cloud.PutTags(s.Context(), before.ENIID, map[string]string{identity.TagCluster: cluster}))
			time.Sleep(time.Minute)
		}
		of("another")
		s.restart()
		description := "as the template says"
		s.with(func(o *node.Options) { o.Repairs = &controller.InPlaceUpdates{} })
		s.reconciler.Repairs.Set("uid-template", map[string][]plan.InPlaceUpdate{
			instanceID: {{InterfaceID: launch, Owner: "default", OwnerUID: "uid-template", Description: &description}},
		})
		s.must(s.observer.ResyncOnce(s.Context()))
		of(cluster)

		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Description = "other" }) })
		done := make(chan struct{})
		go func() { defer close(done); s.reconcile("newcomer") }()
		synctest.Wait() // until it has the only worker for updates, and waits for EC2
		s.reconcile(nodeName)
		if diff := cmp.Diff([]v1alpha1.InterfaceState{before}, s.status(nodeName).Interfaces); diff != "" {
			t.Errorf("the state of the node changed while it waits (-before +after):\n%s", diff)
		}
		<-done
		s.must(s.play(time.Minute))
		if got := s.networkInterface(launch).Description; got != description {
			t.Errorf("in the end the description of the launch interface is %q", got)
		}
		if got := s.attached(); !slices.Contains(got, before.ENIID) {
			t.Errorf("in the end %v are attached, and a pod has an address of %s", got, before.ENIID)
		}
	})
}
