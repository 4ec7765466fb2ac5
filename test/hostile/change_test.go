// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/test/size"
)

// TestAChangeIsReportedPausedAndRolledOut gives a NodeENI another subnet. The status reports the drift, and nothing else
// changes. That stays so while the NodeENI is paused, although the user has already requested replacement. Then the
// controller replaces the interfaces node by node, although it is killed meanwhile.
func TestAChangeIsReportedPausedAndRolledOut(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	nodeENI := both()
	s.apply(nodeENI)
	s.label(names("node", 0, 4)...)
	r := s.run()
	s.holds(afterwards, wanted(names("node", 0, 4)))
	s.reports(afterwards, "both", 8)
	before := len(s.calls())

	s.change(nodeENI, func(n *v1alpha1.NodeENI) {
		n.Spec.SubnetIDs = []string{subnet(0, 0), subnet(0, 2), subnet(1, 0), subnet(1, 2)}
	})
	s.says(nodeENI, v1alpha1.ReasonDrifted, 4)
	s.change(nodeENI, func(n *v1alpha1.NodeENI) {
		n.Annotations = map[string]string{v1alpha1.PausedAnnotation: "not on a Friday"}
	})
	s.says(nodeENI, v1alpha1.ReasonPaused, 4)
	s.change(nodeENI, func(n *v1alpha1.NodeENI) { n.Spec.UpdatePolicy, n.Spec.MaxUnavailable = v1alpha1.UpdateReplace, 1 })
	s.endure(5*time.Second, r)
	for _, c := range s.calls()[before:] {
		t.Errorf("%s before anything was to be changed", c.action)
	}

	s.change(nodeENI, func(n *v1alpha1.NodeENI) { n.Annotations = nil })
	r.cloud.at(2*(callsToAttach+callsToRemove)-1, func() bool { return r.Kill() == nil })
	select {
	case <-r.Exited():
	case <-time.After(afterwards):
		t.Fatal("the rollout does not get as far as the second node")
	}
	s.run()
	want := wanted(names("node", 0, 4), nodeENI)
	s.eventually(afterwards, "all nodes follow the change, one at a time", func() string {
		if lacking := s.lacking(2); len(lacking) > 1 {
			t.Fatalf("%v lack an interface at the same time", lacking)
		}
		return cmp.Diff(want, held(s.cloud.State(), s.name))
	})
	s.reports(afterwards, "both", 8)
	s.rests()
	s.madeOnce(8 + 4)
	s.atMost((8+4)*callsToAttach + 4*callsToRemove + 4)
}

// change changes a NodeENI as a user does.
func (s *stage) change(n *v1alpha1.NodeENI, change func(*v1alpha1.NodeENI)) {
	s.Helper()
	s.must(s.kube.Get(s.Context(), client.ObjectKeyFromObject(n), n))
	before := n.DeepCopy()
	change(n)
	s.must(s.kube.Patch(s.Context(), n, client.MergeFrom(before)))
}

// says waits until a NodeENI is not ready for the reason, and reports that number of interfaces with drift.
func (s *stage) says(n *v1alpha1.NodeENI, reason string, drifted int32) {
	s.Helper()
	s.eventually(afterwards, fmt.Sprintf("NodeENI %s says %s", n.Name, reason), func() string {
		s.must(s.kube.Get(s.Context(), client.ObjectKeyFromObject(n), n))
		ready := apimeta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != reason || ready.ObservedGeneration != n.Generation || n.Status.Drifted != drifted {
			return fmt.Sprintf("%d drifted, %+v", n.Status.Drifted, ready)
		}
		return ""
	})
}

// lacking returns the nodes that have interfaces, but fewer than count attached ones.
func (s *stage) lacking(count int) []string {
	attached := map[string]int{}
	for _, i := range s.cloud.State().NetworkInterfaces {
		if node := i.Tags[identity.TagNode]; node != "" {
			attached[node] += 0
			if i.Attachment != nil && i.Attachment.Status == ec2.Attached {
				attached[node]++
			}
		}
	}
	var nodes []string
	for node, n := range attached {
		if n < count {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
