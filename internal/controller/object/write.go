// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/status"
)

// The field owners of conditions that other reconcilers than that of the instance write. Each applies all of its
// conditions at once.
const (
	OwnerNode    = client.FieldOwner(v1alpha1.FieldOwnerController + "-node")
	OwnerNodeENI = client.FieldOwner(v1alpha1.FieldOwnerController + "-nodeeni")
)

// resource names the kind in errors.
var resource = schema.GroupResource{Group: v1alpha1.SchemeGroupVersion.Group, Resource: "networkinterfaces"}

// Create creates an object with its finalizer. The API server refuses a second object of the name, also if a
// cache lacks the first: then [apierrors.IsAlreadyExists] is true.
func Create(ctx context.Context, c client.Client, o *v1alpha1.NetworkInterface) error {
	if !slices.Contains(o.Finalizers, v1alpha1.InterfaceFinalizer) {
		o.Finalizers = append(o.Finalizers, v1alpha1.InterfaceFinalizer)
	}
	err := c.Create(ctx, o, client.FieldOwner(v1alpha1.FieldOwnerController))
	if apierrors.IsNotFound(err) { // the kind is missing: no event says that it is back
		return fmt.Errorf("create NetworkInterface %s: %s", o.Name, err.Error())
	}
	return wrap("create", o, err)
}

// PatchSpec replaces the spec of the object of this UID. If the name has another object now, the error is a conflict.
// If it has none, the error is NotFound: unlike an apply, the patch creates nothing.
func PatchSpec(ctx context.Context, c client.Client, o *v1alpha1.NetworkInterface,
	spec v1alpha1.NetworkInterfaceSpec) error {
	return wrap("write the spec of", o, patch(ctx, c, o, operation{"replace", "/spec", spec}))
}

// PatchLabels sets labels of the object of this UID, like [PatchSpec].
func PatchLabels(ctx context.Context, c client.Client, o *v1alpha1.NetworkInterface, labels map[string]string) error {
	return wrap("label", o, patch(ctx, c, o, operation{"add", "/metadata/labels", labels}))
}

// Delete deletes the object of this UID; it is no error if the object is gone. The finalizer keeps the object until EC2
// has no ENI of it.
func Delete(ctx context.Context, c client.Client, o *v1alpha1.NetworkInterface) error {
	return remove(ctx, c, o, client.Preconditions{UID: &o.UID})
}

// DeleteVersion is [Delete] of this version of the object only: after any change the error is a conflict.
func DeleteVersion(ctx context.Context, c client.Client, o *v1alpha1.NetworkInterface) error {
	return remove(ctx, c, o, client.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion})
}

func remove(ctx context.Context, c client.Client, o *v1alpha1.NetworkInterface, only client.Preconditions) error {
	named := &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
	return wrap("delete", o, client.IgnoreNotFound(c.Delete(ctx, named, only)))
}

// RemoveFinalizer ends an object that is being deleted. It is no error if the object or the finalizer is gone.
func RemoveFinalizer(ctx context.Context, c client.Client, o *v1alpha1.NetworkInterface) error {
	at := slices.Index(o.Finalizers, v1alpha1.InterfaceFinalizer)
	if at < 0 {
		return nil
	}
	path := "/metadata/finalizers/" + strconv.Itoa(at)
	return wrap("end", o, client.IgnoreNotFound(patch(ctx, c, o,
		operation{"test", path, v1alpha1.InterfaceFinalizer}, operation{Op: "remove", Path: path})))
}

// WriteStatus applies the status of the instance reconciler over the version of the object: all but the report of the
// agent, the drift and the conditions of the other reconcilers. After any change of the object the error is a conflict.
// It sets the new version.
func WriteStatus(ctx context.Context, c client.Client, o *v1alpha1.NetworkInterface) error {
	own := o.DeepCopy()
	own.Status.Node, own.Status.Drift = nil, nil
	own.Status.Conditions = slices.DeleteFunc(own.Status.Conditions, func(c metav1.Condition) bool {
		return !slices.Contains(InstanceConditions(), c.Type)
	})
	if err := status.WriteLocked(ctx, c, v1alpha1.FieldOwnerController, own); err != nil {
		return err
	}
	o.ResourceVersion = own.ResourceVersion
	return nil
}

// InstanceConditions returns the types of the conditions that the instance reconciler writes.
func InstanceConditions() []string {
	return []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}
}

// WithoutNode returns a status without the report of the agent.
func WithoutNode(status v1alpha1.NetworkInterfaceStatus) v1alpha1.NetworkInterfaceStatus {
	status.Node = nil
	return status
}

// WriteDrift applies the drift and the condition Drifted of the node reconciler like [WriteConditions].
func WriteDrift(ctx context.Context, c client.Client, o *v1alpha1.NetworkInterface, drift []v1alpha1.Drift,
	conditions ...metav1.Condition) error {
	return writePart(ctx, c, OwnerNode, o, v1alpha1.NetworkInterfaceStatus{Drift: drift, Conditions: conditions})
}

// WriteConditions applies all conditions of one other reconciler over the version of the object, as its field owner.
// Conditions that it wrote before and that are not among them end. It sets the new version.
func WriteConditions(ctx context.Context, c client.Client, owner client.FieldOwner, o *v1alpha1.NetworkInterface,
	conditions ...metav1.Condition) error {
	return writePart(ctx, c, owner, o, v1alpha1.NetworkInterfaceStatus{Conditions: conditions})
}

func writePart(ctx context.Context, c client.Client, owner client.FieldOwner, o *v1alpha1.NetworkInterface,
	part v1alpha1.NetworkInterfaceStatus) error {
	own := &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{
		Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
	}}
	own.Status = part
	if err := status.WriteLocked(ctx, c, string(owner), own); err != nil {
		return err
	}
	o.ResourceVersion = own.ResourceVersion
	return nil
}

// operation is one operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch changes the object of this UID.
func patch(ctx context.Context, c client.Client, o *v1alpha1.NetworkInterface, changes ...operation) error {
	all := append([]operation{{"test", "/metadata/uid", o.UID}}, changes...)
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	named := &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
	err = c.Patch(ctx, named, client.RawPatch(types.JSONPatchType, data),
		client.FieldOwner(v1alpha1.FieldOwnerController))
	if isFailedTest(err) {
		return apierrors.NewConflict(resource, o.Name, err)
	}
	return err
}

// isFailedTest reports whether the API server refused a JSON patch because of a test. Its answer is as for an invalid
// object, but names no cause.
func isFailedTest(err error) bool {
	refused := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &refused) {
		return false
	}
	details := refused.Status().Details
	return details == nil || len(details.Causes) == 0
}

func wrap(what string, o *v1alpha1.NetworkInterface, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s NetworkInterface %s: %w", what, o.Name, err)
}
