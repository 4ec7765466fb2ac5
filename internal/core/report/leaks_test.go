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

// lost is the member whose NodeENI does not exist in the tests of leaks.
var lost = identity.Member{
	Cluster: "c", NodeENI: "gone", Node: "node-a1", InstanceID: "i-00000000000000001",
	Key: identity.Key{Owner: "uid-gone", Ordinal: 2}, Generation: 7,
}

// available is an unattached interface of a member that was created an hour ago.
func available(id string, m identity.Member) eni.Interface {
	return eni.Interface{ID: id, SubnetID: "subnet-1", Status: eni.Available, Tags: m.Tags(now.Add(-time.Hour), nil)}
}

// inUse attaches an interface to the instance of the lost member.
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
func oneLeak(i eni.Interface, known report.Evidence) report.Leaks {
	return report.NewLeaks("c", []eni.Interface{i}, known, now)
}

func TestAnUnattachedInterfaceWithoutNodeENIIsALeak(t *testing.T) {
	launched := eni.Interface{ID: "eni-1", SubnetID: "subnet-1", Status: eni.Available, Tags: map[string]string{
		identity.TagCluster: "c", identity.TagNodeTemplate: "workers"}}
	prepared := lost
	prepared.Owner = identity.NetworkOwner("user-plane")
	detaching := available("eni-1", lost)
	detaching.Status = eni.Detaching
	young := available("eni-1", lost)
	young.Tags = lost.Tags(now.Add(time.Second-identity.MinLeakAge), nil)
	hourAgo := now.Add(-time.Hour)
	of := report.Leak{ENIID: "eni-1", NodeENI: "gone", Node: "node-a1", SubnetID: "subnet-1", CreatedAt: hourAgo}
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
			retagged(available("eni-1", lost), map[string]string{identity.TagMember: "first"}),
			with(func(l *report.Leak) {
				l.ByHand, l.Verdict = true, "its tags were edited; delete it by hand if you know it"
			}),
		},
		"launched with an instance": {launched, report.Leak{ENIID: "eni-1", SubnetID: "subnet-1", ByHand: true,
			Verdict: "launched with an instance that is gone; delete it by hand"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := oneLeak(tc.of, report.Evidence{})
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
	if diff := cmp.Diff([]string{"eni-1"}, oneLeak(i, report.Evidence{}).Collectable()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// To the controller, an interface without an age is no leak (identity.PastMinLeakAge), so only a user removes it.
func TestALeakWithoutAgeIsDeletedByHand(t *testing.T) {
	recorded := report.Evidence{Recorded: map[string]bool{"eni-1": true}}
	createdAt := func(value string) eni.Interface {
		return retagged(available("eni-1", lost), map[string]string{identity.TagCreatedAt: value})
	}
	for name, i := range map[string]eni.Interface{
		"no time of creation":         createdAt(""),
		"an unreadable one":           createdAt("today"),
		"attached and without a time": inUse(createdAt("")),
	} {
		t.Run(name, func(t *testing.T) {
			leaks := oneLeak(i, recorded)
			want := []report.Leak{{
				ENIID: "eni-1", NodeENI: "gone", Node: "node-a1", SubnetID: "subnet-1", ByHand: true,
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

func TestOnlyEvidenceMakesAnAttachedInterfaceALeak(t *testing.T) {
	promise := report.Promise{InstanceID: lost.InstanceID, Key: lost.Key, Generation: lost.Generation}
	with := func(change func(*report.Promise)) report.Evidence {
		p := promise
		change(&p)
		return report.Evidence{Promised: map[report.Promise]bool{p: true}}
	}
	for name, tc := range map[string]struct {
		known report.Evidence
		leak  bool
	}{
		"a status names it":               {report.Evidence{Recorded: map[string]bool{"eni-1": true}}, true},
		"a status names another one":      {report.Evidence{Recorded: map[string]bool{"eni-2": true}}, false},
		"a ledger has its identity":       {with(func(*report.Promise) {}), true},
		"a ledger of another instance":    {with(func(p *report.Promise) { p.InstanceID = "i-00000000000000002" }), false},
		"a ledger with another owner":     {with(func(p *report.Promise) { p.Owner = "uid-other" }), false},
		"a ledger with another ordinal":   {with(func(p *report.Promise) { p.Ordinal++ }), false},
		"a ledger with an old generation": {with(func(p *report.Promise) { p.Generation-- }), false},
		"nothing but its tags":            {report.Evidence{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := oneLeak(inUse(available("eni-1", lost)), tc.known)
			want := report.Leaks{Cluster: "c", Owned: 1, Leaked: []report.Leak{}, Retained: []report.Retained{
				{ENIID: "eni-1", Attached: lost.InstanceID, What: report.WhatUnverified},
			}}
			if tc.leak {
				want.Retained = []report.Retained{}
				want.Leaked = []report.Leak{{
					ENIID: "eni-1", NodeENI: "gone", Node: "node-a1", SubnetID: "subnet-1", CreatedAt: now.Add(-time.Hour),
					Attached: lost.InstanceID, Verdict: "attached; the controller detaches it",
				}}
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(report.Leaks{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Evidence of a member applies only to interfaces with the member's whole identity.
func TestAnAttachedInterfaceThatTheControllerRetains(t *testing.T) {
	prepared := lost
	prepared.Owner = identity.NetworkOwner("user-plane")
	launched := eni.Interface{ID: "eni-1", Tags: map[string]string{
		identity.TagCluster: "c", identity.TagNodeTemplate: "workers"}}
	edited := retagged(available("eni-1", lost), map[string]string{identity.TagMember: ""})
	known := report.Evidence{Recorded: map[string]bool{"eni-1": true}, Living: map[identity.Owner]bool{"uid-gone": true}}
	for name, tc := range map[string]struct {
		of   eni.Interface
		want report.What
	}{
		"launched with its instance":  {launched, report.WhatLaunched},
		"prepared before the join":    {available("eni-1", prepared), report.WhatPrepared},
		"edited, of a living NodeENI": {edited, report.WhatTagsEdited},
	} {
		t.Run(name, func(t *testing.T) {
			got := oneLeak(inUse(tc.of), known)
			want := report.Leaks{Cluster: "c", Owned: 1, Leaked: []report.Leak{}, Retained: []report.Retained{
				{ENIID: "eni-1", Attached: lost.InstanceID, What: tc.want},
			}}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(report.Leaks{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnInterfaceThatHasItsNodeENIIsNotReported(t *testing.T) {
	elsewhere := lost
	elsewhere.Cluster = "other"
	for name, i := range map[string]eni.Interface{
		"of a living NodeENI":            available("eni-1", lost),
		"of a living NodeENI, attached":  inUse(available("eni-1", lost)),
		"of another cluster":             available("eni-1", elsewhere),
		"without the tags of multieni":   {ID: "eni-1", Status: eni.Available},
		"attached, and of other tooling": inUse(eni.Interface{ID: "eni-1", Tags: map[string]string{"Name": "db"}}),
	} {
		t.Run(name, func(t *testing.T) {
			got := oneLeak(i, report.Evidence{Living: map[identity.Owner]bool{"uid-gone": true}})
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
	}, report.Evidence{}, now)
	if diff := cmp.Diff([]string{"eni-1", "eni-2", "eni-3"}, view.Collectable()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLeaksSayWhatRemovesThem(t *testing.T) {
	const (
		controller = "→ A running controller removes %s by itself, within minutes, and those that are attached after half " +
			"an hour or more. Without one: kubectl eni leaks --collect.\n"
		byHand = "→ Delete %s by hand, the controller never does: " +
			"aws ec2 delete-network-interface --network-interface-id ENI.\n"
	)
	collectable := report.Leak{ENIID: "eni-1", Collectable: true}
	edited := report.Leak{ENIID: "eni-2", ByHand: true}
	for name, tc := range map[string]struct {
		leaked []report.Leak
		want   string
	}{
		"the controller all": {[]report.Leak{collectable, collectable}, fmt.Sprintf(controller, "them")},
		"a person all":       {[]report.Leak{edited}, fmt.Sprintf(byHand, "them")},
		"the controller most, and a person one": {
			[]report.Leak{collectable, edited, collectable},
			fmt.Sprintf(controller, "2 of them") + fmt.Sprintf(byHand, "the other 1"),
		},
		"the controller one, and a person most": {
			[]report.Leak{edited, collectable, edited},
			fmt.Sprintf(controller, "1 of them") + fmt.Sprintf(byHand, "the other 2"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := report.Leaks{Cluster: "c", Owned: 9, Leaked: tc.leaked}.Text(report.Page{})
			count := fmt.Sprintf("%d of 9 interfaces of cluster c have lost their NodeENI.\n", len(tc.leaked))
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
	const want = `● No leak. Cluster c owns 9 interfaces, and none has lost its NodeENI.
No leak, and left alone: 5 interfaces launched with an instance by an AWSNodeTemplate: eni-1, eni-2, eni-3 and 2 more.
No leak, and left alone: 3 interfaces attached, with edited tags: eni-9, eni-8, eni-7.
`
	if diff := cmp.Diff(want, v.Text(report.Page{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A narrow page keeps what a user needs to delete an interface: its ID and the verdict.
func TestLeaksLeaveOutColumnsOnNarrowPages(t *testing.T) {
	v := report.NewLeaks("c", []eni.Interface{available("eni-1", lost)}, report.Evidence{}, now)
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
		available("eni-1", lost), retagged(available("eni-2", lost), map[string]string{identity.TagMember: ""}),
	}, report.Evidence{}, now)
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
		identity.TagNodeTemplate: "workers", identity.TagNodeENIUID: "",
	})
	v := report.NewLeaks("c", []eni.Interface{
		inUse(available("eni-1", lost)), inUse(launched), retagged(available("eni-3", lost), map[string]string{
			identity.TagMember: "", identity.TagNodeENI: "", identity.TagNode: "", identity.TagCreatedAt: "",
		}),
	}, report.Evidence{Recorded: map[string]bool{"eni-1": true}}, now)
	const want = `{
 "cluster": "c",
 "owned": 3,
 "leaked": [
  {
   "eniID": "eni-1",
   "nodeENI": "gone",
   "node": "node-a1",
   "subnetID": "subnet-1",
   "createdAt": "2026-01-02T02:04:05Z",
   "attached": "i-00000000000000001",
   "collectable": false,
   "byHand": false,
   "verdict": "attached; the controller detaches it"
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
		known := report.Evidence{Living: map[identity.Owner]bool{"living": true}, Recorded: map[string]bool{}}
		var owned []eni.Interface
		want := report.Leaks{Cluster: "c", Leaked: []report.Leak{}, Retained: []report.Retained{}}
		for n := range rapid.IntRange(0, 8).Draw(rt, "interfaces") {
			i := anyOwned(rt, fmt.Sprintf("eni-%017d", n))
			known.Recorded[i.ID] = rapid.Bool().Draw(rt, "recorded")
			owned = append(owned, i)
			alone := oneLeak(i, known)
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
		known := report.Evidence{Living: map[identity.Owner]bool{"living": true}}
		first := report.NewLeaks("c", []eni.Interface{i}, known, now).Collectable()
		second := report.NewLeaks("c", []eni.Interface{i}, known, later).Collectable()
		if len(first) > len(second) {
			rt.Fatalf("%+v can be deleted at %v and not at %v", i, now, later)
		}
	})
}

func ExampleNewLeaks() {
	member := identity.Member{
		Cluster: "prod", NodeENI: "storage", Node: "node-a1", InstanceID: "i-0123456789abcdef0",
		Key: identity.Key{Owner: "uid-1"},
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	left := eni.Interface{
		ID: "eni-1", SubnetID: "subnet-1", Status: eni.Available, Tags: member.Tags(now.Add(-3*time.Hour), nil),
	}
	// No NodeENI has the UID uid-1.
	leaks := report.NewLeaks("prod", []eni.Interface{left}, report.Evidence{}, now)
	fmt.Print(leaks.Text(report.Page{Width: 100}))
	fmt.Println(leaks.Collectable())
	// Output:
	// ENI     NODEENI   NODE      SUBNET     AGE   VERDICT
	// eni-1   storage   node-a1   subnet-1    3h   can be deleted
	//
	// 1 of 1 interface of cluster prod have lost their NodeENI.
	// → A running controller removes them by itself, within minutes, and those that are attached after
	//   half an hour or more. Without one: kubectl eni leaks --collect.
	// [eni-1]
}

func TestLeaksListInterfacesOfAnotherClusterName(t *testing.T) {
	of := func(id, cluster string) eni.Interface {
		return eni.Interface{ID: id, Tags: map[string]string{identity.TagCluster: cluster, identity.TagNodeENI: "data"}}
	}
	v := report.NewLeaks("ours", nil, report.Evidence{}, time.Now())
	v.AddOtherNames([]eni.Interface{of("eni-1", "ours"), of("eni-2", "former"), of("eni-3", ""), of("eni-4", "former")})
	if text := v.Text(report.Page{Width: 200}); !strings.Contains(text, "2 interfaces of this cluster's NodeENIs have the cluster name former: eni-2, eni-4.") ||
		!strings.Contains(text, "set clusterName back") {
		t.Error(text)
	}
}
