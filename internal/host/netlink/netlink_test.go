// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/host/netlink"
	"github.com/multieni/multieni/internal/host/netlink/netlinktest"
)

// device treats every link as physical, except those with the name of a pod's link.
func device(name, mac string) string {
	if name == "lo" || strings.HasPrefix(name, "pod") {
		return ""
	}
	return "0000:00:" + mac[15:] + ".0"
}

func open(t *testing.T, n *netlinktest.Namespace, o netlink.Options) *netlink.Host {
	t.Helper()
	o.Device = device
	if o.Sysfs == "" {
		o.Sysfs = t.TempDir()
	}
	var host *netlink.Host
	var err error
	n.Do(func() { host, err = netlink.Open(o) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	return host
}

func link(n int, mode hostnet.AddressMode) hostnet.Link {
	return hostnet.Link{
		Name: fmt.Sprint("web", n), MAC: mac(n), Slot: eni.Slot{Device: n}, Mode: mode,
		Subnet: netip.MustParsePrefix("10.0.1.0/24"),
		Addresses: []netip.Addr{
			netip.MustParseAddr(fmt.Sprintf("10.0.1.%d", 10*n)), netip.MustParseAddr(fmt.Sprintf("2600:1f14::%d", 10*n)),
		},
		Assigned: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.0.1.%d/32", 10*n))},
	}
}

func mac(n int) string { return fmt.Sprintf("02:00:00:00:00:%02x", n) }

// pass configures the host, and returns the operations of the last round that had any.
func pass(t *testing.T, host *netlink.Host, links ...hostnet.Link) (rounds int) {
	t.Helper()
	for rounds = range 5 {
		operations := hostnet.Diff(hostnet.Configure(links, facts(t, host)), facts(t, host))
		if len(operations) == 0 {
			return rounds
		}
		for _, op := range operations {
			if err := host.Apply(op); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatalf("after %d rounds there is still to do: %v", rounds, hostnet.Diff(hostnet.Configure(links, facts(t, host)), facts(t, host)))
	return rounds
}

func facts(t *testing.T, host *netlink.Host) hostnet.Facts {
	t.Helper()
	facts, err := host.Facts(nil)
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// One pass reaches each mode, and the next one changes nothing; removal restores the original state of the kernel.
func TestConfigureAndGiveBack(t *testing.T) {
	cases := map[string]struct {
		mode  hostnet.AddressMode
		setUp func(node *netlinktest.Namespace)
	}{
		"no address":      {hostnet.None, func(*netlinktest.Namespace) {}},
		"primary address": {hostnet.Primary, func(*netlinktest.Namespace) {}},
		"with an alias and names": {hostnet.Primary, func(node *netlinktest.Namespace) {
			node.IP("link set ens6 alias port-7")
			node.IP("link property add dev ens6 altname enp6s0")
		}},
		"with somebody's address": {hostnet.None, func(node *netlinktest.Namespace) {
			node.IP("link set ens6 addrgenmode none up")
			node.IP("address add 192.168.3.3/24 dev ens6")
		}},
		"with a child of the same address": {hostnet.Primary, func(node *netlinktest.Namespace) {
			node.IP("link add pod0 link ens6 address " + mac(1) + " type macvlan mode private")
			node.IP("link set pod0 addrgenmode none")
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			node, vpc := netlinktest.New(t), netlinktest.New(t)
			node.Attach("ens6", mac(1), vpc, "peer1")
			node.Attach("ens7", mac(2), vpc, "peer2") // no NodeENI declares this one
			c.setUp(node)
			host := open(t, node, netlink.Options{})
			before := node.State()
			pass(t, host, link(1, c.mode))
			if rounds := pass(t, host, link(1, c.mode)); rounds != 0 {
				t.Errorf("a second pass took %d rounds, want none", rounds)
			}
			if o := hostnet.Observe([]hostnet.Link{link(1, c.mode)}, facts(t, host))[0]; o.State != hostnet.Ready {
				t.Errorf("it is %s: %s", o.State, o.Message)
			}
			pass(t, host)
			if diff := cmp.Diff(before, node.State()); diff != "" {
				t.Errorf("traces are left (-before +after):\n%s", diff)
			}
		})
	}
}

// A link with a long name also has the whole name, and loses it with the interface.
func TestALongNameInKernel(t *testing.T) {
	node, vpc := netlinktest.New(t), netlinktest.New(t)
	node.Attach("ens6", mac(1), vpc, "peer1")
	host := open(t, node, netlink.Options{})
	before := node.State()
	long := link(1, hostnet.None)
	long.Name = "a-name-that-is-longer-than-a-link-may-be"
	pass(t, host, long)
	if shown := node.IP("link show ens6"); !strings.Contains(shown, "altname net-"+long.Name) || !strings.Contains(shown, "altname "+hostnet.AltName(long.Name)) {
		t.Errorf("ip link shows %s", shown)
	}
	pass(t, host)
	if diff := cmp.Diff(before, node.State()); diff != "" {
		t.Errorf("traces are left (-before +after):\n%s", diff)
	}
}

// Another program sees exactly the desired state in the kernel, and nothing of it in the main table.
func TestPrimaryInKernel(t *testing.T) {
	node, vpc := netlinktest.New(t), netlinktest.New(t)
	before := node.IP("-4 route") + node.IP("-6 route")
	node.Attach("enp39s0", mac(1), vpc, "peer1")
	pass(t, open(t, node, netlink.Options{}), link(1, hostnet.Primary))
	if got := node.IP("-4 route") + node.IP("-6 route"); got != before {
		t.Errorf("the main table became %q", got)
	}
	for list, want := range map[string]string{
		"-4 route show table 20001": "default via 10.0.1.1 dev enp39s0 proto 109 onlink",
		"-6 route show table 20001": "default via fe80:ec2::1 dev enp39s0 proto 109 metric 1024",
		"-4 rule":                   "30001: from 10.0.1.10 lookup 20001 proto 109",
		"-6 rule":                   "30001: from 2600:1f14::10 lookup 20001 proto 109",
		"-o address":                "inet 10.0.1.10/32 scope global noprefixroute enp39s0",
		"link show net-web1":        "mtu 9001",
	} {
		if got := strings.Join(strings.Fields(node.IP(list)), " "); !strings.Contains(got, want) {
			t.Errorf("ip %s: %q is not in %q", list, want, got)
		}
	}
}

// Two interfaces in one subnet: packets from an address leave through its own link, and the answers return.
func TestPolicyRouting(t *testing.T) {
	node := netlinktest.New(t)
	host := open(t, node, netlink.Options{})
	for n := 1; n <= 2; n++ {
		vpc := netlinktest.New(t)
		node.Attach(fmt.Sprint("ens", 5+n), mac(n), vpc, "peer")
		for _, command := range []string{
			"address add 10.0.1.1/24 dev peer", "address add fe80:ec2::1/64 dev peer nodad",
			"address add 10.9.9.9/32 dev lo", "address add 2600:9::9/128 dev lo nodad", "-6 route add 2600:1f14::/64 dev peer",
		} {
			vpc.IP(command)
		}
		answer(t, vpc, "10.9.9.9", n)
		answer(t, vpc, "2600:9::9", n)
	}
	pass(t, host, link(1, hostnet.Primary), link(2, hostnet.Primary))
	for n := 1; n <= 2; n++ {
		for to, from := range map[string]netip.Addr{"10.9.9.9": link(n, hostnet.Primary).Addresses[0], "2600:9::9": link(n, hostnet.Primary).Addresses[1]} {
			if got, err := ask(node, from, to); err != nil || got != byte(n) {
				t.Errorf("from %s, %s is answered by VPC %d (%v), want %d", from, to, got, err, n)
			}
		}
	}
}

// answer accepts connections to the address in the namespace, and sends one byte.
func answer(t *testing.T, n *netlinktest.Namespace, address string, with int) {
	t.Helper()
	var listener net.Listener
	var err error
	n.Do(func() { listener, err = net.Listen("tcp", net.JoinHostPort(address, "7")) })
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = listener.Close(); <-done })
	go func() {
		defer close(done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Write([]byte{byte(with)})
			_ = connection.Close()
		}
	}()
}

func ask(n *netlinktest.Namespace, from netip.Addr, to string) (byte, error) {
	var answer [1]byte
	var err error
	n.Do(func() {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}, Timeout: 5 * time.Second, FallbackDelay: -1}
		var connection net.Conn
		if connection, err = dialer.Dial("tcp", net.JoinHostPort(to, "7")); err != nil {
			return
		}
		defer func() { _ = connection.Close() }()
		_, err = connection.Read(answer[:])
	})
	return answer[0], err
}

// A flap removes the routes, and a network manager adds addresses and routes: one pass repairs the link, regardless of
// its name.
func TestDisturbances(t *testing.T) {
	cases := map[string]func(node *netlinktest.Namespace){
		"flap": func(node *netlinktest.Namespace) { node.IP("link set ens6 down"); node.IP("link set ens6 up") },
		"down": func(node *netlinktest.Namespace) { node.IP("link set ens6 down") },
		"rename": func(node *netlinktest.Namespace) {
			node.IP("link set ens6 down")
			node.IP("link set ens6 name eth1")
		},
		"dhcp": func(node *netlinktest.Namespace) {
			node.IP("address add 10.0.1.10/24 dev ens6")
			node.IP("route add default via 10.0.1.1 dev ens6 proto dhcp metric 512")
		},
		"flush": func(node *netlinktest.Namespace) { node.IP("address flush dev ens6"); node.IP("-4 rule flush") },
	}
	for name, disturb := range cases {
		for _, mode := range []hostnet.AddressMode{hostnet.None, hostnet.Primary} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				node, vpc := netlinktest.New(t), netlinktest.New(t)
				node.Attach("ens6", mac(1), vpc, "peer1")
				host := open(t, node, netlink.Options{})
				pass(t, host, link(1, mode))
				want := facts(t, host)
				disturb(node)
				pass(t, host, link(1, mode))
				got := facts(t, host)
				want.Links, got.Links = renamed(want.Links), renamed(got.Links)
				if diff := cmp.Diff(want.String(), got.String()); diff != "" {
					t.Errorf("(-before +after):\n%s", diff)
				}
			})
		}
	}
}

func renamed(links []hostnet.LinkFacts) []hostnet.LinkFacts {
	for n := range links {
		links[n].Name = fmt.Sprint("link", links[n].Index)
	}
	return links
}

// In a container without privileges CAP_NET_ADMIN is sufficient and necessary.
func TestLeastPrivilege(t *testing.T) {
	cases := map[string]struct {
		capabilities []int
		fails        bool
	}{
		"with CAP_NET_ADMIN": {[]int{unix.CAP_NET_ADMIN}, false},
		"without":            {nil, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			node, vpc := netlinktest.New(t), netlinktest.New(t)
			node.Attach("ens6", mac(1), vpc, "peer1")
			sysfs := t.TempDir()
			var failure error
			node.DoContained(func() { failure = configure(sysfs, link(1, hostnet.Primary)) }, c.capabilities...)
			if c.fails != errors.Is(failure, unix.EPERM) {
				t.Errorf("it ended with %v", failure)
			}
			if !c.fails && !strings.Contains(node.State(), "ipv4/conf/ens6/arp_ignore:1") {
				t.Error("the IPv4 settings were not set")
			}
		})
	}
}

// configure configures the network of the calling thread, and checks that no operation is left.
func configure(sysfs string, links ...hostnet.Link) error {
	host, err := netlink.Open(netlink.Options{Device: device, Sysfs: sysfs})
	if err != nil {
		return err
	}
	defer host.Close()
	for range 3 {
		facts, err := host.Facts(nil)
		if err != nil {
			return err
		}
		operations := hostnet.Diff(hostnet.Configure(links, facts), facts)
		if len(operations) == 0 {
			return nil
		}
		for _, op := range operations {
			if err := host.Apply(op); err != nil {
				return err
			}
		}
	}
	return errors.New("there is no end to it")
}

// A relevant change raises an event, and a route for a pod does not.
func TestEvents(t *testing.T) {
	node := netlinktest.New(t)
	host := open(t, node, netlink.Options{})
	steps := []struct {
		name, command string
		silent        bool
	}{
		{"arrival", "link add ens6 type veth peer name peer6", false},
		{"up", "link set ens6 up", false},
		{"rename", "link set ens6 name eth1", false},
		{"address", "address add 10.0.1.10/24 dev eth1", false},
		{"a route for a pod", "route add 10.3.3.3/32 dev lo", true},
		{"a route of ours goes", "route add 10.3.3.4/32 dev lo proto 109", false},
		{"rule", "rule add from 10.0.1.10 lookup 20001 priority 30001", false},
		{"unplug", "link del eth1", false},
	}
	for _, step := range steps {
		quiet(host)
		node.IP(step.command)
		if got := received(host); got == step.silent {
			t.Errorf("%s: an event came: %t", step.name, got)
		}
	}
}

// silence is longer than the kernel takes to send an event.
const silence = 200 * time.Millisecond

// quiet waits until no more events come.
func quiet(host *netlink.Host) {
	for received(host) {
	}
}

func received(host *netlink.Host) bool {
	select {
	case <-host.Events():
		return true
	case <-time.After(silence):
		return false
	}
}

// A link that moved to a pod is in another namespace. A link that was unplugged is not.
func TestAway(t *testing.T) {
	sysfs := t.TempDir()
	for _, address := range []string{"0000:00:01.0", "0000:00:03.0"} {
		folder := filepath.Join(sysfs, "bus/pci/devices", address)
		if err := errors.Join(os.MkdirAll(folder, 0o755), os.Symlink("../../drivers/ena", filepath.Join(folder, "driver"))); err != nil {
			t.Fatal(err)
		}
	}
	node, vpc, pod := netlinktest.New(t), netlinktest.New(t), netlinktest.New(t)
	node.Attach("ens6", mac(1), vpc, "peer1")
	node.Attach("ens8", mac(3), vpc, "peer3")
	host := open(t, node, netlink.Options{Sysfs: sysfs})
	node.Give("ens6", pod)
	facts, err := host.Facts([]string{"0000:00:01.0", "0000:00:02.0", "0000:00:03.0"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"0000:00:01.0"}; !slices.Equal(facts.Away, want) {
		t.Errorf("away are %v, want %v", facts.Away, want)
	}
	if driver := facts.Links[len(facts.Links)-1].Driver; driver != "ena" {
		t.Errorf("the driver of ens8 is %q, want ena", driver)
	}
}

// A listing that a change of the kernel's state interrupts is retried, and does not fail.
func TestFactsWhileAllChanges(t *testing.T) {
	node := netlinktest.New(t)
	for n := range 60 { // a listing that takes the kernel more than one message
		node.IP(fmt.Sprintf("link add podold%d type veth peer name podoldpeer%d", n, n))
	}
	host := open(t, node, netlink.Options{})
	stop := make(chan struct{})
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			node.IP(fmt.Sprintf("link add pod%d type veth peer name podpeer%d", n, n))
			node.IP(fmt.Sprintf("rule add from 10.3.3.%d lookup 7 priority %d", n%250, 100+n))
			if n > 30 {
				node.IP(fmt.Sprintf("link del pod%d", n-30))
			}
		}
	}()
	for range 300 {
		facts(t, host)
	}
	close(stop)
	<-changed
}
