// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"testing"

	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// TestTheReadOfTheVPCIsNoSecret has an interface that EC2 attached after the first list. The reconciler of the Node reads
// the instance for its VPC, and the one of the instance learns of the interface.
func TestTheReadOfTheVPCIsNoSecret(t *testing.T) {
	w := newWorld(t, declared("n", "one"), nodeNamed("node-1", instance))
	key := identity.Interface{Cluster: cluster, UID: "uid-1", Name: name("n", 0), NodeENI: "n", Node: "node-1", InstanceID: instance}
	w.interfaces = []eni.Interface{{
		ID: "eni-1", SubnetID: "subnet-1", VPCID: "vpc-1", Status: eni.InUse, Tags: key.Tags(start, nil),
		Attachment: &eni.Attachment{ID: "at-1", InstanceID: instance, Slot: eni.Slot{Device: 1}, Status: eni.AttachmentAttached},
	}}
	w.reconcile("node-1")
	select {
	case got := <-w.observer.Changed():
		if w.reads != 1 || got != instance {
			t.Errorf("after %d reads %s is enqueued, want %s after one", w.reads, got, instance)
		}
	default:
		t.Errorf("%d reads, and the instance is not enqueued", w.reads)
	}
}

// TestARestartReadsNoInstance restarts the controller of a node with an attached interface. Its object says the VPC, so
// that a fleet costs no reads before the first list.
func TestARestartReadsNoInstance(t *testing.T) {
	w := newWorld(t, declared("n", "one"), nodeNamed("node-1", instance))
	w.reconcile("node-1")
	w.attach()
	w.restart(func(*node.Options) {})
	before := w.reads
	w.reconcile("node-1")
	if w.reads != before {
		t.Errorf("the instance was read %d times", w.reads-before)
	}
	if all := w.objects(); len(all) != 1 || len(all[0].Spec.Subnets) != 1 || all[0].Spec.Subnets[0].ID != "subnet-1" {
		t.Errorf("objects %+v, want one in the subnet of the VPC", all)
	}
}

func TestANewInstanceIsReadAfterTheFirstList(t *testing.T) {
	w := newWorld(t, declared("blue", "one"), nodeNamed("node-1", instance))
	w.unlisted = true
	w.restart(func(*node.Options) {})
	w.reconcile("node-1")
	if got := w.names(); w.reads != 0 || len(got) != 0 {
		t.Errorf("%d reads and objects %v before the first list", w.reads, got)
	}
	w.must(w.observer.ResyncOnce(t.Context()))
	w.reconcile("node-1")
	if got := w.names(); w.reads != 1 || len(got) != 1 {
		t.Errorf("%d reads and objects %v after it", w.reads, got)
	}
}
