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

// TestARefreshEnqueuesTheInstance reads an instance twice for a caller that plans nothing for it. It is
// enqueued for the new interface, and not when the second read shows the same.
func TestARefreshEnqueuesTheInstance(t *testing.T) {
	c := &cloud{}
	watch(t, c, func(t *testing.T, o *observer.Observer) {
		told(o)
		c.set(attached("eni-1", 0, eni.AttachmentAttached))
		for _, want := range [][]string{{instance}, nil} {
			look, err := o.RefreshInstance(t.Context(), instance)
			if err != nil || len(look.Interfaces) != 1 {
				t.Fatalf("got %v, %v", look, err)
			}
			if diff := cmp.Diff(want, told(o)); diff != "" {
				t.Errorf("instances (-want +got):\n%s", diff)
			}
		}
		c.fail(errDown)
		if _, err := o.RefreshInstance(t.Context(), instance); !errors.Is(err, errDown) {
			t.Errorf("got %v", err)
		}
	})
}
