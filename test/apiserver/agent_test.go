// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

const (
	agentNamespace = "eni-manager-system"
	agentAccount   = "eni-manager"
)

// The patches for agents can be applied to their manifest one after the other, and undo nothing in it.
func TestAgentPatches(t *testing.T) {
	admin := everything(t, server.Config)
	applyFile(t, admin, "config/rbac/agent.yaml")
	strict := client.WithFieldValidation(admin, metav1.FieldValidationStrict)
	applyFile(t, strict, "deploy/eni-manager-daemonset.yaml")
	agents := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: agentAccount, Namespace: agentNamespace}}
	t.Cleanup(func() { remove(t, admin, agents) })
	mounts, volumes := mounted(t, "deploy/eni-manager-daemonset.yaml")
	for _, file := range []string{"deploy/agent-dpdk.yaml", "deploy/agent-networkd.yaml"} {
		patch, err := yaml.ToJSON([]byte(text(t, file)))
		if err != nil {
			t.Fatal(err)
		}
		if err := strict.Patch(t.Context(), agents, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		furtherMounts, furtherVolumes := mounted(t, file)
		mounts, volumes = mounts+furtherMounts, volumes+furtherVolumes
		pod := agents.Spec.Template.Spec
		if len(pod.Containers) != 1 {
			t.Fatalf("after %s there are %d containers, want 1", file, len(pod.Containers))
		}
		if got := len(pod.Containers[0].VolumeMounts); got != mounts || len(pod.Volumes) != volumes {
			t.Errorf("after %s there are %d mounts of %d volumes, want %d of %d", file, got, len(pod.Volumes), mounts, volumes)
		}
		for _, variable := range pod.Containers[0].Env {
			if variable.Name == "NODE_NAME" && variable.ValueFrom == nil {
				t.Errorf("after %s the agent does not know its node", file)
			}
		}
	}
}

// mounted counts the mounts and the volumes of a manifest. A volume can have several mounts.
func mounted(t *testing.T, file string) (mounts, volumes int) {
	t.Helper()
	manifest := text(t, file)
	return strings.Count(manifest, "mountPath:"), strings.Count(manifest, "hostPath:") + strings.Count(manifest, "emptyDir:")
}

// The API server accepts the manifests of the document.
func TestManifestsOfTheAgentsDocument(t *testing.T) {
	dry := client.NewDryRunClient(client.WithFieldValidation(everything(t, server.Config), metav1.FieldValidationStrict))
	applied := 0
	for _, block := range strings.Split(text(t, "docs/node-agent.md"), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		object := parse(t, block)
		if object.GetKind() != "NodeENI" {
			continue // the API server does not have kinds that others define
		}
		if err := dry.Create(t.Context(), object); err != nil {
			t.Errorf("%s: %v", object.GetName(), err)
		}
		applied++
	}
	if applied == 0 {
		t.Error("there is no NodeENI")
	}
}

// text returns the content of a file of this repository.
func text(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// An agent may make the writes of agents to its own node. The API server refuses them with another node's token, and
// with one that names no node. TestAgentRoleWritesNothingElse tries everything else.
func TestAgentKeepsToItsNode(t *testing.T) {
	admin := everything(t, server.Config)
	for _, file := range []string{"config/rbac/agent.yaml", "config/admission/agent.yaml"} {
		applyFile(t, admin, file)
	}
	for _, name := range []string{"node-a", "node-b"} {
		provide(t, admin, name)
	}
	own := everything(t, withToken(agentToken(t, admin, "node-a")))
	other := everything(t, withToken(agentToken(t, admin, "node-b")))
	nowhere := everything(t, withToken(agentToken(t, admin, "")))
	policyInForce(t, nowhere)

	answer := map[string]any{"node": map[string]any{"agent": map[string]any{"bootID": "b", "processID": "q"}, "open": true}}
	writes := map[string]struct {
		kind, part string
		value      map[string]any
	}{
		"an answer":                 {"NetworkInterface", "status", answer},
		"a pod network's addresses": {"Node", "status", map[string]any{"capacity": map[string]any{v1alpha1.AddressesResourcePrefix + "n3": "31"}}},
		"a pod network goes":        {"Node", "status", map[string]any{"capacity": map[string]any{v1alpha1.AddressesResourcePrefix + "n3": nil}}},
	}
	for name, w := range writes {
		t.Run(name, func(t *testing.T) {
			for who, c := range map[string]client.Client{"another node's agent": other, "an agent without node": nowhere} {
				if err := write(t, c, w.kind, w.part, w.value); !apierrors.IsForbidden(err) {
					t.Errorf("%s: %v, want a refusal", who, err)
				}
			}
			if err := write(t, own, w.kind, w.part, w.value); err != nil {
				t.Errorf("its own agent: %v", err)
			}
		})
	}
}

// write merges the value into a part of node-a's object.
func write(t *testing.T, c client.Client, kind, part string, value map[string]any) error {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	if kind == "NetworkInterface" {
		object.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind))
	}
	object.SetName("node-a")
	patch := &unstructured.Unstructured{Object: map[string]any{part: value}}
	content, err := patch.MarshalJSON()
	if err != nil && !runtime.IsMissingKind(err) {
		t.Fatal(err)
	}
	if part == "status" {
		return c.Status().Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", content))
	}
	return c.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", content))
}

// policyInForce waits until the API server enforces the agents' policy. Its writes are dry runs: one that the API server
// still admits must not stay.
func policyInForce(t *testing.T, stranger client.Client) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"capacity":{"`+v1alpha1.AddressesResourcePrefix+`x":"1"}}}`))
	inForce(t, func() error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
		return stranger.Status().Patch(t.Context(), node, patch, client.DryRunAll)
	})
}

func everything(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), authenticationv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func withToken(token string) *rest.Config {
	config := rest.AnonymousClientConfig(server.Config)
	config.BearerToken = token
	return config
}

// applyFile applies the objects of a file of this repository.
func applyFile(t *testing.T, c client.Client, name string) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text(t, name)), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if object.Object == nil {
			continue
		}
		if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// provide creates a node with an interface of the same name, and the pod of its agent.
func provide(t *testing.T, c client.Client, name string) {
	t.Helper()
	objects := []client.Object{
		&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "telco"}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{
				{Key: v1alpha1.NotReadyTaint, Effect: corev1.TaintEffectNoSchedule}, {Key: "dedicated", Effect: corev1.TaintEffectNoSchedule},
			}},
		},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "agent-" + name, Namespace: agentNamespace},
			Spec: corev1.PodSpec{
				ServiceAccountName: agentAccount, NodeName: name,
				Containers: []corev1.Container{{Name: "agent", Image: "multieni"}},
			},
		},
	}
	for _, object := range objects {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { remove(t, c, object, client.GracePeriodSeconds(0)) }) // there is no kubelet to end pods
	}
	attached := makeInterface(t, c, name, name)
	attached.now(granted([]string{prefixA, prefixB}, nil))
	attached.answered(false)
}

// agentToken returns the token of the agent's pod on a node; if node is empty, one without a pod.
func agentToken(t *testing.T, c client.Client, node string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: agentAccount, Namespace: agentNamespace}}
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "agent-" + node}
	}
	if err := c.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}
