// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
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

// TestAFirstLookIsThatOfTheFirstPlan reads an instance before it has objects, and then once for the plan: that of the
// first look, unless it is old, or this process made a call for the instance meanwhile.
func TestAFirstLookIsThatOfTheFirstPlan(t *testing.T) {
	for title, tc := range map[string]struct {
		between func(o *observer.Observer)
		want    int
	}{
		"at once":  {func(*observer.Observer) {}, 1},
		"too late": {func(*observer.Observer) { time.Sleep(1100 * time.Millisecond) }, 2},
		"after a create": {func(o *observer.Observer) {
			o.RecordCreated(time.Now(), member(1), eni.Interface{ID: "eni-2"}, eni.Addresses{})
		}, 2},
		"after a change": {func(o *observer.Observer) {
			o.RecordChange(time.Now(), "eni-1", func(i eni.Interface) eni.Interface { return i },
				inventory.Effect{Aspect: "it", IsVisible: func(eni.Interface) bool { return true }})
		}, 2},
		"after another plan": {func(o *observer.Observer) { _, _ = o.DescribeInstance(t.Context(), instance) }, 2},
	} {
		t.Run(title, func(t *testing.T) {
			c := &cloud{}
			c.set(attached("eni-1", 0, eni.AttachmentAttached))
			watch(t, c, func(t *testing.T, o *observer.Observer) {
				told(o)
				if _, err := o.FirstLook(t.Context(), instance); err != nil {
					t.Fatal(err)
				}
				tc.between(o)
				look, err := o.DescribeInstance(t.Context(), instance)
				if err != nil || len(look.Interfaces) != 1 {
					t.Fatalf("got %v, %v", look, err)
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				if c.looks != tc.want {
					t.Errorf("EC2 was read %d times, want %d", c.looks, tc.want)
				}
			})
		})
	}
}
