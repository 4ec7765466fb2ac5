// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostnet/hostnettest"
)

// The state of a link, and its reason, for everything that a host can have.
func TestObserve(t *testing.T) {
	configured := func(change func(*hostnet.LinkFacts)) hostnet.Facts {
		k := hostnettest.New(host())
		settle(t, k, []hostnet.Link{link()})
		k.Change(3, change)
		return k.Facts()
	}
	lastSeen := link()
	lastSeen.Device = "0000:00:06.0"
	cases := map[string]struct {
		link   hostnet.Link
		facts  hostnet.Facts
		state  hostnet.State
		reason string
	}{
		"just attached": {link(), host(), hostnet.Configuring, hostnet.ReasonConfiguring},
		"configured":    {link(), configured(func(*hostnet.LinkFacts) {}), hostnet.Ready, hostnet.ReasonReady},
		"configured, then renamed": {
			link(), configured(func(l *hostnet.LinkFacts) { l.Name = "eth7" }), hostnet.Ready, hostnet.ReasonReady,
		},
		"configured, cable out": {
			link(), configured(func(l *hostnet.LinkFacts) { l.Carrier = false }), hostnet.NoCarrier, hostnet.ReasonNoCarrier,
		},
		"configured, then taken down": {
			link(), configured(func(l *hostnet.LinkFacts) { l.Up = false }), hostnet.Configuring, hostnet.ReasonConfiguring,
		},
		"configured, and carries the only default route": {
			link(), configuredAsPrimary(t), hostnet.Ready, hostnet.ReasonReady,
		},
		"only a child has the address": {
			link(), with(func(l *hostnet.LinkFacts) { l.MAC = "02:00:00:00:00:0b" }), hostnet.Missing, hostnet.ReasonNotFound,
		},
		"the address in capitals": {
			link(), with(func(l *hostnet.LinkFacts) { l.MAC = strings.ToUpper(l.MAC) }), hostnet.Configuring, hostnet.ReasonConfiguring,
		},
		"gone, its device too": {lastSeen, unplugged(), hostnet.Missing, hostnet.ReasonNotFound},
		"gone, its device is still there": {
			lastSeen, func() hostnet.Facts { f := unplugged(); f.Away = []string{"0000:00:06.0"}; return f }(), hostnet.Moved, hostnet.ReasonMoved,
		},
		"the primary interface": {
			hostnet.Link{Name: "web", MAC: "02:00:00:00:00:01", Slot: eni.Slot{Device: 1}}, host(), hostnet.Refused, hostnet.ReasonPrimary,
		},
		"two devices with the address": {
			link(), func() hostnet.Facts { f := host(); f.Links[3].Device = "0000:00:07.0"; return f }(), hostnet.Refused, hostnet.ReasonAmbiguous,
		},
		"excluded by the operator": {
			link(), with(func(l *hostnet.LinkFacts) { l.Excluded = true }), hostnet.Refused, hostnet.ReasonExcluded,
		},
		"somebody's long alias": {
			link(), with(func(l *hostnet.LinkFacts) { l.Alias = strings.Repeat("x", 200) }), hostnet.Refused, hostnet.ReasonAliasTooLong,
		},
		"another link has the altname": {
			link(), func() hostnet.Facts { f := host(); f.Links[0].AltNames = []string{"net-web"}; return f }(), hostnet.Refused, hostnet.ReasonNameTaken,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := hostnet.Observe([]hostnet.Link{c.link}, c.facts)[0]
			if o.State != c.state || o.Reason != c.reason || o.Message == "" {
				t.Errorf("it is %s (%s): %s; want %s (%s)", o.State, o.Reason, o.Message, c.state, c.reason)
			}
		})
	}
}

func unplugged() hostnet.Facts {
	k := hostnettest.New(host())
	k.Unplug(3)
	return k.Facts()
}

func configuredAsPrimary(t *testing.T) hostnet.Facts {
	k := hostnettest.New(host())
	settle(t, k, []hostnet.Link{link()})
	facts := k.Facts()
	facts.PrimaryLink = 3
	return facts
}

// A refused link stays as it is; a link whose name is taken is configured except for the name.
func TestRefusal(t *testing.T) {
	cases := map[string]struct {
		facts hostnet.Facts
		up    bool
	}{
		"excluded":   {with(func(l *hostnet.LinkFacts) { l.Excluded = true }), false},
		"name taken": {func() hostnet.Facts { f := host(); f.Links[0].AltNames = []string{"net-web"}; return f }(), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k := hostnettest.New(c.facts)
			settle(t, k, []hostnet.Link{primary()})
			if up := k.Facts().Links[2].Up; up != c.up {
				t.Errorf("up is %t, want %t", up, c.up)
			}
			if given := len(k.Facts().Links[2].AltNames); given != 0 {
				t.Errorf("%d altnames were given, want none", given)
			}
		})
	}
}

// A NodeENI was deleted and created again, and EC2 still has the detached interface of the former one: two interfaces
// must have one name, and the host has one link.
func TestALinkThatDoesNotExistKeepsNoName(t *testing.T) {
	former := link()
	former.MAC = "02:00:00:00:00:00" // sorts before the other
	links := []hostnet.Link{former, link()}
	k := hostnettest.New(host())
	settle(t, k, links)
	if diff := cmp.Diff([]string{"net-web"}, k.Facts().Links[2].AltNames); diff != "" {
		t.Errorf("names of the link (-want +got):\n%s", diff)
	}
	for _, o := range hostnet.Observe(links, k.Facts()) {
		if o.Link.MAC == link().MAC && o.State != hostnet.Ready {
			t.Errorf("it is %s (%s): %s", o.State, o.Reason, o.Message)
		}
	}
}

// The host has this configuration in either mode, without the changes of a distribution's network manager.
func TestModes(t *testing.T) {
	managed := with(func(l *hostnet.LinkFacts) {
		l.Up, l.Carrier, l.Addresses = true, true, prefixes("10.0.1.10/24", "10.0.1.11/32", "192.168.7.7/24")
	})
	managed.Routes = []hostnet.Route{
		{Table: 254, To: prefixes("0.0.0.0/0")[0], Gateway: addresses("10.0.1.1")[0], Link: 3, Metric: 512, Protocol: 16},
		{Table: 254, To: prefixes("0.0.0.0/0")[0], Gateway: addresses("10.0.0.1")[0], Link: 2, Metric: 100, Protocol: 16},
	}
	cases := map[string]struct {
		facts hostnet.Facts
		link  hostnet.Link
		want  string
	}{
		"no address": {host(), link(), `
link ens6
  up mtu 9001
  altname net-web
  alias multieni name=net-web up=0 mtu=1500 4.arp_ignore=0 6.accept_ra=1 6.addr_gen_mode=0 6.autoconf=1
  ipv4.arp_ignore 1
  ipv6.accept_ra 0
  ipv6.addr_gen_mode 1
  ipv6.autoconf 0
`},
		"primary address, both families": {host(), primary(), `
link ens6
  up mtu 9001
  altname net-web
  alias multieni name=net-web up=0 mtu=1500 4.arp_announce=0 4.arp_ignore=0 4.rp_filter=0 6.accept_ra=1 6.addr_gen_mode=0 6.autoconf=1
  address 10.0.1.10/32
  address 2600:1f14::10/128
  ipv4.arp_announce 2
  ipv4.arp_ignore 1
  ipv4.rp_filter 2
  ipv6.accept_ra 0
  ipv6.addr_gen_mode 1
  ipv6.autoconf 0
route 0.0.0.0/0 via 10.0.1.1 dev ens6 table 20001 metric 0 proto 109
route 10.0.1.0/24 dev ens6 table 20001 metric 0 proto 109
route ::/0 via fe80:ec2::1 dev ens6 table 20001 metric 1024 proto 109
rule 30001: from 10.0.1.10/32 lookup 20001 proto 109
rule 30001: from 2600:1f14::10/128 lookup 20001 proto 109
`},
		"no address, where a network manager was first": {managed, link(), `
link ens6
  up mtu 9001
  altname net-web
  alias multieni name=net-web up=1 mtu=1500 4.arp_ignore=0 6.accept_ra=1 6.addr_gen_mode=0 6.autoconf=1
  address 192.168.7.7/24
  ipv4.arp_ignore 1
  ipv6.accept_ra 0
  ipv6.addr_gen_mode 1
  ipv6.autoconf 0
route 0.0.0.0/0 via 10.0.0.1 dev 2 table 254 metric 100 proto 16
`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := hostnet.Configure([]hostnet.Link{c.link}, c.facts).String()
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			settle(t, hostnettest.New(c.facts), []hostnet.Link{c.link})
		})
	}
}

// Configure does not request again and again what is not available.
func TestLimits(t *testing.T) {
	cases := map[string]struct {
		facts func() hostnet.Facts
		link  func(*hostnet.Link)
		check func(hostnet.LinkFacts) bool
	}{
		"an MTU beyond the device": {
			func() hostnet.Facts { return with(func(l *hostnet.LinkFacts) { l.MaxMTU = 1500 }) },
			func(l *hostnet.Link) { l.MTU = 9001 },
			func(l hostnet.LinkFacts) bool { return l.MTU == 1500 },
		},
		"settings in a read-only /proc/sys": {
			func() hostnet.Facts { f := host(); f.ReadOnly = []hostnet.Setting{hostnet.AcceptRA}; return f },
			func(*hostnet.Link) {},
			func(l hostnet.LinkFacts) bool {
				return l.Settings[hostnet.AcceptRA] == 1 && l.Settings[hostnet.Autoconf] == 0
			},
		},
		"settings of a family the kernel lacks": {
			func() hostnet.Facts {
				return with(func(l *hostnet.LinkFacts) { l.Settings = map[hostnet.Setting]int{hostnet.ARPIgnore: 0} })
			},
			func(*hostnet.Link) {},
			func(l hostnet.LinkFacts) bool { return l.Settings[hostnet.ARPIgnore] == 1 && len(l.Settings) == 1 },
		},
		"a setting of one's own wins over the mode's": {
			host,
			func(l *hostnet.Link) { l.Settings = map[hostnet.Setting]int{hostnet.ARPIgnore: 8} },
			func(l hostnet.LinkFacts) bool { return l.Settings[hostnet.ARPIgnore] == 8 },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k, l := hostnettest.New(c.facts()), link()
			c.link(&l)
			settle(t, k, []hostnet.Link{l})
			if got := k.Facts().Links[2]; !c.check(got) {
				t.Errorf("the link is %+v", got)
			}
			if o := hostnet.Observe([]hostnet.Link{l}, k.Facts())[0]; o.State != hostnet.Ready {
				t.Errorf("it is %s: %s", o.State, o.Message)
			}
		})
	}
}

// A plugin that wrote its own alias leaves no record. The link works as before, and loses its name when it is no longer
// desired.
func TestLostRecord(t *testing.T) {
	k := hostnettest.New(host())
	settle(t, k, []hostnet.Link{primary()})
	configured := k.Facts().Links[2]
	k.SetDown(3)
	k.Change(3, func(l *hostnet.LinkFacts) { l.Alias, l.Addresses = "ens6", nil })
	settle(t, k, []hostnet.Link{primary()})
	again := k.Facts().Links[2]
	configured.Alias, again.Alias = "", ""
	if diff := cmp.Diff(configured, again, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	settle(t, k, nil)
	if given := k.Facts().Links[2]; len(given.AltNames) > 0 || given.Alias != "ens6" {
		t.Errorf("the link has the names %v and the alias %q", given.AltNames, given.Alias)
	}
}

func TestAltName(t *testing.T) {
	cases := map[string]string{
		"web":                      "net-web",
		"exactly-elv":              "net-exactly-elv",
		"one-too-many":             "net-one-t-qvg3b",
		"one-too-many-2":           "net-one-t-q575p",
		strings.Repeat("long", 60): "net-longl-kiiyc",
	}
	for name, want := range cases {
		got := hostnet.AltName(name)
		if len(got) > 15 {
			t.Errorf("%s has %d characters", got, len(got))
		}
		if got != want {
			t.Errorf("the altname of %s is %s, want %s: it must not change between versions", name, got, want)
		}
	}
}

func TestFullName(t *testing.T) {
	for name, want := range map[string]string{
		"web": "", "exactly-elv": "", "one-too-many": "net-one-too-many", strings.Repeat("x", 123): "net-" + strings.Repeat("x", 123), strings.Repeat("x", 124): "",
	} {
		if got := hostnet.FullName(name); got != want {
			t.Errorf("the full name of %s is %q, want %q", name, got, want)
		}
	}
}

// A link of a long name has two alternative names: a short one for programs, and the whole one for users.
func TestALongNameIsThereWhole(t *testing.T) {
	const short, whole = "net-one-t-qvg3b", "net-one-too-many"
	long := link()
	long.Name = "one-too-many"
	configured := func(facts hostnet.Facts) *hostnettest.Kernel {
		k := hostnettest.New(facts)
		settle(t, k, []hostnet.Link{long})
		return k
	}
	repaired := configured(host())
	if err := repaired.Apply(hostnet.RemoveAltName{Link: 3, Name: whole}); err != nil {
		t.Fatal(err)
	}
	settle(t, repaired, []hostnet.Link{long})
	renamed := configured(host())
	other := long
	other.Name = "another-long-one"
	settle(t, renamed, []hostnet.Link{other})
	gone := configured(host())
	settle(t, gone, nil)
	foreign := host()
	foreign.Links[0].AltNames = []string{whole}
	for name, c := range map[string]struct {
		kernel *hostnettest.Kernel
		links  []hostnet.Link
		want   []string
	}{
		"configured":                   {configured(host()), []hostnet.Link{long}, []string{short, whole}},
		"another program removed it":   {repaired, []hostnet.Link{long}, []string{short, whole}},
		"the NodeENI is another":       {renamed, []hostnet.Link{other}, []string{hostnet.AltName(other.Name), "net-another-long-one"}},
		"the interface is given back":  {gone, nil, nil},
		"another link has it":          {configured(foreign), []hostnet.Link{long}, []string{short}},
		"the alias has no room for it": {configured(with(func(l *hostnet.LinkFacts) { l.Alias = strings.Repeat("x", 145) })), []hostnet.Link{long}, []string{short}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.kernel.Facts().Links[2].AltNames, cmpopts.EquateEmpty(), cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("alternative names (-want +got):\n%s", diff)
			}
			for _, o := range hostnet.Observe(c.links, c.kernel.Facts()) {
				if o.State != hostnet.Ready {
					t.Errorf("it is %s (%s): %s", o.State, o.Reason, o.Message)
				}
			}
		})
	}
}

func TestNetworkd(t *testing.T) {
	name, text, err := hostnet.Networkd("02:AB:00:00:00:0a")
	if err != nil {
		t.Fatal(err)
	}
	if name != "00-multieni-02ab0000000a.network" {
		t.Errorf("the file is %s", name)
	}
	const want = `# Written by multieni: the interface is for pods, or has its own route table.
[Match]
PermanentMACAddress=02:ab:00:00:00:0a

[Link]
Unmanaged=yes
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Text that is not a MAC address yields no file name and no section.
func TestNetworkdRefusesWhatIsNoAddress(t *testing.T) {
	for _, mac := range []string{"", "../../../x", "02:00:00:00:00:01\n[Network]", "02:00:00:00:00:0", "02:00:00:00:00:01:02", "0200:00:00:00:0/"} {
		if name, text, err := hostnet.Networkd(mac); err == nil || name != "" || text != "" {
			t.Errorf("%q: file %q with %q, %v; want an error", mac, name, text, err)
		}
	}
}
