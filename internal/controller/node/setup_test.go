// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// TestWhoIsConcerned asks which nodes a change reaches.
func TestWhoIsConcerned(t *testing.T) {
	w := newWorld(t, declared("n", "one"), nodeNamed("node-1", instance), nodeNamed("node-2", "i-00000000000000002"))
	w.reconcile("node-1")
	w.must(w.api.Update(t.Context(), unlabeled(w)))
	if diff := cmp.Diff([]string{"node-1", "node-2"}, w.reconciler.Concerned(t.Context(), declared("n", "one"))); diff != "" {
		t.Errorf("nodes that it selects, and those with objects of it (-want +got):\n%s", diff)
	}
	o := w.objects()[0]
	requests := w.reconciler.NodesOfObject(t.Context(), &o)
	if len(requests) != 1 || requests[0].Name != "node-1" {
		t.Errorf("an object concerns %v, want node-1", requests)
	}
}

// TestADeletedNodeENIConcernsTheNetworkOfItsName has an interface of a network without an object, on a node that the
// NodeENI of the name does not select. While that NodeENI was being deleted, it might have declared the interface.
func TestADeletedNodeENIConcernsTheNetworkOfItsName(t *testing.T) {
	w := newWorld(t, nodeNamed("node-1", instance))
	key := identity.Interface{Cluster: cluster, UID: identity.NetworkUID("n", 0, start), Name: name("n", 0), NodeENI: "n", Node: "node-1", InstanceID: instance}
	w.interfaces = []eni.Interface{{
		ID: "eni-1", SubnetID: "subnet-1", VPCID: "vpc-1", Status: eni.InUse, Tags: key.Tags(start, nil),
		Attachment: &eni.Attachment{ID: "at-1", InstanceID: instance, Slot: eni.Slot{Device: 3}, Status: eni.AttachmentAttached},
	}}
	w.must(w.observer.ResyncOnce(t.Context()))
	deleted := selectingAll("n")
	if diff := cmp.Diff([]string{"node-1"}, w.reconciler.Concerned(t.Context(), deleted)); diff != "" {
		t.Errorf("before it has an object (-want +got):\n%s", diff)
	}
	w.reconcile("node-1")
	if names := w.reconciler.Concerned(t.Context(), selectingAll("other")); len(w.names()) != 1 || len(names) > 0 {
		t.Errorf("objects %v, and another NodeENI concerns %v", w.names(), names)
	}
}
