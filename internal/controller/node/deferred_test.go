// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
)

// TestWhatTrailsIsDoneOnce has DeleteOnTermination of an interface noted, or not, between the plan that asks for it and the
// work beside the reconciliation that makes the call.
func TestWhatTrailsIsDoneOnce(t *testing.T) {
	for name, tc := range map[string]struct{ noted, calls int }{
		"it is outstanding":            {noted: 0, calls: 1},
		"it was carried out meanwhile": {noted: 1, calls: 0},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				var beside []func(context.Context)
				options := s.reconciler.Options
				options.Go = func(work func(context.Context)) { beside = append(beside, work) }
				s.reconciler = node.New(options)
				s.must(s.play(20 * time.Second))
				if len(beside) != 1 || len(s.attached()) != 1 {
					t.Fatalf("%d pieces of work trail behind, and %v are attached; want one each", len(beside), s.attached())
				}
				for range tc.noted {
					s.observer.RecordChange(time.Now(), s.attached()[0], func(i eni.Interface) eni.Interface {
						i.Attachment.DeleteOnTermination = true
						return i
					}, inventory.Effect{Aspect: "DeleteOnTermination", IsVisible: func(i eni.Interface) bool {
						return i.Attachment != nil && i.Attachment.DeleteOnTermination
					}})
				}
				beside[0](s.Context())
				if got := s.ec2.Calls().Actions["ModifyNetworkInterfaceAttribute"].Count; got != tc.calls {
					t.Errorf("%d calls, want %d", got, tc.calls)
				}
			})
		})
	}
}
