// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/render"
)

// TestRecordedInterfaces reads the state of a node that was one instance and is another: only an attached interface of
// the instance in question is evidence that a second interface with its identity is a copy.
func TestRecordedInterfaces(t *testing.T) {
	member := v1alpha1.Member{NodeENIUID: "uid", Ordinal: 1, Generation: 7}
	state := &v1alpha1.NodeENIState{Status: v1alpha1.NodeENIStateStatus{Interfaces: []v1alpha1.InterfaceState{
		{Member: member, InstanceID: "i-1", ENIID: "eni-attached", AttachmentID: "eni-attach-1"},
		{Member: member, InstanceID: "i-1", ENIID: "eni-created"},
		{Member: member, InstanceID: "i-2", ENIID: "eni-of-another-instance", AttachmentID: "eni-attach-2"},
		{Member: member, InstanceID: "i-1", ENIID: "eni-unverified", AttachmentID: "eni-attach-3", Unverified: true},
		{Member: member, InstanceID: "i-1"},
	}}}
	key := identity.Key{Owner: "uid", Ordinal: 1}
	want := []render.Recorded{
		{ID: "eni-attached", Key: key, Generation: 7, Attached: true},
		{ID: "eni-created", Key: key, Generation: 7},
		{ID: "eni-of-another-instance", Key: key, Generation: 7},
	}
	if diff := cmp.Diff(want, recorded(state, "i-1")); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}
