// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/core/eni"
)

// TestARefreshEnqueuesTheNodes reads an instance twice for a caller that plans nothing for it. The node learns of the new
// interface, and of nothing when the second read shows the same.
func TestARefreshEnqueuesTheNodes(t *testing.T) {
	c := &cloud{}
	watch(t, c, func(t *testing.T, o *observer.Observer) {
		told(o)
		c.set(attached("eni-1", 0, eni.AttachmentAttached))
		for _, want := range [][]string{{"node-1"}, nil} {
			if err := o.RefreshInstance(t.Context(), instance); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, told(o)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		}
		c.fail(errDown)
		if err := o.RefreshInstance(t.Context(), instance); !errors.Is(err, errDown) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRemainingTellsTheNodes(t *testing.T) {
	c := &cloud{}
	watch(t, c, func(t *testing.T, o *observer.Observer) {
		told(o)
		c.set(attached("eni-1", 0, eni.AttachmentAttached))
		left, err := o.ListRemaining(t.Context(), "uid-a")
		if err != nil || len(left) != 1 {
			t.Fatalf("%v, %v", left, err)
		}
		if diff := cmp.Diff([]string{"node-1"}, told(o)); diff != "" {
			t.Error(diff)
		}
		primary, another := attached("eni-2", 1, eni.AttachmentAttached), attached("eni-3", 2, eni.AttachmentAttached)
		primary.Attachment.Slot, another.RequesterManaged = eni.Primary, true
		c.set(primary, another)
		if left, err := o.ListRemaining(t.Context(), "uid-a"); err != nil || len(left) > 0 {
			t.Errorf("what is never ours, whatever its tags say, keeps a NodeENI: %v, %v", left, err)
		}
		c.fail(errDown)
		if _, err := o.ListRemaining(t.Context(), "uid-a"); !errors.Is(err, errDown) {
			t.Errorf("an answer that did not come counts as none left: %v", err)
		}
	})
}
