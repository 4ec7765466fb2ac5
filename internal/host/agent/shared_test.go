// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
)

// A pod with attachment HostDevice would take the link from pods that another CNI plugin attached while the NodeENI
// asked for Observed. The agent sees their links, with or without an address.
func TestNoPodTakesALinkThatAnotherPluginShares(t *testing.T) {
	n := newNode(t, withFloating(v1alpha1.PodAttachmentObserved))
	n.settle()
	n.change(func(i *v1alpha1.NetworkInterface) {
		i.Spec.Pods.Attachment = v1alpha1.PodAttachmentHostDevice
		i.Status.Pods = nil
	})
	server := n.runs(&seen{})
	select {
	case report := <-server.written:
		if report.Pods == nil || report.Pods.Ready || report.Pods.Reason != v1alpha1.ReasonNetworkPending ||
			!strings.Contains(report.Pods.Message, "another CNI plugin") {
			t.Errorf("reported %+v", report.Pods)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the agent reports nothing")
	}
	if n.isOpen() {
		t.Error("pods can attach")
	}
}
