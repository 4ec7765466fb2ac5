// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/lifecycle"
)

// A flood of messages about one instance, forged or not, costs no more calls than one message in half a minute.
func TestAFloodIsAnsweredOnce(t *testing.T) {
	served := map[string]string{"multus-ng": "", "aws:autoscaling:groupName": "multus-group"}
	for name, tc := range map[string]struct {
		body     func(n int) string
		asked    int
		ensured  int
		tags     map[string]string
		answered []lifecycle.HookRef
	}{
		"launches": {body: func(int) string { return hookEvent("LAUNCHING", "multus-hook") }, tags: served, asked: 2, ensured: 1,
			answered: []lifecycle.HookRef{{Group: "multus-group", Name: "multus-hook"}}},
		"launches in hooks that do not exist": {body: func(n int) string { return hookEvent("LAUNCHING", fmt.Sprint("hook-", n)) }, tags: served, asked: 3, ensured: 1},
		"terminations":                        {body: func(n int) string { return hookEvent("TERMINATING", fmt.Sprint("hook-", n)) }, asked: 1},
		"instances that run":                  {body: func(int) string { return stateChange("running") }, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &environment{state: eni.InstanceRunning, outcome: lifecycle.Ready, tags: tc.tags, waiting: tc.answered, takes: time.Second}
				h := w.handler()
				var wg sync.WaitGroup
				for n := range 100 {
					wg.Go(func() { _ = h.Handle(t.Context(), []byte(tc.body(n))) })
				}
				wg.Wait()
				_ = h.Handle(t.Context(), []byte(tc.body(0)))
				ensured := 0
				for _, did := range w.did {
					if did == "ensure" {
						ensured++
					}
				}
				if w.asked != tc.asked || ensured != tc.ensured {
					t.Errorf("101 messages asked %d questions, want %d, and prepared the instance %d times, want %d", w.asked, tc.asked, ensured, tc.ensured)
				}
				time.Sleep(30 * time.Second)
				_ = h.Handle(t.Context(), []byte(tc.body(0)))
				if w.asked != 2*tc.asked {
					t.Errorf("half a minute later %d questions in all, want %d", w.asked, 2*tc.asked)
				}
			})
		})
	}
}

// An error about an event of another account or region names it.
func TestEventsOfElsewhereAreRefused(t *testing.T) {
	w := &environment{state: eni.InstanceRunning, outcome: lifecycle.Ready, tags: map[string]string{"multus-ng": "", "aws:autoscaling:groupName": "multus-group"}}
	for name, tc := range map[string]struct{ account, region, want string }{
		"here":            {"123456789012", "us-west-2", ""},
		"another account": {"999999999999", "us-west-2", "account 999999999999, and this handler of account 123456789012"},
		"another region":  {"123456789012", "eu-west-1", "region eu-west-1, and this handler of region us-west-2"},
	} {
		t.Run(name, func(t *testing.T) {
			h := w.handler()
			h.Account, h.Region = "123456789012", "us-west-2"
			body := fmt.Sprintf(`{"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification", "account": %q, "region": %q,
				"detail": {"instance-id": %q, "state": "running"}}`, tc.account, tc.region, id)
			err := h.Handle(t.Context(), []byte(body))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want an error that says %q", err, tc.want)
			}
		})
	}
}
