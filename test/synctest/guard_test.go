// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/test/size"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// Protection of the whole fleet from a mistake: the pause and the unattached limit.

// owned returns the cluster's interfaces in EC2.
func owned(c *bubble.Cluster) []*ec2.NetworkInterface {
	uid := c.UID()
	return slices.DeleteFunc(c.EC2.State().NetworkInterfaces, func(i *ec2.NetworkInterface) bool {
		return i.Tags[identity.TagCluster] != uid
	})
}

// perNode counts the cluster's interfaces for which counts is true, by the node that they were created for.
func perNode(c *bubble.Cluster, counts func(*ec2.NetworkInterface) bool) map[string]int {
	all := map[string]int{}
	for _, i := range owned(c) {
		if counts(i) {
			all[i.Tags[identity.TagNode]]++
		}
	}
	return all
}

func isAttached(i *ec2.NetworkInterface) bool {
	return i.Attachment != nil && i.Attachment.Status == ec2.Attached
}

func isAny(*ec2.NetworkInterface) bool { return true }

// reason returns the reason of the Ready condition.
func reason(conditions []metav1.Condition) string {
	if c := apimeta.FindStatusCondition(conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

// events counts the events with a reason.
func events(c *bubble.Cluster, reason string) int {
	c.Helper()
	var all eventsv1.EventList
	c.Must(c.User.List(c.Context(), &all))
	n := 0
	for _, e := range all.Items {
		if e.Reason == reason {
			n++
		}
	}
	return n
}

// TestAPauseBoundsASelectorThatReachesTheWholeFleet changes a selector from a few nodes to all, as a typing error does.
// The status says so within seconds; a pause stops new interfaces, and the former selector removes those on other nodes.
func TestAPauseBoundsASelectorThatReachesTheWholeFleet(t *testing.T) {
	size.NeedsAll(t, "it takes ten seconds of processor time")
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		n := c.Declare("data", "a", "data")
		c.Start(c.Defaults())
		c.Join(10, "a")
		c.Join(150, "none")
		c.Converge(10 * time.Minute)
		synctest.Wait() // until the controller has all Nodes

		meant := n.Spec.NodeSelector
		c.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) {
			n.Spec.NodeSelector = map[string]v1alpha1.LabelValue{corev1.LabelInstanceTypeStable: "m5.xlarge"}
		})
		time.Sleep(5 * time.Second)
		if got := c.NodeENI("data").Status.Nodes; got != 160 {
			t.Errorf("the NodeENI says that it selects %d nodes, want 160", got)
		}
		c.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) {
			n.Annotations = map[string]string{v1alpha1.PausedAnnotation: "a wrong selector"}
		})
		time.Sleep(5 * time.Second) // calls that began before the pause
		reached := len(perNode(c, isAny))
		time.Sleep(10 * time.Minute)
		if got := len(perNode(c, isAny)); got != reached || reached == 160 {
			t.Errorf("%d nodes have interfaces after ten minutes of a pause that began at %d", got, reached)
		}
		c.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) { n.Annotations, n.Spec.NodeSelector = nil, meant })
		c.Converge(10 * time.Minute)
		if left := len(perNode(c, isAny)); left != 10 {
			t.Errorf("%d nodes have interfaces, 10 are meant", left)
		}
	})
}

// TestAPauseStopsEverything pauses a NodeENI, and then a node, while people make all kinds of changes.
func TestAPauseStopsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		r := c.Start(c.Defaults())
		nodes := c.Join(4, "a")
		c.Converge(10 * time.Minute)
		pause := func(o client.Object, on bool) {
			o.SetAnnotations(map[string]string{})
			if on {
				o.SetAnnotations(map[string]string{v1alpha1.PausedAnnotation: "somebody looks into it"})
			}
		}

		c.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) { pause(n, true) })
		time.Sleep(time.Second)
		since := time.Now()
		c.ChangeNode(nodes[0], func(n *corev1.Node) { n.Labels[bubble.PoolLabel] = "none" })
		c.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) { n.Spec.Description = "new" })
		c.Join(2, "a")
		time.Sleep(time.Hour)
		if late := r.Changes(since); len(late) > 0 {
			t.Errorf("changes for a NodeENI that is paused: %v", late)
		}
		if got := reason(c.NodeENI("data").Status.Conditions); got != v1alpha1.ReasonPaused {
			t.Errorf("the NodeENI says %s, want %s", got, v1alpha1.ReasonPaused)
		}
		c.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) { pause(n, false) })
		c.Converge(10 * time.Minute)

		c.ChangeNode(nodes[1], func(n *corev1.Node) { pause(n, true) })
		time.Sleep(time.Second)
		c.ChangeNode(nodes[1], func(n *corev1.Node) { n.Labels[bubble.PoolLabel] = "none" })
		c.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) { n.Spec.Description = "newer" })
		time.Sleep(time.Hour)
		for _, i := range owned(c) {
			paused := i.Tags[identity.TagNode] == nodes[1]
			if want := map[bool]string{true: "new", false: "newer"}[paused]; i.Description != want || !isAttached(i) {
				t.Errorf("%s of %s is %s with the description %q, want %q", i.NetworkInterfaceID, i.Tags[identity.TagNode], i.Status, i.Description, want)
			}
		}
		c.ChangeNode(nodes[1], func(n *corev1.Node) { pause(n, false) })
		c.Converge(10 * time.Minute)
	})
}

// TestCreationStopsAtTheUnattachedLimit lets EC2 refuse every attach: the controller soon creates no further interface, and reports that.
func TestCreationStopsAtTheUnattachedLimit(t *testing.T) {
	size.NeedsAll(t, "it takes ten seconds of processor time")
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		c.Declare("storage", "a", "storage")
		o := c.Defaults()
		r := c.Start(o)
		c.Join(120, "a")
		_, err := c.EC2.AddFault(fault.Fault{Kind: fault.Error, Action: "AttachNetworkInterface", Code: "UnauthorizedOperation", Status: 403})
		c.Must(err)
		most := 2*plan.MaxUnattached*o.MaxConcurrentNodes + plan.MaxUnattached
		c.Always(20*time.Minute, "the bound on what is attached to nothing", func() string {
			if n := len(owned(c)); n > most {
				return fmt.Sprintf("%d interfaces, want at most %d", n, most)
			}
			return ""
		})
		if got := r.Metric("multieni_creation_blocked"); got != 1 {
			t.Errorf("the metric of blocked creation is %g", got)
		}
		if r.Metric("multieni_blocked_interfaces", string(plan.Unauthorized)) == 0 || r.Metric("multieni_blocked_interfaces", string(plan.TooManyUnattached)) == 0 {
			t.Error("no metric tells how many interfaces are blocked, and for which reasons")
		}
		if events(c, string(plan.TooManyUnattached)) == 0 {
			t.Error("no Event reports that creation is blocked")
		}
		for node, n := range perNode(c, isAny) {
			if n > plan.MaxUnattached {
				t.Errorf("%d interfaces of %s, want at most %d", n, node, plan.MaxUnattached)
			}
		}
		c.EC2.ClearFaults()
		t.Logf("all is well %s after EC2 attaches again", c.Converge(2*time.Hour))
		if creation, blocked := r.Metric("multieni_creation_blocked"), r.Metric("multieni_blocked_interfaces"); creation != 0 || blocked != 0 {
			t.Errorf("the metric of blocked creation is %g, and that of blocked interfaces %g, although all is well", creation, blocked)
		}
		if removed := len(slices.DeleteFunc(r.Changes(time.Time{}), func(m bubble.Mutation) bool { return m.Action != "DetachNetworkInterface" })); removed > 0 {
			t.Errorf("%d interfaces were detached", removed)
		}
	})
}
