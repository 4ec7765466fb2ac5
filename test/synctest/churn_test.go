// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/test/size"
	"github.com/multieni/multieni/test/synctest/bubble"
)

var pools = []string{"a", "b", "none"}

// TestChurn lets nodes join and leave and people edit NodeENIs while calls fail, and then leaves the cluster alone.
func TestChurn(t *testing.T) {
	hours := size.Of(1, 2, 6)
	for seed := range uint64(size.Of(1, 1, 20)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble.New(t, bubble.World())
				c.Declare("data", "a", "data")
				c.Declare("storage", "b", "storage")
				r := c.Start(c.Defaults())
				c.Join(10, "a")
				c.Converge(10 * time.Minute)
				beHostile(c, r)

				begun := time.Now()
				p := people{c, rand.New(rand.NewPCG(seed, 2))}
				acts := 0
				for ; time.Since(begun) < time.Duration(hours)*time.Hour; acts++ {
					time.Sleep(time.Duration(p.IntN(120)) * time.Second)
					p.act()
				}
				faults := c.EC2.Faults()
				c.EC2.ClearFaults()
				r.Kubernetes.Lose(0)

				took := c.Converge(20 * time.Minute)
				drain(c, 10*time.Minute)
				time.Sleep(time.Minute) // The caches still receive what was written last.
				t.Logf("%d acts in %d hours left %d interfaces, which was so %s after the faults ended: %s", acts, hours, len(c.Wanted()), took, struck(faults))
				quiet := time.Now()
				before := versions(c)
				time.Sleep(time.Hour)
				if late := r.Changes(quiet); len(late) > 0 {
					t.Errorf("changes after all was well: %v", late)
				}
				for name, version := range versions(c) {
					if before[name] != version {
						t.Errorf("%s was written to after all was well", name)
					}
				}
			})
		})
	}
}

// beHostile makes a part of all calls fail, or answers them late or not at all.
func beHostile(c *bubble.Cluster, r *bubble.Replica) {
	c.Helper()
	for _, f := range []fault.Fault{
		{Kind: fault.Throttle, Probability: 0.03},
		{Kind: fault.Error, Probability: 0.03},
		{Kind: fault.LoseRequest, Probability: 0.02},
		{Kind: fault.LoseReply, Probability: 0.03},
		{Kind: fault.Delay, Probability: 0.1, Delay: 3 * time.Second},
		{Kind: fault.StaleRead, Probability: 0.1, Age: 20 * time.Second, Jitter: true},
	} {
		_, err := c.EC2.AddFault(f)
		c.Must(err)
	}
	r.Kubernetes.Lose(0.03)
}

func struck(faults []fault.Fault) string {
	var words []string
	for _, f := range faults {
		words = append(words, fmt.Sprintf("%d %s", f.Strikes, f.Kind))
	}
	return strings.Join(words, ", ")
}

// drain waits until no NetworkInterface waits for its end.
func drain(c *bubble.Cluster, within time.Duration) {
	c.Helper()
	begun := time.Now()
	for {
		var all v1alpha1.NetworkInterfaceList
		c.Must(c.User.List(c.Context(), &all))
		served := map[string]bool{}
		for _, m := range c.Wanted() {
			served[m.Instance] = true
		}
		left := slices.DeleteFunc(all.Items, func(n v1alpha1.NetworkInterface) bool { return served[n.Spec.InstanceID] })
		if len(left) == 0 {
			return
		}
		if time.Since(begun) > within {
			c.Fatalf("after %s the NetworkInterface %s is left, which nothing needs: %v", within, left[0].Name, left[0])
		}
		time.Sleep(5 * time.Second)
	}
}

// people are the users of the cluster, including the autoscaler.
type people struct {
	*bubble.Cluster
	*rand.Rand
}

func (p people) act() {
	p.Helper()
	switch act := p.IntN(10); {
	case act < 3:
		p.Join(1+p.IntN(3), pools[p.IntN(len(pools))])
	case act < 5:
		p.leave()
	case act < 7:
		p.relabel()
	case act < 9:
		p.edit()
	default:
		p.redeclare()
	}
}

func (p people) someNode() *corev1.Node {
	p.Helper()
	var nodes corev1.NodeList
	p.Must(p.User.List(p.Context(), &nodes))
	if len(nodes.Items) < 5 {
		return nil
	}
	return &nodes.Items[p.IntN(len(nodes.Items))]
}

// leave terminates an instance, and removes its Node about when EC2 has terminated it.
func (p people) leave() {
	p.Helper()
	node := p.someNode()
	if node == nil {
		return
	}
	id := node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
	p.Must(p.EC2.Terminate(id))
	time.Sleep(time.Duration(p.IntN(120)) * time.Second)
	p.Must(p.User.Delete(p.Context(), node))
}

func (p people) relabel() {
	p.Helper()
	if node := p.someNode(); node != nil {
		before := node.DeepCopy()
		node.Labels[bubble.PoolLabel] = pools[p.IntN(len(pools))]
		p.Must(p.User.Patch(p.Context(), node, client.MergeFrom(before)))
	}
}

// edit changes what a NodeENI declares: the description or, for one of the two, whether it has a second subnet in each
// zone. Both may select the same nodes. A node supports three interfaces in addition to its primary one, and all
// declarations together must fit.
func (p people) edit() {
	p.Helper()
	n := p.someNodeENI()
	if n == nil {
		return
	}
	before := n.DeepCopy()
	switch first := n.Spec.SubnetIDs[:2:2]; {
	case n.Name != "data" || p.IntN(2) == 0:
		n.Spec.Description = fmt.Sprintf("version %d", p.IntN(100))
	case len(n.Spec.SubnetIDs) > 2:
		n.Spec.SubnetIDs = first
	default:
		n.Spec.SubnetIDs = append(first, bubble.SubnetIDs("hosts")...)
	}
	p.Must(p.User.Patch(p.Context(), n, client.MergeFrom(before)))
}

// redeclare deletes a NodeENI, or creates the deleted ones again.
func (p people) redeclare() {
	p.Helper()
	if n := p.someNodeENI(); n != nil && p.IntN(2) == 0 {
		p.Must(p.User.Delete(p.Context(), n))
		return
	}
	for name, use := range map[string]string{"data": "data", "storage": "storage"} {
		var there v1alpha1.NodeENI
		err := p.User.Get(p.Context(), client.ObjectKey{Name: name}, &there)
		if apierrors.IsNotFound(err) {
			p.Declare(name, pools[p.IntN(2)], use)
		} else {
			p.Must(err)
		}
	}
}

func (p people) someNodeENI() *v1alpha1.NodeENI {
	p.Helper()
	var nodeENIs v1alpha1.NodeENIList
	p.Must(p.User.List(p.Context(), &nodeENIs))
	alive := slices.DeleteFunc(nodeENIs.Items, func(n v1alpha1.NodeENI) bool { return n.DeletionTimestamp != nil })
	if len(alive) == 0 {
		return nil
	}
	return &alive[p.IntN(len(alive))]
}
