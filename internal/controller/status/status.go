// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status converts the outcome of a reconciliation to conditions, and writes the whole status once, under one
// field owner.
//
// Reconcilers never set conditions one by one: they pass an [Outcome], and [Summarize] keeps Ready, Reconciling and
// Stalled consistent with each other, as kstatus and `kubectl wait` read them. [Lint] checks that for any object.
package status

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/multieni/multieni/api/v1alpha1"
)

// State is the state of an object.
type State int

const (
	// Progressing objects become ready without a user.
	Progressing State = iota
	// Ready objects match their declaration.
	Ready
	// Stalled objects wait until a user changes something.
	Stalled
)

// Outcome is the result of a reconciliation.
type Outcome struct {
	State State
	// Reason is one CamelCase word; Message explains it to users.
	Reason, Message string
}

// maxMessage is the most characters of a condition's message (Kubernetes API conventions, metav1.Condition).
const maxMessage = 32768

// Summarize returns the conditions for the outcome, and the additional conditions in more. Unchanged conditions keep
// their times; other previous conditions are dropped.
func Summarize(previous []metav1.Condition, generation int64, o Outcome, more ...metav1.Condition) []metav1.Condition {
	wanted := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: truth(o.State == Ready)}}
	switch o.State {
	case Progressing:
		wanted = append(wanted, metav1.Condition{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue})
	case Stalled:
		wanted = append(wanted, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue})
	}
	for n := range wanted {
		wanted[n].Reason, wanted[n].Message = o.Reason, o.Message
	}
	var conditions []metav1.Condition
	for _, c := range append(wanted, more...) {
		if before := meta.FindStatusCondition(previous, c.Type); before != nil {
			conditions = append(conditions, *before)
		}
		c.ObservedGeneration = generation
		c.Message = strings.ToValidUTF8(c.Message[:min(len(c.Message), maxMessage)], "")
		meta.SetStatusCondition(&conditions, c)
	}
	return conditions
}

func truth(b bool) metav1.ConditionStatus {
	if b {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// Write applies the status of the object under the field owner. It sends nothing else of the object.
func Write(ctx context.Context, c client.Client, owner string, object client.Object) error {
	return write(ctx, c, owner, object, "")
}

// WriteLocked is [Write] for a status that is the only record of something: it returns a conflict if the object changed
// since it was read, and sets the new resource version.
func WriteLocked(ctx context.Context, c client.Client, owner string, object client.Object) error {
	return write(ctx, c, owner, object, object.GetResourceVersion())
}

func write(ctx context.Context, c client.Client, owner string, object client.Object, resourceVersion string) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("convert %s: %w", object.GetName(), err)
	}
	gvk, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return err
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"status": content["status"]}}
	patch.SetGroupVersionKind(gvk)
	patch.SetName(object.GetName())
	// With the UID, the write fails for a successor of the same name, which this status does not describe.
	patch.SetUID(object.GetUID())
	patch.SetResourceVersion(resourceVersion)
	err = c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(owner),
		client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write the status of %s %s: %w", gvk.Kind, object.GetName(), err)
	}
	if resourceVersion != "" {
		object.SetResourceVersion(patch.GetResourceVersion())
	}
	return nil
}

// Lint returns the mistakes in the conditions of an object of the given generation.
func Lint(conditions []metav1.Condition, generation int64) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return []string{"there is no Ready condition"}
	}
	for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if c := meta.FindStatusCondition(conditions, kind); c != nil &&
			(c.Status != metav1.ConditionTrue || ready.Status == metav1.ConditionTrue) {
			fault("%s is %s while Ready is %s", kind, c.Status, ready.Status)
		}
	}
	if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReconciling) &&
		meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled) {
		fault("Reconciling and Stalled are both True")
	}
	if ready.Status == metav1.ConditionFalse &&
		!slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.ConditionReconciling || c.Type == v1alpha1.ConditionStalled
		}) {
		fault("Ready is False, but neither Reconciling nor Stalled says why")
	}
	for _, c := range conditions {
		if c.Reason == "" || c.Message == "" {
			fault("%s has no reason or no message", c.Type)
		}
		if c.ObservedGeneration > generation {
			fault("%s is about generation %d, the object has %d", c.Type, c.ObservedGeneration, generation)
		}
	}
	return faults
}
