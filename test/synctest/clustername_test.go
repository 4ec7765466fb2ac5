// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/importer"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// The name of the cluster in tags.

// TestAnotherClusterNameChangesNothing restarts the controller with another cluster name, as an upgrade does that
// forgets the value, and then with the name in use.
func TestAnotherClusterNameChangesNothing(t *testing.T) {
	for name, lose := range map[string]func(*bubble.Cluster){
		"the name is recorded": func(*bubble.Cluster) {},
		"the record is lost":   deleteRecord,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble.New(t, bubble.World())
				c.Declare("data", "a", "data")
				named, unnamed := c.Defaults(), c.Defaults()
				named.ClusterName = "prod"
				first := c.Start(named)
				c.Join(4, "a")
				attached := func() string {
					if n := len(c.OwnedBy("prod")); n != 4 || c.NodeENI("data").Status.Attached != 4 {
						return fmt.Sprintf("%d interfaces of 4, %v", n, c.NodeENI("data").Status.Conditions)
					}
					return ""
				}
				c.Eventually(time.Minute, "all interfaces are attached", attached)
				first.Halt()
				lose(c)

				c.Declare("storage", "a", "storage")
				second := c.Start(unnamed)
				for _, name := range []string{"data", "storage"} {
					c.Eventually(2*time.Minute, "NodeENI "+name+" says why nothing changes", func() string {
						ready := meta.FindStatusCondition(c.NodeENI(name).Status.Conditions, v1alpha1.ConditionReady)
						if ready == nil || ready.Reason != v1alpha1.ReasonOtherClusterName || !strings.Contains(ready.Message, "clusterName=prod") {
							return fmt.Sprintf("Ready is %+v", ready)
						}
						return ""
					})
				}
				if events(c, v1alpha1.ReasonOtherClusterName) == 0 {
					t.Error("no event says so")
				}
				c.Must(c.User.Delete(t.Context(), c.NodeENI("storage")))
				time.Sleep(time.Hour)
				if calls := second.Changes(time.Time{}); len(calls) > 0 {
					t.Errorf("changing calls under another name: %v", calls)
				}
				second.Halt()

				third := c.Start(named)
				c.Eventually(5*time.Minute, "the name is back", attached)
				c.Eventually(5*time.Minute, "the NodeENI is ready", func() string {
					if ready := meta.FindStatusCondition(c.NodeENI("data").Status.Conditions, v1alpha1.ConditionReady); ready.Status != "True" {
						return fmt.Sprintf("%+v", ready)
					}
					return ""
				})
				if calls := third.Changes(time.Time{}); len(calls) > 0 {
					t.Errorf("changing calls after the name is back: %v", calls)
				}
			})
		})
	}
}

// TestAnImportUnderAnotherNameIsFound imports an interface under one name before the first controller, which has another:
// it would create a second interface next to the first.
func TestAnImportUnderAnotherNameIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		instance := c.InstanceID(c.Join(1, "a")[0])
		c.Console("CreateNetworkInterface", "SubnetId", bubble.SubnetIDs("data")[0],
			"TagSpecification.1.ResourceType", "network-interface",
			"TagSpecification.1.Tag.1.Key", identity.TagCluster, "TagSpecification.1.Tag.1.Value", "prod",
			"TagSpecification.1.Tag.2.Key", identity.TagImportedFrom, "TagSpecification.1.Tag.2.Value", importer.FromController,
			"TagSpecification.1.Tag.3.Key", identity.TagInstanceID, "TagSpecification.1.Tag.3.Value", instance)
		time.Sleep(5 * time.Minute) // EC2 returns it for certain
		first := c.Start(c.Defaults())
		c.Eventually(2*time.Minute, "the NodeENI says why nothing changes", func() string {
			ready := meta.FindStatusCondition(c.NodeENI("data").Status.Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Reason != v1alpha1.ReasonOtherClusterName || !strings.Contains(ready.Message, "clusterName=prod") {
				return fmt.Sprintf("Ready is %+v", ready)
			}
			return ""
		})
		if calls := first.Changes(time.Time{}); len(calls) > 0 {
			t.Errorf("changing calls under another name: %v", calls)
		}
	})
}

func deleteRecord(c *bubble.Cluster) {
	var all corev1.ConfigMapList
	c.Must(c.User.List(c.Context(), &all))
	for i := range all.Items {
		c.Must(c.User.Delete(c.Context(), &all.Items[i]))
	}
}

// TestAnEmptyClusterTakesAnotherName changes the name after everything was removed under the first one.
func TestAnEmptyClusterTakesAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		o := c.Defaults()
		o.ClusterName = "prod"
		first := c.Start(o)
		c.Join(2, "a")
		owned := func(name string, want int) {
			t.Helper()
			c.Eventually(5*time.Minute, name+" owns all", func() string {
				if n := len(c.OwnedBy(name)); n != want {
					return fmt.Sprintf("%d of %d", n, want)
				}
				return ""
			})
		}
		owned("prod", 2)
		c.Must(c.User.Delete(t.Context(), c.NodeENI("data")))
		c.Eventually(10*time.Minute, "everything is gone", func() string {
			var all v1alpha1.NodeENIList
			var interfaces v1alpha1.NetworkInterfaceList
			c.Must(c.User.List(t.Context(), &all))
			c.Must(c.User.List(t.Context(), &interfaces))
			if len(all.Items)+len(interfaces.Items) > 0 {
				return "some are left"
			}
			return ""
		})
		first.Halt()
		o.ClusterName = "prod-2"
		c.Start(o)
		c.Declare("data", "a", "data")
		owned("prod-2", 2)
	})
}
