// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostnet/hostnettest"
)

// neighbors are two links of the host, ens5 and ens6, that may both be desired. The MAC address of ens5 sorts first.
func neighbors(first, second string) (links []hostnet.Link, facts hostnet.Facts) {
	one, two := link(), link()
	one.Name, one.MAC, one.Device, one.Slot.Device = first, "02:00:00:00:00:01", "0000:00:05.0", 2
	two.Name = second
	facts = host()
	facts.PrimaryLink = 0
	return []hostnet.Link{one, two}, facts
}

// naming is the result of an observation about a link's name.
type naming struct {
	AltName string
	Reason  string
}

// TestWhoGetsAName gives two desired links one name, in every state that the first may be in. A link that exists
// keeps its name even if it cannot be changed, because it may come back; one that does not exist keeps no name from
// another.
func TestWhoGetsAName(t *testing.T) {
	excluded := func(f *hostnet.Facts) { f.Links[1].Excluded = true }
	missing := func(f *hostnet.Facts) { f.Links[1].MAC = "02:00:00:00:00:99" }
	moved := func(f *hostnet.Facts) { missing(f); f.Away = []string{"0000:00:05.0"} }
	for name, tc := range map[string]struct {
		change        func(*hostnet.Facts)
		first, second naming
	}{
		"both exist": {
			func(*hostnet.Facts) {}, naming{"net-web", hostnet.ReasonReady}, naming{"", hostnet.ReasonNameTaken},
		},
		"the first is missing":  {missing, naming{"", hostnet.ReasonNotFound}, naming{"net-web", hostnet.ReasonReady}},
		"the first is a pod's":  {moved, naming{"", hostnet.ReasonMoved}, naming{"", hostnet.ReasonNameTaken}},
		"the first is excluded": {excluded, naming{"", hostnet.ReasonExcluded}, naming{"", hostnet.ReasonNameTaken}},
		"a virtual link is called so": {
			func(f *hostnet.Facts) { f.Links[3].Name = "net-web" }, naming{"", hostnet.ReasonNameTaken},
			naming{"", hostnet.ReasonNameTaken},
		},
		"an excluded link, and a virtual one is called so": {
			func(f *hostnet.Facts) { excluded(f); f.Links[3].Name = "net-web" },
			naming{"", hostnet.ReasonExcluded}, naming{"", hostnet.ReasonNameTaken},
		},
	} {
		t.Run(name, func(t *testing.T) {
			links, facts := neighbors("web", "web")
			tc.change(&facts)
			k := hostnettest.New(facts)
			settle(t, k, links)
			var got []naming
			for _, o := range hostnet.Observe(links, k.Facts()) {
				got = append(got, naming{o.AltName, o.Reason})
			}
			if diff := cmp.Diff([]naming{tc.first, tc.second}, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhoGetsALongName gives two links one long name: the first has both forms of it, the second neither. A link that
// does not exist yet has none, and keeps none.
func TestWhoGetsALongName(t *testing.T) {
	const long, short, whole = "one-too-many", "net-one-t-qvg3b", "net-one-too-many"
	for name, tc := range map[string]struct {
		change        func(*hostnet.Facts)
		first, second []string
	}{
		"both exist": {func(*hostnet.Facts) {}, []string{short, whole}, nil},
		"the first does not exist": {
			func(f *hostnet.Facts) { f.Links[1].MAC = "02:00:00:00:00:99" }, nil, []string{short, whole},
		},
		"a virtual link has the whole one": {
			func(f *hostnet.Facts) { f.Links[3].AltNames = []string{whole} }, []string{short}, nil,
		},
		"a virtual link has the short one": {
			func(f *hostnet.Facts) { f.Links[3].AltNames = []string{short} }, []string{whole}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			links, facts := neighbors(long, long)
			tc.change(&facts)
			k := hostnettest.New(facts)
			settle(t, k, links)
			if diff := cmp.Diff(tc.first, names(k, 1)); diff != "" {
				t.Errorf("names of the first (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.second, names(k, 2)); diff != "" {
				t.Errorf("names of the second (-want +got):\n%s", diff)
			}
		})
	}
}

// names are the alternative names of the nth link; nil without one.
func names(k *hostnettest.Kernel, n int) []string {
	if names := k.Facts().Links[n].AltNames; len(names) > 0 {
		return names
	}
	return nil
}

// TestNamesAreSorted checks the order of names where the whole name sorts before its short form. The alias has them
// in the same order, so that it does not change from one run to the next.
func TestNamesAreSorted(t *testing.T) {
	l := link()
	l.Name = "abcde-0-long"
	short, whole := hostnet.AltName(l.Name), "net-abcde-0-long"
	if short < whole {
		t.Fatalf("%s sorts before %s, so the test shows nothing", short, whole)
	}
	facts := with(func(l *hostnet.LinkFacts) { l.AltNames = []string{"enp0s6", "zz"} })
	config := hostnet.Configure([]hostnet.Link{l}, facts)
	if diff := cmp.Diff([]string{"enp0s6", whole, short, "zz"}, config.Links[0].AltNames); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if want := "multieni name=" + whole + " name=" + short + " up=0"; !strings.HasPrefix(config.Links[0].Alias, want) {
		t.Errorf("the alias is %q, want one that begins with %q", config.Links[0].Alias, want)
	}
}

// TestEveryAliasFits sweeps the length of the alias that a link has: the kernel takes every alias on the way from one
// long name to another and back, or the link is refused and stays as it is.
func TestEveryAliasFits(t *testing.T) {
	one, other := link(), link()
	one.Name, other.Name = "one-too-many", "another-name-that-is-too-long"
	refused, short, whole := 0, 0, 0
	for length := 60; length < 180; length++ {
		before := with(func(l *hostnet.LinkFacts) { l.Alias = strings.Repeat("x", length) })
		k := hostnettest.New(before)
		for _, l := range []hostnet.Link{one, other} {
			config := hostnet.Configure([]hostnet.Link{l}, k.Facts()).String()
			settle(t, k, []hostnet.Link{l})
			if diff := cmp.Diff(config, hostnet.Configure([]hostnet.Link{l}, k.Facts()).String()); diff != "" {
				t.Fatalf("with an alias of %d characters the desired state changes (-first +again):\n%s", length, diff)
			}
			switch o := hostnet.Observe([]hostnet.Link{l}, k.Facts())[0]; {
			case o.Reason == hostnet.ReasonAliasTooLong && k.String() == before.String():
				refused++
			case o.Reason == hostnet.ReasonReady && len(names(k, 2)) == 1:
				short++
			case o.Reason == hostnet.ReasonReady && len(names(k, 2)) == 2:
				whole++
			default:
				t.Fatalf("with an alias of %d characters it is %s: %s\n%s", length, o.State, o.Message, k)
			}
		}
		settle(t, k, nil)
		if diff := cmp.Diff(before.String(), k.String()); diff != "" {
			t.Fatalf("with an alias of %d characters (-before +after):\n%s", length, diff)
		}
	}
	if refused == 0 || short == 0 || whole == 0 {
		t.Errorf("%d were refused, %d have the short name and %d both; want some of each", refused, short, whole)
	}
}

// TestAliasesAreUsedToTheLastCharacter checks the longest alias of a link, with one name and with both: 255
// characters, as many as the kernel takes.
func TestAliasesAreUsedToTheLastCharacter(t *testing.T) {
	l := link()
	l.Name = "one-too-many"
	longest := map[int]int{} // by the number of names
	for length := 60; length < 180; length++ {
		k := hostnettest.New(with(func(l *hostnet.LinkFacts) { l.Alias = strings.Repeat("x", length) }))
		settle(t, k, []hostnet.Link{l})
		if given := len(names(k, 2)); given > 0 {
			longest[given] = max(longest[given], len(k.Facts().Links[2].Alias))
		}
	}
	if diff := cmp.Diff(map[int]int{1: 255, 2: 255}, longest); diff != "" {
		t.Errorf("longest aliases (-want +got):\n%s", diff)
	}
}

// TestNoRoomForBothRecords checks the operations that lead from one long name to another where the alias of the link
// has room for either record, and not for both: the alias names at any time what the link has of multieni.
func TestNoRoomForBothRecords(t *testing.T) {
	one, other := link(), link()
	one.Name, one.Settings = "one-too-many", map[hostnet.Setting]int{hostnet.ProxyARP: 1}
	other.Name, other.Settings = "another-name-that-is-too-long", map[hostnet.Setting]int{hostnet.ARPNotify: 1}
	before := with(func(l *hostnet.LinkFacts) { l.Alias = strings.Repeat("x", 105) })
	k := hostnettest.New(before)
	settle(t, k, []hostnet.Link{one})
	facts := k.Facts()
	operations := hostnet.Diff(hostnet.Configure([]hostnet.Link{other}, facts), facts)
	if diff := cmp.Diff(k.Facts(), facts, exact); diff != "" {
		t.Errorf("facts (-before +after):\n%s", diff)
	}
	const want = `link 3: remove altname net-one-t-qvg3b
link 3: remove altname net-one-too-many
link 3: set ipv4.proxy_arp to 0
link 3: set alias "multieni name=net-anoth-ouoxg up=0 mtu=1500 4.arp_ignore=0 ` +
		`4.arp_notify=0 6.accept_ra=1 6.addr_gen_mode=0 6.autoconf=1 was=`
	const rest = `"
link 3: add altname net-anoth-ouoxg
link 3: set ipv4.arp_notify to 1
`
	var got strings.Builder
	for _, op := range operations {
		got.WriteString(op.String() + "\n")
	}
	if diff := cmp.Diff(want+strings.Repeat("x", 105)+rest, got.String()); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	for cut := range len(operations) + 1 {
		crashed := k.Clone()
		apply(t, crashed, operations[:cut])
		settle(t, crashed, nil)
		if diff := cmp.Diff(before.String(), crashed.String()); diff != "" {
			t.Errorf("after a crash behind %d operations (-before +after):\n%s", cut, diff)
		}
	}
}
