// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
)

// Member is a desired or an existing interface.
type Member struct{ NodeENI, Instance, Subnet, Attachment, Description string }

// Wanted returns the interfaces that the NodeENIs and Nodes request. It computes them independently of the product's
// code.
func (c *Cluster) Wanted() []Member {
	c.Helper()
	var nodes corev1.NodeList
	c.Must(c.User.List(c.Context(), &nodes))
	var nodeENIs v1alpha1.NodeENIList
	c.Must(c.User.List(c.Context(), &nodeENIs))
	var all []Member
	for _, n := range nodeENIs.Items {
		for _, node := range nodes.Items {
			if !n.DeletionTimestamp.IsZero() || !carries(node, n.Spec.NodeSelector) {
				continue
			}
			zone, instance, _ := strings.Cut(strings.TrimPrefix(node.Spec.ProviderID, "aws:///"), "/")
			for _, subnet := range n.Spec.SubnetIDs {
				if subnet[len(subnet)-1] == zone[len(zone)-1] {
					all = append(all, Member{n.Name, instance, subnet, ec2.Attached, n.Spec.Description})
				}
			}
		}
	}
	return sorted(all)
}

func carries(node corev1.Node, selector map[string]v1alpha1.LabelValue) bool {
	for key, value := range selector {
		if node.Labels[key] != string(value) {
			return false
		}
	}
	return true
}

// Owned returns the interfaces with the cluster's tag that EC2 has.
func (c *Cluster) Owned() []Member {
	c.Helper()
	return c.OwnedBy(c.UID())
}

// OwnedBy returns the interfaces that EC2 has with the tag of a cluster, which may have been given a name.
func (c *Cluster) OwnedBy(name string) []Member {
	var all []Member
	for _, i := range c.EC2.State().NetworkInterfaces {
		if i.Tags[identity.TagCluster] != name {
			continue
		}
		m := Member{i.Tags[identity.TagNodeENI], i.Tags[identity.TagInstanceID], i.SubnetID, i.Status, i.Description}
		if a := i.Attachment; a != nil {
			m.Attachment = a.Status
			if a.InstanceID != m.Instance || !a.DeleteOnTermination {
				m.Attachment = fmt.Sprintf("%s to %s, deleteOnTermination %t", a.Status, a.InstanceID, a.DeleteOnTermination)
			}
		}
		all = append(all, m)
	}
	return sorted(all)
}

// UID identifies the cluster.
func (c *Cluster) UID() string {
	c.Helper()
	var system corev1.Namespace
	c.Must(c.User.Get(c.Context(), client.ObjectKey{Name: "kube-system"}, &system))
	return string(system.UID)
}

func sorted(all []Member) []Member {
	slices.SortFunc(all, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.NodeENI, b.NodeENI), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Subnet, b.Subnet),
			cmp.Compare(a.Attachment, b.Attachment))
	})
	return all
}

// Converge waits until every status is at rest and EC2 has exactly the desired interfaces, and returns how long that
// took.
func (c *Cluster) Converge(within time.Duration) time.Duration {
	c.Helper()
	begun := time.Now()
	for {
		difference := c.Difference()
		if difference == "" {
			return time.Since(begun)
		}
		if time.Since(begun) > within {
			c.Fatalf("after %s: %.4000s", within, difference)
		}
		time.Sleep(time.Second)
	}
}

// Difference returns the first difference from the desired state. It makes the cheapest checks first.
func (c *Cluster) Difference() string {
	c.Helper()
	var nodeENIs v1alpha1.NodeENIList
	c.Must(c.User.List(c.Context(), &nodeENIs))
	said := 0
	for _, n := range nodeENIs.Items {
		if !n.DeletionTimestamp.IsZero() || !ready(n.Status.Conditions, n.Generation) {
			return fmt.Sprintf("NodeENI %s is under way, %d of %d interfaces are attached: %v", n.Name, n.Status.Attached,
				n.Status.Desired, n.Status.Conditions)
		}
		said += int(n.Status.Attached)
	}
	var objects v1alpha1.NetworkInterfaceList
	c.Must(c.User.List(c.Context(), &objects))
	for _, n := range objects.Items {
		if !n.DeletionTimestamp.IsZero() || !ready(n.Status.Conditions, n.Generation) {
			return fmt.Sprintf("NetworkInterface %s is under way: %v", n.Name, n.Status.Conditions)
		}
	}
	wanted := c.Wanted()
	if said != len(wanted) {
		return fmt.Sprintf("%d interfaces are wanted, the statuses name %d", len(wanted), said)
	}
	if diff := gocmp.Diff(wanted, c.Owned()); diff != "" {
		return "(-wanted +there):\n" + diff
	}
	return ""
}

// ready returns whether the status of an object reports that it is as its present generation declares it.
func ready(conditions []metav1.Condition, generation int64) bool {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == generation
}
