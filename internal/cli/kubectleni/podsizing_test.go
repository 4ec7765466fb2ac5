// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

// Plan and doctor compare the addresses of a pod network with the largest number of pods of the nodes that it selects.
func TestSizingOfPodNetworks(t *testing.T) {
	const few = "pods.ipv4.prefixes.min: 1 gives each node 16 × 1 = 16 addresses from the start, and its nodes allow 58 pods: if a node runs more " +
		"than 16 of them on this network, set min: 4"
	c := newCluster(t)
	for name, of := range map[string]struct{ group, instance, pods string }{
		"node-a1": {"multi-eni", "i-0a10000000000000a", "29"}, "node-a2": {"multi-eni", "i-0a20000000000000a", "58"}, "node-b1": {"other", "i-0b10000000000000b", "110"},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"ng": of.group}}}
		node.Spec.ProviderID = "aws:///us-east-1a/" + of.instance
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(of.pods)}
		c.put(node)
	}
	withEC2(t)
	declared := multus()
	declared.Spec.Pods = &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}}}
	device := multus()
	device.Name, device.Spec.Pods = "device", &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentHostDevice}
	c.put(device)
	c.put(declared)

	out := strings.Join(strings.Fields(run(t, "", "doctor").out), " ")
	if !strings.Contains(out, "● pod network: multus: "+few) || strings.Contains(out, "pod network: device") {
		t.Errorf("doctor says\n%s", out)
	}
	manifest := manifestOf("n3") + "  pods: {attachment: IPVLAN, ipv4: {prefixes: {min: 4}}}\n"
	planned := strings.Join(strings.Fields(succeeds(t, "plan", "-f", write(t, manifest))), " ")
	if want := "· n3: pods.ipv4.prefixes.min: 4 gives each node 16 × 4 = 64 addresses from the start, and its nodes allow 58 pods: pods need no request"; !strings.Contains(planned, want) || strings.Contains(planned, "multus: pods") {
		t.Errorf("plan says\n%s\nwant %s", planned, want)
	}
}
