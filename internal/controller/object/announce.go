// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/multieni/multieni/api/v1alpha1"
)

// maxNote is the most characters of a message in the note of an Event, which has at most 1,024 (Kubernetes API,
// events.k8s.io/v1).
const maxNote = 800

// Announce emits a warning about an interface on its Node and on its NodeENI, where users look for it. The Event on the
// Node names the interface, so that the recorder joins only Events of the same interface into a series. The one on the
// NodeENI does not, so that those of a fleet are one series.
func Announce(recorder events.EventRecorder, o *v1alpha1.NetworkInterface, reason, action, message string) {
	message = strings.ToValidUTF8(message[:min(len(message), maxNote)], "")
	if node := o.Spec.NodeName; node != "" {
		of := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node),
			FieldPath: "interfaces{" + o.Name + "}"}
		recorder.Eventf(of, nil, corev1.EventTypeWarning, reason, action, "NodeENI %s: %s", o.Spec.NodeENI.Name, message)
	}
	if o.Spec.NodeENI.UID != "" {
		of := &corev1.ObjectReference{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeENI",
			Name: o.Spec.NodeENI.Name, UID: o.Spec.NodeENI.UID}
		recorder.Eventf(of, nil, corev1.EventTypeWarning, reason, action,
			"node %s: %s (repetitions may be of other interfaces)", o.Spec.NodeName, message)
	}
}
