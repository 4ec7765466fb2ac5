// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/fleet"
)

// maxMessage is the most characters of a message in a spec or a status (the schema of NetworkInterface).
const maxMessage = 1024

// InFleet converts an object for package fleet. The caller says whether its NodeENI still declares the interface.
func InFleet(o *v1alpha1.NetworkInterface) fleet.Object {
	converted := fleet.Object{Object: Rendered(o), Version: o.ResourceVersion, Attached: o.Status.AttachmentID != ""}
	if o.DeletionTimestamp != nil {
		converted.DeletedAt = o.DeletionTimestamp.Time
	}
	if ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		converted.Ready = IsReady(o)
		converted.Reason, converted.Message = ready.Reason, ready.Message
	}
	converted.Stalled = meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionStalled)
	if orphaned := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionOrphaned); orphaned != nil {
		converted.OrphanedAt = orphaned.LastTransitionTime.Time
	}
	if node := o.Status.Node; node != nil && node.Pods != nil {
		for _, pod := range node.Pods.Pods {
			converted.Pods = append(converted.Pods,
				fleet.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)})
		}
	}
	return converted
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
