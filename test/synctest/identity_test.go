// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/test/size"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// The owner of an interface, and changes that are no reason to remove one.

// TestANodeThatIsAwayLosesNothing deletes the Node object of a running instance, creates it again without a providerID,
// and then as it was.
func TestANodeThatIsAwayLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		r := c.Start(c.Defaults())
		name := c.Join(3, "a")[0]
		c.Converge(10 * time.Minute)
		since, before := time.Now(), idsOf(owned(c))

		node := c.Node(name)
		c.Must(c.User.Delete(t.Context(), node))
		time.Sleep(time.Hour)
		again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: node.Labels}}
		c.Must(c.User.Create(t.Context(), again))
		time.Sleep(time.Hour)
		c.ChangeNode(name, func(n *corev1.Node) { n.Spec.ProviderID = node.Spec.ProviderID })
		c.Converge(10 * time.Minute)
		time.Sleep(time.Hour)
		if late := r.Changes(since); len(late) > 0 {
			t.Errorf("changes although nothing that matters changed: %v", late)
		}
		if diff := gocmp.Diff(before, idsOf(owned(c))); diff != "" {
			t.Errorf("interfaces (-before +after):\n%s", diff)
		}
	})
}

// TestANodeNameComesBackAsAnotherInstance ends an instance whose interfaces outlive it, while another one registers
// under its name.
func TestANodeNameComesBackAsAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		c.ChangeNodeENI("data", func(n *v1alpha1.NodeENI) { n.Spec.DeleteOnTermination = ptr.To(false) })
		r := c.Start(c.Defaults())
		names := c.Join(3, "a")
		all := func(wanted map[string]string) func() string {
			return func() string {
				have := map[string]string{}
				for _, i := range owned(c) {
					if isAttached(i) {
						have[i.Tags[identity.TagNode]] += i.Attachment.InstanceID
					} else {
						have["nobody"] += i.NetworkInterfaceID + " "
					}
				}
				return gocmp.Diff(wanted, have)
			}
		}
		wanted := map[string]string{}
		for _, name := range names {
			wanted[name] = c.InstanceID(name)
		}
		c.Eventually(10*time.Minute, "what is wanted at first", all(wanted))

		old := c.Node(names[0])
		launched, err := c.EC2.Launch(ec2.WorldInstance{InstanceType: "m5.xlarge", AvailabilityZone: old.Labels[corev1.LabelTopologyZone]})
		c.Must(err)
		time.Sleep(time.Minute)
		since := time.Now()
		c.Must(c.EC2.Terminate(c.InstanceID(names[0])))
		c.Must(c.User.Delete(t.Context(), old))
		c.Must(c.User.Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: names[0], Labels: old.Labels},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///" + old.Labels[corev1.LabelTopologyZone] + "/" + launched[0].InstanceID},
		}))
		wanted[names[0]] = launched[0].InstanceID
		t.Logf("the new instance has its own, and nothing of the old one is left, after %s",
			c.Eventually(10*time.Minute, "what is wanted of the new instance", all(wanted)))
		for _, m := range r.Changes(since) {
			if m.Action == "DetachNetworkInterface" {
				t.Error("an interface was detached, although its instance ended and all others are wanted")
			}
		}
	})
}

// TestAnInstanceThatEndsIsNoMoreWork terminates instances while they get their first interfaces. The controller creates
// no more for them, although their Nodes stay.
func TestAnInstanceThatEndsIsNoMoreWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		c.Declare("storage", "a", "storage")
		r := c.Start(c.Defaults())
		names := c.Join(20, "a")
		time.Sleep(2 * time.Second)
		for _, name := range names[:10] {
			c.Must(c.EC2.Terminate(c.InstanceID(name)))
		}
		time.Sleep(time.Minute)
		since := time.Now()
		c.Eventually(20*time.Minute, "only living instances have interfaces", func() string {
			if n := len(owned(c)); n != 20 {
				return fmt.Sprintf("%d interfaces, want 20", n)
			}
			return ""
		})
		time.Sleep(time.Hour)
		for _, m := range r.Changes(since) {
			if m.Action != "DeleteNetworkInterface" {
				t.Errorf("%s %s after the instances ended", m.Action, m.At.Sub(since))
			}
		}
	})
}

// TestARestoredEtcd loses a NodeENI whose interfaces are in use, as a restore of etcd to an earlier time does. Their
// objects say so, and wait a day before they are deleted; on paused nodes no interface is detached.
func TestARestoredEtcd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, nodes := inUse(t)
		since := time.Now()
		forget(c, c.NodeENI("data"))
		r := c.Start(c.Defaults())
		c.Eventually(15*time.Minute, "the alarm", func() string { return alarm(c, r, nodes) })
		c.ChangeNode(nodes[0], func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} })
		for time.Since(since) < fleet.OrphanGrace {
			if made := r.Changes(since); len(made) > 0 {
				t.Fatalf("%s after the loss: %v", time.Since(since), made)
			}
			time.Sleep(time.Minute)
		}
		took := c.Eventually(time.Hour, "the orphans are gone", func() string {
			if left := perNode(c, isAny); len(left) != 1 || left[nodes[0]] != 1 {
				return fmt.Sprint(left)
			}
			return ""
		})
		t.Logf("the orphans are gone %s after their grace", took)
		time.Sleep(2 * time.Hour)
		if left := perNode(c, isAttached); left[nodes[0]] != 1 {
			t.Error("the paused node has lost its interface")
		}
	})
}

// TestARestoredEtcdWithoutObjects loses the NetworkInterfaces as well: then only tags name their objects, and they stay
// attached. The controller reports that.
func TestARestoredEtcdWithoutObjects(t *testing.T) {
	size.NeedsAll(t, "it takes ten seconds of processor time")
	synctest.Test(t, func(t *testing.T) {
		c, nodes := inUse(t)
		since := time.Now()
		lose(c)
		r := c.Start(c.Defaults())
		c.Eventually(15*time.Minute, "the metric", func() string {
			if n := int(r.Metric("multieni_unverified_interfaces")); n != len(nodes) {
				return fmt.Sprintf("the metric counts %d of %d", n, len(nodes))
			}
			return ""
		})
		time.Sleep(2 * fleet.OrphanGrace)
		if made := r.Changes(since); len(made) > 0 {
			t.Errorf("after the loss: %v", made)
		}
	})
}

// TestANodeENIThatWasLostIsCreatedAgain creates the NodeENI again, at once or after the alarm, with its objects or
// without them. It has the interfaces in use: the controller detaches and creates none.
func TestANodeENIThatWasLostIsCreatedAgain(t *testing.T) {
	size.NeedsAll(t, "it takes ten seconds of processor time")
	onlyNodeENI := func(c *bubble.Cluster) { forget(c, c.NodeENI("data")) }
	for name, tc := range map[string]struct {
		lose  func(*bubble.Cluster)
		after time.Duration
	}{
		"at once":                        {onlyNodeENI, 0},
		"after the alarm":                {onlyNodeENI, 20 * time.Minute},
		"at once, without objects":       {lose, 0},
		"after a while, without objects": {lose, 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, nodes := inUse(t)
				before := perNode(c, isAttached)
				since := time.Now()
				tc.lose(c)
				r := c.Start(c.Defaults())
				time.Sleep(tc.after)
				c.Declare("data", "a", "data")
				took := c.Eventually(15*time.Minute, "the new one has all", func() string {
					if n := c.NodeENI("data").Status.Ready; int(n) != len(nodes) {
						return fmt.Sprintf("%d of %d nodes are ready", n, len(nodes))
					}
					return ""
				})
				t.Logf("taken over after %s", took)
				time.Sleep(fleet.OrphanGrace + time.Hour)
				if diff := gocmp.Diff(before, perNode(c, isAttached)); diff != "" {
					t.Errorf("attached per node (-before +after):\n%s", diff)
				}
				for _, m := range r.Changes(since) {
					if m.Action != "CreateTags" {
						t.Errorf("%s %s after the loss", m.Action, m.At.Sub(since))
					}
				}
				if n := r.Metric("multieni_orphaned_interfaces"); n != 0 {
					t.Errorf("the alarm for %g objects has not ended: %+v", n, c.Interfaces(nodes[0])[0].Status.Conditions)
				}
			})
		})
	}
}

// inUse returns a cluster without a controller, whose nodes have long had an interface of NodeENI data.
func inUse(t *testing.T) (c *bubble.Cluster, nodes []string) {
	t.Helper()
	c = bubble.New(t, bubble.World())
	c.Declare("data", "a", "data")
	r := c.Start(c.Defaults())
	nodes = c.Join(4, "a")
	c.Converge(10 * time.Minute)
	time.Sleep(time.Hour)
	r.Halt()
	return c, nodes
}

// lose removes NodeENI data and all NetworkInterfaces from the API server.
func lose(c *bubble.Cluster) {
	c.Helper()
	loseInterfaces(c)
	forget(c, c.NodeENI("data"))
}

func loseInterfaces(c *bubble.Cluster) {
	c.Helper()
	var all v1alpha1.NetworkInterfaceList
	c.Must(c.User.List(c.Context(), &all))
	for n := range all.Items {
		forget(c, &all.Items[n])
	}
}

// alarm returns what does not yet report that the NodeENI of the nodes' interfaces is lost; "" if everything does.
func alarm(c *bubble.Cluster, r *bubble.Replica, nodes []string) string {
	if lost := r.Metric("multieni_orphaned_interfaces"); int(lost) != len(nodes) {
		return fmt.Sprintf("the metric counts %g orphans", lost)
	}
	for _, node := range nodes {
		if is := problemOf(c, node, plan.Orphaned); is != "" {
			return is
		}
	}
	return ""
}

// forget removes an object from the API server without the steps of a deletion.
func forget(c *bubble.Cluster, object client.Object) {
	c.Helper()
	c.Must(c.User.Delete(c.Context(), object))
	before := object.DeepCopyObject().(client.Object)
	object.SetFinalizers(nil)
	c.Must(client.IgnoreNotFound(c.User.Patch(c.Context(), object, client.MergeFrom(before))))
}

// TestLeaksGoAlthoughTheControllerStartsAgainAndAgain restarts the controller every six minutes: a leak is deleted after two
// reads that show all interfaces of the leader before, and each restart forgets the first.
func TestLeaksGoAlthoughTheControllerStartsAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := bubble.World()
		for n := range 30 {
			w.NetworkInterfaces = append(w.NetworkInterfaces, leak("leak", n, nil))
		}
		c := bubble.New(t, w)
		o := c.Defaults()
		o.ClusterName = leakyCluster
		begun := time.Now()
		for described(c)["leak"] > 0 {
			if since := time.Since(begun); since > 2*identity.MinLeakAge {
				t.Fatalf("%d leaks are left after %s", described(c)["leak"], since)
			}
			r := c.Start(o)
			time.Sleep(6 * time.Minute)
			r.Halt()
		}
		t.Logf("the leaks are gone after %s", time.Since(begun))
	})
}

// byHand is a fleet in which people change the first node's interface by hand.
type byHand struct {
	*bubble.Cluster
	replica *bubble.Replica
	node    string
	// since is when they begin.
	since time.Time
}

// TestWhatPeopleDoByHand lets people detach, delete, retag and move interfaces in the EC2 console.
func TestWhatPeopleDoByHand(t *testing.T) {
	size.NeedsAll(t, "it takes ten seconds of processor time")
	for name, do := range map[string]func(*testing.T, byHand){
		"detached":                      detachedByHand,
		"deleted again and again":       deletedByHand,
		"deprived of the cluster's tag": untaggedByHand,
		"deprived of tags":              renamedByHand,
		"attached elsewhere":            movedByHand,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble.New(t, bubble.World())
				c.Declare("data", "a", "data")
				r := c.Start(c.Defaults())
				node := c.Join(2, "a")[0]
				c.Converge(10 * time.Minute)
				time.Sleep(time.Hour)
				others := func() []string {
					return idsOf(slices.DeleteFunc(owned(c), func(i *ec2.NetworkInterface) bool { return i.Tags[identity.TagNode] == node }))
				}
				before := others()
				do(t, byHand{Cluster: c, replica: r, node: node, since: time.Now()})
				if diff := gocmp.Diff(before, others()); diff != "" {
					t.Errorf("others were affected:\n%s", diff)
				}
			})
		})
	}
}

// theirs is the interface that people change; nil while there is none.
func (c byHand) theirs() *ec2.NetworkInterface {
	for _, i := range owned(c.Cluster) {
		if i.Tags[identity.TagNode] == c.node {
			return i
		}
	}
	return nil
}

func (c byHand) detach(i *ec2.NetworkInterface) {
	c.Console("DetachNetworkInterface", "AttachmentId", i.Attachment.AttachmentID)
	time.Sleep(30 * time.Second)
}

// wantChanges compares the number of calls since people began with the expected one.
func (c byHand) wantChanges(t *testing.T, want int, which string) {
	t.Helper()
	if made := c.replica.Changes(c.since); len(made) != want {
		t.Errorf("want %s: %v", which, made)
	}
}

func detachedByHand(t *testing.T, c byHand) {
	i := c.theirs()
	c.detach(i)
	c.Converge(10 * time.Minute)
	if now := c.theirs(); now.NetworkInterfaceID != i.NetworkInterfaceID || !isAttached(now) {
		t.Errorf("%s is %s, want %s attached again", now.NetworkInterfaceID, now.Status, i.NetworkInterfaceID)
	}
	c.wantChanges(t, 2, "an attach and a change")
}

func deletedByHand(t *testing.T, c byHand) {
	for time.Since(c.since) < 2*time.Hour {
		if i := c.theirs(); i != nil && i.Attachment != nil && isAttached(i) {
			c.detach(i)
		}
		if i := c.theirs(); i != nil && i.Attachment == nil {
			c.Console("DeleteNetworkInterface", "NetworkInterfaceId", i.NetworkInterfaceID)
		}
		time.Sleep(10 * time.Second)
	}
	creates := 0
	for _, m := range c.replica.Changes(c.since) {
		if m.Action == "CreateNetworkInterface" {
			creates++
		}
	}
	if most := int(2*time.Hour/plan.RecreateAfter) + 1; creates < 2 || creates > most {
		t.Errorf("%d creates in two hours for one slot, want at most %d", creates, most)
	}
	t.Logf("made anew %d times in two hours", creates)
	c.Converge(time.Hour)
}

func untaggedByHand(t *testing.T, c byHand) {
	i := c.theirs()
	c.Console("DeleteTags", "ResourceId.1", i.NetworkInterfaceID, "Tag.1.Key", identity.TagCluster)
	time.Sleep(3 * time.Hour)
	for _, now := range c.EC2.State().NetworkInterfaces {
		if now.NetworkInterfaceID == i.NetworkInterfaceID && (!isAttached(now) || now.Tags[identity.TagCluster] != "") {
			t.Errorf("it is %s with the tags %v, want it left as it is", now.Status, now.Tags)
		}
	}
	// It is in the slot and the subnet of its successor, which waits until a user imports or detaches it.
	if is := problemOf(c.Cluster, c.node, plan.NotImported); is != "" {
		t.Errorf("%s, want %s", is, plan.NotImported)
	}
	c.wantChanges(t, 0, "no change of an interface that is not the cluster's")
}

func renamedByHand(t *testing.T, c byHand) {
	c.Console("DeleteTags", "ResourceId.1", c.theirs().NetworkInterfaceID, "Tag.1.Key", "Name", "Tag.2.Key", identity.TagUID)
	c.Eventually(10*time.Minute, "the tags are back", func() string {
		if now := c.theirs(); now.Tags["Name"] == "" || now.Tags[identity.TagUID] == "" {
			return "they are not"
		}
		return ""
	})
	time.Sleep(time.Hour)
	c.wantChanges(t, 1, "one call")
}

func movedByHand(t *testing.T, c byHand) {
	i := c.theirs()
	other, err := c.EC2.Launch(ec2.WorldInstance{InstanceType: "m5.xlarge", AvailabilityZone: i.AvailabilityZone})
	c.Must(err)
	time.Sleep(time.Minute)
	c.since = time.Now()
	c.Console("DetachNetworkInterface", "AttachmentId", i.Attachment.AttachmentID)
	for c.theirs().Attachment != nil {
		time.Sleep(time.Second)
	}
	c.Console("AttachNetworkInterface", "NetworkInterfaceId", i.NetworkInterfaceID, "InstanceId", other[0].InstanceID, "DeviceIndex", "1")
	time.Sleep(3 * time.Hour)
	c.wantChanges(t, 0, "no change of an interface that people use elsewhere")
	if is := problemOf(c.Cluster, c.node, plan.AttachedElsewhere); is != "" {
		t.Errorf("%s, want %s", is, plan.AttachedElsewhere)
	}
	c.detach(c.theirs())
	c.Converge(time.Hour)
}
