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

func example() identity.Member {
	return identity.Member{
		Cluster: "cluster-1", NodeENI: "storage", Node: "node-1", InstanceID: "i-00000000000000001",
		Key: identity.Key{Owner: "uid-1", Ordinal: 2}, Generation: 1767323045,
	}
}

// anyMember draws members as Kubernetes and EC2 allow them.
func anyMember(rt *rapid.T) identity.Member {
	word := rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?`)
	uid := rapid.StringMatching(`[a-z0-9/-]{1,128}`)
	return identity.Member{
		Cluster: word.Draw(rt, "cluster"), NodeENI: word.Draw(rt, "NodeENI"), Node: word.Draw(rt, "node"), InstanceID: rapid.StringMatching(`i-[0-9a-f]{17}`).Draw(rt, "instance"),
		Key:        identity.Key{Owner: identity.Owner(uid.Draw(rt, "uid")), Ordinal: rapid.IntRange(0, identity.MaxOrdinal).Draw(rt, "ordinal")},
		Generation: identity.Generation(rapid.Int64Range(0, int64(identity.MaxGeneration)).Draw(rt, "generation")),
	}
}

func TestTagsSayWhoseItIs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := anyMember(rt)
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

func TestDesiredTagsLeaveTheTimeAlone(t *testing.T) {
	want := example().Tags(made, map[string]string{"team": "ran"})
	delete(want, identity.TagCreatedAt)
	if diff := cmp.Diff(want, example().DesiredTags(map[string]string{"team": "ran"})); diff != "" {
		t.Error(diff)
	}
}

func TestDamagedTagsAreNobodys(t *testing.T) {
	damage := map[string]func(map[string]string){
		"no NodeENI":                        func(tags map[string]string) { delete(tags, identity.TagNodeENI) },
		"no NodeENI UID":                    func(tags map[string]string) { delete(tags, identity.TagNodeENIUID) },
		"no node":                           func(tags map[string]string) { delete(tags, identity.TagNode) },
		"no instance":                       func(tags map[string]string) { delete(tags, identity.TagInstanceID) },
		"no ordinal":                        func(tags map[string]string) { delete(tags, identity.TagMember) },
		"no generation":                     func(tags map[string]string) { delete(tags, identity.TagGeneration) },
		"an empty instance":                 func(tags map[string]string) { tags[identity.TagInstanceID] = "" },
		"an ordinal below zero":             func(tags map[string]string) { tags[identity.TagMember] = "-1" },
		"an ordinal in words":               func(tags map[string]string) { tags[identity.TagMember] = "two" },
		"an ordinal of 20 digits":           func(tags map[string]string) { tags[identity.TagMember] = "99999999999999999999" },
		"an ordinal that no node has":       func(tags map[string]string) { tags[identity.TagMember] = "128" },
		"an ordinal that overflows 32 bits": func(tags map[string]string) { tags[identity.TagMember] = "4294967296" },
		"a generation below zero":           func(tags map[string]string) { tags[identity.TagGeneration] = "-1" },
		"the highest number of 64 bits":     func(tags map[string]string) { tags[identity.TagGeneration] = "9223372036854775807" },
		"a generation after the year 9999":  func(tags map[string]string) { tags[identity.TagGeneration] = "253402300800" },
		"no instance's ID":                  func(tags map[string]string) { tags[identity.TagInstanceID] = "spoilt" },
		"a NodeENI's name of 254 letters": func(tags map[string]string) {
			tags[identity.TagNodeENI] = strings.Repeat("n", 254)
		},
		"a UID of 129 letters": func(tags map[string]string) {
			tags[identity.TagNodeENIUID] = strings.Repeat("u", 129)
		},
		"a generation with a dot":  func(tags map[string]string) { tags[identity.TagGeneration] = "1.5" },
		"a generation with spaces": func(tags map[string]string) { tags[identity.TagGeneration] = " 1" },
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
	delete(tags, identity.TagMember)
	if _, verdict := identity.Read("cluster-1", tags); verdict != identity.Malformed {
		t.Errorf("verdict %v of a part of a NodeENI's tags, want Damaged", verdict)
	}
	delete(tags, identity.TagNodeENIUID)
	if _, verdict := identity.Read("cluster-1", tags); verdict != identity.Launched {
		t.Errorf("verdict %v without a NodeENI's UID, want Launched", verdict)
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

// TestToken pins the token: a different token for the same member would create a second interface after an upgrade.
func TestToken(t *testing.T) {
	const want = "484d6359f4d50cdb92dd3f44ef6fb50090292949dde0f8355c6ef43146f5f7e0"
	if got := example().Token(); got != want {
		t.Errorf("token is %s, want %s", got, want)
	}
}

func TestTokensTellMembersApart(t *testing.T) {
	base := example()
	changes := map[string]struct {
		change func(*identity.Member)
		other  bool
	}{
		"cluster":                                {func(m *identity.Member) { m.Cluster = "cluster-2" }, true},
		"UID":                                    {func(m *identity.Member) { m.Owner = "uid-2" }, true},
		"instance":                               {func(m *identity.Member) { m.InstanceID = "i-00000000000000002" }, true},
		"ordinal":                                {func(m *identity.Member) { m.Ordinal = 3 }, true},
		"generation":                             {func(m *identity.Member) { m.Generation++ }, true},
		"name":                                   {func(m *identity.Member) { m.NodeENI = "renamed" }, false},
		"node":                                   {func(m *identity.Member) { m.Node = "renamed" }, false},
		"ordinal and generation that look alike": {func(m *identity.Member) { m.Ordinal, m.Generation = 21, 767323045 }, true},
		"cluster and UID that look alike":        {func(m *identity.Member) { m.Cluster, m.Owner = "cluster-1u", "id-1" }, true},
	}
	for name, tc := range changes {
		t.Run(name, func(t *testing.T) {
			m := base
			tc.change(&m)
			if other := m.Token() != base.Token(); other != tc.other {
				t.Errorf("another token: %t, want %t", other, tc.other)
			}
		})
	}
}

func TestTokensFitEC2(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		token := anyMember(rt).Token()
		if len(token) != 64 || strings.Trim(token, "0123456789abcdef") != "" {
			rt.Errorf("token %q", token)
		}
	})
}

func TestTagsFitEC2(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for key, value := range maps.All(anyMember(rt).Tags(made, nil)) {
			if len(key) > 128 || utf8.RuneCountInString(value) > 256 || strings.HasPrefix(key, "aws:") {
				rt.Errorf("%q=%q is no tag for EC2", key, value)
			}
		}
	})
}

func TestKeysAreOrdered(t *testing.T) {
	a, b, c := identity.Key{Owner: "a", Ordinal: 2}, identity.Key{Owner: "a", Ordinal: 10}, identity.Key{Owner: "b"}
	if a.Compare(b) >= 0 || b.Compare(c) >= 0 || c.Compare(a) <= 0 || a.Compare(a) != 0 {
		t.Error("keys go by UID, then by ordinal as a number")
	}
}

func TestAnInterfaceThatIsOlderThanItsNodeENITellsOfARestore(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	made := func(ago time.Duration) map[string]string {
		return identity.Member{}.Tags(now.Add(-ago), nil)
	}
	cases := map[string]struct {
		tags    map[string]string
		nodeENI time.Duration
		want    bool
	}{
		"made for it":                         {made(time.Hour), 2 * time.Hour, false},
		"made at once":                        {made(time.Hour), time.Hour, false},
		"made at once by a clock that is off": {made(time.Hour + 50*time.Second), time.Hour, false},
		"there before it":                     {made(time.Hour), time.Minute, true},
		"there before it, a day ago":          {made(48 * time.Hour), identity.MassLossGrace, false},
		"there before it, not long ago":       {made(48 * time.Hour), identity.MassLossGrace - time.Second, true},
		"nobody knows since when":             {map[string]string{identity.TagCreatedAt: "long ago"}, time.Minute, false},
		"not made yet":                        {made(-time.Hour), time.Minute, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := identity.IsAdopted(tc.tags, now.Add(-tc.nodeENI), now); got != tc.want {
				t.Errorf("%t, want %t", got, tc.want)
			}
		})
	}
}

func TestManyOrphansAtOnceAreALossAndNoLeaks(t *testing.T) {
	cases := map[string]struct {
		orphans, attached int
		want              time.Duration
	}{
		"one of one":              {1, 1, identity.AttachedOrphanGrace},
		"one of many":             {1, 5000, identity.AttachedOrphanGrace},
		"all of a small cluster":  {2, 2, identity.MassLossGrace},
		"half of a small cluster": {3, 6, identity.MassLossGrace},
		"fewer than half":         {3, 7, identity.AttachedOrphanGrace},
		"ten of many":             {10, 5000, identity.MassLossGrace},
		"nine of many":            {9, 5000, identity.AttachedOrphanGrace},
		"none":                    {0, 0, identity.AttachedOrphanGrace},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := identity.OrphanGrace(tc.orphans, tc.attached); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
