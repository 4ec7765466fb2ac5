// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostnet/hostnettest"
)

// TestObservationOfALink compares whole observations: the status of a node shows them.
func TestObservationOfALink(t *testing.T) {
	lastSeen := link()
	lastSeen.Device = "0000:00:06.0"
	configured := func(change func(*hostnet.Facts)) hostnet.Facts {
		k := hostnettest.New(host())
		settle(t, k, []hostnet.Link{lastSeen})
		facts := k.Facts()
		change(&facts)
		return facts
	}
	noLink := func(f *hostnet.Facts) { f.Links = f.Links[:2] }
	for name, tc := range map[string]struct {
		facts hostnet.Facts
		want  hostnet.Observation
		there bool
	}{
		"ready": {configured(func(*hostnet.Facts) {}), hostnet.Observation{
			State: hostnet.Ready, Reason: "LinkReady", Message: "ens6 is up", AltName: "net-web"}, true},
		"ready, and a read of its device is late": {
			configured(func(f *hostnet.Facts) { f.Away = []string{"0000:00:06.0"} }), hostnet.Observation{
				State: hostnet.Ready, Reason: "LinkReady", Message: "ens6 is up", AltName: "net-web"}, true,
		},
		"no carrier": {configured(func(f *hostnet.Facts) { f.Links[2].Carrier = false }), hostnet.Observation{
			State: hostnet.NoCarrier, Reason: "NoCarrier", Message: "ens6 is up but has no carrier", AltName: "net-web"}, true},
		"two changes are left": {
			configured(func(f *hostnet.Facts) { f.Links[2].Up, f.Links[2].MTU = false, 1400 }), hostnet.Observation{
				State: hostnet.Configuring, Reason: "Configuring", AltName: "net-web",
				Message: "2 changes left to make, the first: link 3: set MTU to 9001"}, true,
		},
		"missing": {configured(noLink), hostnet.Observation{
			State: hostnet.Missing, Reason: "LinkNotFound",
			Message: "no physical link has the MAC address 02:00:00:00:00:0a yet"}, false},
		"missing, and another device is away": {
			configured(func(f *hostnet.Facts) { noLink(f); f.Away = []string{"0000:00:07.0"} }), hostnet.Observation{
				State: hostnet.Missing, Reason: "LinkNotFound",
				Message: "no physical link has the MAC address 02:00:00:00:00:0a yet"}, false,
		},
		"moved": {configured(func(f *hostnet.Facts) {
			noLink(f)
			f.Away = []string{"0000:00:07.0", "0000:00:06.0"}
		}), hostnet.Observation{
			State: hostnet.Moved, Reason: "InOtherNamespace",
			Message: "the link of device 0000:00:06.0 is in another network namespace, a pod's by all appearances"}, false},
		"excluded, and has its name still": {
			configured(func(f *hostnet.Facts) { f.Links[2].Excluded = true }), hostnet.Observation{
				State: hostnet.Refused, Reason: "Excluded", AltName: "net-web",
				Message: "ens6 is excluded by the agent's options; see --eni-pattern and --ignore-interfaces"}, true,
		},
		"a name that the link lost": {configured(func(f *hostnet.Facts) { f.Links[2].AltNames = nil }), hostnet.Observation{
			State: hostnet.Configuring, Reason: "Configuring",
			Message: "1 change left to make, the first: link 3: add altname net-web"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Link = lastSeen
			if tc.there {
				tc.want.Facts = &tc.facts.Links[2]
			}
			if diff := cmp.Diff([]hostnet.Observation{tc.want}, hostnet.Observe([]hostnet.Link{lastSeen}, tc.facts),
				exact); diff != "" {
				t.Errorf("observation (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadyLinksSayWhatTheKernelRefuses compares the message of a ready link, over settings and an MTU that it cannot
// have.
func TestReadyLinksSayWhatTheKernelRefuses(t *testing.T) {
	const readOnly = "; left as they are, because /proc/sys is read-only: "
	for name, tc := range map[string]struct {
		link     func(*hostnet.Link)
		facts    func(*hostnet.LinkFacts)
		readOnly []hostnet.Setting
		want     string
	}{
		"the MTU of the device exactly": {
			func(l *hostnet.Link) { l.MTU = 1500 }, func(l *hostnet.LinkFacts) { l.MaxMTU = 1500 }, nil, "ens6 is up",
		},
		"an MTU one above the device's": {
			func(l *hostnet.Link) { l.MTU = 1501 }, func(l *hostnet.LinkFacts) { l.MaxMTU = 1500 }, nil,
			"ens6 is up; its device cannot do an MTU of 1501",
		},
		"no MTU declared, and a small device": {
			func(*hostnet.Link) {}, func(l *hostnet.LinkFacts) { l.MaxMTU = 1500 }, nil, "ens6 is up",
		},
		"one read-only setting": {
			func(*hostnet.Link) {}, func(*hostnet.LinkFacts) {}, []hostnet.Setting{hostnet.AcceptRA},
			"ens6 is up" + readOnly + "ipv6.accept_ra",
		},
		"a read-only setting of the desired value": {
			func(*hostnet.Link) {}, func(l *hostnet.LinkFacts) { l.Settings[hostnet.AcceptRA] = 0 },
			[]hostnet.Setting{hostnet.AcceptRA}, "ens6 is up",
		},
		"a read-only setting that the link lacks": {
			func(*hostnet.Link) {}, func(l *hostnet.LinkFacts) { delete(l.Settings, hostnet.AddrGenMode) },
			[]hostnet.Setting{hostnet.AddrGenMode}, "ens6 is up",
		},
		"a read-only setting that is not desired": {
			func(*hostnet.Link) {}, func(*hostnet.LinkFacts) {}, []hostnet.Setting{hostnet.RPFilter}, "ens6 is up",
		},
		"an MTU and two settings": {
			func(l *hostnet.Link) { l.MTU = 9001; l.Settings = map[hostnet.Setting]int{hostnet.ProxyARP: 1} },
			func(l *hostnet.LinkFacts) { l.MaxMTU = 1500 }, []hostnet.Setting{hostnet.ProxyARP, hostnet.AcceptRA},
			"ens6 is up; its device cannot do an MTU of 9001" + readOnly + "ipv4.proxy_arp, ipv6.accept_ra",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, facts := link(), with(tc.facts)
			tc.link(&l)
			facts.ReadOnly = tc.readOnly
			k := hostnettest.New(facts)
			settle(t, k, []hostnet.Link{l})
			o := hostnet.Observe([]hostnet.Link{l}, k.Facts())[0]
			if o.State != hostnet.Ready || o.Message != tc.want {
				t.Errorf("it is %s: %q; want Ready: %q", o.State, o.Message, tc.want)
			}
		})
	}
}

// TestALeftoverRuleIsNoWorkOfALink has a rule of an interface that no longer exists. The agent removes it, and no link
// waits for that.
func TestALeftoverRuleIsNoWorkOfALink(t *testing.T) {
	k := hostnettest.New(host())
	settle(t, k, []hostnet.Link{primary()})
	facts := k.Facts()
	facts.Rules = append(facts.Rules, hostnet.Rule{
		Priority: 30009, From: prefixes("10.0.9.9/32")[0], Table: 20009, Protocol: hostnet.Protocol,
	})
	operations := hostnet.Diff(hostnet.Configure([]hostnet.Link{primary()}, facts), facts)
	if diff := cmp.Diff([]hostnet.Operation{hostnet.RemoveRule{Rule: facts.Rules[2]}}, operations, exact); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	if o := hostnet.Observe([]hostnet.Link{primary()}, facts)[0]; o.State != hostnet.Ready {
		t.Errorf("it is %s: %s", o.State, o.Message)
	}
}

// TestSamePath checks which routes the agent treats as equal: the kernel chooses the metric of an IPv6 route itself.
func TestSamePath(t *testing.T) {
	route := hostnet.Route{
		Table: 20001, To: prefixes("::/0")[0], Gateway: addresses("fe80:ec2::1")[0], Link: 3, Metric: 1024,
		Protocol: hostnet.Protocol,
	}
	for name, tc := range map[string]struct {
		change func(*hostnet.Route)
		want   bool
	}{
		"the same":         {func(*hostnet.Route) {}, true},
		"another metric":   {func(r *hostnet.Route) { r.Metric = 0 }, true},
		"another table":    {func(r *hostnet.Route) { r.Table = 254 }, false},
		"another target":   {func(r *hostnet.Route) { r.To = prefixes("::/1")[0] }, false},
		"no gateway":       {func(r *hostnet.Route) { r.Gateway = hostnet.Route{}.Gateway }, false},
		"another link":     {func(r *hostnet.Route) { r.Link = 2 }, false},
		"another protocol": {func(r *hostnet.Route) { r.Protocol = 16 }, false},
	} {
		other := route
		tc.change(&other)
		if route.SamePath(other) != tc.want || other.SamePath(route) != tc.want {
			t.Errorf("%s: %t and %t, want %t", name, route.SamePath(other), other.SamePath(route), tc.want)
		}
	}
}

// TestObserveAgreesWithDiff checks on any host that exactly the links with an operation are not as desired, and that
// the observations are in the order of the MAC addresses, one for each.
func TestObserveAgreesWithDiff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, links := kernels(interfaces).Draw(t, "host"), desires(interfaces).Draw(t, "links")
		operations := hostnet.Diff(hostnet.Configure(links, k.Facts()), k.Facts())
		apply(t, k, operations[:rapid.IntRange(0, len(operations)).Draw(t, "applied")])
		facts := k.Facts()
		rest := hostnet.Diff(hostnet.Configure(links, facts), facts)
		all := hostnet.Observe(links, facts)
		for _, o := range all {
			work := slices.ContainsFunc(rest, func(op hostnet.Operation) bool {
				add, is := op.(hostnet.AddRule)
				return op.LinkIndex() == o.Facts.Index || is && slices.Contains(o.Link.Addresses, add.Rule.From.Addr())
			})
			if work != (o.State == hostnet.Configuring) {
				t.Fatalf("%s is %s: %s; left to do: %v", o.Link.Name, o.State, o.Message, rest)
			}
		}
		byMAC := func(a, b hostnet.Observation) int { return strings.Compare(a.Link.MAC, b.Link.MAC) }
		if !slices.IsSortedFunc(all, byMAC) || len(all) != len(links) {
			t.Fatalf("%d observations of %d links: %+v", len(all), len(links), all)
		}
	})
}

// TestConfigurationAsText compares the text of a configuration: links in the order of their names, with the names in
// routes, and the number of a link that the configuration does not change.
func TestConfigurationAsText(t *testing.T) {
	config := hostnet.HostConfig{
		Links: []hostnet.LinkConfig{
			{Index: 3, Name: "ens7", Up: true, MTU: 9001, AltNames: []string{"net-web"}, Alias: "multieni up=0",
				Addresses: prefixes("::2/128", "10.0.1.10/32")},
			{Index: 9, Name: "ens6", MTU: 1500, Settings: map[hostnet.Setting]int{hostnet.Autoconf: 1, hostnet.ARPIgnore: 0}},
		},
		Routes: []hostnet.Route{
			{Table: 20001, To: prefixes("::/0")[0], Gateway: addresses("fe80::1")[0], Link: 3, Metric: 1024, Protocol: 109},
			{Table: 254, To: prefixes("10.0.2.0/24")[0], Link: 9, Protocol: 16},
			{Table: 254, To: prefixes("10.0.2.0/24")[0], Link: 2, Protocol: 16},
		},
		Rules: []hostnet.Rule{
			{Priority: 30002, From: prefixes("::2/128")[0], Table: 20002, Protocol: 109},
			{Priority: 30001, From: prefixes("::3/128")[0], Table: 20002, Protocol: 109},
		},
	}
	const want = `link ens6
  down mtu 1500
  ipv4.arp_ignore 0
  ipv6.autoconf 1
link ens7
  up mtu 9001
  altname net-web
  alias multieni up=0
  address 10.0.1.10/32
  address ::2/128
route 10.0.2.0/24 dev 2 table 254 metric 0 proto 16
route 10.0.2.0/24 dev ens6 table 254 metric 0 proto 16
route ::/0 via fe80::1 dev ens7 table 20001 metric 1024 proto 109
rule 30001: from ::3/128 lookup 20002 proto 109
rule 30002: from ::2/128 lookup 20002 proto 109
`
	if diff := cmp.Diff(want, config.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}
