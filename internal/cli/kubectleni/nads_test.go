// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	stdcmp "cmp"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

// withPods is a NodeENI with a pod network.
func withPods(name string, pods *v1alpha1.NodeENIPods) *v1alpha1.NodeENI {
	if pods != nil { // the defaults of the schema
		pods.Attachment = stdcmp.Or(pods.Attachment, v1alpha1.PodAttachmentIPVLAN)
		pods.OnRemoval = stdcmp.Or(pods.OnRemoval, v1alpha1.PodsWait)
	}
	return &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeENISpec{
		NodeSelector: map[string]v1alpha1.LabelValue{"ng": "upf"}, SubnetIDs: []string{"subnet-0f59b4f14737be9ad"},
		SecurityGroupIDs: []string{"sg-0aa00000000000001"}, Pods: pods,
	}}
}

func TestNADs(t *testing.T) {
	ipv4 := &v1alpha1.PodIPv4{}
	c := newCluster(t)
	wants(t, succeeds(t, "nads"), "# No NodeENI has spec.pods.")
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "smf", Labels: map[string]string{"plane": "control"}}}))
	c.put(withPods("listed", &v1alpha1.NodeENIPods{Namespaces: []string{"upf", "amf"}, IPv4: ipv4}))
	c.put(withPods("selected", &v1alpha1.NodeENIPods{NamespaceSelector: map[string]v1alpha1.LabelValue{"plane": "control"}, IPv4: ipv4}))
	c.put(withPods("anywhere", &v1alpha1.NodeENIPods{IPv4: ipv4}))
	c.put(withPods("plain", nil))

	anyOrder := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	cases := map[string]struct {
		args []string
		want []string // NAMESPACE/NAME
	}{
		"all":                 {nil, []string{"/anywhere", "upf/listed", "amf/listed", "smf/selected"}},
		"of one NodeENI":      {[]string{"listed"}, []string{"upf/listed", "amf/listed"}},
		"without a namespace": {[]string{"anywhere"}, []string{"/anywhere"}},
		"of a label selector": {[]string{"selected"}, []string{"smf/selected"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var list struct {
				Kind  string
				Items []struct{ Metadata metav1.ObjectMeta }
			}
			must(t, json.Unmarshal([]byte(succeeds(t, append([]string{"nads", "-o", "json"}, tc.args...)...)), &list))
			var got []string
			for _, item := range list.Items {
				got = append(got, item.Metadata.Namespace+"/"+item.Metadata.Name)
			}
			if list.Kind != "List" || !cmp.Equal(got, tc.want, anyOrder) {
				t.Errorf("%s of %v, want %v", list.Kind, got, tc.want)
			}
		})
	}
	wants(t, succeeds(t, "nads", "listed"), "kind: NetworkAttachmentDefinition", `"master":"net-listed"`, "\n---\n")
}

func TestNADsNameWhatIsMissing(t *testing.T) {
	c := newCluster(t)
	c.put(withPods("plain", nil))
	for name, want := range map[string]string{
		"none": "there is no NodeENI none; see kubectl get nodeeni", "plain": "NodeENI plain has no spec.pods",
	} {
		r := run(t, "", "nads", name)
		if r.failure == nil {
			t.Fatalf("nads %s succeeds", name)
		}
		wants(t, r.failure.Error(), want)
	}
}
