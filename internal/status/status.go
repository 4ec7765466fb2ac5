// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status turns what a reconciler found into conditions, and writes a status once, whole, under one field owner.
//
// Reconcilers never set conditions one by one: they hand over an [Result] and [Summarize] keeps Ready, Reconciling and
// Stalled consistent with each other, as kstatus and `kubectl wait` read them. [Lint] checks any object for that.
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

// State is how things stand with an object.
type State int

const (
	// Progressing objects become ready without a user.
	Progressing State = iota
	// Ready objects are as declared.
	Ready
	// Stalled objects wait until a user changes something.
	Stalled
)

// Outcome is what a reconciler found.
type Outcome struct {
	State State
	// Reason is one CamelCase word; Message says it to a person.
	Reason, Message string
}

// maxMessage is the most characters of a condition's message (Kubernetes API conventions, metav1.Condition).
const maxMessage = 32768

// Summarize returns the conditions that say the outcome, with times kept from the previous ones where nothing changed.
// More conditions can be given; previous conditions that are neither are dropped.
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

// Write applies the status of the object under the field owner; nothing else of the object is sent.
func Write(ctx context.Context, c client.Client, owner string, object client.Object) error {
	return write(ctx, c, owner, object, "")
}

// WriteLocked is [Write] for a status that records what is not written elsewhere: it returns a conflict if the object
// changed since it was read, and sets the new resource version.
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
	// The UID makes the write fail for a successor of the same name: this status does not describe it.
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

// Lint returns what is wrong with the conditions of an object of the given generation; nothing, if all is well.
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
