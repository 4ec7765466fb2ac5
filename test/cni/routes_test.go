// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/podnet"
)

// contains fails for each part that the output of ip(8) lacks.
func contains(t *testing.T, p pod, command string, parts ...string) {
	t.Helper()
	output := strings.Join(strings.Fields(p.links.IP(command)), " ")
	for _, part := range parts {
		if !strings.Contains(output, part) {
			t.Errorf("ip %s lacks %q: %s", command, part, output)
		}
	}
}

func TestRoutesOfAPod(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list := n.shared("n3")
	p := n.pod("a")
	p.links.IP("link add eth0 type veth peer name cluster")
	p.links.IP("addr add 192.168.7.2/32 dev eth0")
	p.links.IP("link set eth0 up")
	p.links.IP("link set cluster up")
	p.links.IP("route add default dev eth0")
	n.mustAdd(list, p, "net1")
	contains(t, p, "rule", "30000: from 10.0.4.16 lookup")
	contains(t, p, "-6 rule", "30000: from 2001:db8:0:4:5::1 lookup")
	contains(t, p, "link show net1", "mtu 9001")
	for _, c := range []struct{ to, want string }{
		{"8.8.8.8 from 10.0.4.16", "via 10.0.4.1 dev net1"},
		{"10.0.4.200 from 10.0.4.16", "10.0.4.200 from 10.0.4.16 dev net1"},
		{"10.0.4.200", "10.0.4.200 dev net1 src 10.0.4.16"},
		{"10.64.1.1", "via 10.0.4.1 dev net1 src 10.0.4.16"},
		{"8.8.8.8", "8.8.8.8 dev eth0"},
		{"2001:db8:9::1 from 2001:db8:0:4:5::1", "via fe80:ec2::1 dev net1"},
		{"2001:db8:0:4:7::1", "via fe80:ec2::1 dev net1"},
		{"2001:db8:0:4:5::9", "2001:db8:0:4:5::9 from :: dev net1"},
	} {
		contains(t, p, "route get "+c.to, c.want)
	}
	if output := p.links.IP("-6 addr show dev net1 scope global"); strings.Contains(output, "tentative") {
		t.Errorf("the pod waits for its IPv6 address: %s", output)
	}
	if state := p.links.State(); !strings.Contains(state, "ipv4/conf/net1/rp_filter:2\n") {
		t.Error("rp_filter of net1 is not 2")
	}
}

func TestCheckFindsWhatIsMissing(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list := n.shared("n3")
	for name, c := range map[string]struct{ change, want string }{
		"nothing":        {"", ""},
		"a rule":         {"rule del from 10.0.4.16 pref 30000", "rule 30000: from 10.0.4.16"},
		"the default":    {"route del default table TABLE", "add route 0.0.0.0/0 via 10.0.4.1"},
		"the IPv6 rule":  {"-6 rule del from 2001:db8:0:4:5::1 pref 30000", "rule 30000: from 2001:db8:0:4:5::1"},
		"the link's own": {"route del 10.0.4.0/24 table TABLE", "add route 10.0.4.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			p := n.pod("a")
			n.mustAdd(list, p, "net1")
			defer func() { n.del(list, p, "net1"); n.rest("n3") }()
			if c.change != "" {
				_, table, _ := strings.Cut(p.links.IP("rule list pref 30000"), "lookup ")
				p.links.IP(strings.ReplaceAll(c.change, "TABLE", strings.TrimSpace(table)))
			}
			err := n.check(list, p, "net1")
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestThreeNetworksOfOnePodHaveTheirOwnTables(t *testing.T) {
	n := newNode(t)
	n.attach("ens7", "n4", "02:00:00:00:00:07")
	n.attach("ens8", "n6", "02:00:00:00:00:08")
	p := n.pod("a")
	for i, name := range []string{"n3", "n4", "n6"} {
		n.write(network(name, 4+i, 1))
		n.mustAdd(n.shared(name), p, fmt.Sprintf("net%d", i+1))
	}
	for i := range 3 {
		contains(t, p, fmt.Sprintf("route get 8.8.8.8 from 10.0.%d.16", 4+i), fmt.Sprintf("via 10.0.%d.1 dev net%d", 4+i, i+1))
		contains(t, p, fmt.Sprintf("route get 2001:db8:9::1 from 2001:db8:0:%x:5::1", 4+i), fmt.Sprintf("dev net%d", i+1))
	}
	n.del(n.shared("n4"), p, "net2")
	for i := range 3 {
		if name := []string{"n3", "n4", "n6"}[i]; (n.check(n.shared(name), p, fmt.Sprintf("net%d", i+1)) == nil) != (i != 1) {
			t.Errorf("CHECK of %s after DEL of n4 is wrong", name)
		}
	}
}

func TestDelRemovesRulesOfALinkThatStays(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list := n.shared("n3")
	p := n.pod("a")
	n.mustAdd(list, p, "net1")
	routesOnly := n.configuration("n3", `{"type": "multieni-routes"}`)
	n.del(routesOnly, p, "net1")
	for _, command := range []string{"rule", "-6 rule", "route show table all", "-6 route show table all"} {
		if output := p.links.IP(command); strings.Contains(output, "30000") || strings.Contains(output, "table 10") {
			t.Errorf("ip %s after DEL: %s", command, output)
		}
	}
	contains(t, p, "route get 10.0.4.200", "dev net1")
}

func TestDelOfAPodThatIsGone(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list := n.shared("n3")
	p := n.pod("a")
	n.mustAdd(list, p, "net1")
	if err := os.Remove(n.file("n3")); err != nil {
		t.Fatal(err)
	}
	conf := p.runtimeConf("net1")
	p.links.End()
	n.links.Do(func() {
		if err := n.runtime.DelNetworkList(t.Context(), list, conf); err != nil {
			t.Error(err)
		}
	})
	if used := n.inUse("n3"); len(used) != 0 {
		t.Errorf("in use: %v", used)
	}
}

func TestHostDeviceGivesTheInterfaceToOnePod(t *testing.T) {
	n := newNode(t)
	own := network("n3", 4, 0)
	own.IPv6, own.Attachment, own.Addresses = nil, podnet.HostDevice, []netip.Addr{netip.MustParseAddr("10.0.4.70"), netip.MustParseAddr("10.0.4.71")}
	n.write(own)
	list := n.configuration("n3", fmt.Sprintf(`{"type": "host-device", "device": "net-n3", "ipam": %s}, {"type": "multieni-routes"}`, n.ipam("n3")))
	first, second := n.pod("first"), n.pod("second")
	n.mustAdd(list, first, "net1")
	contains(t, first, "addr show dev net1", "10.0.4.70/24", "10.0.4.71/24", "mtu 9001")
	contains(t, first, "route get 8.8.8.8 from 10.0.4.71", "via 10.0.4.1 dev net1")
	_, err := n.add(n.addressOnly("n3"), second, "net1")
	if code(err) != tryAgainLater || !strings.Contains(err.Error(), "pod upf/first has the interface of NodeENI n3 on node node-1") {
		t.Errorf("a second pod: code %d: %v", code(err), err)
	}
	n.del(list, first, "net1")
	contains(t, pod{name: "node", links: n.links}, "link show net-n3", "altname net-n3")
	n.mustAdd(list, second, "net1")
}

// BenchmarkPod measures what the two plugins add to the start of a pod on a node with 100 pods: the median of each call
// as the runtime measures it, with the start of the process, and the CPU time of both, which other work on the machine
// does not change.
func BenchmarkPod(b *testing.B) {
	n := newNode(b)
	n.write(network("n3", 4, 12))
	address := n.addressOnly("n3")
	sandbox := n.pod("").links
	for i := range 100 {
		n.mustAdd(address, pod{name: fmt.Sprintf("other-%d", i), links: sandbox}, "net1")
	}
	routes := n.configuration("n3", `{"type": "multieni-routes", "prevResult": {"cniVersion": "1.1.0",
		"interfaces": [{"name": "net1", "sandbox": "/x"}], "ips": [{"interface": 0, "address": "10.0.4.200/24", "gateway": "10.0.4.1"}]}}`)
	p := n.pod("measured")
	p.links.IP("link add net1 type veth peer name peer")
	p.links.IP("addr add 10.0.4.200/24 dev net1")
	p.links.IP("link set net1 up")
	var took [2][]time.Duration
	before := processorTime(b)
	for b.Loop() {
		for i, list := range []*libcni.NetworkConfigList{address, routes} {
			start := time.Now()
			n.mustAdd(list, p, "net1")
			took[i] = append(took[i], time.Since(start))
		}
	}
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(len(took[0])), "ms-cpu")
	for i, name := range []string{"ms-ipam", "ms-routes"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds())/1000, name)
	}
}

// processorTime returns the CPU time of the programs that have ended.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
