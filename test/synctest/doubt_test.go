// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1ac "github.com/multieni/multieni/api/applyconfiguration/api/v1alpha1"
	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/test/size"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// TestAnAgentThatFlapsALinkSpendsNoRequests: an agent reports ten times a second that it lost a link and found it
// again. The controller reads its instance from EC2 at most twice a minute.
func TestAnAgentThatFlapsALinkSpendsNoRequests(t *testing.T) {
	flapping := size.Of(time.Minute, 2*time.Minute, 5*time.Minute)
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		c.Start(c.Defaults())
		node := c.Join(1, "a")[0]
		c.Converge(10 * time.Minute)
		time.Sleep(time.Minute)
		before := c.EC2.Calls().Actions["DescribeInstances"].Count
		for begun := time.Now(); time.Since(begun) < flapping; {
			for _, phase := range []v1alpha1.LinkPhase{v1alpha1.LinkReady, v1alpha1.LinkMissing} {
				sayLink(c, node, phase)
				time.Sleep(50 * time.Millisecond)
			}
		}
		looks := c.EC2.Calls().Actions["DescribeInstances"].Count - before
		if most := int(flapping/(30*time.Second)) + 1; looks < 2 || looks > most {
			t.Errorf("EC2 was asked for the instance %d times in %s, want at most %d", looks, flapping, most)
		}
	})
}

// TestAnInterfaceThatSomebodyDetachedIsReportedFromTheAgentsReport: after an agent's report the controller reports an interface
// that another program detached, and attaches it again, long before the next resync. An agent can be faster than EC2's
// reads: then the second read shows the detach.
func TestAnInterfaceThatSomebodyDetachedIsReportedFromTheAgentsReport(t *testing.T) {
	for name, tc := range map[string]struct{ agent, told time.Duration }{
		"once EC2 shows it":           {agent: 10 * time.Second, told: 10 * time.Second},
		"before EC2's reads can know": {agent: 500 * time.Millisecond, told: 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble.New(t, bubble.World())
				declared := c.Declare("data", "a", "data").Name
				o := c.Defaults()
				o.ResyncPeriod = time.Hour
				c.Start(o)
				node := c.Join(1, "a")[0]
				c.Converge(10 * time.Minute)
				sayLink(c, node, v1alpha1.LinkReady)
				time.Sleep(time.Minute)
				c.Console("DetachNetworkInterface", "AttachmentId", c.Interface(node).Status.AttachmentID)
				time.Sleep(tc.agent)
				sayLink(c, node, v1alpha1.LinkMissing)
				c.Eventually(tc.told, "the NodeENI says that the interface is not attached", attachedBy(c, declared, 0))
				c.Eventually(2*time.Minute, "the interface is attached again", attachedBy(c, declared, 1))
			})
		})
	}
}

// attachedBy returns how the status of a NodeENI differs from that number of attached interfaces.
func attachedBy(c *bubble.Cluster, nodeENI string, want int32) func() string {
	return func() string {
		if got := c.NodeENI(nodeENI).Status.Attached; got != want {
			return fmt.Sprintf("%d interfaces are attached by its status", got)
		}
		return ""
	}
}

// sayLink reports a phase of the node's link, as the agent does.
func sayLink(c *bubble.Cluster, node string, phase v1alpha1.LinkPhase) {
	c.Helper()
	i := c.Interface(node)
	report := networkingv1alpha1ac.NodeReport().
		WithAgent(networkingv1alpha1ac.AgentProcess().WithBootID("b").WithProcessID("p")).WithObservedGeneration(i.Generation).
		WithLink(networkingv1alpha1ac.LinkReport().WithState(phase).WithReason("Test"))
	apply := networkingv1alpha1ac.NetworkInterface(i.Name).WithStatus(networkingv1alpha1ac.NetworkInterfaceStatus().WithNode(report))
	c.Must(c.User.Status().Apply(c.Context(), apply, client.FieldOwner(v1alpha1.FieldOwnerAgent), client.ForceOwnership))
}
