// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/ipam"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// asText makes go-cmp compare addresses with ==.
var asText = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func TestFree(t *testing.T) {
	for name, tc := range map[string]struct {
		subnet ipam.Subnet
		n      int
		want   []netip.Addr
	}{
		"the first four addresses are EC2's": {
			subnet: ipam.Subnet{CIDR: netip.MustParsePrefix("10.0.4.0/24")},
			n:      2, want: addrs("10.0.4.4", "10.0.4.5"),
		},
		"so is the last": {
			subnet: ipam.Subnet{CIDR: netip.MustParsePrefix("10.0.4.0/28"), Used: prefixes("10.0.4.4/31", "10.0.4.6/31", "10.0.4.8/30")},
			n:      9, want: addrs("10.0.4.12", "10.0.4.13", "10.0.4.14"),
		},
		"gaps are filled from the start": {
			subnet: ipam.Subnet{CIDR: netip.MustParsePrefix("10.0.4.0/24"), Used: prefixes("10.0.4.4/32", "10.0.4.6/32")},
			n:      2, want: addrs("10.0.4.5", "10.0.4.7"),
		},
		"a delegated prefix is used as a whole": {
			subnet: ipam.Subnet{CIDR: netip.MustParsePrefix("10.0.4.0/24"), Used: prefixes("10.0.4.0/28")},
			n:      1, want: addrs("10.0.4.16"),
		},
		"a reservation is left to the pods": {
			subnet: ipam.Subnet{CIDR: netip.MustParsePrefix("10.0.4.0/24"), Reserved: prefixes("10.0.4.0/25")},
			n:      1, want: addrs("10.0.4.128"),
		},
		"addresses of the other family do not matter": {
			subnet: ipam.Subnet{CIDR: netip.MustParsePrefix("2001:db8:0:4::/64"), Used: prefixes("10.0.4.4/32", "2001:db8:0:4::4/128")},
			n:      1, want: addrs("2001:db8:0:4::5"),
		},
		"a full subnet has none": {
			subnet: ipam.Subnet{CIDR: netip.MustParsePrefix("10.0.4.0/28"), Reserved: prefixes("10.0.4.0/28")},
			n:      1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.subnet.Free(tc.n)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, asText); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestASubnetWithoutABlockIsAnError(t *testing.T) {
	if got, err := (ipam.Subnet{}).Free(1); err == nil {
		t.Errorf("got %v", got)
	}
}

// The free addresses are in the block and in order, and EC2 does not reserve them, nor are they used or in a
// reservation. No lower free address is left out.
func TestFreeIsTheLowestThereIs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := ipam.Subnet{CIDR: netip.MustParsePrefix("10.0.4.0/25"), Used: someUsed(rt), Reserved: someUsed(rt)}
		got, err := s.Free(200)
		if err != nil {
			rt.Fatal(err)
		}
		var want []netip.Addr
		for n := byte(4); n < 127; n++ {
			a := netip.AddrFrom4([4]byte{10, 0, 4, n})
			covers := func(p netip.Prefix) bool { return p.Contains(a) }
			if !slices.ContainsFunc(s.Used, covers) && !slices.ContainsFunc(s.Reserved, covers) {
				want = append(want, a)
			}
		}
		if diff := cmp.Diff(want, got, asText); diff != "" {
			rt.Error(diff)
		}
	})
}

func someUsed(rt *rapid.T) []netip.Prefix {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) netip.Prefix {
		addr := netip.AddrFrom4([4]byte{10, 0, 4, rapid.Byte().Draw(rt, "last byte")})
		p, _ := addr.Prefix(rapid.SampledFrom([]int{32, 32, 32, 28}).Draw(rt, "bits"))
		return p
	}), 0, 40).Draw(rt, "prefixes")
}

func TestClaims(t *testing.T) {
	subnet := ipam.Subnet{CIDR: netip.MustParsePrefix("10.0.4.0/24")}
	take := func(t *testing.T, c *ipam.Reservations, s ipam.Subnet, holder string, at time.Time) string {
		t.Helper()
		addr, ok, err := c.Take("subnet-1", s, holder, at)
		if err != nil || !ok {
			t.Fatalf("%s got nothing: %v", holder, err)
		}
		return addr.String()
	}
	t.Run("two holders get two addresses", func(t *testing.T) {
		var c ipam.Reservations
		if a, b := take(t, &c, subnet, "a", now), take(t, &c, subnet, "b", now); a != "10.0.4.4" || b != "10.0.4.5" {
			t.Errorf("got %s and %s", a, b)
		}
	})
	t.Run("a holder that asks again gets the same one", func(t *testing.T) {
		var c ipam.Reservations
		if a, b := take(t, &c, subnet, "a", now), take(t, &c, subnet, "a", now); a != b {
			t.Errorf("got %s, then %s", a, b)
		}
	})
	t.Run("a holder whose address is used gets another one", func(t *testing.T) {
		var c ipam.Reservations
		first := take(t, &c, subnet, "a", now)
		s := subnet
		s.Used = prefixes(first + "/32")
		if got := take(t, &c, s, "a", now); got != "10.0.4.5" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("what EC2 calls used is passed over before EC2 shows it", func(t *testing.T) {
		var c ipam.Reservations
		first := take(t, &c, subnet, "a", now)
		c.Taken("subnet-1", netip.MustParseAddr(first), now)
		if got := take(t, &c, subnet, "a", now); got != "10.0.4.5" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("a forgotten promise ends", func(t *testing.T) {
		var c ipam.Reservations
		first := take(t, &c, subnet, "a", now)
		if got := take(t, &c, subnet, "b", now.Add(ipam.ReservationTTL)); got != first {
			t.Errorf("got %s", got)
		}
	})
	t.Run("a promise that is taken back can be had at once", func(t *testing.T) {
		var c ipam.Reservations
		first := take(t, &c, subnet, "a", now)
		c.Release("subnet-1", netip.MustParseAddr(first))
		if got := take(t, &c, subnet, "b", now); got != first {
			t.Errorf("got %s", got)
		}
	})
	t.Run("another VPC's subnet may have the same block", func(t *testing.T) {
		var c ipam.Reservations
		first := take(t, &c, subnet, "a", now)
		if got, ok, err := c.Take("subnet-2", subnet, "b", now); err != nil || !ok || got.String() != first {
			t.Errorf("got %s, %t, %v", got, ok, err)
		}
	})
	t.Run("the last address is promised once", func(t *testing.T) {
		var c ipam.Reservations
		s := ipam.Subnet{CIDR: netip.MustParsePrefix("10.0.4.0/28"), Reserved: prefixes("10.0.4.4/30", "10.0.4.8/30", "10.0.4.12/31")}
		take(t, &c, s, "a", now)
		if got, ok, err := c.Take("subnet-1", s, "b", now); ok || err != nil {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

// Three hundred launches that see only EC2's stale answers still fill the subnet from its start without a gap, with few
// refused calls.
func TestLaunchesFillASubnetWithoutGaps(t *testing.T) {
	const launches, visibleAfter, perRound = 300, 3, 10
	subnet := ipam.Subnet{CIDR: netip.MustParsePrefix("10.0.4.0/22")}
	taken := map[netip.Addr]int{}
	waiting := map[string]int{}
	for n := range launches {
		waiting[fmt.Sprintf("i-%03d", (n*7)%launches)] = 0
	}
	calls, round := 0, 0
	for ; len(waiting) > 0; round++ {
		view := subnet
		for a, since := range taken {
			if round-since >= visibleAfter {
				view.Used = append(view.Used, netip.PrefixFrom(a, 32))
			}
		}
		var queue []string
		for name, servedIn := range waiting {
			if servedIn == 0 || round-servedIn < visibleAfter {
				queue = append(queue, name)
			} else {
				delete(waiting, name)
			}
		}
		free, err := view.Free(launches)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(queue)
		made := 0
		for _, name := range queue {
			if waiting[name] != 0 || made == perRound {
				continue
			}
			calls++
			made++
			if choice := free[ipam.Rank(queue, name)]; taken[choice] == 0 {
				taken[choice], waiting[name] = round+1, round+1
			}
		}
	}
	highest := slices.MaxFunc(slices.Collect(keys(taken)), netip.Addr.Compare)
	want, _ := subnet.Free(launches)
	if highest != want[launches-1] || len(taken) != launches {
		t.Errorf("%d addresses up to %s, wanted %d up to %s", len(taken), highest, launches, want[launches-1])
	}
	if calls > launches*11/10 {
		t.Errorf("%d calls for %d launches", calls, launches)
	}
}

func keys(m map[netip.Addr]int) func(func(netip.Addr) bool) {
	return func(yield func(netip.Addr) bool) {
		for a := range m {
			if !yield(a) {
				return
			}
		}
	}
}

func TestBeside(t *testing.T) {
	prefix := netip.MustParsePrefix
	for name, c := range map[string]struct {
		address string
		subnet  ipam.Subnet
		want    string
	}{
		"the fifth beside the fifth":    {"10.0.64.4", ipam.Subnet{CIDR: prefix("2001:db8:0:1::/64")}, "2001:db8:0:1::4"},
		"far from the start":            {"10.0.79.250", ipam.Subnet{CIDR: prefix("2001:db8:0:1::/64")}, "2001:db8:0:1::ffa"},
		"one that EC2 keeps for itself": {"10.0.64.3", ipam.Subnet{CIDR: prefix("2001:db8:0:1::/64")}, ""},
		"one that is used":              {"10.0.64.4", ipam.Subnet{CIDR: prefix("2001:db8:0:1::/64"), Used: []netip.Prefix{prefix("2001:db8:0:1::4/128")}}, ""},
		"one in a reservation":          {"10.0.64.4", ipam.Subnet{CIDR: prefix("2001:db8:0:1::/64"), Reserved: []netip.Prefix{prefix("2001:db8:0:1::/80")}}, ""},
		"no block for IPv6":             {"10.0.64.4", ipam.Subnet{}, ""},
		"an address of another subnet":  {"10.0.128.4", ipam.Subnet{CIDR: prefix("2001:db8:0:1::/64")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, free, err := ipam.WithIPv4Suffix(prefix("10.0.64.0/20"), netip.MustParseAddr(c.address), c.subnet)
			if err != nil || free != (c.want != "") || free && got != netip.MustParseAddr(c.want) {
				t.Errorf("%v, %v, %v, want %q", got, free, err, c.want)
			}
		})
	}
}
