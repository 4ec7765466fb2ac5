// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// TestAChangeThatDoesNotLast makes EC2 accept each change of an attribute and keep none. The interface is ready
// nevertheless, the controller repeats the change with growing backoff, and the NodeENI reports which attribute does
// not last and shows EC2's value.
func TestAChangeThatDoesNotLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		ignored, err := c.EC2.AddFault(fault.Fault{Kind: fault.NoEffect})
		c.Must(err)
		c.Declare("data", "a", "data")
		r := c.Start(c.Defaults())
		node := c.Join(1, "a")[0]
		if took := c.Eventually(time.Minute, "the first Ready", notReady(c, v1alpha1.ReasonAttached)); took > 30*time.Second {
			t.Errorf("Ready came after %s: it waits for no attribute", took)
		}

		since := time.Now()
		c.Eventually(10*time.Minute, "the reason", notReady(c, string(plan.Reverted)))
		time.Sleep(6*time.Hour - time.Since(since))
		if n := len(r.Changes(since)); n < 5 || n > 14 {
			t.Errorf("the change was made %d times in six hours, want 5 to 14", n)
		}
		i := c.Interface(node)
		why, message := bubble.Reason(*i)
		if i.Status.AttachmentID == "" || why != string(plan.Reverted) {
			t.Errorf("the status says %+v", i.Status)
		}
		for _, part := range []string{"the deleteOnTermination of " + i.Status.ENIID, "accepted the change to true", "shows false", "CloudTrail", "at least every hour"} {
			if !strings.Contains(message, part) {
				t.Errorf("%q does not say %q", message, part)
			}
		}
		told := events(c, string(plan.Reverted))
		if told != 2 {
			t.Errorf("%d Events tell of it, want one each of the NodeENI and the Node", told)
		}

		c.EC2.RemoveFault(ignored.ID)
		c.Eventually(2*time.Hour, "Ready after the change lasts", notReady(c, v1alpha1.ReasonAttached))
	})
}

// notReady returns the NodeENI's reason if it is not the expected one.
func notReady(c *bubble.Cluster, want string) func() string {
	return func() string {
		if got := reason(c.NodeENI("data").Status.Conditions); got != want {
			return "the reason is " + got
		}
		return ""
	}
}
