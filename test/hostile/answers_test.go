// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/test/size"
)

// TestAnswersThatAreNone replaces every third answer to a change: by nothing, a page, another action's answer, half of
// the answer, 50 MB, or a reset of the connection. EC2 makes some of the changes, and not the others.
func TestAnswersThatAreNone(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	for _, reply := range fault.Replies() {
		for _, skip := range []bool{false, true} {
			f := fault.Fault{Kind: fault.WrongReply, Reply: reply, Skip: skip, Probability: 0.05}
			if reply == fault.Huge {
				f.Count = 1
			}
			s.strike(f, mutating()...)
		}
	}
	s.apply(both())
	s.label(names("node", 0, 8)...)
	r := s.run()
	s.holds(afterwards, wanted(names("node", 0, 8)))
	s.unlabel(names("node", 5, 8)...)
	s.holds(afterwards, wanted(names("node", 0, 5)))
	strikes := s.heal()

	s.rests()
	s.endure(0, r)
	s.holds(time.Second, wanted(names("node", 0, 5)))
	s.reports(afterwards, "both", 10)
	s.onlyRemoved(names("node", 5, 8)...)
	s.madeOnce(16)
	s.atMost(16*callsToAttach + 6*callsToRemove + 4*strikes)
}

// TestReadingsThatAreNone answers every read with an empty body for as long as a fault may last, while a NodeENI is
// deleted. Its interfaces are older than the visibility window, so that a read without them counts.
func TestReadingsThatAreNone(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	nodeENI := both()
	s.apply(nodeENI)
	s.label(names("node", 0, 4)...)
	r := s.run("--resync-period=10s")
	s.holds(afterwards, wanted(names("node", 0, 4)))
	s.reports(afterwards, "both", 8)
	s.endure(inventory.VisibilityWindow, r)

	s.strike(fault.Fault{Kind: fault.WrongReply, Reply: fault.Empty}, reading()...)
	before := len(s.calls())
	s.must(s.kube.Delete(s.Context(), nodeENI))
	for over := time.Now().Add(promised); time.Now().Before(over); {
		s.endure(500*time.Millisecond, r)
		s.must(s.kube.Get(s.Context(), client.ObjectKeyFromObject(nodeENI), nodeENI)) // its finalizer keeps it
		if nodeENI.Status.Attached != 8 {
			t.Fatalf("the status says that %d interfaces are attached, and 8 are", nodeENI.Status.Attached)
		}
		s.keepTheirPlaces(names("node", 0, 4))
	}
	for _, c := range s.calls()[before:] {
		t.Errorf("%s, though nothing is known of EC2", c.action)
	}
	s.heal()

	s.holds(afterwards, nil)
	s.eventually(afterwards, "the NodeENI is gone", func() string {
		if err := s.kube.Get(s.Context(), client.ObjectKeyFromObject(nodeENI), nodeENI); !apierrors.IsNotFound(err) {
			return fmt.Sprint("it is still there: ", err)
		}
		return ""
	})
	s.madeOnce(8)
}

// keepTheirPlaces asserts that each of the nodes has the objects of both interfaces, attached. The objects can be in
// deletion: the one of their NodeENI orders it without a read of EC2, and their finalizers keep them.
func (s *stage) keepTheirPlaces(nodes []string) {
	s.Helper()
	for _, node := range nodes {
		objects := s.objects(node)
		if len(objects) != 2 {
			s.Fatalf("%s has %d objects, and 2 interfaces in EC2", node, len(objects))
		}
		for _, n := range objects {
			if n.Status.ENIID == "" || n.Status.AttachmentID == "" || n.Status.Phase != v1alpha1.PhaseAttached {
				s.Fatalf("%s has %+v", n.Name, n.Status)
			}
		}
	}
}

// objects returns the interfaces of a node.
func (s *stage) objects(node string) []v1alpha1.NetworkInterface {
	s.Helper()
	var all v1alpha1.NetworkInterfaceList
	s.must(s.kube.List(s.Context(), &all))
	return slices.DeleteFunc(all.Items, func(n v1alpha1.NetworkInterface) bool { return n.Spec.NodeName != node })
}
