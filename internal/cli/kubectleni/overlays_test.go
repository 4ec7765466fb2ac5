// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

const nodeOverlays, nodePools = "/apis/karpenter.sh/v1alpha1/nodeoverlays", "/apis/karpenter.sh/v1/nodepools"

// karpenter gives the cluster Karpenter's kinds with objects.
func (c *cluster) karpenter(pools, overlays []any) {
	c.t.Helper()
	groups := c.answers["/apis"].(metav1.APIGroupList)
	v1, alpha := metav1.GroupVersionForDiscovery{GroupVersion: "karpenter.sh/v1", Version: "v1"},
		metav1.GroupVersionForDiscovery{GroupVersion: "karpenter.sh/v1alpha1", Version: "v1alpha1"}
	groups.Groups = append(groups.Groups, metav1.APIGroup{
		Name: "karpenter.sh", Versions: []metav1.GroupVersionForDiscovery{v1, alpha}, PreferredVersion: v1,
	})
	c.answers["/apis"] = groups
	kind := func(version, kind string) metav1.APIResourceList {
		return metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version,
			APIResources: []metav1.APIResource{{Name: strings.ToLower(kind) + "s", Kind: kind, Verbs: metav1.Verbs{"list"}}},
		}
	}
	c.answers["/apis/karpenter.sh/v1"] = kind("karpenter.sh/v1", "NodePool")
	c.answers["/apis/karpenter.sh/v1alpha1"] = kind("karpenter.sh/v1alpha1", "NodeOverlay")
	c.answers[nodePools] = list("karpenter.sh/v1", "NodePoolList", pools...)
	c.answers[nodeOverlays] = list("karpenter.sh/v1alpha1", "NodeOverlayList", overlays...)
}

func named(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name}}
}

// overlay is a NodeOverlay for nodes of the NodePool upf, and what Karpenter says about it in a condition.
func overlay(name string, capacity map[string]any, status, reason string) any {
	o := named(name)
	requirement := map[string]any{"key": "karpenter.sh/nodepool", "operator": "In", "values": []any{"upf"}}
	o["spec"] = map[string]any{"requirements": []any{requirement}, "capacity": capacity}
	o["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "ValidationSucceeded", "status": status, "reason": reason, "message": "said by Karpenter"},
		map[string]any{"type": "Ready", "status": status, "reason": "UnhealthyDependents", "message": ""},
	}}
	return o
}

func TestDoctorComparesNodeOverlaysWithNodeENIs(t *testing.T) {
	c := newCluster(t)
	withEC2(t)
	c.put(withPods("n3", prefixesOf(2)))
	c.put(withPods("observed", &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentObserved}))
	addresses := func(network string, n any) map[string]any {
		return map[string]any{v1alpha1.AddressesResourcePrefix + network: n}
	}
	c.karpenter([]any{named("upf")}, []any{
		overlay("good", addresses("n3", "32"), "True", "ValidationSucceeded"),
		overlay("stale", addresses("n3", 16), "True", "ValidationSucceeded"),
		overlay("refused", addresses("n3", "32"), "False", "RuntimeValidation"),
		overlay("observed", addresses("observed", "16"), "True", "ValidationSucceeded"),
		overlay("gone", addresses("n6", "16"), "True", "ValidationSucceeded"),
		overlay("others", map[string]any{"example.com/gpu": "1"}, "False", "RuntimeValidation"),
	})
	out := strings.Join(strings.Fields(run(t, "", "doctor").out), " ")
	wants(t, out,
		"● NodeOverlay good: promises the addresses that nodes have from the start",
		"◐ NodeOverlay stale: it promises addresses.networking.k8s.aws/n3: 16, and a node has 32 from the start",
		"→ Print it again: kubectl eni autoscaling n3 --karpenter --nodepool upf",
		"◐ NodeOverlay refused: Karpenter refuses it (RuntimeValidation): said by Karpenter",
		"◐ NodeOverlay observed: it promises addresses.networking.k8s.aws/observed, and no NodeENI gives nodes this resource",
		"◐ NodeOverlay gone: it promises addresses.networking.k8s.aws/n6, and no NodeENI gives nodes this resource",
	)
	if strings.Contains(out, "NodeOverlay others") {
		t.Errorf("it names a NodeOverlay without addresses of a pod network:\n%s", out)
	}
}

func TestDoctorWithoutNodeOverlays(t *testing.T) {
	const ask = "Ask for permission to list NodeOverlays"
	for name, c := range map[string]struct {
		prepare func(*cluster)
		want    bool
	}{
		"without Karpenter":                      {func(c *cluster) { c.put(withPods("n3", prefixesOf(1))) }, false},
		"without permission":                     {func(c *cluster) { c.put(withPods("n3", prefixesOf(1))); c.karpenter(nil, nil) }, true},
		"without permission and any pod network": {func(c *cluster) { c.karpenter(nil, nil) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			withEC2(t)
			c.prepare(cluster)
			cluster.denied = []string{nodeOverlays}
			out := strings.Join(strings.Fields(run(t, "", "doctor").out), " ")
			if got := strings.Contains(out, ask); got != c.want || !c.want && strings.Contains(out, "NodeOverlay") {
				t.Errorf("it asks for permission: %t, want %t:\n%s", got, c.want, out)
			}
		})
	}
}
