// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// What a value of the chart does to the agents, a patch does to the plain manifest.
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
			anyOrder := cmpopts.SortSlices(func(a, b corev1.EnvVar) bool { return a.Name < b.Name })
			if diff := cmp.Diff(agentOf(t, "eniManager: {"+value+": true}").Spec, patched.Spec, anyOrder); diff != "" {
				t.Errorf("%s is not what eniManager.%s does (-value +patch):\n%s", file, value, diff)
			}
		})
	}
}

// With pods the agent's pod installs the CNI plugins where the runtime of the node finds them, and without it mounts nothing for pods.
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
	}
}

func agentOf(t *testing.T, values string) *appsv1.DaemonSet {
	t.Helper()
	agent := &appsv1.DaemonSet{}
	convert(t, named(render(t, values), "DaemonSet", "eni-manager"), agent)
	return agent
}
