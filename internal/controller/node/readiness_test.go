// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/hostnet"
)

const label = v1alpha1.InterfaceLabelPrefix + "net-n"

func tainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.NotReadyTaint })
}

// readiness returns the condition of a Node, nil for none.
func readiness(n *corev1.Node) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == v1alpha1.NodeConditionInterfacesReady {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// setLink changes the link of all objects.
func (w *world) setLink(state v1alpha1.LinkPhase) {
	w.Helper()
	for _, o := range w.objects() {
		o.Status.Node.Link.State = state
		w.must(w.api.Status().Update(w.Context(), &o))
	}
}

// TestAReadyNodeIsDescribed attaches the interface of a node.
func TestAReadyNodeIsDescribed(t *testing.T) {
	w := newWorld(t, declared("n", "one"), nodeNamed("node-1", instance))
	w.reconcile("node-1")
	if n := w.node("node-1"); !tainted(n) || readiness(n).Status != corev1.ConditionFalse || readiness(n).Reason != "InterfaceCreating" {
		t.Errorf("before: %+v", readiness(n))
	}
	w.attach()
	w.reconcile("node-1")
	n := w.node("node-1")
	if c := readiness(n); c.Status != corev1.ConditionTrue || tainted(n) || len(n.Spec.Taints) != 1 {
		t.Errorf("condition %+v, taints %v; want it ready without the startup taint", c, n.Spec.Taints)
	}
	if n.Labels[label] != "eni-0" || n.Labels["pool"] != "telco" {
		t.Errorf("labels %v", n.Labels)
	}
	want := `{"net-n":{"nodeENI":"n","eniID":"eni-0","mac":"02:00:00:00:00:0a","name":"ens6","subnetID":"subnet-1"}}`
	if diff := cmp.Diff(want, n.Annotations[v1alpha1.InterfacesAnnotation]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	version := n.ResourceVersion
	w.reconcile("node-1")
	if now := w.node("node-1").ResourceVersion; now != version {
		t.Error("the same facts make for another write")
	}
}

// TestANodeNamesItsObjects: the agent of a node reads the names of its objects from the Node.
func TestANodeNamesItsObjects(t *testing.T) {
	named := func(n *corev1.Node) string { return n.Annotations[v1alpha1.NetworkInterfacesAnnotation] }
	w := newWorld(t, declared("n", "one"), nodeNamed("node-1", instance))
	w.reconcile("node-1")
	object := w.objects()[0].Name
	if got := named(w.node("node-1")); got != object {
		t.Errorf("with its first condition the Node names %q, want %s", got, object)
	}
	for _, change := range []struct{ why, was, want string }{
		{"a restored etcd has no name", "", object},
		{"a name that is gone costs no write of its own", "gone," + object, "gone," + object},
	} {
		n := w.node("node-1")
		n.Annotations[v1alpha1.NetworkInterfacesAnnotation] = change.was
		w.must(w.api.Update(t.Context(), n))
		w.reconcile("node-1")
		if got := named(w.node("node-1")); got != change.want {
			t.Errorf("%s: %q, want %q", change.why, got, change.want)
		}
	}
	n := w.node("node-1")
	n.Labels, n.Annotations = nil, nil
	w.must(w.api.Update(t.Context(), n))
	w.reconcile("node-1")
	if got := named(w.node("node-1")); got != object {
		t.Errorf("a Node that nothing selects any more names %q, want %s, which its agent must answer for", got, object)
	}
}

// TestALostInterfaceBringsTheTaintBackOnRequest loses the link of a ready node.
func TestALostInterfaceBringsTheTaintBackOnRequest(t *testing.T) {
	for _, reapply := range []bool{false, true} {
		w := newWorld(t, declared("n", "one"), nodeNamed("node-1", instance))
		w.restart(func(o *node.Options) { o.ReapplyTaint = reapply })
		w.reconcile("node-1")
		w.attach()
		w.reconcile("node-1")
		w.setLink(v1alpha1.LinkMissing)
		w.reconcile("node-1")
		n := w.node("node-1")
		if readiness(n).Status != corev1.ConditionFalse || n.Labels[label] != "" || tainted(n) != reapply {
			t.Errorf("with ReapplyTaint %t: condition %+v, labels %v, taints %v", reapply, readiness(n), n.Labels, n.Spec.Taints)
		}
	}
}

// TestANodeThatNoAgentServesIsLeftAlone has a node without the startup taint.
func TestANodeThatNoAgentServesIsLeftAlone(t *testing.T) {
	plain := nodeNamed("node-1", instance)
	plain.Spec.Taints = nil
	w := newWorld(t, declared("n", "one"), plain)
	version := w.node("node-1").ResourceVersion
	w.reconcile("node-1")
	if len(w.objects()) != 1 || w.node("node-1").ResourceVersion != version {
		t.Errorf("%d objects; the Node was written: %t", len(w.objects()), w.node("node-1").ResourceVersion != version)
	}
}

// TestATakenOverInterfaceMakesTheAgentLook has a node without the startup taint, and an object without an answer of an
// agent. No link appears on the node if the interface was there before the object.
func TestATakenOverInterfaceMakesTheAgentLook(t *testing.T) {
	for evidence, tells := range map[v1alpha1.InterfaceEvidence]bool{
		v1alpha1.EvidenceCreated: false, v1alpha1.EvidenceTakenOver: true, v1alpha1.EvidenceLaunched: true,
	} {
		plain := nodeNamed("node-1", instance)
		plain.Spec.Taints = nil
		w := newWorld(t, declared("n", "one"), plain)
		w.reconcile("node-1")
		o := w.objects()[0]
		o.Status.ENIID, o.Status.Evidence, o.Status.Phase = "eni-0", evidence, v1alpha1.PhaseAttached
		w.must(w.api.Status().Update(t.Context(), &o))
		w.reconcile("node-1")
		c := readiness(w.node("node-1"))
		if (c != nil) != tells || tells && (c.Status != corev1.ConditionFalse || c.Reason != hostnet.ReasonNotFound) {
			t.Errorf("%s: condition %+v", evidence, c)
		}
	}
}

// TestTheTimeOfTheTransitionChangesWithTheStatusOnly changes the reason, then the status.
func TestTheTimeOfTheTransitionChangesWithTheStatusOnly(t *testing.T) {
	w := newWorld(t, declared("n", "one"), nodeNamed("node-1", instance))
	w.reconcile("node-1")
	w.attach()
	w.setLink(v1alpha1.LinkMissing)
	since := readiness(w.node("node-1")).LastTransitionTime
	w.now = w.now.Add(time.Hour)
	w.reconcile("node-1")
	if c := readiness(w.node("node-1")); !c.LastTransitionTime.Equal(&since) || c.Reason != "Why" {
		t.Errorf("after another reason: %+v", c)
	}
	w.setLink(v1alpha1.LinkReady)
	w.reconcile("node-1")
	if c := readiness(w.node("node-1")); c.LastTransitionTime.Equal(&since) || c.Status != corev1.ConditionTrue {
		t.Errorf("after another status: %+v", c)
	}
}

// TestANodeIsNotReadyBeforeItsNodeENIIsAccepted has a NodeENI without the finalizer.
func TestANodeIsNotReadyBeforeItsNodeENIIsAccepted(t *testing.T) {
	waiting := declared("n", "one")
	waiting.Finalizers = nil
	w := newWorld(t, waiting, nodeNamed("node-1", instance))
	w.reconcile("node-1")
	n := w.node("node-1")
	if len(w.objects()) > 0 || readiness(n).Reason != "StatusPending" || !tainted(n) {
		t.Errorf("%d objects, condition %+v", len(w.objects()), readiness(n))
	}
	w.must(w.api.Delete(t.Context(), &v1alpha1.NodeENI{ObjectMeta: waiting.ObjectMeta}, client.PropagationPolicy("Background")))
	w.reconcile("node-1")
	if c := readiness(w.node("node-1")); c.Status != corev1.ConditionUnknown {
		t.Errorf("without a NodeENI the condition is %+v", c)
	}
}
