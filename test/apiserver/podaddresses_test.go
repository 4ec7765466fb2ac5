// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pods with the annotation of Multus request the addresses of the networks of NodeENIs, and of no other network.
func TestPodsRequestAddresses(t *testing.T) {
	admin := everything(t, server.Config)
	applyFile(t, admin, "config/admission/pods.yaml")
	for _, text := range []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: addresses, labels: {team: core}}}",
		"{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: addresses}}",
		nodeENIWithPods("a7", "namespaceSelector: {team: edge}"),
		nodeENIWithPods("a9", "namespaces: [elsewhere]"),
		nodeENIWithPods("a3", "namespaces: [addresses]"),
		nodeENIWithPods("a4", "namespaces: [addresses, elsewhere]"),
		nodeENIWithPods("a6", "namespaceSelector: {team: core}"),
	} {
		object := parse(t, text)
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { remove(t, admin, object) })
	}
	created := func(networks string, change func(*corev1.Pod)) *corev1.Pod {
		t.Helper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "addresses", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": networks}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "first", Image: "i"}, {Name: "second", Image: "i"}}},
		}
		if change != nil {
			change(pod)
		}
		if err := admin.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Fatalf("%q: %v", networks, err)
		}
		return pod
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) { // the API server learns of the policy and of each NodeENI
		if pod := created("a3,a4,a6", nil); len(pod.Spec.Containers[0].Resources.Limits) == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the policy is not in force after a minute")
		}
	}
	own := func(list corev1.ResourceList) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Limits: list, Requests: list}
	}
	for name, c := range map[string]struct {
		networks string
		change   func(*corev1.Pod)
		want     map[string]string
	}{
		"one":                           {"a3", nil, map[string]string{"a3": "1"}},
		"two, with spaces":              {"a3 , a4", nil, map[string]string{"a3": "1", "a4": "1"}},
		"twice":                         {"a3@net1,a3@net2", nil, map[string]string{"a3": "2"}},
		"a namespace and an interface":  {"addresses/a3@net1", nil, map[string]string{"a3": "1"}},
		"the definition of another one": {"elsewhere/a4", nil, map[string]string{"a4": "1"}},
		"a definition of nobody":        {"elsewhere/a3", nil, nil},
		"the second interface":          {"a3--1", nil, map[string]string{"a3--1": "1"}},
		"a similar name":                {"a3-1,a33,a3--x", nil, nil},
		"a network of others":           {"sriov", nil, nil},
		"the namespace is not listed":   {"a9", nil, nil},
		"the namespace is selected":     {"a6", nil, map[string]string{"a6": "1"}},
		"the namespace is not selected": {"a7", nil, nil},
		"JSON":                          {`[{"name":"a3"},{"name":"a4","namespace":"addresses","interface":"net2"}]`, nil, map[string]string{"a3": "1", "a4": "1"}},
		"JSON with arguments":           {`[{"name":"a3","cni-args":{"mode":"x"}}, {"name": "sriov"}]`, nil, map[string]string{"a3": "1"}},
		"JSON of another namespace":     {`[{"name":"a3","namespace":"elsewhere"}]`, nil, nil},
		"empty":                         {"", nil, nil},
		"broken JSON":                   {`[{"name":`, nil, nil},
		"a static pod": {"a3", func(p *corev1.Pod) {
			p.Annotations["kubernetes.io/config.mirror"] = "x"
			p.Spec.NodeName = "n"
			p.Spec.ServiceAccountName = ""
		}, nil},
		"a request of the author is left": {
			"a3,a4", func(p *corev1.Pod) {
				p.Spec.Containers[1].Resources = *own(corev1.ResourceList{"addresses.networking.k8s.aws/a3": resource.MustParse("2")})
			}, map[string]string{"a4": "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := created(c.networks, c.change)
			for part, list := range map[string]corev1.ResourceList{
				"requests": pod.Spec.Containers[0].Resources.Requests, "limits": pod.Spec.Containers[0].Resources.Limits,
			} {
				got := map[string]string{}
				for key, quantity := range list {
					got[strings.TrimPrefix(string(key), "addresses.networking.k8s.aws/")] = quantity.String()
				}
				if len(c.want) == 0 {
					c.want = map[string]string{}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", part, diff)
				}
			}
		})
	}
	limited := created("a3", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = *own(corev1.ResourceList{"cpu": resource.MustParse("1")})
	})
	if got := limited.Spec.Containers[0].Resources.Limits; len(got) != 2 {
		t.Errorf("limits of a container with a limit of its own: %v", got)
	}
}

func nodeENIWithPods(name, namespaces string) string {
	return "{apiVersion: networking.k8s.aws/v1alpha1, kind: NodeENI, metadata: {name: " + name + "}, spec: {nodeSelector: {ng: none}, " +
		"subnetID: subnet-0f59b4f14737be9ad, securityGroupIDs: [sg-05da196f3314d4af8], pods: {ipv4: {}, " + namespaces + "}}}"
}
