// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/plan"
)

// maxMessage is the most characters of a message in a spec or a status (the schema of NetworkInterface).
const maxMessage = 1024

// InFleet converts an object for package fleet.
func InFleet(o *v1alpha1.NetworkInterface) fleet.Object {
	converted := fleet.Object{
		Object: Rendered(o), Version: o.ResourceVersion, Phase: string(PhaseOf(o)), Ready: IsReady(o),
		Attached: o.Status.AttachmentID != "", Settled: o.Status.ObservedGeneration == o.Generation,
		Stalled:  meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionStalled),
		KeepsENI: KeepsENI(o),
	}
	reason, _ := ReasonOf(o)
	converted.InstanceNotReady = reason == string(plan.InstanceNotReady)
	if o.DeletionTimestamp != nil {
		converted.DeletedAt = o.DeletionTimestamp.Time
	}
	if orphaned := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionOrphaned); orphaned != nil {
		converted.OrphanedAt = orphaned.LastTransitionTime.Time
	}
	return converted
}

// PhaseOf returns the phase of the interface of an object. Before the first status EC2 is expected to create it.
func PhaseOf(o *v1alpha1.NetworkInterface) v1alpha1.Phase {
	if !o.DeletionTimestamp.IsZero() && o.Status.ENIID == "" {
		return v1alpha1.PhaseDeleting
	}
	return cmp.Or(o.Status.Phase, v1alpha1.PhaseCreating)
}

// ReasonOf returns why an interface is not as its object declares, from its condition Ready; empty if it is.
func ReasonOf(o *v1alpha1.NetworkInterface) (reason, message string) {
	ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason == v1alpha1.ReasonAttached || ready.Reason == v1alpha1.ReasonProgressing ||
		ready.Reason == string(o.Status.Phase) {
		return "", ""
	}
	return ready.Reason, clip(ready.Message, maxMessage)
}

// IsReady reports whether the interface is as the present spec of the object declares.
func IsReady(o *v1alpha1.NetworkInterface) bool {
	ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
	return o.DeletionTimestamp.IsZero() && ready != nil && ready.Status == "True" &&
		ready.ObservedGeneration == o.Generation
}

func clip(text string, length int) string {
	if len(text) > length {
		return strings.ToValidUTF8(text[:length], "")
	}
	return text
}
