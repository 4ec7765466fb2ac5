// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapi_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

const subnet = "subnet-0000000000000000a"

// address creates the object of an address, with a holder that an agent patches into the status.
func address(t *testing.T, c client.Client, ip, node string) *v1alpha1.FloatingAddress {
	t.Helper()
	a := &v1alpha1.FloatingAddress{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FloatingAddressName(subnet, ip)},
		Spec:       v1alpha1.FloatingAddressSpec{SubnetID: subnet, Address: ip},
	}
	must(t, c.Create(t.Context(), a))
	holder := `{"status":{"sequence":1,"holder":{"nodeName":"` + node + `","eniID":"eni-0000000000000000a","since":"2000-01-01T00:00:00Z"}}}`
	must(t, c.Status().Patch(t.Context(), a, client.RawPatch(types.MergePatchType, []byte(holder))))
	return a
}

func TestAListByAFieldHasTheObjectsWithThatField(t *testing.T) {
	c := connect(t)
	address(t, c, "10.0.0.10", "node-a")
	mine := address(t, c, "10.0.0.11", "node-b")
	var list v1alpha1.FloatingAddressList
	must(t, c.List(t.Context(), &list, client.MatchingFields{"status.holder.nodeName": "node-b"}))
	if len(list.Items) != 1 || list.Items[0].Name != mine.Name || list.Items[0].Status.Sequence != 1 {
		t.Errorf("got %+v, want %s alone", list.Items, mine.Name)
	}
}

func TestAWatchByNameShowsOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t)
		seconds := int64(60)
		w, err := c.Watch(t.Context(), &corev1.NodeList{}, client.MatchingFields{"metadata.name": "b"},
			&client.ListOptions{Raw: &metav1.ListOptions{TimeoutSeconds: &seconds}})
		must(t, err)
		for _, name := range []string{"a", "b", "c"} {
			must(t, c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		}
		var seen []string
		for e := range w.ResultChan() {
			if node, is := e.Object.(*corev1.Node); is {
				seen = append(seen, node.Name)
			}
		}
		if diff := cmp.Diff([]string{"b"}, seen); diff != "" {
			t.Errorf("the watch showed (-want +got):\n%s", diff)
		}
	})
}

// A strategic merge patch merges the conditions of a Node by their type, and leaves the rest of the object alone.
func TestThePatchOfANodesStatusKeepsWhatOthersWrote(t *testing.T) {
	c := connect(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"pool": "a"}}}
	must(t, c.Create(t.Context(), node))
	for _, patch := range []string{
		`{"status":{"capacity":{"cpu":"4"},"conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"status":{"conditions":[{"type":"Other","status":"False"}]}}`,
		`{"metadata":{"labels":{"pool":"b"}},"status":{"conditions":[{"type":"Other","status":"True"}]}}`,
		`{"status":{"capacity":{"addresses.networking.k8s.aws/n3":"16"}}}`,
	} {
		must(t, c.Status().Patch(t.Context(), node, client.RawPatch(types.StrategicMergePatchType, []byte(patch))))
	}
	conditions := map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, condition := range node.Status.Conditions {
		conditions[condition.Type] = condition.Status
	}
	want := map[corev1.NodeConditionType]corev1.ConditionStatus{"Ready": corev1.ConditionTrue, "Other": corev1.ConditionTrue}
	if diff := cmp.Diff(want, conditions); diff != "" || len(node.Status.Conditions) != 2 {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if len(node.Status.Capacity) != 2 || node.Labels["pool"] != "a" {
		t.Errorf("the capacity is %v and the label %q", node.Status.Capacity, node.Labels["pool"])
	}
}
