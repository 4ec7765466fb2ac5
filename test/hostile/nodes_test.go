// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/test/size"
)

// TestNodesAreNotWhatTheySeem removes one Node whose instance runs, brings another back without a providerID, and a
// third as another instance after its own was terminated. Only the last is a reason to change anything. A fourth
// registers under another name, and its first Node is deleted.
func TestNodesAreNotWhatTheySeem(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node", "other"), speed, nil), speed)
	s.join(0)
	s.apply(both())
	s.label(names("node", 0, 4)...)
	s.run("--resync-period=1s")
	s.holds(afterwards, wanted(names("node", 0, 4)))

	away, nameless, reborn := s.node("node-0"), s.node("node-1"), s.node("node-2")
	s.remove(away)
	s.remove(nameless)
	s.add(nameless, "")
	s.must(s.cloud.Terminate(instanceID(0, 2)))
	s.remove(reborn)
	s.add(reborn, providerID(reborn, instanceID(1, 2)))
	now := wanted(append(names("node", 0, 2), "node-3", "other-2"))
	s.holds(afterwards, now)
	s.endure(10 * time.Second) // ten listings
	s.rests()
	s.holds(time.Second, now)

	before := len(s.calls())
	s.add(away, away.Spec.ProviderID)
	s.must(s.kube.Patch(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nameless.Name}},
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"providerID":"`+nameless.Spec.ProviderID+`"}}`))))
	first, second := s.node("node-3"), s.node("node-3")
	second.Name = "node-3-again"
	s.add(second, first.Spec.ProviderID)
	s.reportsReady(afterwards, "both", 8, metav1.ConditionFalse) // the second Node of an instance gets no interfaces
	s.rests()
	for _, c := range s.calls()[before:] {
		t.Errorf("%s although all is as it was", c.action)
	}
	s.madeOnce(8 + 2)
	s.onlyRemoved()
	s.remove(first)
	s.eventually(afterwards, "its interfaces are those of the Node that is left", func() string { return s.missing(second.Name, 2) })
	s.unlabel(away.Name, nameless.Name)
	s.holds(afterwards, wanted([]string{"node-3", "other-2"}))
	s.unlabel(second.Name)
	s.holds(afterwards, wanted([]string{"other-2"}))
}

// missing says how many interfaces a node has; "" if it has the desired number.
func (s *stage) missing(node string, want int) string {
	if n := len(s.objects(node)); n != want {
		return fmt.Sprintf("%d interfaces of node %s, not %d", n, node, want)
	}
	return ""
}

func (s *stage) node(name string) *corev1.Node {
	s.Helper()
	var node corev1.Node
	s.must(s.kube.Get(s.Context(), client.ObjectKey{Name: name}, &node))
	return &node
}

func (s *stage) remove(node *corev1.Node) {
	s.Helper()
	s.must(s.kube.Delete(s.Context(), node.DeepCopy()))
}

// add creates a Node with the name and the labels of a deleted one, as another object.
func (s *stage) add(was *corev1.Node, providerID string) {
	s.Helper()
	s.must(s.kube.Create(s.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: was.Name, Labels: was.Labels}, Spec: corev1.NodeSpec{ProviderID: providerID},
	}))
}

// providerID returns the providerID of another instance in the zone of a Node.
func providerID(node *corev1.Node, instance string) string {
	return "aws:///" + node.Labels[corev1.LabelTopologyZone] + "/" + instance
}
