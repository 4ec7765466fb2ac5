// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/cli/kubectleni"
	"github.com/multieni/multieni/internal/core/identity"
)

// controllerPod is a pod of the controller.
func (c *cluster) controllerPod(name string, ready corev1.ConditionStatus) {
	c.t.Helper()
	must(c.t, c.Create(c.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "eni-controller-system", Name: name, Labels: map[string]string{"app.kubernetes.io/component": "eni-controller"}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}))
}

// TestDoctorSaysWhyTheControllerIsNotReady has a controller without credentials. The user who runs doctor has some.
func TestDoctorSaysWhyTheControllerIsNotReady(t *testing.T) {
	c := readyCluster(t)
	c.lease("eni-controller-1", time.Second)
	c.controllerPod("eni-controller-1", corev1.ConditionFalse)
	c.controllerPod("eni-controller-2", corev1.ConditionTrue)
	must(t, c.Create(t.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "eni-controller-system", Name: "e"}, Reason: v1alpha1.ReasonUnreadable,
		Regarding: corev1.ObjectReference{Kind: "Pod", Name: "eni-controller-1"},
		Note:      "the controller is not ready: DescribeNetworkInterfaces: no AWS credentials", EventTime: metav1.NowMicro(),
	}))
	withEC2(t)
	got := run(t, "", "doctor")
	if !errors.Is(got.failure, kubectleni.ErrFailed) {
		t.Errorf("doctor ended with %v", got.failure)
	}
	wants(t, got.out, "✗ controller pods: pod eni-controller-1 is not ready: the controller is not ready: DescribeNetworkInterfaces: no AWS credentials",
		"→ kubectl exec -n eni-controller-system deployment/eni-controller -- /multieni doctor")
}

// TestInterfacesOfAnotherClusterNameAreListed has an ENI of the cluster's NetworkInterface that a controller with another
// cluster name made.
func TestInterfacesOfAnotherClusterNameAreListed(t *testing.T) {
	c := readyCluster(t)
	var n v1alpha1.NetworkInterfaceList
	must(t, c.List(t.Context(), &n))
	former := lost("eni-0000000000000f0f0", time.Hour)
	former.Tags[identity.TagCluster], former.Tags[identity.TagUID] = "former", string(n.Items[0].UID)
	withEC2(t, former)
	wants(t, succeeds(t, "leaks", "--cluster-name", clusterName), "1 interface of this cluster's NodeENIs have the cluster name former: eni-0000000000000f0f0.", "set clusterName back")
	if got := run(t, "", "doctor"); !errors.Is(got.failure, kubectleni.ErrFailed) {
		t.Errorf("doctor ended with %v", got.failure)
	} else {
		wants(t, got.out, "✗ cluster name: 1 interface of this cluster's NodeENIs have the cluster name former")
	}
}

// TestTheRecordedClusterNameIsTheDefault has a controller with a cluster name, which the user does not repeat.
func TestTheRecordedClusterNameIsTheDefault(t *testing.T) {
	c := readyCluster(t)
	must(t, c.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "eni-controller-system", Name: "multieni-cluster"}, Data: map[string]string{"clusterName": "prod"},
	}))
	withEC2(t)
	wants(t, succeeds(t, "leaks"), "No leak. Cluster prod owns 0 interfaces")
}

// TestASecondNameIsExplained has a Node whose instance has an older Node.
func TestASecondNameIsExplained(t *testing.T) {
	c := readyCluster(t)
	var nodes corev1.NodeList
	must(t, c.List(t.Context(), &nodes))
	first := nodes.Items[0]
	again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-z", Labels: first.Labels}, Spec: first.Spec}
	again.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Hour))
	must(t, c.Create(t.Context(), again))
	wants(t, succeeds(t, "why", "node-z"), "It gets no interfaces: its instance", "is node "+first.Name+" already", "Delete the Node without a kubelet")
}
