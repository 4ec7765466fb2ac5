// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/multieni/multieni/api/v1alpha1"
)

// TestHeld has interfaces that pods may use, and others.
func TestHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		evidence   v1alpha1.InterfaceEvidence
		attachment v1alpha1.PodAttachment
		report     *v1alpha1.NodeReport
		held       bool
	}{
		"created for the object, and no agent answered": {v1alpha1.EvidenceCreated, v1alpha1.PodAttachmentIPVLAN, nil, false},
		"taken over, and no agent answered":             {v1alpha1.EvidenceTakenOver, v1alpha1.PodAttachmentIPVLAN, nil, true},
		"of another CNI plugin, and no agent answered":  {v1alpha1.EvidenceCreated, v1alpha1.PodAttachmentObserved, nil, true},
		"of another CNI plugin, and not in use":         {v1alpha1.EvidenceCreated, v1alpha1.PodAttachmentObserved, &v1alpha1.NodeReport{}, false},
		"in use":                                        {v1alpha1.EvidenceCreated, v1alpha1.PodAttachmentIPVLAN, &v1alpha1.NodeReport{Open: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := &v1alpha1.NetworkInterface{}
			n.Status.ENIID = "eni-1"
			n.Spec.Pods = &v1alpha1.PodSettings{Attachment: tc.attachment}
			n.Status.Evidence, n.Status.Node = tc.evidence, tc.report
			if n.Held() != tc.held {
				t.Errorf("held is %t, want %t", n.Held(), tc.held)
			}
		})
	}
}
