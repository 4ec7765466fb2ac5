// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

var today = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// versions are old versions of ours, with the numbers from 1.
func versions(count int) []launchtemplate.Version {
	var all []launchtemplate.Version
	for n := 1; n <= count; n++ {
		all = append(all, launchtemplate.Version{
			TemplateID: "lt-1", Number: int64(n), Description: launchtemplate.Describe(fmt.Sprint("hash-", n)), CreatedAt: today.Add(-30 * 24 * time.Hour),
		})
	}
	return all
}

// A version is deleted only if no launch can need it any more.
func TestPrunable(t *testing.T) {
	unused := func(string) bool { return false }
	for name, tc := range map[string]struct {
		versions []launchtemplate.Version
		current  int64
		inUse    func(string) bool
		want     []int64
	}{
		"none":                      {nil, 0, unused, nil},
		"the last ten stay":         {versions(10), 10, unused, nil},
		"the first stays":           {versions(11), 11, unused, nil},
		"the second is the oldest":  {versions(12), 12, unused, []int64{2}},
		"all older ones":            {versions(14), 14, unused, []int64{2, 3, 4}},
		"the current one stays":     {versions(14), 3, unused, []int64{2, 4}},
		"one that a node runs":      {versions(14), 14, func(hash string) bool { return hash == "hash-2" }, []int64{3, 4}},
		"one of another program":    {func() []launchtemplate.Version { v := versions(14); v[1].Description = "mine"; return v }(), 14, unused, []int64{3, 4}},
		"one without a description": {func() []launchtemplate.Version { v := versions(14); v[2].Description = ""; return v }(), 14, unused, []int64{2, 4}},
		"one of an hour ago": {
			func() []launchtemplate.Version { v := versions(14); v[1].CreatedAt = today.Add(-time.Hour); return v }(), 14, unused, []int64{3, 4},
		},
		"one of exactly a day ago": {
			func() []launchtemplate.Version {
				v := versions(12)
				v[1].CreatedAt = today.Add(-launchtemplate.KeepFor)
				return v
			}(), 12, unused, []int64{2},
		},
		"any order": {func() []launchtemplate.Version { v := versions(14); slices.Reverse(v); return v }(), 14, unused, []int64{2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, launchtemplate.Prunable(tc.versions, tc.current, tc.inUse, today)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Pruning never takes the version in use, the default one, or one of the newest ten, and a second time finds nothing.
func TestPruningIsSafeAndIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := versions(rapid.IntRange(0, 30).Draw(t, "count"))
		for n := range all {
			all[n].CreatedAt = today.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "hours")) * time.Hour)
		}
		current, used := int64(rapid.IntRange(0, 30).Draw(t, "current")), fmt.Sprint("hash-", rapid.IntRange(1, 30).Draw(t, "used"))
		inUse := func(hash string) bool { return hash == used }
		pruned := launchtemplate.Prunable(all, current, inUse, today)
		for _, number := range pruned {
			if v := all[number-1]; number == 1 || number == current || inUse(v.Hash()) || number > int64(len(all)-launchtemplate.KeepVersions) {
				t.Fatalf("version %d of %d is pruned", number, len(all))
			}
		}
		left := slices.DeleteFunc(all, func(v launchtemplate.Version) bool { return slices.Contains(pruned, v.Number) })
		if again := launchtemplate.Prunable(left, current, inUse, today); len(again) > 0 {
			t.Fatalf("after %v, %v are pruned as well", pruned, again)
		}
	})
}

// A launch template is deleted only after two reads without its node template, and not while a launch may use a new
// version.
func TestIsOrphaned(t *testing.T) {
	young := versions(2)
	young[1].CreatedAt = today.Add(-time.Hour)
	for name, tc := range map[string]struct {
		versions []launchtemplate.Version
		seen     time.Time
		want     bool
	}{
		"first look":                {versions(2), time.Time{}, false},
		"second look, at once":      {versions(2), today.Add(-time.Minute), false},
		"second look, in an hour":   {versions(2), today.Add(-launchtemplate.OrphanGrace), true},
		"a new version":             {young, today.Add(-2 * time.Hour), false},
		"no versions are known":     {nil, today.Add(-2 * time.Hour), true},
		"a clock that stepped back": {versions(2), today.Add(time.Hour), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := launchtemplate.IsOrphaned(tc.versions, tc.seen, today); got != tc.want {
				t.Errorf("orphaned is %t, want %t", got, tc.want)
			}
		})
	}
}

// The description of a version has its hash, with which an existing version is found instead of creating another one.
func TestVersionsAreFoundByHash(t *testing.T) {
	foreign := launchtemplate.Version{Number: 5, Description: "hash-3"}
	all := append([]launchtemplate.Version{{Number: 4, Description: launchtemplate.Describe("hash-2")}, foreign}, versions(3)...)
	for hash, want := range map[string]int64{"hash-1": 1, "hash-2": 4, "hash-3": 3, "hash-9": 0} {
		t.Run(hash, func(t *testing.T) {
			found, is := launchtemplate.Find(all, hash)
			if found.Number != want || is != (want > 0) {
				t.Errorf("found version %d, %t; want %d", found.Number, is, want)
			}
		})
	}
	if hash := foreign.Hash(); hash != "" {
		t.Errorf("a version of another program has the hash %q", hash)
	}
}

// A reference by ID does not fall back to the name, which another launch template can have by now.
func TestReferences(t *testing.T) {
	existing := launchtemplate.Existing{ID: "lt-1", Name: "multieni/blue/default"}
	for name, tc := range map[string]struct {
		reference launchtemplate.Reference
		want      bool
	}{
		"by ID":                   {launchtemplate.Reference{TemplateID: "lt-1"}, true},
		"by name":                 {launchtemplate.Reference{TemplateName: existing.Name}, true},
		"by another ID":           {launchtemplate.Reference{TemplateID: "lt-2"}, false},
		"by another ID, our name": {launchtemplate.Reference{TemplateID: "lt-2", TemplateName: existing.Name}, false},
		"by another name":         {launchtemplate.Reference{TemplateName: "other"}, false},
		"by nothing":              {launchtemplate.Reference{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.reference.To(existing); got != tc.want {
				t.Errorf("it is %t, want %t", got, tc.want)
			}
		})
	}
}

// The subnets and the image of a published version are read back, so that the choices stay.
func TestChoicesAreReadBack(t *testing.T) {
	data := document(t, `{"ImageId": "ami-7", "NetworkInterfaces": [
	  {"DeviceIndex": 0, "SubnetId": "subnet-b"}, {"DeviceIndex": 1, "NetworkCardIndex": 1, "SubnetId": "subnet-a"}, {"DeviceIndex": 2}, "odd"]}`)
	want := map[eni.Slot]string{{}: "subnet-b", {Card: 1, Device: 1}: "subnet-a"}
	if diff := cmp.Diff(want, launchtemplate.ChosenSubnets(data)); diff != "" {
		t.Errorf("subnets by slot (-want +got):\n%s", diff)
	}
	again := document(t, `{"NetworkInterfaces": [{"SubnetId": "subnet-b"}, {"DeviceIndex": 1, "SubnetId": "subnet-c"}]}`)
	if diff := cmp.Diff([]string{"subnet-a", "subnet-b", "subnet-c"}, launchtemplate.SubnetIDs(data, again, nil)); diff != "" {
		t.Errorf("all subnets (-want +got):\n%s", diff)
	}
	if image := (launchtemplate.Version{Data: data}).ImageID(); image != "ami-7" {
		t.Errorf("the image is %q", image)
	}
}

// The tags of a launch template distinguish those of two node templates, and of two clusters.
func TestIdentityTellsTemplatesApart(t *testing.T) {
	one := plain()
	for name, change := range map[string]func(*launchtemplate.NodeTemplate){
		"another name":    func(n *launchtemplate.NodeTemplate) { n.Name = "other" },
		"a successor":     func(n *launchtemplate.NodeTemplate) { n.UID = "uid-2" },
		"another cluster": func(n *launchtemplate.NodeTemplate) { n.Cluster = "green" },
	} {
		t.Run(name, func(t *testing.T) {
			other := plain()
			change(&other)
			if cmp.Equal(one.Identity(), other.Identity()) {
				t.Errorf("both have %v", one.Identity())
			}
		})
	}
}

// A document and its clone are equal and share nothing; its text reads back as the same document.
func TestDocumentsSurviveTheirText(t *testing.T) {
	data := document(t, `{"UserData": "<a&b>", "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"]}]}`)
	clone := data.Clone()
	if clone.Hash() != data.Hash() {
		t.Error("the hash of a clone is another one")
	}
	if again := document(t, string(data.JSON())); again.Hash() != data.Hash() {
		t.Errorf("the text reads as another document: %s", data.JSON())
	}
	clone["NetworkInterfaces"].([]any)[0].(map[string]any)["DeviceIndex"] = float64(9)
	if clone.Hash() == data.Hash() {
		t.Error("a change of the clone changes the document, or not its hash")
	}
	if empty := launchtemplate.Document(nil).Clone(); empty == nil || len(empty) > 0 {
		t.Errorf("the clone of nothing is %v", empty)
	}
}

// The tags of a launch template identify it for multieni, and have the name that the AWS console shows.
func TestTheIdentityOfALaunchTemplate(t *testing.T) {
	want := map[string]string{
		"networking.k8s.aws/cluster": "blue", "networking.k8s.aws/nodetemplate": "default",
		"networking.k8s.aws/nodetemplate-uid": "uid-1", "Name": "default",
	}
	if diff := cmp.Diff(want, plain().Identity()); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

// The description of a version is in EC2, where a later version of multieni reads it: its form stays the same.
func TestTheDescriptionOfAVersion(t *testing.T) {
	if got := launchtemplate.Describe("0a1b"); got != "multieni 0a1b" {
		t.Errorf("the description is %q", got)
	}
	for description, want := range map[string]string{
		"multieni 0a1b": "0a1b", "multieni ": "", "multieni": "", "by multieni 0a1b": "", "0a1b": "", "": "",
	} {
		if got := (launchtemplate.Version{Description: description}).Hash(); got != want {
			t.Errorf("the hash of %q is %q, want %q", description, got, want)
		}
	}
}

// A version is new for a day. An orphaned launch template stays for as long, since a launch may still use it.
func TestAnOrphanStaysWhileAVersionIsNew(t *testing.T) {
	for name, tc := range map[string]struct {
		age  time.Duration
		want bool
	}{
		"of exactly a day": {launchtemplate.KeepFor, true}, "a second younger": {launchtemplate.KeepFor - time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			all := versions(3)
			all[1].CreatedAt = today.Add(-tc.age)
			if got := launchtemplate.IsOrphaned(all, today.Add(-launchtemplate.OrphanGrace), today); got != tc.want {
				t.Errorf("orphaned is %t, want %t", got, tc.want)
			}
		})
	}
	almost := today.Add(-launchtemplate.OrphanGrace + time.Second)
	if launchtemplate.IsOrphaned(versions(1), almost, today) {
		t.Error("it is orphaned a second before the grace period ends")
	}
}

// Of several versions with one hash the newest is found, in any order. The version of the answer is whole.
func TestTheNewestVersionWithAHashIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := versions(rapid.IntRange(0, 6).Draw(t, "count"))
		for n := range all {
			all[n].Description = launchtemplate.Describe(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "hash"))
			all[n].Data = launchtemplate.Document{"ImageId": fmt.Sprint("ami-", all[n].Number)}
		}
		var want launchtemplate.Version
		for _, v := range all {
			if v.Hash() == "a" {
				want = v
			}
		}
		found, is := launchtemplate.Find(rapid.Permutation(all).Draw(t, "order"), "a")
		if diff := cmp.Diff(want, found); diff != "" || is != (want.Number > 0) {
			t.Fatalf("found is %t (-want +got):\n%s", is, diff)
		}
	})
}

// The caller's list keeps its order, and the answer is sorted: the oldest version is deleted first.
func TestPruningDoesNotChangeTheVersions(t *testing.T) {
	all := versions(14)
	all[0], all[13] = all[13], all[0]
	pruned := launchtemplate.Prunable(all, 14, func(string) bool { return false }, today)
	if diff := cmp.Diff([]int64{2, 3, 4}, pruned); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if all[0].Number != 14 || all[13].Number != 1 {
		t.Error("Prunable sorted the versions of the caller")
	}
}
