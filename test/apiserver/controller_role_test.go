// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/config/crd"
)

// TestTheControllerMayWriteInterfaces makes each write about interfaces with the role of the controller, and some that the
// role does not have.
func TestTheControllerMayWriteInterfaces(t *testing.T) {
	admin := everything(t, server.Config)
	applyFile(t, admin, "config/rbac/namespace.yaml")
	applyFile(t, admin, "config/rbac/controller.yaml")
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:eni-controller-system:eni-controller"}
	as := everything(t, config)

	made := makeInterface(t, as, "by-controller", "node-1")
	t.Cleanup(func() { tear(admin, made.name) })
	must(t, made.render(made.uid, "/spec/required", "true"))
	made.now(observed(eniA))
	must(t, made.delete(made.uid))
	must(t, made.patch("application/json-patch+json", `[{"op":"remove","path":"/metadata/finalizers"}]`))

	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(definition)
	must(t, as.Get(t.Context(), client.ObjectKey{Name: "networkinterfaces.networking.k8s.aws"}, kind))
	for name, err := range map[string]error{
		"read of another kind":  as.Get(t.Context(), client.ObjectKey{Name: "nodeenis.networking.k8s.aws"}, kind),
		"deletion of the kind":  as.Delete(t.Context(), kind),
		"deletion of all":       as.DeleteAllOf(t.Context(), &v1alpha1.NetworkInterface{}),
		"creation of a NodeENI": as.Create(t.Context(), plainNodeENI("by-controller")),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

var definition = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// TestADeletedKindDeletesItsObjects deletes a kind that has an object with a finalizer: all that the controller relies on
// when it lets objects go. The kind is a copy in another group.
func TestADeletedKindDeletesItsObjects(t *testing.T) {
	admin := everything(t, server.Config)
	kind := copyOfKind(t, "networking.example.com")
	must(t, admin.Create(t.Context(), kind))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), kind) })
	object := func() *unstructured.Unstructured {
		out := toUnstructured(t, newInterface("n3-0", "node-1"))
		out.SetGroupVersionKind(schema.GroupVersionKind{Group: "networking.example.com", Version: "v1alpha1", Kind: "NetworkInterface"})
		return out
	}
	first := object()
	eventually(t, "the API server serves the kind", func() bool { return admin.Create(t.Context(), first) == nil })
	must(t, admin.Delete(t.Context(), kind))
	eventually(t, "the object is being deleted", func() bool {
		return admin.Get(t.Context(), client.ObjectKeyFromObject(first), first) == nil && first.GetDeletionTimestamp() != nil
	})
	must(t, admin.Get(t.Context(), client.ObjectKeyFromObject(kind), kind))
	if kind.GetDeletionTimestamp() == nil || first.GetDeletionTimestamp().Before(kind.GetDeletionTimestamp()) {
		t.Errorf("the object is being deleted since %v, before its kind: %v", first.GetDeletionTimestamp(), kind.GetDeletionTimestamp())
	}
	second := object()
	second.SetName("n3-1")
	if err := admin.Create(t.Context(), second); !apierrors.IsForbidden(err) && !apierrors.IsMethodNotSupported(err) {
		t.Errorf("a further object meanwhile: %v", err)
	}
	must(t, admin.Patch(t.Context(), first, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
}

// copyOfKind returns the definition of NetworkInterfaces for another group.
func copyOfKind(t *testing.T, group string) *unstructured.Unstructured {
	t.Helper()
	definitions, err := crd.Definitions()
	must(t, err)
	for _, d := range definitions {
		if d.Spec.Names.Kind == "NetworkInterface" {
			d.Name, d.Spec.Group = d.Spec.Names.Plural+"."+group, group
			out := toUnstructured(t, d)
			out.SetGroupVersionKind(definition)
			return out
		}
	}
	t.Fatal("there is no such kind")
	return nil
}

func toUnstructured(t *testing.T, object any) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	must(t, err)
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}
}

// eventually waits for something. The API server sends no event for it.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute it does not hold that %s", what)
		}
	}
}
