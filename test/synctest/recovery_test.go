// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/test/size"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// TestRecoveryTakesNoLongerThanItMust injects a fault for a minute while a third of a fleet joins and another third
// leaves. The time until the fleet has converged depends only on the fault: the remaining calls take seconds at EC2's
// rates. test/hostile injects the same faults into the real binary, where times prove nothing.
func TestRecoveryTakesNoLongerThanItMust(t *testing.T) {
	size.NeedsAll(t, "it takes ten seconds of processor time")
	const third = 20
	const (
		// longestWait is the longest backoff after a call that failed or was refused.
		longestWait = 30 * time.Second
		// longestDoubt is how long an interface may exist although reads do not return it.
		longestDoubt = 2 * time.Minute
	)
	cases := map[string]struct {
		strike func(*bubble.Cluster, *bubble.Replica)
		within time.Duration
		lasts  time.Duration // a minute if it is zero
	}{
		"no status can be written": {func(_ *bubble.Cluster, r *bubble.Replica) {
			r.Kubernetes.Stop(func(r *http.Request) bool {
				return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/status")
			})
		}, longestWait + slowestAttach, 0},
		"readings lag a minute": {strikes(fault.Fault{Kind: fault.StaleRead, Age: time.Minute, Jitter: true}, fault.Fault{Kind: fault.HideNew, Age: time.Minute}),
			longestDoubt + longestWait + slowestAttach, 2 * time.Minute}, // in the first one the new instances may be unknown
		"every third answer is lost": {strikes(each(fault.Fault{Kind: fault.LoseReply, Every: 3})...), longestDoubt + longestWait + slowestAttach, 0},
		// The rate limiter is at its lowest rate, and recovers within a minute.
		"every call is refused for its rate": {strikes(fault.Fault{Kind: fault.Throttle}), time.Minute + longestWait + slowestAttach, 0},
		"every third detach gets stuck":      {strikes(fault.Fault{Kind: fault.StuckDetaching, Every: 3}), plan.ForcedDetachAfter + slowestAttach, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble.New(t, bubble.World())
				c.Declare("data", "a", "data")
				c.Declare("storage", "a", "storage")
				r := c.Start(c.Defaults())
				nodes := c.Join(2*third, "a")
				c.Converge(10 * time.Minute)

				begun, kept := time.Now(), idsOf(slices.DeleteFunc(owned(c), func(i *ec2.NetworkInterface) bool {
					return slices.Contains(nodes[:third], i.Tags[identity.TagNode])
				}))
				tc.strike(c, r)
				for _, node := range nodes[:third] {
					c.ChangeNode(node, func(n *corev1.Node) { n.Labels[bubble.PoolLabel] = "none" })
				}
				c.Join(third, "a")
				time.Sleep(time.Until(begun.Add(cmp.Or(tc.lasts, time.Minute))))
				for _, f := range c.EC2.Faults() {
					if f.Strikes == 0 {
						t.Errorf("%s %s never struck", f.Kind, f.Action)
					}
				}
				c.EC2.ClearFaults()
				r.Kubernetes.Stop(nil)

				took := c.Converge(time.Hour)
				t.Logf("all is well after %s, at most %s", took, tc.within)
				if took > tc.within {
					t.Errorf("all is well only after %s, want at most %s", took, tc.within)
				}
				for _, i := range c.EC2.State().NetworkInterfaces {
					if n := slices.Index(kept, i.NetworkInterfaceID); n >= 0 && isAttached(i) && i.Attachment.AttachTime.Before(begun) {
						kept = slices.Delete(kept, n, n+1)
					}
				}
				if len(kept) > 0 {
					t.Errorf("interfaces that were wanted all the time are gone, or were detached: %v", kept)
				}
			})
		})
	}
}

// strikes starts faults.
func strikes(faults ...fault.Fault) func(*bubble.Cluster, *bubble.Replica) {
	return func(c *bubble.Cluster, _ *bubble.Replica) {
		c.Helper()
		for _, f := range faults {
			_, err := c.EC2.AddFault(f)
			c.Must(err)
		}
	}
}

// each returns the fault once for each action on interfaces.
func each(f fault.Fault) (all []fault.Fault) {
	for _, action := range []string{
		"CreateNetworkInterface", "AttachNetworkInterface", "ModifyNetworkInterfaceAttribute", "DetachNetworkInterface", "DeleteNetworkInterface",
	} {
		f.Action = action
		all = append(all, f)
	}
	return all
}
