// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A kubelet can write neither labels nor annotations of multieni on its Node, through the Node or through its status.
// It can make all other writes of kubelets. Users other than kubelets can write the keys.
func TestKubeletsWriteNoKeysOfOurs(t *testing.T) {
	admin := everything(t, server.Config)
	applyFile(t, admin, "config/admission/kubelet.yaml")
	letKubeletsWrite(t, admin)
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:node-k", Groups: []string{"system:nodes", "system:authenticated"}}
	kubelet := everything(t, config)
	node := func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-k"}} }
	registered := func(labels, annotations map[string]string) error {
		object := node()
		object.Labels, object.Annotations = labels, annotations
		return client.NewDryRunClient(kubelet).Create(t.Context(), object)
	}
	inForce(t, func() error { return registered(nil, map[string]string{"networking.k8s.aws/paused": ""}) })
	if err := registered(map[string]string{"interface.networking.k8s.aws/net-web": "eni-1"}, nil); !apierrors.IsForbidden(err) {
		t.Errorf("a kubelet registers with the label of an interface: %v, want a refusal", err)
	}
	object := node()
	object.Labels = map[string]string{"ng": "multi-eni", "networking.k8s.aws/nodetemplate": "telco", "interface.networking.k8s.aws/net-a": "eni-1"}
	object.Annotations = map[string]string{"networking.k8s.aws/paused": ""}
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, admin, object) })

	for name, c := range map[string]struct {
		patch   string
		allowed bool
	}{
		"pauses":                           {`{"metadata":{"annotations":{"networking.k8s.aws/paused":"yes"}}}`, false},
		"takes a pause away":               {`{"metadata":{"annotations":{"networking.k8s.aws/paused":null}}}`, false},
		"says which interfaces it has":     {`{"metadata":{"annotations":{"networking.k8s.aws/interfaces":"{}"}}}`, false},
		"labels itself with an interface":  {`{"metadata":{"labels":{"interface.networking.k8s.aws/net-web":"eni-1"}}}`, false},
		"drops an interface":               {`{"metadata":{"labels":{"interface.networking.k8s.aws/net-a":null}}}`, false},
		"names another node template":      {`{"metadata":{"labels":{"networking.k8s.aws/nodetemplate":"other"}}}`, false},
		"claims a network":                 {`{"metadata":{"labels":{"network.networking.k8s.aws/multus":"true"}}}`, false},
		"writes its condition":             {`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, true},
		"writes a label of another domain": {`{"metadata":{"labels":{"node.kubernetes.io/instance-type":"m5.large"}}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			patch := client.RawPatch(types.MergePatchType, []byte(c.patch))
			for part, err := range map[string]error{
				"the Node":   kubelet.Patch(t.Context(), node(), patch, client.DryRunAll),
				"its status": kubelet.Status().Patch(t.Context(), node(), patch, client.DryRunAll),
			} {
				if c.allowed && err != nil || !c.allowed && !apierrors.IsForbidden(err) {
					t.Errorf("through %s: %v, allowed is %t", part, err, c.allowed)
				}
			}
			if err := admin.Patch(t.Context(), node(), patch, client.DryRunAll); err != nil {
				t.Errorf("an administrator: %v", err)
			}
		})
	}
}

// letKubeletsWrite grants the group of kubelets Kubernetes' role for them: the test's API server has no node
// authorizer.
func letKubeletsWrite(t *testing.T, admin client.Client) {
	t.Helper()
	binding := parse(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: kubelets},
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:node"},
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}]}`)
	if err := admin.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, admin, binding) })
}

// inForce waits until the API server enforces a policy that refuses a write.
func inForce(t *testing.T, write func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		err := write()
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the policy is not in force: %v", err)
		}
		time.Sleep(50 * time.Millisecond) // the API server has no event for it
	}
}
