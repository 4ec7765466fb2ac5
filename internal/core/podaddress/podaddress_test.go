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
	"github.com/multieni/multieni/internal/core/podnet"
)

func address(last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 4, last}) }

var (
	eth0     = podaddress.Link{Index: 2, OnNode: true, MAC: "0a:00:00:00:00:01", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.1")}}
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
			[]podaddress.Link{eth0, on(podaddress.Link{Index: 3, MAC: away.MAC, Physical: true}, address(200))},
			map[string][]podaddress.Address{"eni-3": {{address(200), podIP, 1}}},
		},
		"a foreign link with the MAC address of an interface on the node": {
			[]podaddress.Link{on(podaddress.Link{Index: 3, MAC: mac, Physical: true}, address(200))}, map[string][]podaddress.Address{},
		},
		"a virtual link with the MAC address of an interface in a pod": {
			[]podaddress.Link{on(podaddress.Link{Index: 3, MAC: away.MAC}, address(200))}, map[string][]podaddress.Address{},
		},
		"a link that ends in the namespace has another pod's address": {
			[]podaddress.Link{on(podaddress.Link{Index: 1}, netip.MustParseAddr("10.1.0.0")), eth0, on(podaddress.Link{Index: 3, HostLink: 5}, address(200))},
			map[string][]podaddress.Address{"eni-1": {{address(200), podIP, 1}}},
		},
		"the pod gives its link to the node a further address": {
			[]podaddress.Link{on(eth0, netip.MustParseAddr("2001:db8::1"), podIP, netip.MustParseAddr("10.1.0.0")), on(podaddress.Link{Index: 3, HostLink: 5}, address(200))},
			map[string][]podaddress.Address{"eni-1": {{address(200), podIP, 1}}},
		},
		"an address that EC2 reserves": {
			[]podaddress.Link{on(podaddress.Link{Index: 3, HostLink: 5}, address(0), address(1), address(3), address(4), address(254), address(255))},
			map[string][]podaddress.Address{"eni-1": {{address(4), netip.Addr{}, 1}, {address(254), netip.Addr{}, 1}}},
		},
		"an address of the interface, of its prefix, and IPv6": {
			[]podaddress.Link{on(podaddress.Link{Index: 3, HostLink: 5}, address(5), address(17), netip.MustParseAddr("2001:db8::1"))}, map[string][]podaddress.Address{"eni-1": {}},
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

// TestPresent lets addresses come and go. Each is written as its last byte, and * if it arrived in the step.
func TestPresent(t *testing.T) {
	for name, tc := range map[string]struct {
		most  int
		steps [][]byte
		want  []string
	}{
		"an address comes and stays":   {8, [][]byte{{200}, {200}}, []string{"200*", "200"}},
		"one outside the ranges":       {8, [][]byte{{20, 200}}, []string{"200*"}},
		"it goes and comes back":       {8, [][]byte{{200}, {}, {200}}, []string{"200*", "", "200*"}},
		"several are in order":         {8, [][]byte{{202, 200}, {201, 202, 200}}, []string{"200* 202*", "200 201* 202"}},
		"too many, the newest is out":  {2, [][]byte{{201, 202}, {200, 201, 202}}, []string{"201* 202*", "201 202"}},
		"the one that was out gets in": {1, [][]byte{{200}, {200, 201}, {201}}, []string{"200*", "200", "201*"}},
	} {
		t.Run(name, func(t *testing.T) {
			var arrivals podaddress.Arrivals
			var last []podaddress.Presence
			known := map[int64]bool{}
			for n, have := range tc.steps {
				var found []podaddress.Address
				for _, a := range have {
					found = append(found, podaddress.Address{Address: address(a)})
				}
				last = podaddress.Present(last, found, floating, &arrivals, time.Time{})
				if got := describe(podaddress.Limit(last, tc.most), known); got != tc.want[n] {
					t.Errorf("step %d: got %q, want %q", n+1, got, tc.want[n])
				}
			}
		})
	}
}

func describe(present []podaddress.Presence, known map[int64]bool) (text string) {
	for _, p := range present {
		if text != "" {
			text += " "
		}
		text += fmt.Sprint(p.Address.As4()[3])
		if !known[p.Arrival] {
			text += "*"
		}
		known[p.Arrival] = true
	}
	return text
}

// An address stays present while the pod has it, even if its range is no longer declared. It says so.
func TestAnAddressOutlivesItsRange(t *testing.T) {
	var arrivals podaddress.Arrivals
	found := []podaddress.Address{{Address: address(200)}}
	first := podaddress.Present(nil, found, floating, &arrivals, time.Time{})
	second := podaddress.Present(first, found, nil, &arrivals, time.Unix(1, 0))
	if !first[0].Declared || second[0].Declared {
		t.Errorf("it is declared: %t, and without the range: %t", first[0].Declared, second[0].Declared)
	}
	first[0].Declared = false
	if diff := cmp.Diff(first, second, same); diff != "" {
		t.Errorf("the address differs (-before +after):\n%s", diff)
	}
	if left := podaddress.Present(second, nil, floating, &arrivals, time.Unix(2, 0)); len(left) > 0 {
		t.Errorf("the pod dropped it, and %+v is left", left)
	}
}

// An agent that starts cannot tell whether the addresses that it finds came up before those of other nodes.
func TestOnlyLaterAddressesCameUp(t *testing.T) {
	var arrivals podaddress.Arrivals
	first := podaddress.Present(nil, []podaddress.Address{{Address: address(200)}}, floating, &arrivals, time.Time{})
	arrivals.Started = true
	all := podaddress.Present(first, []podaddress.Address{{Address: address(200)}, {Address: address(201)}}, floating, &arrivals, time.Time{})
	if all[0].Came || !all[1].Came {
		t.Errorf("came up: %+v", all)
	}
}

// TestAPodWithManyAddressesDisplacesNone limits the addresses of a node on which one pod has more than an interface
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
		var arrivals podaddress.Arrivals
		present := podaddress.Present(nil, first, all, &arrivals, time.Time{})
		present = podaddress.Present(present, append(first, second...), all, &arrivals, time.Time{})
		kept := podaddress.Limit(present, most)
		if len(kept) != most {
			t.Errorf("%d addresses are kept", len(kept))
		}
		others := 0
		for _, p := range kept {
			if p.Namespace == 2 {
				others++
			}
		}
		if others != modest {
			t.Errorf("of the other pod's %d addresses %d are kept", modest, others)
		}
	})
}

// TestAdmit asks for permission for addresses that come up within the ranges only.
func TestAdmit(t *testing.T) {
	last := []podaddress.Presence{{Address: address(200)}}
	found := []podaddress.Address{
		{Address: address(20)}, {Address: address(200)}, {Address: address(202), Namespace: 1}, {Address: address(202), Namespace: 2},
		{Address: address(203), Namespace: 1},
	}
	var asked []podaddress.Address
	admitted, waiting := podaddress.Admit(last, found, floating, func(f podaddress.Address) bool {
		asked = append(asked, f)
		return f.Namespace == 2
	})
	if diff := cmp.Diff(found[2:], asked, same); diff != "" {
		t.Errorf("permission is asked for (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]podaddress.Address{found[0], found[1], found[3]}, admitted, same); diff != "" || waiting != 1 {
		t.Errorf("%d wait, want 1; admitted (-want +got):\n%s", waiting, diff)
	}
}

// A pod that takes the address of another pod does not get its name.
func TestAnAddressStaysWithItsPod(t *testing.T) {
	var arrivals podaddress.Arrivals
	victim := podaddress.Address{Address: address(200), PodIP: netip.MustParseAddr("10.1.0.9"), Namespace: 2}
	other := podaddress.Address{Address: address(200), PodIP: netip.MustParseAddr("10.1.0.1"), Namespace: 1}
	before := podaddress.Present(nil, []podaddress.Address{victim}, floating, &arrivals, time.Time{})
	after := podaddress.Present(before, []podaddress.Address{other, victim}, floating, &arrivals, time.Time{})
	if diff := cmp.Diff(before, after, same); diff != "" {
		t.Errorf("the address differs (-before +after):\n%s", diff)
	}
}

// An observation that omits namespaces ends no presence, but adds what it found.
func TestPartial(t *testing.T) {
	var arrivals podaddress.Arrivals
	last := podaddress.Present(nil, []podaddress.Address{{Address: address(200)}, {Address: address(201)}}, floating, &arrivals, time.Time{})
	all := podaddress.Partial(last, podaddress.Present(last, []podaddress.Address{{Address: address(202)}}, floating, &arrivals, time.Time{}))
	if got := describe(all, map[int64]bool{1: true, 2: true}); got != "200 201 202*" {
		t.Errorf("present are %s", got)
	}
}

// TestDecide has node-a write about an address, for each state of the object and of its pods.
func TestDecide(t *testing.T) {
	a, b := podaddress.Owner{Node: "node-a", InterfaceID: "eni-a"}, podaddress.Owner{Node: "node-b", InterfaceID: "eni-b"}
	sibling, none := podaddress.Owner{Node: "node-a", InterfaceID: "eni-a2"}, podaddress.Owner{}
	free := podaddress.Object{Exists: true}
	held := func(by, contender podaddress.Owner) podaddress.Object {
		return podaddress.Object{Exists: true, Holder: by, Contender: contender}
	}
	up, wasUp := podaddress.Seen{Present: true, Came: true, Declared: true}, podaddress.Seen{Present: true, Declared: true}
	undeclared, gone := podaddress.Seen{Present: true, Came: true}, podaddress.Seen{}
	leased := podaddress.Seen{Present: true, Came: true, Declared: true, Leased: true}
	for name, tc := range map[string]struct {
		seen   podaddress.Seen
		object podaddress.Object
		want   podaddress.Write
	}{
		"it came up, and has no object":             {up, podaddress.Object{}, podaddress.Create},
		"it was up, and has no object":              {wasUp, podaddress.Object{}, podaddress.Create},
		"it has no object, and its range goes":      {undeclared, podaddress.Object{}, podaddress.WriteNothing},
		"it came up, and nobody holds it":           {up, free, podaddress.Hold},
		"it was up, and nobody holds it":            {wasUp, free, podaddress.Hold},
		"it came up, and another node holds it":     {up, held(b, none), podaddress.Hold},
		"it was up, and another node holds it":      {wasUp, held(b, none), podaddress.Contend},
		"that is written":                           {wasUp, held(b, a), podaddress.WriteNothing},
		"another contender is written":              {wasUp, held(b, podaddress.Owner{Node: "node-c"}), podaddress.WriteNothing},
		"it is held":                                {wasUp, held(a, none), podaddress.WriteNothing},
		"it came up, and is held":                   {up, held(a, none), podaddress.WriteNothing},
		"a pod got a lease of it, and it is held":   {leased, held(a, none), podaddress.Hold},
		"it is held, and the node contends with it": {wasUp, held(a, a), podaddress.Yield},
		"another interface of the node holds it":    {wasUp, held(sibling, none), podaddress.Hold},
		"it goes":                                   {gone, held(a, none), podaddress.LetGo},
		"it goes, and another node holds it":        {gone, held(b, none), podaddress.WriteNothing},
		"it goes, and the node contends":            {gone, held(b, a), podaddress.Yield},
		"it goes, and has no object":                {gone, podaddress.Object{}, podaddress.WriteNothing},
		"the object is being deleted":               {up, podaddress.Object{Exists: true, Deleting: true}, podaddress.WriteNothing},
	} {
		t.Run(name, func(t *testing.T) {
			me := a
			if !tc.seen.Present {
				me.InterfaceID = ""
			}
			if got := podaddress.Decide(me, tc.seen, tc.object); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// leased is a lease of an address by a pod's link.
func leased(a netip.Addr, container string, claim *podnet.Claim) podnet.Lease {
	return podnet.Lease{Address: a, Holder: podnet.Holder{ContainerID: container, Interface: "net1", PodNamespace: "upf", Pod: "upf-0"}, Claim: claim}
}

// TestLeased follows the leases of one address over passes of the agent.
func TestLeased(t *testing.T) {
	var arrivals podaddress.Arrivals
	first := podaddress.Leased(nil, []podnet.Lease{leased(address(200), "c1", nil)}, floating, &arrivals)
	if len(first) != 1 || !first[0].Came || !first[0].Declared || first[0].Arrival != 1 {
		t.Fatalf("the first lease is %+v", first)
	}
	first[0].Came = false
	same := podaddress.Leased(first, []podnet.Lease{leased(address(200), "c1", nil)}, nil, &arrivals)
	if same[0].Came || same[0].Declared || same[0].Arrival != 1 {
		t.Errorf("the same lease after an edit of the ranges is %+v", same)
	}
	next := podaddress.Leased(same, []podnet.Lease{leased(address(200), "c2", nil)}, floating, &arrivals)
	if !next[0].Came || next[0].Arrival != 2 {
		t.Errorf("the lease of the next pod is %+v", next)
	}
	if found := podaddress.Without([]podaddress.Address{{Address: address(200)}, {Address: address(201)}}, next); len(found) != 1 || found[0].Address != address(201) {
		t.Errorf("besides the lease are found %v", found)
	}
}

// TestSeen decides whether an address came up since the agent last claimed it, also after a restart of the agent.
func TestSeen(t *testing.T) {
	claim := &podnet.Claim{Object: "o", Sequence: 3}
	object := func(uid string, sequence int64) podaddress.Object {
		return podaddress.Object{Exists: true, UID: uid, Sequence: sequence}
	}
	since := time.Unix(100, 500)
	holder := func(later time.Duration) podaddress.Object {
		o := object("o", 7)
		o.Holder, o.Since = podaddress.Owner{Node: "node-b", InterfaceID: "eni-b"}, time.Unix(100, 0).Add(later)
		return o
	}
	for name, tc := range map[string]struct {
		claim  *podnet.Claim
		object podaddress.Object
		came   bool
	}{
		"never claimed":                         {nil, object("o", 7), true},
		"the write did not arrive":              {claim, object("o", 2), true},
		"the write arrived":                     {claim, object("o", 3), false},
		"another pod became the holder since":   {claim, object("o", 4), false},
		"the object was deleted and made again": {claim, object("p", 1), false},
		"the object is not there":               {claim, podaddress.Object{}, false},
		"never claimed, the holder is earlier":  {nil, holder(-time.Second), true},
		"never claimed, in the same second":     {nil, holder(0), true},
		"never claimed, the holder is later":    {nil, holder(time.Second), false},
		"no write arrived, the holder is later": {&podnet.Claim{Object: "o", Sequence: 9}, holder(time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			l := leased(address(200), "c1", tc.claim)
			p := podaddress.Presence{Address: l.Address, Since: since, Came: true, Declared: true, Lease: &l}
			if got := p.Seen(tc.object); got != (podaddress.Seen{Present: true, Came: tc.came, Declared: true, Leased: true}) {
				t.Errorf("got %+v, want that it came: %t", got, tc.came)
			}
		})
	}
}
