// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podaddress_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/podaddress"
)

func address(last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 4, last}) }

var (
	eth0     = podaddress.Link{Index: 2, MAC: "0a:00:00:00:00:01", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.1")}}
	floating = []netip.Prefix{netip.MustParsePrefix("10.0.4.192/26")}
	same     = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
)

func TestFind(t *testing.T) {
	const mac = "02:00:00:00:00:01"
	one := podaddress.Interface{ID: "eni-1", Link: 5, MAC: mac, Own: []netip.Prefix{netip.MustParsePrefix("10.0.4.5/32"), netip.MustParsePrefix("10.0.4.16/28")}, Subnet: netip.MustParsePrefix("10.0.4.0/24")}
	two := podaddress.Interface{ID: "eni-2", Link: 6, MAC: "02:00:00:00:00:02"}
	away := podaddress.Interface{ID: "eni-3", MAC: "02:00:00:00:00:03"}
	on := func(link podaddress.Link, addresses ...netip.Addr) podaddress.Link {
		link.Addresses = addresses
		return link
	}
	podIP := netip.MustParseAddr("10.1.0.1")
	for name, tc := range map[string]struct {
		links []podaddress.Link
		want  map[string][]podaddress.Address
	}{
		"no link of an interface": {[]podaddress.Link{eth0}, map[string][]podaddress.Address{}},
		"a link on an interface": {
			[]podaddress.Link{eth0, on(podaddress.Link{Index: 3, HostLink: 5, MAC: mac}, address(201), address(200))},
			map[string][]podaddress.Address{"eni-1": {{address(200), podIP, 1}, {address(201), podIP, 1}}},
		},
		"links on two interfaces, the same MAC address": {
			[]podaddress.Link{on(podaddress.Link{Index: 3, HostLink: 5, MAC: mac}, address(200)), on(podaddress.Link{Index: 4, HostLink: 6, MAC: mac}, address(201))},
			map[string][]podaddress.Address{"eni-1": {{address(200), netip.Addr{}, 1}}, "eni-2": {{address(201), netip.Addr{}, 1}}},
		},
		"a link on a link on an interface": {
			[]podaddress.Link{on(podaddress.Link{Index: 4, Lower: 3}, address(200)), {Index: 3, HostLink: 5}},
			map[string][]podaddress.Address{"eni-1": {{address(200), netip.Addr{}, 1}}},
		},
		"links on each other in a circle": {
			[]podaddress.Link{on(podaddress.Link{Index: 4, Lower: 3}, address(200)), {Index: 3, Lower: 4}}, map[string][]podaddress.Address{},
		},
		"the link of the interface itself": {
			[]podaddress.Link{eth0, on(podaddress.Link{Index: 3, MAC: away.MAC}, address(200))},
			map[string][]podaddress.Address{"eni-3": {{address(200), podIP, 1}}},
		},
		"a foreign link with the MAC address of an interface on the node": {
			[]podaddress.Link{on(podaddress.Link{Index: 3, MAC: mac}, address(200))}, map[string][]podaddress.Address{},
		},
		"an address that EC2 reserves": {
			[]podaddress.Link{on(podaddress.Link{Index: 3, HostLink: 5}, address(0), address(1), address(3), address(4), address(254), address(255))},
			map[string][]podaddress.Address{"eni-1": {{address(4), netip.Addr{}, 1}, {address(254), netip.Addr{}, 1}}},
		},
		"an address of the interface, of its prefix, and IPv6": {
			[]podaddress.Link{on(podaddress.Link{Index: 3, HostLink: 5}, address(5), address(17), netip.MustParseAddr("2001:db8::1"))}, map[string][]podaddress.Address{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := podaddress.Find([]podaddress.Namespace{{ID: 1, Links: tc.links}}, []podaddress.Interface{one, two, away})
			if diff := cmp.Diff(tc.want, got, same); diff != "" {
				t.Errorf("addresses differ (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClaims lets addresses come and go. Each claim is written as ADDRESS, ! if it is released, and * if it is a new one.
func TestClaims(t *testing.T) {
	type step struct {
		after time.Duration
		have  []byte
		want  string
	}
	for name, tc := range map[string]struct {
		most  int
		steps []step
	}{
		"an address comes and stays":   {8, []step{{0, []byte{200}, "200*"}, {time.Hour, []byte{200}, "200"}}},
		"one outside the ranges":       {8, []step{{0, []byte{20, 200}, "200*"}}},
		"it goes":                      {8, []step{{0, []byte{200}, "200*"}, {time.Second, nil, "200!"}, {59 * time.Second, nil, "200!"}, {time.Second, nil, ""}}},
		"it comes back":                {8, []step{{0, []byte{200}, "200*"}, {time.Second, nil, "200!"}, {time.Second, []byte{200}, "200*"}}},
		"several are in order":         {8, []step{{0, []byte{202, 200}, "200* 202*"}, {0, []byte{201, 202, 200}, "200 201* 202"}}},
		"too many, the newest is out":  {2, []step{{0, []byte{201, 202}, "201* 202*"}, {0, []byte{200, 201, 202}, "201 202 +1"}}},
		"too many, a released is out":  {2, []step{{0, []byte{201, 202}, "201* 202*"}, {0, []byte{200, 202}, "200* 202"}}},
		"the one that was out gets in": {1, []step{{0, []byte{200}, "200*"}, {0, []byte{200, 201}, "200 +1"}, {0, []byte{201}, "201*"}}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			var sequences podaddress.Sequences
			var last []podaddress.Claim
			known := map[int64]bool{}
			for n, s := range tc.steps {
				now = now.Add(s.after)
				var found []podaddress.Address
				for _, a := range s.have {
					found = append(found, podaddress.Address{Address: address(a)})
				}
				claims, omitted := podaddress.Limit(podaddress.Claims(last, found, floating, &sequences, now), tc.most)
				if got := describe(claims, omitted, known); got != s.want {
					t.Errorf("step %d: got %q, want %q", n+1, got, s.want)
				}
				last = claims
			}
		})
	}
}

func describe(claims []podaddress.Claim, omitted int, known map[int64]bool) (text string) {
	for _, c := range claims {
		if text != "" {
			text += " "
		}
		text += fmt.Sprint(c.Address.As4()[3])
		if !c.ReleasedAt.IsZero() {
			text += "!"
		}
		if !known[c.Sequence] {
			text += "*"
		}
		known[c.Sequence] = true
	}
	if omitted > 0 {
		text += fmt.Sprintf(" +%d", omitted)
	}
	return text
}

// A claim stays while the pod has the address, even if its range is no longer declared.
func TestClaimsOutliveTheirRange(t *testing.T) {
	var sequences podaddress.Sequences
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	found := []podaddress.Address{{Address: address(200)}}
	first := podaddress.Claims(nil, found, floating, &sequences, now)
	second := podaddress.Claims(first, found, nil, &sequences, now.Add(time.Hour))
	if diff := cmp.Diff(first, second, same); diff != "" {
		t.Errorf("the claim differs (-before +after):\n%s", diff)
	}
	third := podaddress.Claims(podaddressReleased(second, now), found, nil, &sequences, now.Add(time.Second))
	if podaddress.Live(third) != 1 || third[0].Sequence <= second[0].Sequence {
		t.Errorf("the address came back, and the claims are %+v", third)
	}
}

func podaddressReleased(claims []podaddress.Claim, now time.Time) []podaddress.Claim {
	return podaddress.Claims(claims, nil, nil, &podaddress.Sequences{}, now)
}

// TestSequencesGrow numbers claims with any clock, after any earlier claims: each new claim has a larger number.
func TestSequencesGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sequences podaddress.Sequences
		used := int64(0)
		for range 20 {
			if rapid.Bool().Draw(t, "an earlier claim is read") {
				earlier := rapid.Int64Range(1, 1<<60).Draw(t, "sequence")
				sequences.Use(earlier)
				used = max(used, earlier)
			}
			now := time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "clock"))
			claims := podaddress.Claims(nil, []podaddress.Address{{Address: address(200)}}, floating, &sequences, now)
			if claims[0].Sequence <= used {
				t.Fatalf("%d follows %d", claims[0].Sequence, used)
			}
			used = claims[0].Sequence
		}
	})
}

// TestAPodWithManyAddressesDisplacesNone limits the claims of a node on which one pod has more addresses than a report
// takes: each other pod keeps all of its own, whichever came first.
func TestAPodWithManyAddressesDisplacesNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 64
		all := []netip.Prefix{netip.MustParsePrefix("10.0.4.0/24")}
		greedy := rapid.IntRange(most, 100).Draw(t, "addresses of the greedy pod")
		modest := rapid.IntRange(1, 16).Draw(t, "addresses of another pod")
		of := func(namespace, from, n int) (found []podaddress.Address) {
			for at := range n {
				found = append(found, podaddress.Address{Address: address(byte(from + at)), Namespace: namespace})
			}
			return found
		}
		first, second := of(1, 0, greedy), of(2, 200, modest)
		if rapid.Bool().Draw(t, "the greedy pod is last") {
			first, second = second, first
		}
		var sequences podaddress.Sequences
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		claims := podaddress.Claims(nil, first, all, &sequences, now)
		claims = podaddress.Claims(claims, append(first, second...), all, &sequences, now.Add(time.Second))
		kept, omitted := podaddress.Limit(claims, most)
		if len(kept) != most || omitted != greedy+modest-most {
			t.Errorf("%d claims are kept and %d omitted", len(kept), omitted)
		}
		others := 0
		for _, claim := range kept {
			if claim.Namespace == 2 {
				others++
			}
		}
		if others != modest {
			t.Errorf("of the other pod's %d claims %d are kept", modest, others)
		}
	})
}

// TestAdmit asks for permission for new claims only.
func TestAdmit(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	last := []podaddress.Claim{{Address: address(200)}, {Address: address(201), ReleasedAt: now}}
	found := []podaddress.Address{
		{Address: address(20)}, {Address: address(200)}, {Address: address(201)}, {Address: address(202), Namespace: 1}, {Address: address(202), Namespace: 2},
		{Address: address(203), Namespace: 1},
	}
	var asked []podaddress.Address
	admitted, waiting := podaddress.Admit(last, found, floating, func(f podaddress.Address) bool {
		asked = append(asked, f)
		return f.Namespace == 2
	})
	if diff := cmp.Diff([]podaddress.Address{found[2], found[3], found[4], found[5]}, asked, same); diff != "" {
		t.Errorf("permission is asked for (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]podaddress.Address{found[0], found[1], found[4]}, admitted, same); diff != "" || waiting != 2 {
		t.Errorf("%d wait, want 2; admitted (-want +got):\n%s", waiting, diff)
	}
}

// A pod that takes the address of another pod's claim does not get its name.
func TestAClaimStaysWithItsPod(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var sequences podaddress.Sequences
	victim := podaddress.Address{Address: address(200), PodIP: netip.MustParseAddr("10.1.0.9"), Namespace: 2}
	other := podaddress.Address{Address: address(200), PodIP: netip.MustParseAddr("10.1.0.1"), Namespace: 1}
	claims := podaddress.Claims(nil, []podaddress.Address{victim}, floating, &sequences, now)
	again := podaddress.Claims(claims, []podaddress.Address{other, victim}, floating, &sequences, now)
	if diff := cmp.Diff(claims, again, same); diff != "" {
		t.Errorf("the claim differs (-before +after):\n%s", diff)
	}
}

// An observation that omits namespaces releases no claim, and forgets none, but adds what it found.
func TestUnreleased(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var sequences podaddress.Sequences
	last := podaddress.Claims(nil, []podaddress.Address{{Address: address(200)}, {Address: address(201)}}, floating, &sequences, now)
	last = podaddress.Claims(last, []podaddress.Address{{Address: address(200)}}, floating, &sequences, now)
	later := now.Add(time.Hour)
	claims := podaddress.Unreleased(last, podaddress.Claims(last, []podaddress.Address{{Address: address(202)}}, floating, &sequences, later))
	if len(claims) != 3 || !claims[0].ReleasedAt.IsZero() || !claims[1].ReleasedAt.Equal(now) || claims[2].Address != address(202) {
		t.Errorf("the claims are %+v", claims)
	}
}
