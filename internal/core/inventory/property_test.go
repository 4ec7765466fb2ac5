// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

var (
	instances = []string{"i-00000000000000001", "i-00000000000000002"}
	nodes     = []string{"node-1", "node-2"}
	owners    = []identity.Owner{"uid-a", "uid-b"}
)

func anyInterface(rt *rapid.T) eni.Interface {
	m := identity.Member{
		Cluster: rapid.SampledFrom([]string{cluster, cluster, cluster, "cluster-2"}).Draw(rt, "cluster"), NodeENI: "n",
		Node: rapid.SampledFrom(nodes).Draw(rt, "node"), InstanceID: rapid.SampledFrom(instances).Draw(rt, "instance"),
		Key:        identity.Key{Owner: rapid.SampledFrom(owners).Draw(rt, "owner"), Ordinal: rapid.IntRange(0, 2).Draw(rt, "ordinal")},
		Generation: identity.Generation(rapid.Int64Range(1, 3).Draw(rt, "generation")),
	}
	i := fresh(fmt.Sprintf("eni-%d", rapid.IntRange(1, 4).Draw(rt, "interface")), m, after(-rapid.IntRange(0, 300).Draw(rt, "age")))
	if status := rapid.SampledFrom([]eni.AttachmentStatus{"", eni.AttachmentAttaching, eni.AttachmentAttached, eni.AttachmentDetaching}).Draw(rt, "attachment"); status != "" {
		i = attached(i, status)
	}
	return i
}

// TestTheIndexesAgree compares every query with a scan of all interfaces, after any history.
func TestTheIndexesAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := inventory.New(cluster)
		now := start
		for range rapid.IntRange(1, 20).Draw(rt, "news") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(rt, "seconds")) * time.Second)
			tellSomething(rt, v, now)
			agree(rt, v)
		}
	})
}

func tellSomething(rt *rapid.T, v *inventory.Inventory, now time.Time) {
	begun := now.Add(-time.Duration(rapid.IntRange(0, 30).Draw(rt, "lag")) * time.Second)
	i := anyInterface(rt)
	switch rapid.SampledFrom([]string{"saw", "missed", "did", "deleted", "listed", "looked"}).Draw(rt, "kind") {
	case "saw":
		v.ObserveInterfaces(begun, i)
	case "missed":
		v.ObserveAbsence(begun, i.ID)
	case "did":
		v.RecordCall(now, i, inventory.Effect{Aspect: "a", IsVisible: func(shown eni.Interface) bool { return shown.Status == i.Status }})
	case "deleted":
		v.Deleted(now, i.ID)
	case "listed":
		v.ObserveList(begun, []eni.Interface{i})
	case "looked":
		v.ObserveInstance(eni.InstanceSnapshot{At: begun, Instance: eni.Instance{ID: i.Tags[identity.TagInstanceID]}, Interfaces: []eni.Interface{i}})
	}
}

func agree(rt *rapid.T, v *inventory.Inventory) {
	total := 0
	instancesOf, holds := map[string][]string{}, map[identity.Owner]bool{}
	var moving []string
	unattached := 0
	members := map[identity.Owner][]identity.Member{}
	for _, instanceID := range instances {
		records := v.Of(instanceID)
		total += len(records)
		if !slices.IsSortedFunc(records, func(a, b inventory.Record) int { return eni.CompareInterfaces(a.Interface, b.Interface) }) {
			rt.Fatal("records are not in order")
		}
		for _, r := range records {
			member, verdict := identity.Read(cluster, r.Tags)
			if verdict != identity.Owned || member != r.Member || member.InstanceID != instanceID {
				rt.Fatalf("%s is filed as %+v and tagged as %+v", r.ID, r.Member, member)
			}
			if !slices.Contains(instancesOf[member.Node], instanceID) {
				instancesOf[member.Node] = append(instancesOf[member.Node], instanceID)
			}
			holds[member.Owner] = true
			if r.Missing || r.Interface.InTransition() {
				moving = append(moving, r.ID)
			}
			members[member.Owner] = append(members[member.Owner], member)
			if r.Attachment == nil {
				unattached++
			}
			if i, known := v.Interface(r.ID); !known || !inventory.Equal(i, r.Interface) {
				rt.Fatalf("%s is not what Interface returns", r.ID)
			}
		}
	}
	if total != v.Len() {
		rt.Fatalf("Len is %d, and %d are filed by instance", v.Len(), total)
	}
	for _, node := range nodes {
		if diff := cmp.Diff(instancesOf[node], v.InstancesOf(node)); diff != "" {
			rt.Fatalf("instances of %s: %s", node, diff)
		}
	}
	for _, owner := range owners {
		if v.Holds(owner) != holds[owner] {
			rt.Fatalf("Holds(%s) is %t", owner, v.Holds(owner))
		}
	}
	if v.Unattached(func(identity.Owner) bool { return true }) != unattached {
		rt.Fatalf("Unattached is %d, and %d are", v.Unattached(func(identity.Owner) bool { return true }), unattached)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(members)), v.Owners()); diff != "" {
		rt.Fatalf("owners: %s", diff)
	}
	for owner, all := range members {
		if len(all) != len(v.MembersOf(owner)) {
			rt.Fatalf("%d members of %s, want %d", len(v.MembersOf(owner)), owner, len(all))
		}
	}
	slices.Sort(moving)
	if diff := cmp.Diff(moving, v.InTransition()); diff != "" {
		rt.Fatalf("in transition: %s", diff)
	}
}

// TestGivenAwayRecordsAreCopies changes every value that the inventory returns.
func TestGivenAwayRecordsAreCopies(t *testing.T) {
	i := attached(fresh("eni-1", member(0, 1), start), eni.AttachmentAttached)
	i.Groups = []string{"sg-1"}
	v := inventory.New(cluster)
	v.ObserveInterfaces(start, i)
	spoil := func(i eni.Interface) {
		i.Groups[0], i.Attachment.ID = "spoilt", "spoilt"
		maps.Copy(i.Tags, map[string]string{"spoilt": "yes"})
	}
	given, _ := v.Interface("eni-1")
	spoil(given)
	spoil(v.Of(instance)[0].Interface)
	want := i.Clone()
	spoil(i)
	if !same(v, want) {
		t.Error("what was given away, or taken in, is shared")
	}
}
