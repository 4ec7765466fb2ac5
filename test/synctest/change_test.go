// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/test/size"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// The effect of changes of a NodeENI on live interfaces.

// shape has the attributes of an interface that can be updated in place.
type shape struct {
	Groups, Description, Team string
	Check, Dies               bool
	Addresses                 int
}

// shapes returns the different shapes of the existing interfaces.
func shapes(c *bubble.Cluster) []shape {
	var all []shape
	for _, i := range owned(c) {
		var groups []string
		for _, g := range i.Groups {
			groups = append(groups, g.GroupID)
		}
		s := shape{
			Groups: strings.Join(groups, ","), Description: i.Description, Team: i.Tags["team"], Check: i.SourceDestCheck,
			Addresses: len(i.PrivateIPAddresses) - 1,
		}
		s.Dies = isAttached(i) && i.Attachment.DeleteOnTermination
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// TestChangesInPlaceReachTheFleet changes everything that can be updated in place, address counts up and then down, and
// counts the calls.
func TestChangesInPlaceReachTheFleet(t *testing.T) {
	const nodes = 40
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		o := c.Defaults()
		r := c.Start(o)
		c.Join(nodes, "a")
		c.Converge(10 * time.Minute)
		before := owned(c)

		change := func(change func(*v1alpha1.NodeENI), want shape, calls int) {
			t.Helper()
			since := time.Now()
			c.ChangeNodeENI("data", change)
			took := c.Eventually(10*time.Minute, "the change", func() string { return gocmp.Diff([]shape{want}, shapes(c)) })
			time.Sleep(10 * time.Minute)
			made := r.Changes(since)
			if len(made) != calls*nodes {
				t.Errorf("%d calls, want %d for each of %d interfaces: %v", len(made), calls, nodes, made)
			}
			for _, m := range made {
				if m.Action == "DetachNetworkInterface" || m.Action == "DeleteNetworkInterface" || m.Action == "AttachNetworkInterface" {
					t.Errorf("%s for a change that takes place on the live interface", m.Action)
				}
			}
			bucket := awssim.DocumentedLimits()["ModifyNetworkInterfaceAttribute"]
			most := time.Duration(float64(4*nodes)/(o.EC2RateShare*bucket.Refill)*float64(time.Second)) + 5*time.Second
			t.Logf("%d interfaces follow a change of %d calls each in %s", nodes, calls, took)
			if took > most {
				t.Errorf("it took %s, at the paced rate it takes at most %s", took, most)
			}
		}
		change(func(n *v1alpha1.NodeENI) {
			n.Spec.SecurityGroupIDs = []string{bubble.OtherGroupID}
			n.Spec.Description = "new"
			n.Spec.Tags = map[string]v1alpha1.TagValue{"team": "ran"}
			n.Spec.SourceDestCheck, n.Spec.DeleteOnTermination = ptr.To(false), ptr.To(false)
			n.Spec.SecondaryPrivateIPAddressCount = 3
		}, shape{Groups: bubble.OtherGroupID, Description: "new", Team: "ran", Addresses: 3}, 6)
		change(func(n *v1alpha1.NodeENI) {
			n.Spec.SecondaryPrivateIPAddressCount = 1
			n.Spec.DeleteOnTermination = ptr.To(true)
		}, shape{Groups: bubble.OtherGroupID, Description: "new", Team: "ran", Addresses: 1, Dies: true}, 2)

		if diff := gocmp.Diff(idsOf(before), idsOf(owned(c))); diff != "" {
			t.Errorf("interfaces are others than before:\n%s", diff)
		}
		if throttled := c.EC2.Calls().Mutating.Throttled; throttled > 0 {
			t.Errorf("%d calls were throttled", throttled)
		}
	})
}

func idsOf(interfaces []*ec2.NetworkInterface) []string {
	var ids []string
	for _, i := range interfaces {
		ids = append(ids, i.NetworkInterfaceID)
	}
	slices.Sort(ids)
	return ids
}

// TestReplacementsRollOut swaps both subnets of a fleet: at first the controller only reports the drift, then it
// replaces the interfaces, and a bad change stops at the first nodes.
func TestReplacementsRollOut(t *testing.T) {
	const nodes, at = 8, 2
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		c.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) {
			n.Spec.SubnetIDs = slices.Concat(bubble.SubnetIDs("data"), bubble.SubnetIDs("hosts"))
		})
		r := c.Start(c.Defaults())
		c.Join(nodes, "a")
		c.Converge(10 * time.Minute)

		since := time.Now()
		c.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) {
			n.Spec.SubnetIDs = slices.Concat(bubble.SubnetIDs("storage"), bubble.SubnetIDs("spare"))
		})
		time.Sleep(time.Hour)
		status := c.NodeENI("data").Status
		if late := r.Changes(since); len(late) > 0 {
			t.Errorf("changes that nobody asked for: %v", late)
		}
		if got := reason(status.Conditions); got != v1alpha1.ReasonDrifted || status.Drifted != 2*nodes {
			t.Errorf("the NodeENI says %s and counts %d, want %s and %d", got, status.Drifted, v1alpha1.ReasonDrifted, 2*nodes)
		}
		if got := r.Metric("multieni_nodeeni_interfaces", "data", "drifted"); got != 2*nodes {
			t.Errorf("the metric counts %g drifted interfaces, want %d", got, 2*nodes)
		}
		empty := bubble.SubnetIDs("storage")[0]
		if size, free := r.Metric("multieni_subnet_addresses", empty), r.Metric("multieni_subnet_free_addresses", empty); size != 8187 || free != 8187 {
			t.Errorf("the metrics of the empty subnet %s: %g of %g addresses free, want 8187 of 8187", empty, free, size)
		}

		// A bad change: the subnets of the new interfaces are full.
		full, err := c.EC2.AddFault(fault.Fault{Kind: fault.SubnetFull, Resource: bubble.SubnetIDs("storage")[0]})
		c.Must(err)
		full2, err := c.EC2.AddFault(fault.Fault{Kind: fault.SubnetFull, Resource: bubble.SubnetIDs("storage")[1]})
		c.Must(err)
		c.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) {
			n.Spec.UpdatePolicy, n.Spec.MaxUnavailable = v1alpha1.UpdateReplace, at
		})
		rollout := func() string { return lacking(c, at) }
		c.Always(time.Hour, "the bound of a rollout", rollout)
		status = c.NodeENI("data").Status
		if got := reason(status.Conditions); got != string(plan.SubnetFull) || int(status.Attached) != 2*nodes-at {
			t.Errorf("the NodeENI says %s with %d attached; a bad change stops at %d nodes and says %s", got, status.Attached, at, plan.SubnetFull)
		}
		waiting := 0
		for node := range perNode(c, isAttached) {
			for _, i := range c.Interfaces(node) {
				if drifted := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionDrifted); drifted != nil && drifted.Message != "" {
					waiting++
				}
			}
		}
		// The nodes that replace an interface now lack one each, and their other one waits too.
		if waiting != 2*nodes-at {
			t.Errorf("%d interfaces say what they wait for, want %d", waiting, 2*nodes-at)
		}

		c.EC2.RemoveFault(full.ID)
		c.EC2.RemoveFault(full2.ID)
		c.Eventually(2*time.Hour, "the rollout", func() string {
			if is := rollout(); is != "" {
				t.Fatal(is)
			}
			return c.Difference()
		})
		if got := r.Metric("multieni_nodeeni_interfaces", "data", "drifted"); got != 0 {
			t.Errorf("the metric counts %g drifted interfaces after the rollout", got)
		}
	})
}

// lacking returns "" unless more than most nodes lack one of their two interfaces, or one lacks both.
func lacking(c *bubble.Cluster, most int) string {
	n, left := 0, perNode(c, isAttached)
	for node := range perNode(c, isAny) {
		if left[node] == 0 {
			return node + " has no interface left"
		}
		if left[node] < 2 {
			n++
		}
	}
	if n > most {
		return fmt.Sprintf("%d nodes lack an interface, want at most %d", n, most)
	}
	return ""
}

// TestAFullSubnet has no address for any node of a zone. The controller requests one now and then, not for each node.
func TestAFullSubnet(t *testing.T) {
	size.NeedsAll(t, "it takes ten seconds of processor time")
	const nodes = 60
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		r := c.Start(c.Defaults())
		_, err := c.EC2.AddFault(fault.Fault{Kind: fault.SubnetFull, Resource: bubble.SubnetIDs("data")[0]})
		c.Must(err)
		c.Join(nodes, "a")
		time.Sleep(5 * time.Minute)
		since := time.Now()
		time.Sleep(time.Hour)
		if tried, most := len(r.Changes(since)), int(time.Hour/plan.SubnetFullBackoff); tried == 0 || tried > most {
			t.Errorf("%d attempts in an hour, want some and at most %d", tried, most)
		}
		attached := perNode(c, isAttached)
		if len(attached) != nodes/2 {
			t.Errorf("%d nodes of the other zone have theirs, want %d", len(attached), nodes/2)
		}
		c.EC2.ClearFaults()
		t.Logf("all is well %s after there are addresses again", c.Converge(time.Hour))
	})
}

// TestAnAttachThatGetsStuck never ends the attaches of one instance. The controller retries every ten minutes,
// reports it to users, and serves all other instances.
func TestAnAttachThatGetsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		c.Declare("storage", "b", "storage")
		r := c.Start(c.Defaults())
		nodes := c.Join(2, "b")
		c.Converge(10 * time.Minute)
		_, err := c.EC2.AddFault(fault.Fault{Kind: fault.StuckAttaching, Resource: c.InstanceID(nodes[0])})
		c.Must(err)
		c.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) {
			n.Spec.NodeSelector = map[string]v1alpha1.LabelValue{bubble.PoolLabel: "b"}
		})
		took := c.Eventually(15*time.Minute, "the word that an attach is stuck", func() string { return problemOf(c, nodes[0], plan.AttachStuck) })
		t.Logf("the status reports it after %s", took)
		since := time.Now()
		time.Sleep(4 * time.Hour)
		// Only the interface of an object that is being deleted is detached, so each retry is another object: create,
		// attach, set deletion on termination, detach and delete.
		if tried, most := len(r.Changes(since)), 5*int(4*time.Hour/plan.RecreateAfter); tried == 0 || tried > most {
			t.Errorf("%d calls in four hours for what does not get done, want some and at most %d", tried, most)
		}
		if n := events(c, string(plan.AttachStuck)); n == 0 {
			t.Error("no event tells that an attach is stuck")
		}
		if got := perNode(c, isAttached); got[nodes[0]] != 1 || got[nodes[1]] != 2 {
			t.Errorf("attached per node: %v, want all but the one that is stuck", got)
		}
		c.EC2.ClearFaults()
		c.Converge(time.Hour)
	})
}

// TestADetachThatGetsStuck never ends the detaches of one instance unless they are forced. The controller forces each
// once, after its timeout and not sooner, and reports that; all other instances are unaffected.
func TestADetachThatGetsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		r := c.Start(c.Defaults())
		nodes := c.Join(4, "a")
		c.Converge(10 * time.Minute)
		_, err := c.EC2.AddFault(fault.Fault{Kind: fault.StuckDetaching, Resource: c.InstanceID(nodes[0])})
		c.Must(err)
		since := time.Now()
		for _, node := range nodes[:2] {
			c.ChangeNode(node, func(n *corev1.Node) { n.Labels[bubble.PoolLabel] = "none" })
		}
		c.Eventually(time.Minute, "what is not stuck is gone", func() string {
			return gocmp.Diff(map[string]int{nodes[0]: 1, nodes[2]: 1, nodes[3]: 1}, perNode(c, isAny))
		})
		c.Converge(time.Hour)

		var forced []bubble.Mutation
		for _, m := range r.Changes(since) {
			if m.Force {
				forced = append(forced, m)
			}
		}
		// EC2's reads return the start of the detach a little late.
		if len(forced) != 1 || forced[0].At.Sub(since) < plan.ForcedDetachAfter || forced[0].At.Sub(since) > plan.ForcedDetachAfter+2*time.Minute {
			t.Errorf("forced %v after the labels were taken off at %s, want once after %s", forced, since, plan.ForcedDetachAfter)
		}
		if n := events(c, "ForceDetach"); n != 2 { // of the NodeENI and of the Node
			t.Errorf("%d events tell that an interface is detached by force, want 2", n)
		}
		if got := perNode(c, isAttached); got[nodes[2]] != 1 || got[nodes[3]] != 1 {
			t.Errorf("attached per node: %v, want those of the others untouched", got)
		}
	})
}

// problemOf returns "" if an interface of the node has the reason, else the reasons of all.
func problemOf(c *bubble.Cluster, node string, want plan.Reason) string {
	var all []string
	for _, i := range c.Interfaces(node) {
		for _, condition := range i.Status.Conditions {
			if condition.Reason == string(want) {
				return ""
			}
			all = append(all, i.Status.ENIID+" "+condition.Type+" "+condition.Reason)
		}
	}
	return fmt.Sprint(all)
}
