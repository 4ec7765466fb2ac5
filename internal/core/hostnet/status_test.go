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

// The startup taint stays until every link is usable: ready for the host, or in use by a pod.
func TestUsableStates(t *testing.T) {
	for state, want := range map[hostnet.State]bool{
		hostnet.Ready: true, hostnet.Moved: true, hostnet.Bound: true,
		hostnet.Missing: false, hostnet.Refused: false, hostnet.Configuring: false, hostnet.NoCarrier: false, hostnet.Binding: false,
	} {
		t.Run(string(state), func(t *testing.T) {
			if state.Usable() != want {
				t.Errorf("usable is %t, want %t", state.Usable(), want)
			}
		})
	}
}

// The message names the link and what a person can change.
func TestMessagesNameTheCause(t *testing.T) {
	settled := func(change func(*hostnet.Link), facts hostnet.Facts) (hostnet.Link, hostnet.Facts) {
		l, k := link(), hostnettest.New(facts)
		change(&l)
		settle(t, k, []hostnet.Link{l})
		return l, k.Facts()
	}
	unchanged := func(*hostnet.Link) {}
	readOnly := host()
	readOnly.ReadOnly = []hostnet.Setting{hostnet.Autoconf, hostnet.AcceptRA}
	twice := host()
	twice.Links[3].Device = "0000:00:07.0"
	taken := host()
	taken.Links[0].AltNames = []string{"net-web"}
	cases := map[string]struct {
		change func(*hostnet.Link)
		facts  hostnet.Facts
		want   []string
		not    []string
	}{
		"ready": {unchanged, host(), []string{"ens6 is up"}, []string{"MTU", "/proc/sys"}},
		"an MTU beyond the device": {
			func(l *hostnet.Link) { l.MTU = 9001 }, with(func(l *hostnet.LinkFacts) { l.MaxMTU = 1500 }),
			[]string{"ens6 is up", "cannot do an MTU of 9001"}, nil,
		},
		"a read-only /proc/sys": {
			unchanged, readOnly, []string{"/proc/sys is read-only: ipv6.accept_ra, ipv6.autoconf"}, []string{"arp_ignore"},
		},
		"missing":  {unchanged, unplugged(), []string{"no physical link has the MAC address " + web}, nil},
		"excluded": {unchanged, with(func(l *hostnet.LinkFacts) { l.Excluded = true }), []string{"ens6", "--eni-pattern", "--ignore-interfaces"}, nil},
		"primary":  {func(l *hostnet.Link) { l.MAC = "02:00:00:00:00:01" }, host(), []string{"ens5", "default route"}, nil},
		"two devices": {
			unchanged, twice, []string{"2 physical links", web, "ens6 and pod0"}, nil,
		},
		"a long alias": {
			unchanged, with(func(l *hostnet.LinkFacts) { l.Alias = strings.Repeat("x", 200) }), []string{"ip link set ens6 alias"}, nil,
		},
		"a taken name": {unchanged, taken, []string{"the link lo", "net-web"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l, facts := settled(c.change, c.facts)
			message := hostnet.Observe([]hostnet.Link{l}, facts)[0].Message
			for _, part := range c.want {
				if !strings.Contains(message, part) {
					t.Errorf("the message has no %q: %s", part, message)
				}
			}
			for _, part := range c.not {
				if strings.Contains(message, part) {
					t.Errorf("the message has %q: %s", part, message)
				}
			}
		})
	}
}

// Two interfaces of one NodeENI cannot have one name: the first MAC address has it, and the other works without.
func TestSecondLinkOfANameIsConfiguredWithoutIt(t *testing.T) {
	first, second := link(), primary()
	first.MAC = "02:00:00:00:00:01"
	facts := host()
	facts.PrimaryLink = 0
	k := hostnettest.New(facts)
	links := []hostnet.Link{second, first}
	settle(t, k, links)
	type observed struct {
		MAC, AltName, Reason string
	}
	var got []observed
	for _, o := range hostnet.Observe(links, k.Facts()) {
		got = append(got, observed{o.Link.MAC, o.AltName, o.Reason})
	}
	want := []observed{{first.MAC, "net-web", hostnet.ReasonReady}, {second.MAC, "", hostnet.ReasonNameTaken}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if l := k.Facts().Links[2]; !l.Up || len(l.Addresses) != 2 {
		t.Errorf("the second link is not configured: %+v", l)
	}
}

// A link that has our name from systemd needs no alternative name.
func TestLinkWithOurNameNeedsNoAltName(t *testing.T) {
	k := hostnettest.New(with(func(l *hostnet.LinkFacts) { l.Name = "net-web" }))
	settle(t, k, []hostnet.Link{link()})
	if names := k.Facts().Links[2].AltNames; len(names) > 0 {
		t.Errorf("the alternative names are %v, want none", names)
	}
	if o := hostnet.Observe([]hostnet.Link{link()}, k.Facts())[0]; o.AltName != "net-web" || o.State != hostnet.Ready {
		t.Errorf("it is %s with the name %q: %s", o.State, o.AltName, o.Message)
	}
}

// One interface that is named twice is configured once.
func TestSameAddressIsConfiguredOnce(t *testing.T) {
	again := link()
	again.Name = "another"
	for name, links := range map[string][]hostnet.Link{
		"in order": {again, link()}, "reversed": {link(), again},
	} {
		t.Run(name, func(t *testing.T) {
			config := hostnet.Configure(links, host())
			if len(config.Links) != 1 {
				t.Fatalf("%d links are configured, want 1", len(config.Links))
			}
			if diff := cmp.Diff([]string{"net-another"}, config.Links[0].AltNames); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The counts of an observation are about its own link: work on another link does not delay it.
func TestWorkOnAnotherLinkIsNotCounted(t *testing.T) {
	facts := host()
	facts.PrimaryLink = 0
	k := hostnettest.New(facts)
	settle(t, k, []hostnet.Link{primary()})
	other := link()
	other.MAC, other.Name, other.Slot.Device = "02:00:00:00:00:01", "db", 2
	states := map[string]hostnet.State{}
	for _, o := range hostnet.Observe([]hostnet.Link{primary(), other}, k.Facts()) {
		states[o.Link.Name] = o.State
	}
	want := map[string]hostnet.State{"web": hostnet.Ready, "db": hostnet.Configuring}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A link without its rule sends packets out of the primary interface, so it is not ready.
func TestMissingRuleIsWorkOfItsLink(t *testing.T) {
	k := hostnettest.New(host())
	settle(t, k, []hostnet.Link{primary()})
	facts := k.Facts()
	facts.Rules = facts.Rules[1:]
	o := hostnet.Observe([]hostnet.Link{primary()}, facts)[0]
	if o.State != hostnet.Configuring || !strings.Contains(o.Message, "add rule 30001: from 10.0.1.10/32") {
		t.Errorf("it is %s: %s", o.State, o.Message)
	}
}

// An alias is a record only if multieni wrote it, and fields of a later version do not spoil it.
func TestParseOriginalState(t *testing.T) {
	none := map[hostnet.Setting]int{}
	cases := map[string]struct {
		alias string
		want  *hostnet.OriginalState
	}{
		"no alias":                  {"", nil},
		"an alias of an operator":   {"rack 7, port 3", nil},
		"a word that begins alike":  {"multienix up=1", nil},
		"capitals":                  {"Multieni up=1", nil},
		"nothing but the mark":      {"multieni", &hostnet.OriginalState{Settings: none}},
		"up and MTU":                {"multieni up=1 mtu=1500", &hostnet.OriginalState{Up: true, MTU: 1500, Settings: none}},
		"two names":                 {"multieni name=net-a name=net-b", &hostnet.OriginalState{AltNames: []string{"net-a", "net-b"}, Settings: none}},
		"settings of both families": {"multieni 4.rp_filter=2 6.autoconf=1", &hostnet.OriginalState{Settings: map[hostnet.Setting]int{hostnet.RPFilter: 2, hostnet.Autoconf: 1}}},
		"a setting that is unknown": {"multieni 4.ip_forward=1 mtu=1500", &hostnet.OriginalState{MTU: 1500, Settings: none}},
		"a field that is unknown":   {"multieni since=yesterday mtu=1500", &hostnet.OriginalState{MTU: 1500, Settings: none}},
		"a setting without number":  {"multieni 4.rp_filter=loose 6.autoconf= mtu=1500", &hostnet.OriginalState{MTU: 1500, Settings: none}},
		"a later value of a field":  {"multieni mtu=1500 up=1 mtu=1400 up=0", &hostnet.OriginalState{MTU: 1400, Settings: none}},
		"an equals sign in a name":  {"multieni name=a=b", &hostnet.OriginalState{AltNames: []string{"a=b"}, Settings: none}},
		"no number":                 {"multieni mtu=large up=yes", &hostnet.OriginalState{Settings: none}},
		"an earlier alias":          {"multieni was=rack+7%2C+port+3", &hostnet.OriginalState{Alias: "rack 7, port 3", Settings: none}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, hostnet.ParseOriginalState(c.alias)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The text of the facts is what kubectl eni and the tests show: sorted, with the names of links.
func TestFactsAsText(t *testing.T) {
	facts := hostnet.Facts{
		Links: []hostnet.LinkFacts{
			{Index: 3, Name: "ens6", MAC: web, Device: "0000:00:06.0", Up: true, MTU: 9001, Alias: "rack 7", Addresses: prefixes("10.0.1.11/32", "10.0.1.10/32")},
			{Index: 1, Name: "dummy0", MAC: "02:00:00:00:00:02", MTU: 1500, Carrier: true, AltNames: []string{"spare"}},
		},
		Routes: []hostnet.Route{
			{Table: 20001, To: prefixes("0.0.0.0/0")[0], Gateway: addresses("10.0.1.1")[0], Link: 3, Protocol: 109},
			{Table: 254, To: prefixes("10.9.0.0/16")[0], Link: 7, Metric: 5, Protocol: 16},
		},
		Rules: []hostnet.Rule{{Priority: 30001, From: prefixes("10.0.1.10/32")[0], Table: 20001, Protocol: 109}},
	}
	const want = `link dummy0 02:00:00:00:00:02
  down carrier up mtu 1500
  altname spare
link ens6 02:00:00:00:00:0a device 0000:00:06.0 driver none
  up carrier down mtu 9001
  alias rack 7
  address 10.0.1.10/32
  address 10.0.1.11/32
route 10.9.0.0/16 dev 7 table 254 metric 5 proto 16
route 0.0.0.0/0 via 10.0.1.1 dev ens6 table 20001 metric 0 proto 109
rule 30001: from 10.0.1.10/32 lookup 20001 proto 109
`
	if diff := cmp.Diff(want, facts.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
