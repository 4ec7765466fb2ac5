// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/report"
)

// lost is the interface without an object in the tests of leaks.
var lost = identity.Interface{
	Cluster: "c", UID: "uid-gone", Name: "gone-i-00000000000000001-2", NodeENI: "gone", Node: "node-a1",
	InstanceID: "i-00000000000000001", Ordinal: 2,
}

// available is an unattached interface that was created an hour ago.
func available(id string, m identity.Interface) eni.Interface {
	return eni.Interface{ID: id, SubnetID: "subnet-1", Status: eni.Available, Tags: m.Tags(now.Add(-time.Hour), nil)}
}

// inUse attaches an interface to the instance of the lost one.
func inUse(i eni.Interface) eni.Interface {
	i.Status = eni.InUse
	i.Attachment = &eni.Attachment{InstanceID: lost.InstanceID, Slot: eni.Slot{Device: 1}, Status: eni.AttachmentAttached}
	return i
}

// retagged sets tags of an interface. A tag without value is removed.
func retagged(i eni.Interface, tags map[string]string) eni.Interface {
	i.Tags = maps.Clone(i.Tags)
	for key, value := range tags {
		if i.Tags[key] = value; value == "" {
			delete(i.Tags, key)
		}
	}
	return i
}

// oneLeak judges a single interface.
func oneLeak(i eni.Interface, known ...report.KnownInterface) report.Leaks {
	return report.NewLeaks("c", []eni.Interface{i}, known, now)
}

func TestAnUnattachedInterfaceWithoutAnObjectIsALeak(t *testing.T) {
	launched := eni.Interface{ID: "eni-1", SubnetID: "subnet-1", Status: eni.Available, Tags: map[string]string{
		identity.TagCluster: "c", identity.TagNodeTemplate: "workers"}}
	prepared := lost
	prepared.UID = identity.NetworkUID("user-plane", 0, now)
	detaching := available("eni-1", lost)
	detaching.Status = eni.Detaching
	young := available("eni-1", lost)
	young.Tags = lost.Tags(now.Add(time.Second-identity.MinLeakAge), nil)
	hourAgo := now.Add(-time.Hour)
	of := report.Leak{ENIID: "eni-1", Interface: lost.Name, NodeENI: "gone", Node: "node-a1", SubnetID: "subnet-1",
		CreatedAt: hourAgo}
	with := func(change func(*report.Leak)) report.Leak {
		l := of
		change(&l)
		return l
	}
	for name, tc := range map[string]struct {
		of   eni.Interface
		want report.Leak
	}{
		"of a NodeENI that was deleted": {available("eni-1", lost), with(func(l *report.Leak) {
			l.Collectable, l.Verdict = true, "can be deleted"
		})},
		"prepared for a node that never joined": {available("eni-1", prepared), with(func(l *report.Leak) {
			l.Collectable, l.Verdict = true, "can be deleted"
		})},
		"a second too young": {young, with(func(l *report.Leak) {
			l.CreatedAt, l.Verdict = now.Add(time.Second-identity.MinLeakAge), "younger than 10m0s"
		})},
		"in transition": {detaching, with(func(l *report.Leak) { l.Verdict = "EC2 is at work on it" })},
		"with an edited ordinal": {
			retagged(available("eni-1", lost), map[string]string{identity.TagInterface: "gone-first"}),
			with(func(l *report.Leak) {
				l.Interface, l.ByHand = "gone-first", true
				l.Verdict = "its tags were edited; delete it by hand if you know it"
			}),
		},
		"launched with an instance": {launched, report.Leak{ENIID: "eni-1", SubnetID: "subnet-1", ByHand: true,
			Verdict: "launched with an instance that is gone; delete it by hand"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := oneLeak(tc.of)
			want := report.Leaks{Cluster: "c", Owned: 1, Leaked: []report.Leak{tc.want}, Retained: []report.Retained{}}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(report.Leaks{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestALeakOfMinLeakAgeIsCollectable(t *testing.T) {
	i := available("eni-1", lost)
	i.Tags = lost.Tags(now.Add(-identity.MinLeakAge), nil)
	if diff := cmp.Diff([]string{"eni-1"}, oneLeak(i).Collectable()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// To the controller, an interface without an age is no leak (identity.PastMinLeakAge), so only a user removes it.
func TestALeakWithoutAgeIsDeletedByHand(t *testing.T) {
	createdAt := func(value string) eni.Interface {
		return retagged(available("eni-1", lost), map[string]string{identity.TagCreatedAt: value})
	}
	for name, i := range map[string]eni.Interface{
		"no time of creation":         createdAt(""),
		"an unreadable one":           createdAt("today"),
		"attached and without a time": inUse(createdAt("")),
	} {
		t.Run(name, func(t *testing.T) {
			leaks := oneLeak(i)
			want := []report.Leak{{
				ENIID: "eni-1", Interface: lost.Name, NodeENI: "gone", Node: "node-a1", SubnetID: "subnet-1", ByHand: true,
				Verdict: "its tags give no age; delete it by hand if you know it",
			}}
			if i.Attachment != nil {
				want[0].Attached = lost.InstanceID
			}
			if diff := cmp.Diff(want, leaks.Leaked); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if text := leaks.Text(report.Page{}); strings.Contains(text, "A running controller removes") {
				t.Error(text)
			}
		})
	}
}

func TestAnObjectHasItsInterface(t *testing.T) {
	for name, tc := range map[string]struct {
		known report.KnownInterface
		leak  bool
	}{
		"the object records it":                     {report.KnownInterface{ENIID: "eni-1"}, false},
		"the object of its UID has none yet":        {report.KnownInterface{UID: "uid-gone"}, false},
		"the object of its name has none yet":       {report.KnownInterface{Name: lost.Name, UID: "uid-new"}, false},
		"the object of its UID records another one": {report.KnownInterface{UID: "uid-gone", ENIID: "eni-2"}, true},
		"the object of its name records another one": {
			report.KnownInterface{Name: lost.Name, UID: "uid-new", ENIID: "eni-2"}, true,
		},
		"an object of another name": {report.KnownInterface{Name: "other-i-00000000000000001-2", UID: "uid-other"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for attachment, i := range map[string]eni.Interface{
				"attached": inUse(available("eni-1", lost)), "unattached": available("eni-1", lost),
			} {
				got := oneLeak(i, tc.known)
				if len(got.Leaked) != map[bool]int{true: 1, false: 0}[tc.leak] || len(got.Retained) > 0 {
					t.Errorf("%s: %+v, want a leak: %t", attachment, got, tc.leak)
				}
			}
		})
	}
}

func TestAnAttachedLeakIsLeftAlone(t *testing.T) {
	got := oneLeak(inUse(available("eni-1", lost)))
	want := []report.Leak{{
		ENIID: "eni-1", Interface: lost.Name, NodeENI: "gone", Node: "node-a1", SubnetID: "subnet-1",
		CreatedAt: now.Add(-time.Hour), Attached: lost.InstanceID, ByHand: true,
		Verdict: "attached, so it stays: nothing says that no pod uses it",
	}}
	if diff := cmp.Diff(want, got.Leaked); diff != "" || len(got.Collectable()) > 0 {
		t.Errorf("collectable: %v (-want +got):\n%s", got.Collectable(), diff)
	}
}

func TestAnAttachedInterfaceThatIsNoLeak(t *testing.T) {
	prepared := lost
	prepared.UID = identity.NetworkUID("user-plane", 0, now)
	launched := eni.Interface{ID: "eni-1", Tags: map[string]string{
		identity.TagCluster: "c", identity.TagNodeTemplate: "workers"}}
	edited := retagged(available("eni-1", lost), map[string]string{identity.TagInterface: ""})
	for name, tc := range map[string]struct {
		of   eni.Interface
		want report.What
	}{
		"launched with its instance": {launched, report.WhatLaunched},
		"prepared before the join":   {available("eni-1", prepared), report.WhatPrepared},
		"with edited tags":           {edited, report.WhatTagsEdited},
	} {
		t.Run(name, func(t *testing.T) {
			got := oneLeak(inUse(tc.of))
			want := report.Leaks{Cluster: "c", Owned: 1, Leaked: []report.Leak{}, Retained: []report.Retained{
				{ENIID: "eni-1", Attached: lost.InstanceID, What: tc.want},
			}}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(report.Leaks{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := oneLeak(inUse(tc.of), report.KnownInterface{Name: "x", UID: "y", ENIID: "eni-1"}); len(got.Retained) > 0 {
				t.Errorf("an object has it, and it is reported: %+v", got)
			}
		})
	}
}

func TestAForeignInterfaceIsNotReported(t *testing.T) {
	elsewhere := lost
	elsewhere.Cluster = "other"
	for name, i := range map[string]eni.Interface{
		"of another cluster":             available("eni-1", elsewhere),
		"without the tags of multieni":   {ID: "eni-1", Status: eni.Available},
		"attached, and of other tooling": inUse(eni.Interface{ID: "eni-1", Tags: map[string]string{"Name": "db"}}),
	} {
		t.Run(name, func(t *testing.T) {
			got := oneLeak(i)
			want := report.Leaks{Cluster: "c", Owned: 1, Leaked: []report.Leak{}, Retained: []report.Retained{}}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(report.Leaks{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCollectableIDsAreSorted(t *testing.T) {
	view := report.NewLeaks("c", []eni.Interface{
		available("eni-3", lost), available("eni-1", lost), inUse(available("eni-0", lost)), available("eni-2", lost),
	}, nil, now)
	if diff := cmp.Diff([]string{"eni-1", "eni-2", "eni-3"}, view.Collectable()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLeaksSayWhatRemovesThem(t *testing.T) {
	const (
		controller = "→ A running controller removes %s by itself, within minutes. Without one: kubectl eni leaks --collect.\n"
		attached   = "→ Attached: %s. A controller takes such an interface over when a NetworkInterface of its name is there " +
			"again, and else it ends with its instance. If you know that nothing uses it: aws ec2 detach-network-interface " +
			"--attachment-id ATTACHMENT.\n"
		byHand = "→ Delete %s by hand, the controller never does: " +
			"aws ec2 delete-network-interface --network-interface-id ENI.\n"
	)
	collectable := report.Leak{ENIID: "eni-1", Collectable: true}
	edited := report.Leak{ENIID: "eni-2", ByHand: true}
	inUse := report.Leak{ENIID: "eni-3", ByHand: true, Attached: "i-1"}
	for name, tc := range map[string]struct {
		leaked []report.Leak
		want   string
	}{
		"the controller all": {[]report.Leak{collectable, collectable}, fmt.Sprintf(controller, "them")},
		"a person all":       {[]report.Leak{edited}, fmt.Sprintf(byHand, "them")},
		"the controller most, and a person one": {
			[]report.Leak{collectable, edited, collectable},
			fmt.Sprintf(controller, "2 of them") + fmt.Sprintf(byHand, "1 of them"),
		},
		"the controller one, and a person most": {
			[]report.Leak{edited, collectable, edited},
			fmt.Sprintf(controller, "1 of them") + fmt.Sprintf(byHand, "2 of them"),
		},
		"one is attached": {
			[]report.Leak{collectable, inUse}, fmt.Sprintf(controller, "1 of them") + fmt.Sprintf(attached, "1 of them"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := report.Leaks{Cluster: "c", Owned: 9, Leaked: tc.leaked}.Text(report.Page{})
			count := fmt.Sprintf("%d of 9 interfaces of cluster c have no NetworkInterface.\n", len(tc.leaked))
			_, got, _ := strings.Cut(text, count)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, text)
			}
		})
	}
}

func TestRetainedInterfacesAreNamedByKind(t *testing.T) {
	retained := func(what report.What, ids ...string) (all []report.Retained) {
		for _, id := range ids {
			all = append(all, report.Retained{ENIID: id, What: what})
		}
		return all
	}
	v := report.Leaks{Cluster: "c", Owned: 9, Retained: append(
		retained(report.WhatTagsEdited, "eni-9", "eni-8", "eni-7"),
		retained(report.WhatLaunched, "eni-1", "eni-2", "eni-3", "eni-4", "eni-5")...,
	)}
	const want = `● No leak. Cluster c owns 9 interfaces, and each has its NetworkInterface.
No leak, and left alone: 5 interfaces launched with an instance by an AWSNodeTemplate: eni-1, eni-2, eni-3 and 2 more.
No leak, and left alone: 3 interfaces attached, with edited tags: eni-9, eni-8, eni-7.
`
	if diff := cmp.Diff(want, v.Text(report.Page{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A narrow page keeps what a user needs to delete an interface: its ID and the verdict.
func TestLeaksLeaveOutColumnsOnNarrowPages(t *testing.T) {
	v := report.NewLeaks("c", []eni.Interface{available("eni-1", lost)}, nil, now)
	for width, want := range map[int]string{
		59: "ENI NODEENI NODE SUBNET AGE VERDICT",
		58: "ENI NODEENI NODE AGE VERDICT",
		48: "ENI NODEENI NODE AGE VERDICT",
		47: "ENI NODEENI AGE VERDICT",
		37: "ENI NODEENI VERDICT",
		31: "ENI VERDICT",
	} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			text := v.Text(report.Page{Width: width})
			heading, _, _ := strings.Cut(text, "\n")
			if got := strings.Join(strings.Fields(heading), " "); got != want {
				t.Errorf("got %q, want %q\n%s", got, want, text)
			}
		})
	}
}

// Red marks what --collect deletes. The rest waits for the controller, EC2 or a user.
func TestCollectableLeaksAreRed(t *testing.T) {
	v := report.NewLeaks("c", []eni.Interface{
		available("eni-1", lost), retagged(available("eni-2", lost), map[string]string{identity.TagInterface: ""}),
	}, nil, now)
	text := v.Text(report.Page{Colours: true})
	for _, want := range []string{
		"\x1b[31mcan be deleted\x1b[0m", "\x1b[2m1h\x1b[0m",
		"\x1b[33mits tags were edited; delete it by hand if you know it\x1b[0m",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}

func TestLeaksAreJSON(t *testing.T) {
	launched := retagged(available("eni-2", lost), map[string]string{
		identity.TagNodeTemplate: "workers", identity.TagUID: "",
	})
	v := report.NewLeaks("c", []eni.Interface{
		inUse(available("eni-1", lost)), inUse(launched), retagged(available("eni-3", lost), map[string]string{
			identity.TagInterface: "", identity.TagNodeENI: "", identity.TagNode: "", identity.TagCreatedAt: "",
		}),
	}, nil, now)
	const want = `{
 "cluster": "c",
 "owned": 3,
 "leaked": [
  {
   "eniID": "eni-1",
   "interface": "gone-i-00000000000000001-2",
   "nodeENI": "gone",
   "node": "node-a1",
   "subnetID": "subnet-1",
   "createdAt": "2026-01-02T02:04:05Z",
   "attached": "i-00000000000000001",
   "collectable": false,
   "byHand": true,
   "verdict": "attached, so it stays: nothing says that no pod uses it"
  },
  {
   "eniID": "eni-3",
   "subnetID": "subnet-1",
   "collectable": false,
   "byHand": true,
   "verdict": "its tags were edited; delete it by hand if you know it"
  }
 ],
 "retained": [
  {
   "eniID": "eni-2",
   "attached": "i-00000000000000001",
   "what": "Launched"
  }
 ]
}`
	if diff := cmp.Diff(want, asJSON(t, v)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// asJSON is what "kubectl eni --output json" prints of a view, with a narrower indent.
func asJSON(t *testing.T, view any) string {
	t.Helper()
	content, err := json.MarshalIndent(view, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// kubectl eni leaks --collect judges twice, and deletes what both reports name.
func TestEachInterfaceIsJudgedByItself(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var owned []eni.Interface
		known := []report.KnownInterface{living}
		want := report.Leaks{Cluster: "c", Leaked: []report.Leak{}, Retained: []report.Retained{}}
		for n := range rapid.IntRange(0, 8).Draw(rt, "interfaces") {
			i := anyOwned(rt, fmt.Sprintf("eni-%017d", n))
			owned = append(owned, i)
			if rapid.Bool().Draw(rt, "recorded") {
				known = append(known, report.KnownInterface{Name: i.ID, UID: i.ID, ENIID: i.ID})
			}
		}
		for _, i := range owned {
			alone := oneLeak(i, known...)
			want.Owned++
			want.Leaked, want.Retained = append(want.Leaked, alone.Leaked...), append(want.Retained, alone.Retained...)
		}
		got := report.NewLeaks("c", owned, known, now)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(report.Leaks{})); diff != "" {
			rt.Fatalf("(-alone +together):\n%s", diff)
		}
	})
}

func TestALeakStaysCollectable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		i := anyOwned(rt, "eni-1")
		later := now.Add(time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(rt, "later")))
		known := []report.KnownInterface{living}
		first := report.NewLeaks("c", []eni.Interface{i}, known, now).Collectable()
		second := report.NewLeaks("c", []eni.Interface{i}, known, later).Collectable()
		if len(first) > len(second) {
			rt.Fatalf("%+v can be deleted at %v and not at %v", i, now, later)
		}
	})
}

func ExampleNewLeaks() {
	of := identity.Interface{
		Cluster: "prod", UID: "uid-1", Name: identity.ObjectName("storage", "i-0123456789abcdef0", 0), NodeENI: "storage",
		Node: "node-a1", InstanceID: "i-0123456789abcdef0",
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	left := eni.Interface{
		ID: "eni-1", SubnetID: "subnet-1", Status: eni.Available, Tags: of.Tags(now.Add(-3*time.Hour), nil),
	}
	// No NetworkInterface has the UID uid-1.
	leaks := report.NewLeaks("prod", []eni.Interface{left}, nil, now)
	fmt.Print(leaks.Text(report.Page{Width: 100}))
	fmt.Println(leaks.Collectable())
	// Output:
	// ENI     NODEENI   NODE      SUBNET     AGE   VERDICT
	// eni-1   storage   node-a1   subnet-1    3h   can be deleted
	//
	// 1 of 1 interface of cluster prod have no NetworkInterface.
	// → A running controller removes them by itself, within minutes. Without one: kubectl eni leaks
	//   --collect.
	// [eni-1]
}

func TestLeaksListInterfacesOfAnotherClusterName(t *testing.T) {
	of := func(id, cluster string) eni.Interface {
		return eni.Interface{ID: id, Tags: map[string]string{identity.TagCluster: cluster, identity.TagNodeENI: "data"}}
	}
	v := report.NewLeaks("ours", nil, nil, time.Now())
	v.AddOtherNames([]eni.Interface{of("eni-1", "ours"), of("eni-2", "former"), of("eni-3", ""), of("eni-4", "former")})
	if text := v.Text(report.Page{Width: 200}); !strings.Contains(text, "2 interfaces of this cluster's NodeENIs have the cluster name former: eni-2, eni-4.") ||
		!strings.Contains(text, "set clusterName back") {
		t.Error(text)
	}
}
