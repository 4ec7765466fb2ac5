// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// A patch of the plain manifest changes the agents as the value of the chart does.
func TestPatchesOfTheAgentAreTheChartsValues(t *testing.T) {
	plain := agentOf(t, "")
	for value, file := range map[string]string{"dpdk": "deploy/agent-dpdk.yaml", "networkd": "deploy/agent-networkd.yaml"} {
		t.Run(value, func(t *testing.T) {
			patch, err := yaml.YAMLToJSON([]byte(read(t, file)))
			if err != nil {
				t.Fatal(err)
			}
			before, err := json.Marshal(plain)
			if err != nil {
				t.Fatal(err)
			}
			after, err := strategicpatch.StrategicMergePatch(before, patch, appsv1.DaemonSet{})
			if err != nil {
				t.Fatal(err)
			}
			var patched appsv1.DaemonSet
			if err := json.Unmarshal(after, &patched); err != nil {
				t.Fatal(err)
			}
			// Kubernetes merges these lists by key, so their order says nothing.
			anyOrder := cmp.Options{
				cmpopts.SortSlices(func(a, b corev1.EnvVar) bool { return a.Name < b.Name }),
				cmpopts.SortSlices(func(a, b corev1.Volume) bool { return a.Name < b.Name }),
				cmpopts.SortSlices(func(a, b corev1.VolumeMount) bool { return a.MountPath < b.MountPath }),
			}
			if diff := cmp.Diff(agentOf(t, "eniManager: {"+value+": true}").Spec, patched.Spec, anyOrder); diff != "" {
				t.Errorf("%s is not what eniManager.%s does (-value +patch):\n%s", file, value, diff)
			}
		})
	}
}

// With the values of pods the agent's pod installs the CNI plugins where the container runtime finds them. Without them
// it installs nothing.
func TestTheAgentInstallsTheCNIPlugins(t *testing.T) {
	folder := func(agent *appsv1.DaemonSet) (path string) {
		for _, volume := range agent.Spec.Template.Spec.Volumes {
			if volume.Name == "cni" {
				path = volume.HostPath.Path
			}
		}
		return path
	}
	for values, want := range map[string]string{
		"": "", "pods: {enabled: true}": "/opt/cni/bin", "pods: {enabled: true, cniDir: /usr/libexec/cni}": "/usr/libexec/cni",
	} {
		agent := agentOf(t, values)
		if got := folder(agent); got != want {
			t.Errorf("%q: the plugins go to %q, want %q", values, got, want)
		}
		installers := agent.Spec.Template.Spec.InitContainers
		if want == "" {
			if len(installers) != 0 {
				t.Errorf("%q: the pod has init containers: %v", values, installers)
			}
			continue
		}
		mounts := []corev1.VolumeMount{{Name: "cni", MountPath: "/host/cni"}}
		if len(installers) != 1 || !slices.Equal(installers[0].Command, []string{"/multieni-cni", "install", "/host/cni"}) ||
			!cmp.Equal(installers[0].VolumeMounts, mounts) {
			t.Errorf("%q: the init containers are %v", values, installers)
		}
		reads := func(m corev1.VolumeMount) bool { return m.Name == "cni" && m.ReadOnly }
		if !slices.ContainsFunc(agent.Spec.Template.Spec.Containers[0].VolumeMounts, reads) {
			t.Errorf("%q: the agent can write where the runtime of the node finds programs", values)
		}
	}
}

// A lease ends with the network namespace of its pod, which the agent sees at the path that the runtime passes. Without
// the propagation the agent's container keeps the namespaces of ended pods. An agent without pod networks reads the
// leases too: it lets an interface go once the pods of before have ended.
func TestTheAgentSeesNetworkNamespaces(t *testing.T) {
	want := []string{"/run/netns", "/var/run/netns"}
	for _, values := range []string{"", "pods: {enabled: true}"} {
		var mounts []string
		for _, m := range agentOf(t, values).Spec.Template.Spec.Containers[0].VolumeMounts {
			if m.Name != "netns" {
				continue
			}
			mounts = append(mounts, m.MountPath)
			if !m.ReadOnly || m.MountPropagation == nil || *m.MountPropagation != corev1.MountPropagationHostToContainer {
				t.Errorf("%q: the mount is %+v", values, m)
			}
		}
		if !slices.Equal(mounts, want) {
			t.Errorf("%q: the namespaces are mounted at %v, want %v", values, mounts, want)
		}
	}
}

// With a value of the chart the startup taint waits for Multus, whose configuration the agent then reads on the node.
func TestTheAgentWaitsForMultus(t *testing.T) {
	for values, want := range map[string]string{
		"pods: {enabled: true}": "", "pods: {enabled: true, waitForCNI: /etc/cni/net.d}": "/etc/cni/net.d", "pods: {waitForCNI: /etc/cni/net.d}": "",
	} {
		pod, path := agentOf(t, values).Spec.Template.Spec, ""
		for _, volume := range pod.Volumes {
			if volume.Name == "cni-config" {
				path = volume.HostPath.Path
			}
		}
		told := slices.ContainsFunc(pod.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "WAIT_FOR_CNI" && v.Value == "/host/cni-config" })
		reads := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == "cni-config" && m.MountPath == "/host/cni-config" && m.ReadOnly
		})
		if path != want || told != (want != "") || reads != (want != "") {
			t.Errorf("%q: it reads %q (told %t, mounted %t), want %q", values, path, told, reads, want)
		}
	}
}

// Only the values of pods give the controller permissions for pod networks. The test names each rule, so that it fails
// for a further one.
func TestPermissionsForPodNetworks(t *testing.T) {
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{
			APIGroups: []string{"k8s.cni.cncf.io"}, Resources: []string{"network-attachment-definitions"},
			Verbs: []string{"get", "list", "watch", "create", "update", "delete"},
		},
	}
	evictions := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
	}
	names := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}}
	endpoints := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services", "pods"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"services/finalizers"}, Verbs: []string{"update"}},
		{
			APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"},
			Verbs: []string{"get", "list", "watch", "create", "update", "delete"},
		},
	}
	roles := []string{"multieni-controller-addresses", "multieni-controller-eviction", "multieni-controller-pods", "multieni-controller-services"}
	for values, want := range map[string][]rbacv1.PolicyRule{
		"": nil, "pods: {enabled: true}": want, "pods: {eviction: true}": nil, "pods: {enabled: true, eviction: true}": append(evictions, want...),
		"pods: {observeAddresses: true}": nil, "pods: {enabled: true, observeAddresses: true}": append(names, want...),
		"pods: {services: true}": nil, "pods: {enabled: true, services: true}": append(slices.Clone(want), endpoints...),
	} {
		var got []rbacv1.PolicyRule
		for _, object := range render(t, values) {
			if object.GetKind() == "ClusterRole" && slices.Contains(roles, object.GetName()) {
				var role rbacv1.ClusterRole
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
					t.Fatal(err)
				}
				got = append(got, role.Rules...)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: rules (-want +got):\n%s", values, diff)
		}
	}
}

// A value of the chart lets the controller keep the endpoints of Services, and brings the policy for their annotations.
func TestServicesOverPodNetworksAreAValue(t *testing.T) {
	for values, want := range map[string]bool{"": false, "pods: {services: true}": false, "pods: {enabled: true}": false, "pods: {enabled: true, services: true}": true} {
		objects := render(t, values)
		controller := &appsv1.Deployment{}
		convert(t, named(objects, "Deployment", "eni-controller"), controller)
		if on := slices.Contains(controller.Spec.Template.Spec.Containers[0].Args, "--pod-services"); on != want {
			t.Errorf("%q: the controller keeps endpoints: %t", values, on)
		}
		for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
			if is := named(objects, kind, "multieni-pod-services") != nil; is != want {
				t.Errorf("%q: there is a %s: %t", values, kind, is)
			}
		}
	}
}

// Only the values of pods give agents the capability to observe addresses of pods.
func TestCapabilitiesOfTheAgent(t *testing.T) {
	for values, want := range map[string][]corev1.Capability{
		"": {"NET_ADMIN"}, "pods: {enabled: true}": {"NET_ADMIN"}, "pods: {observeAddresses: true}": {"NET_ADMIN"},
		"pods: {enabled: true, observeAddresses: true}": {"NET_ADMIN", "NET_BROADCAST"},
	} {
		container := agentOf(t, values).Spec.Template.Spec.Containers[0]
		if diff := cmp.Diff(&corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: want}, container.SecurityContext.Capabilities); diff != "" {
			t.Errorf("%q: capabilities (-want +got):\n%s", values, diff)
		}
		observes := slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "OBSERVE_POD_ADDRESSES" && e.Value == "true" })
		if observes != (len(want) == 2) {
			t.Errorf("%q: the agent observes: %t", values, observes)
		}
	}
}

// The chart renders the policy that changes pods only with the values of pods.
func TestPolicyOfPodAddresses(t *testing.T) {
	for values, want := range map[string]int{
		"": 0, "pods: {enabled: true}": 0, "pods: {requestAddresses: true}": 0, "pods: {enabled: true, requestAddresses: true}": 2,
	} {
		got := 0
		for _, object := range render(t, values) {
			if strings.HasPrefix(object.GetKind(), "MutatingAdmissionPolicy") {
				got++
			}
		}
		if got != want {
			t.Errorf("%q: %d objects of MutatingAdmissionPolicies, want %d", values, got, want)
		}
	}
}

func agentOf(t *testing.T, values string) *appsv1.DaemonSet {
	t.Helper()
	agent := &appsv1.DaemonSet{}
	convert(t, named(render(t, values), "DaemonSet", "eni-manager"), agent)
	return agent
}
