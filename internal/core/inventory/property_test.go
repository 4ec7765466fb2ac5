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
	nodeENIs  = []string{"a", "b"}
)

func anyInterface(rt *rapid.T) eni.Interface {
	m := of(rapid.SampledFrom(nodeENIs).Draw(rt, "NodeENI"), rapid.IntRange(0, 2).Draw(rt, "ordinal"))
	m.Cluster = rapid.SampledFrom([]string{cluster, cluster, cluster, "cluster-2"}).Draw(rt, "cluster")
	m.Node, m.InstanceID = rapid.SampledFrom(nodes).Draw(rt, "node"), rapid.SampledFrom(instances).Draw(rt, "instance")
	m.Name = identity.ObjectName(m.NodeENI, m.InstanceID, m.Ordinal)
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
	total, unattached := 0, 0
	var moving, having []string
	for _, instanceID := range instances {
		records := v.Of(instanceID)
		total += len(records)
		if v.HasAny(instanceID) {
			having = append(having, instanceID)
		}
		if v.HasAny(instanceID) != (len(records) > 0) {
			rt.Fatalf("HasAny is %t, and %d are filed", v.HasAny(instanceID), len(records))
		}
		if !slices.IsSortedFunc(records, func(a, b inventory.Record) int { return eni.CompareInterfaces(a.Interface, b.Interface) }) {
			rt.Fatal("records are not in order")
		}
		for _, r := range records {
			tagged, verdict := identity.Read(cluster, r.Tags)
			if verdict != identity.Owned || tagged != r.Tagged || tagged.InstanceID != instanceID {
				rt.Fatalf("%s is filed as %+v and tagged as %+v", r.ID, r.Tagged, tagged)
			}
			if r.Missing || r.Interface.InTransition() {
				moving = append(moving, r.ID)
			}
			if r.Attachment == nil {
				unattached++
			}
			if i, known := v.Interface(r.ID); !known || !inventory.Equal(i, r.Interface) {
				rt.Fatalf("%s is not what Interface returns", r.ID)
			}
		}
	}
	if total != v.Len() || total != len(v.All()) {
		rt.Fatalf("Len is %d, and %d are filed by instance", v.Len(), total)
	}
	if diff := cmp.Diff(having, v.Instances()); diff != "" {
		rt.Fatalf("instances: %s", diff)
	}
	if n := v.Unattached(func(inventory.Record) bool { return true }); n != unattached {
		rt.Fatalf("Unattached is %d, and %d are", n, unattached)
	}
	slices.Sort(moving)
	if diff := cmp.Diff(moving, v.InTransition()); diff != "" {
		rt.Fatalf("in transition: %s", diff)
	}
}

// TestGivenAwayRecordsAreCopies changes every value that the inventory returns.
func TestGivenAwayRecordsAreCopies(t *testing.T) {
	i := attached(fresh("eni-1", first(), start), eni.AttachmentAttached)
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
