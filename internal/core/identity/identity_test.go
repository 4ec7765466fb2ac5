// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/identity"
)

var made = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const instanceID = "i-00000000000000001"

func example() identity.Interface {
	return identity.Interface{
		Cluster: "cluster-1", UID: "0bf0a4c2-1f4d-4f5e-9d0e-3f4f5a6b7c8d", Name: "storage-" + instanceID + "-2", NodeENI: "storage",
		Node: "node-1", InstanceID: instanceID, Ordinal: 2,
	}
}

// anyInterface draws identities as Kubernetes and EC2 allow them.
func anyInterface(rt *rapid.T) identity.Interface {
	word := rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?`)
	i := identity.Interface{
		Cluster: word.Draw(rt, "cluster"), UID: identity.UID(rapid.StringMatching(`[a-z0-9/-]{1,128}`).Draw(rt, "uid")),
		NodeENI: word.Draw(rt, "NodeENI"), Node: word.Draw(rt, "node"), InstanceID: rapid.StringMatching(`i-[0-9a-f]{17}`).Draw(rt, "instance"),
		Ordinal: rapid.IntRange(0, identity.MaxOrdinal).Draw(rt, "ordinal"),
	}
	i.Name = identity.ObjectName(i.NodeENI, i.InstanceID, i.Ordinal)
	return i
}

func TestTagsSayWhoseItIs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := anyInterface(rt)
		user := rapid.MapOfN(rapid.String(), rapid.String(), 0, 5).Draw(rt, "user's tags")
		tags := m.Tags(made, user)
		got, verdict := identity.Read(m.Cluster, tags)
		if verdict != identity.Owned || got != m {
			rt.Errorf("read %+v (%v) from the tags of %+v", got, verdict, m)
		}
		if at, known := identity.CreatedAt(tags); !known || !at.Equal(made) {
			rt.Errorf("made at %s, %t", at, known)
		}
		if _, verdict := identity.Read(m.Cluster+"x", tags); verdict != identity.Foreign {
			rt.Error("another cluster takes it for its own")
		}
		for key, value := range user {
			if !strings.HasPrefix(key, identity.Prefix) && key != identity.TagNoManage && tags[key] != value {
				rt.Errorf("the user's tag %q is %q", key, tags[key])
			}
		}
	})
}

func TestOursWinOverTheUsersTags(t *testing.T) {
	m := example()
	user := map[string]string{identity.TagCluster: "other", identity.TagCreatedAt: "1", identity.TagNoManage: "false"}
	if diff := cmp.Diff(m.Tags(made, nil), m.Tags(made, user)); diff != "" {
		t.Error(diff)
	}
}

func TestTheNameIsTheUsersIfGiven(t *testing.T) {
	m := example()
	if got := m.Tags(made, nil)[identity.TagName]; got != "storage/node-1" {
		t.Errorf("Name is %q", got)
	}
	if got := m.Tags(made, map[string]string{"Name": "mine"})[identity.TagName]; got != "mine" {
		t.Errorf("Name is %q", got)
	}
	m.NodeENI, m.Node = strings.Repeat("ä", 200), strings.Repeat("ö", 200)
	if got := m.Tags(made, nil)[identity.TagName]; utf8.RuneCountInString(got) != 256 || !utf8.ValidString(got) {
		t.Errorf("Name has %d characters, want EC2's 256", utf8.RuneCountInString(got))
	}
}

func TestDamagedTagsAreNobodys(t *testing.T) {
	damage := map[string]func(map[string]string){
		"no NodeENI":             func(tags map[string]string) { delete(tags, identity.TagNodeENI) },
		"no UID":                 func(tags map[string]string) { delete(tags, identity.TagUID) },
		"no object":              func(tags map[string]string) { delete(tags, identity.TagInterface) },
		"no node":                func(tags map[string]string) { delete(tags, identity.TagNode) },
		"no instance":            func(tags map[string]string) { delete(tags, identity.TagInstanceID) },
		"an empty instance":      func(tags map[string]string) { tags[identity.TagInstanceID] = "" },
		"an ordinal below zero":  func(tags map[string]string) { tags[identity.TagInterface] = "storage-" + instanceID + "--1" },
		"an ordinal in words":    func(tags map[string]string) { tags[identity.TagInterface] = "storage-" + instanceID + "-two" },
		"an ordinal with a sign": func(tags map[string]string) { tags[identity.TagInterface] = "storage-" + instanceID + "-+2" },
		"an ordinal with a zero": func(tags map[string]string) { tags[identity.TagInterface] = "storage-" + instanceID + "-02" },
		"an ordinal of 20 digits": func(tags map[string]string) {
			tags[identity.TagInterface] = "storage-" + instanceID + "-99999999999999999999"
		},
		"an ordinal that no node has":    func(tags map[string]string) { tags[identity.TagInterface] = "storage-" + instanceID + "-128" },
		"the object of another NodeENI":  func(tags map[string]string) { tags[identity.TagInterface] = "other-" + instanceID + "-2" },
		"the object of another instance": func(tags map[string]string) { tags[identity.TagInstanceID] = "i-00000000000000002" },
		"no instance's ID":               func(tags map[string]string) { tags[identity.TagInstanceID] = "spoilt" },
		"a NodeENI's name of 254 letters": func(tags map[string]string) {
			tags[identity.TagNodeENI] = strings.Repeat("n", 254)
		},
		"a UID of 129 letters": func(tags map[string]string) {
			tags[identity.TagUID] = strings.Repeat("u", 129)
		},
	}
	for name, damage := range damage {
		t.Run(name, func(t *testing.T) {
			tags := example().Tags(made, nil)
			damage(tags)
			if _, verdict := identity.Read("cluster-1", tags); verdict != identity.Malformed {
				t.Errorf("verdict %v, want Damaged", verdict)
			}
		})
	}
	t.Run("a cluster without a name owns nothing", func(t *testing.T) {
		tags := example().Tags(made, nil)
		tags[identity.TagCluster] = ""
		if _, verdict := identity.Read("", tags); verdict != identity.Foreign {
			t.Errorf("verdict %v, want Foreign", verdict)
		}
	})
}

// TestTheTagsOfANodeENIWinOverThoseOfANodeTemplate has an interface with both kinds of tags. A launch interface never
// gets a NodeENI's tags, so this one was created for the NodeENI, and a user added a template's tags. As a launch
// interface it would never be removed.
func TestTheTagsOfANodeENIWinOverThoseOfANodeTemplate(t *testing.T) {
	tags := example().Tags(made, nil)
	tags[identity.TagNodeTemplate] = "workers"
	if got, verdict := identity.Read("cluster-1", tags); verdict != identity.Owned || got != example() {
		t.Errorf("verdict %v of %+v, want Ours", verdict, got)
	}
	delete(tags, identity.TagInterface)
	if _, verdict := identity.Read("cluster-1", tags); verdict != identity.Malformed {
		t.Errorf("verdict %v of a part of a NodeENI's tags, want Damaged", verdict)
	}
	delete(tags, identity.TagUID)
	if _, verdict := identity.Read("cluster-1", tags); verdict != identity.Launched {
		t.Errorf("verdict %v without a UID, want Launched", verdict)
	}
}

func TestOnlyWhatIsKnownToBeOldIsALeak(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		created string
		want    bool
	}{
		"just made":              {fmt.Sprint(now.Unix()), false},
		"almost old enough":      {fmt.Sprint(now.Add(-identity.MinLeakAge).Unix() + 1), false},
		"old enough":             {fmt.Sprint(now.Add(-identity.MinLeakAge).Unix()), true},
		"made in the future":     {fmt.Sprint(now.Add(time.Hour).Unix()), false},
		"made in a far future":   {fmt.Sprint(now.Add(200 * 365 * 24 * time.Hour).Unix()), false},
		"made nobody knows when": {"yesterday", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := identity.PastMinLeakAge(map[string]string{identity.TagCreatedAt: tc.created}, now); got != tc.want {
				t.Errorf("%t, want %t", got, tc.want)
			}
		})
	}
}

func TestAnUnreadableTimeIsNotLongAgo(t *testing.T) {
	for _, value := range []string{"", "0", "-5", "yesterday", "2026-01-02T03:04:05Z", "1.5", "253402300800", "99999999999999999999"} {
		if at, known := identity.CreatedAt(map[string]string{identity.TagCreatedAt: value}); known {
			t.Errorf("%q is taken for %s", value, at)
		}
	}
	if _, known := identity.CreatedAt(nil); known {
		t.Error("no tag is taken for a time")
	}
}

// TestToken: the token of an object is its UID, so that EC2 creates one interface for it in every case. The one
// of a network's interface is pinned: another token for the same one would create a second interface after an upgrade.
func TestToken(t *testing.T) {
	i := example()
	for range 2 {
		if got := i.Token(); got != string(i.UID) {
			t.Errorf("the token is %s, want the UID", got)
		}
		i.NodeENI, i.Node, i.Cluster = "renamed", "renamed", "renamed"
	}
	const want = "038f8784965cea23ce0c19d318ea067729da9825b225ea04ad03b18245c8e710"
	i = example()
	i.UID = identity.NetworkUID("n3", 2, made)
	if got := i.Token(); got != want {
		t.Errorf("the token is %s, want %s", got, want)
	}
}

func TestTokensTellInterfacesOfNetworksApart(t *testing.T) {
	base := example()
	base.UID = identity.NetworkUID("n3", 0, made)
	for name, change := range map[string]func(*identity.Interface){
		"cluster":  func(i *identity.Interface) { i.Cluster = "cluster-2" },
		"network":  func(i *identity.Interface) { i.UID = identity.NetworkUID("n6", 0, made) },
		"ordinal":  func(i *identity.Interface) { i.UID = identity.NetworkUID("n3", 1, made) },
		"time":     func(i *identity.Interface) { i.UID = identity.NetworkUID("n3", 0, made.Add(time.Second)) },
		"instance": func(i *identity.Interface) { i.Name = identity.ObjectName("n3", "i-00000000000000002", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			i := base
			change(&i)
			if i.Token() == base.Token() {
				t.Error("the token is the same")
			}
		})
	}
}

func TestTokensFitEC2(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		i := anyInterface(rt)
		if rapid.Bool().Draw(rt, "network") {
			i.UID = identity.NetworkUID(i.NodeENI, i.Ordinal, made)
		}
		if token := i.Token(); token == "" || len(token) > 64 {
			rt.Errorf("token %q", token)
		}
	})
}

// TestObjectName: names are unique, and Kubernetes accepts them.
func TestObjectName(t *testing.T) {
	if got := identity.ObjectName("n3", instanceID, 0); got != "n3-"+instanceID+"-0" {
		t.Errorf("the name is %s", got)
	}
	long := strings.Repeat("n", 253)
	names := map[string]bool{}
	for _, nodeENI := range []string{long, long[:252] + "m", "n3", "N3", "n_3", "n-3"} {
		for ordinal := range 2 {
			name := identity.ObjectName(nodeENI, instanceID, ordinal)
			if names[name] || len(name) > 253 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
				t.Errorf("%q is the name of two objects, or no name", name)
			}
			names[name] = true
		}
	}
}

func TestTagsFitEC2(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for key, value := range maps.All(anyInterface(rt).Tags(made, nil)) {
			if len(key) > 128 || utf8.RuneCountInString(value) > 256 || strings.HasPrefix(key, "aws:") {
				rt.Errorf("%q=%q is no tag for EC2", key, value)
			}
		}
	})
}
