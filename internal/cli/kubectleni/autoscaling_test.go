// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/api/v1alpha1"
)

// prefixesOf are the pods of a NodeENI with at least so many prefixes.
func prefixesOf(least int32) *v1alpha1.NodeENIPods {
	return &v1alpha1.NodeENIPods{
		Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: least, Max: max(8, least)}},
	}
}

// inZones gives a NodeENI a subnet in each of the zones.
func inZones(n *v1alpha1.NodeENI, zones ...string) *v1alpha1.NodeENI {
	for i, zone := range zones {
		n.Status.Subnets = append(n.Status.Subnets, v1alpha1.ResolvedSubnet{ID: fmt.Sprintf("subnet-0000000000000000%d", i), Zone: zone})
	}
	return n
}

func TestNodeOverlayForKarpenter(t *testing.T) {
	type overlay struct {
		Spec struct {
			Requirements []struct {
				Key    string
				Values []string
			}
			Capacity map[string]string
		}
	}
	for name, c := range map[string]struct {
		nodeENI  *v1alpha1.NodeENI
		types    string
		capacity map[string]string
		listed   []string
		notes    string
	}{
		"16 addresses of each prefix of the minimum": {
			withPods("n3", prefixesOf(2)), "m6i.large", map[string]string{"addresses.networking.k8s.aws/n3": "32"}, []string{"m6i.large"}, "",
		},
		"a type without room for the prefixes is left out": {
			withPods("n3", prefixesOf(4)), "t3.small,t3.medium", map[string]string{"addresses.networking.k8s.aws/n3": "64"}, []string{"t3.medium"},
			"left out: t3.small; t3.small: an interface takes 3 IPv4 prefixes",
		},
		"one type named twice": {
			withPods("n3", prefixesOf(1)), "m6i.large,m6i.larg*", map[string]string{"addresses.networking.k8s.aws/n3": "16"}, []string{"m6i.large"}, "",
		},
		"Xen has no prefixes": {
			withPods("n3", prefixesOf(1)), "m4.large,m6i.large", map[string]string{"addresses.networking.k8s.aws/n3": "16"}, []string{"m6i.large"}, "on Xen",
		},
		"one pod with HostDevice": {
			withPods("n3", &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentHostDevice}), "m4.large",
			map[string]string{"addresses.networking.k8s.aws/n3": "1"}, []string{"m4.large"}, "",
		},
		"two networks in each zone": {
			inZones(withPods("n3", prefixesOf(1)), "a", "a", "b", "b"), "t3.small,m6i.large",
			map[string]string{"addresses.networking.k8s.aws/n3": "16", "addresses.networking.k8s.aws/n3--1": "16"}, []string{"m6i.large", "t3.small"}, "",
		},
		"a network of one zone is left out": {
			inZones(withPods("n3", prefixesOf(1)), "a", "a", "b"), "m6i.large",
			map[string]string{"addresses.networking.k8s.aws/n3": "16"}, []string{"m6i.large"}, "network n3--1 is left out: b has no subnet for it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			newCluster(t).put(c.nodeENI)
			r := run(t, "", "autoscaling", "n3", "--karpenter", "--nodepool", "upf,smf", "--instance-types", c.types)
			must(t, r.failure)
			var got overlay
			must(t, yaml.Unmarshal([]byte(r.out), &got))
			if diff := cmp.Diff(c.capacity, got.Spec.Capacity); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
			pools, types := got.Spec.Requirements[0].Values, got.Spec.Requirements[1].Values
			if !cmp.Equal(pools, []string{"upf", "smf"}) || !cmp.Equal(types, c.listed) {
				t.Errorf("it is for NodePools %v with types %v, want types %v", pools, types, c.listed)
			}
			if !strings.Contains(r.err, c.notes) || c.notes == "" && r.err != "" {
				t.Errorf("the notes are %q, want %q", r.err, c.notes)
			}
		})
	}
}

func TestTagsForClusterAutoscaler(t *testing.T) {
	newCluster(t).put(withPods("n3", prefixesOf(2)))
	out := succeeds(t, "autoscaling", "n3", "--cluster-autoscaler")
	var got map[string]string
	must(t, yaml.Unmarshal([]byte(out), &got))
	want := map[string]string{
		"k8s.io/cluster-autoscaler/node-template/resources/addresses.networking.k8s.aws/n3": "32",
		"k8s.io/cluster-autoscaler/node-template/label/ng":                                  "upf",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	wants(t, out, "--startup-taint=networking.k8s.aws/not-ready")
	wants(t, succeeds(t, "autoscaling", "n3", "--cluster-autoscaler", "-o", "json"), `"Key": "k8s.io/cluster-autoscaler/node-template/label/ng"`, `"Value": "upf"`)
}

func TestAutoscalingNamesWhatIsMissing(t *testing.T) {
	c := newCluster(t)
	long := strings.Repeat("n", 50)
	c.put(withPods("plain", nil))
	c.put(withPods("observed", &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentObserved}))
	c.put(withPods("n3", prefixesOf(2)))
	c.put(withPods("large", prefixesOf(60)))
	c.put(withPods(long, prefixesOf(1)))
	karpenter := []string{"--karpenter", "--nodepool", "upf"}
	for name, want := range map[string]struct {
		args []string
		want string
	}{
		"no such NodeENI":     {append(karpenter, "none"), "there is no NodeENI none"},
		"no pods":             {append(karpenter, "plain"), "has no spec.pods"},
		"own definitions":     {append(karpenter, "observed"), "pods.attachment Observed"},
		"no node, no type":    {append(karpenter, "n3"), "name those of the NodePool with --instance-types"},
		"an unknown type":     {append(karpenter, "n3", "--instance-types", "m6i.larg"), `no known instance type is like "m6i.larg"`},
		"no valid pattern":    {append(karpenter, "n3", "--instance-types", "m6i.["), "not a valid pattern"},
		"no type with room":   {append(karpenter, "large", "--instance-types", "m6i.large"), "lower pods.ipv4.prefixes.min"},
		"no NodePool":         {[]string{"--karpenter", "n3"}, "nodepool"},
		"no autoscaler":       {[]string{"n3"}, "karpenter cluster-autoscaler"},
		"both":                {append(karpenter, "n3", "--cluster-autoscaler"), "karpenter cluster-autoscaler"},
		"a name for no tag":   {[]string{"--cluster-autoscaler", long}, "choose a name that is 1 shorter"},
		"a NodeENI is needed": {karpenter, "specify one name"},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, "", append([]string{"autoscaling"}, want.args...)...)
			if r.failure == nil {
				t.Fatalf("it succeeds:\n%s", r.out)
			}
			wants(t, r.failure.Error(), want.want)
		})
	}
}

// The types of the nodes that exist are enough for the overlay of nodes like them.
func TestNodeOverlayHasTheTypesOfTheNodes(t *testing.T) {
	c := newCluster(t)
	c.put(withPods("n3", prefixesOf(1)))
	c.node("node-a1", "us-east-1a", "i-0a10000000000000a", map[string]string{"ng": "upf", corev1.LabelInstanceTypeStable: "m6i.large"})
	c.node("node-a2", "us-east-1a", "i-0a20000000000000a", map[string]string{"ng": "other", corev1.LabelInstanceTypeStable: "m5.large"})
	out := succeeds(t, "autoscaling", "n3", "--karpenter", "--nodepool", "upf")
	wants(t, out, "- m6i.large")
	if strings.Contains(out, "m5.large") {
		t.Errorf("it has the type of a node that the NodeENI does not select:\n%s", out)
	}
}

// waiting puts a pod that requests an address of a network and has no node, with what the scheduler says.
func (c *cluster) waiting(name, network, said string) {
	c.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceName("addresses.networking.k8s.aws/" + network): resource.MustParse("1"),
		}},
	}}}}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: said,
	}}
	const pods = "/api/v1/pods" // the server in memory has no field selectors
	all, _ := c.answers[pods].(*corev1.PodList)
	if all == nil {
		all = &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		c.answers[pods] = all
	}
	all.Items = append(all.Items, *pod)
}

func TestPodsThatNoNodeHasAnAddressFor(t *testing.T) {
	c := newCluster(t)
	withEC2(t)
	c.put(withPods("n3", prefixesOf(1)))
	c.put(withPods("n6", prefixesOf(1)))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a1", Labels: map[string]string{"ng": "upf"}}}
	node.Spec.ProviderID = "aws:///us-east-1a/i-0a10000000000000a"
	node.Status.Allocatable = corev1.ResourceList{"addresses.networking.k8s.aws/n6": resource.MustParse("16")}
	c.put(node)
	c.waiting("no-node", "n3", "0/1 nodes are available: 1 Insufficient addresses.networking.k8s.aws/n3.")
	c.waiting("full", "n6", "0/1 nodes are available: 1 Insufficient addresses.networking.k8s.aws/n6, 1 Insufficient cpu.")
	c.waiting("other", "n6", "0/1 nodes are available: 1 Insufficient cpu.")
	c.waiting("misnamed", "n33", "0/1 nodes are available: 1 Insufficient addresses.networking.k8s.aws/n33.")
	for _, command := range []string{"why", "doctor"} {
		t.Run(command, func(t *testing.T) {
			out := strings.Join(strings.Fields(run(t, "", command).out), " ")
			wants(t, out, "default/no-node", "no node offers addresses of network n3, and autoscalers do not know that new ones will",
				"label nodes as NodeENI n3 selects them", "kubectl eni autoscaling n3 --karpenter",
				"default/full", "no free address of network n6 on the nodes that offer it (1)", "Raise pods.ipv4.prefixes of NodeENI n6",
				"default/misnamed", "network n33, which no NodeENI has")
			if strings.Contains(out, "default/other") {
				t.Errorf("it names a pod that waits for something else:\n%s", out)
			}
		})
	}
}

// A user who may not list pods still sees the fleet; doctor says what it cannot check.
func TestPodsThatMayNotBeListed(t *testing.T) {
	c := newCluster(t)
	withEC2(t)
	c.put(withPods("n3", prefixesOf(1)))
	c.denied = []string{"/api/v1/pods"}
	wants(t, succeeds(t, "why"), "n3")
	wants(t, run(t, "", "doctor").out, "pending pods: list pods without a node", "Ask for permission to list pods.")
}
