// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

// withPods is a NodeENI with a pod network.
func withPods(name string, pods *v1alpha1.NodeENIPods) *v1alpha1.NodeENI {
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

// TestNADsForWhereabouts has the blocks of the reservations in two of three zones.
func TestNADsForWhereabouts(t *testing.T) {
	c := newCluster(t)
	n3 := withPods("n3", nil)
	n3.Spec.SubnetIDs = []string{"subnet-00000000000000002", "subnet-00000000000000001", "subnet-00000000000000003"}
	subnets := []v1alpha1.ResolvedSubnet{
		{ID: "subnet-00000000000000001", Zone: "us-east-1a", CIDR: "10.0.4.0/24"},
		{ID: "subnet-00000000000000002", Zone: "us-east-1a", CIDR: "10.0.5.0/24"},
		{ID: "subnet-00000000000000003", Zone: "us-east-1b", CIDR: "10.0.6.0/24"},
	}
	n3.Status.Subnets = subnets
	c.put(n3)
	wants(t, run(t, "", "nads", "--whereabouts").failure.Error(), "no SubnetReservation of type Explicit has a reserved block")

	reservation := func(name string, of v1alpha1.SubnetReservationType, blocks ...v1alpha1.ReservedBlock) {
		c.put(&v1alpha1.SubnetReservation{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.SubnetReservationSpec{SubnetIDs: n3.Spec.SubnetIDs, Type: of, PrefixLength: new(int32(25))},
			Status:     v1alpha1.SubnetReservationStatus{Reservations: blocks},
		})
	}
	reservation("pods", v1alpha1.SubnetReservationExplicit,
		v1alpha1.ReservedBlock{SubnetID: "subnet-00000000000000001", CIDR: "10.0.4.128/25", ID: "scr-1"},
		v1alpha1.ReservedBlock{SubnetID: "subnet-00000000000000002", CIDR: "10.0.5.128/25", ID: "scr-2"},
		v1alpha1.ReservedBlock{SubnetID: "subnet-00000000000000003", CIDR: "10.0.6.128/25"}, // EC2 has not reserved it
	)
	reservation("prefixes", v1alpha1.SubnetReservationPrefix, v1alpha1.ReservedBlock{SubnetID: "subnet-00000000000000003", CIDR: "10.0.6.64/26", ID: "scr-4"})
	got := succeeds(t, "nads", "n3", "--whereabouts")
	wants(t, got, "name: n3-us-east-1a\n", `"master":"net-n3_1"`, `"range":"10.0.4.0/24","range_start":"10.0.4.128","range_end":"10.0.4.254"`,
		"name: n3--1-us-east-1a\n", `"range_start":"10.0.5.128"`)
	if strings.Contains(got, "10.0.6.") {
		t.Errorf("a block that is not reserved, or for prefixes, has a definition:\n%s", got)
	}
	wants(t, run(t, "", "nads", "--whereabouts", "none").failure.Error(), "there is no NodeENI none; see kubectl get nodeeni")

	byName := withPods("by-name", nil)
	byName.Spec.SubnetIDs, byName.Spec.SubnetNames, byName.Status.Subnets = nil, []string{"multus"}, subnets
	c.put(byName)
	wants(t, run(t, "", "nads", "--whereabouts", "by-name").failure.Error(), "NodeENI by-name selects 2 subnets of zone us-east-1a", "list them as subnetIDs")
}
