// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netns_test

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/internal/host/netlink/netlinktest"
	"github.com/multieni/multieni/internal/host/networkd"
)

// hostFiles has a folder for each platform with the files and programs that it gives networkd and udev, and the source
// of a library.
//
//go:embed testdata/hostnetwork
var hostFiles embed.FS

// platform is an operating system for nodes, or a program that prepares one.
type platform struct {
	folder string
	// initialized is set if nodeadm has initialized the node before interfaces are attached.
	initialized bool
	// managed is set if the platform makes networkd configure the interfaces.
	managed bool
	// tables matches the numbers of the route tables that the platform gives the interfaces. The agent leaves these and
	// the rules that lead there: they direct no packet to another link.
	tables string
}

var platforms = map[string]platform{
	"EKS, attached while it boots": {folder: "eks", managed: true, tables: `1000\d`},
	"EKS, attached later":          {folder: "eks", initialized: true},
	"Amazon Linux 2023":            {folder: "ec2-net-utils", managed: true, tables: `1000\d`},
	"Ubuntu":                       {folder: "ubuntu", managed: true, tables: `10\d`},
	"cloud-init with networkd":     {folder: "cloud-init", managed: true, tables: `10\d`},
	"Flatcar":                      {folder: "flatcar", managed: true},
	"kOps":                         {folder: "kops"},
}

func (p platform) files(t *testing.T) fs.FS {
	t.Helper()
	files, err := fs.Sub(hostFiles, "testdata/hostnetwork/"+p.folder)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// primaryLink has the number 5 and the subnet 10.0.0.0/24.
const primaryLink = "ens5"

// managedNode is a node with the network programs of its platform.
type managedNode struct {
	*node
	platform platform
	host     *networkHost
}

// newManagedNode makes a node whose primary interface networkd has configured. The subnets have a DHCP server, a
// networkd too.
func newManagedNode(t *testing.T, name string, p platform, library string) *managedNode {
	t.Helper()
	m := &managedNode{node: newNamespaces(t, name), platform: p}
	subnets := fstest.MapFS{}
	for subnet := range 3 {
		subnets[fmt.Sprintf("run/systemd/network/peer%d.network", subnet)] = &fstest.MapFile{Mode: 0o644, Data: fmt.Appendf(nil,
			"[Match]\nName=peer%d\n[Network]\nAddress=10.0.%d.1/24\nDHCPServer=yes\n[DHCPServer]\nPoolOffset=10\nPoolSize=1\n", subnet, subnet)}
	}
	newNetworkHost(t, m.vpc, subnets, library, false)
	m.host = newNetworkHost(t, m.Namespace, p.files(t), library, true)
	m.Attach(primaryLink, mac(5), m.vpc, "peer0")
	m.manages(primaryLink)
	if p.initialized {
		if err := os.MkdirAll(filepath.Join(m.host.run, "nodeadm/init"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.configure = func(o *agent.Options) {
		o.Metadata = func(context.Context) (eni.Metadata, error) {
			return eni.Metadata{InstanceID: m.instance, PrimaryMAC: mac(5)}, nil
		}
	}
	return m
}

// secondaries are an interface that the host uses and one for pods.
func secondaries() []*v1alpha1.NetworkInterface {
	used, pods := attached(1), attached(2)
	used.Status.Addresses.SecondaryPrivateIPs = []string{"10.0.1.11"}
	pods.Spec.NodeENI.Name, pods.Spec.Ordinal, pods.Spec.Link = "xpods", 0, nil
	pods.Spec.Subnets = []v1alpha1.InterfaceSubnet{{ID: "subnet-0f59b4f14737be9ad", CIDR: "10.0.2.0/24"}}
	pods.Status.Addresses = v1alpha1.InterfaceAddresses{PrivateIP: "10.0.2.10", SecondaryPrivateIPs: []string{"10.0.2.11"}}
	return []*v1alpha1.NetworkInterface{used, pods}
}

var secondaryLinks = []string{"ens6", "ens7"}

func attachSecondaries(n *node) {
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.Attach("ens7", mac(2), n.vpc, "peer2")
}

// manages waits until networkd has configured the link.
func (m *managedNode) manages(link string) { m.reaches(link, "configured") }

// ignores waits until networkd ignores the link.
func (m *managedNode) ignores(link string) { m.reaches(link, "unmanaged") }

func (m *managedNode) reaches(link string, states ...string) {
	m.t.Helper()
	m.host.eventually(fmt.Sprintf("networkd has %s as one of %q", link, states), func() error {
		now, err := m.host.managed(link)
		if err == nil && !slices.Contains(states, now.state) {
			err = fmt.Errorf("it is %s by %s", now.state, now.file)
		}
		return err
	})
}

// settles waits until networkd has done what it does after a start, with the secondary links too.
func (m *managedNode) settles(states ...string) {
	m.t.Helper()
	m.manages(primaryLink)
	for _, link := range secondaryLinks {
		m.reaches(link, states...)
	}
}

// configuration matches the lines of State that the agent or a network program decides, without the numbers of links. The
// kernel reports carrier in two ways, one after the other.
var configuration = regexp.MustCompile(`^-o link: \d+: (ens[67])@\S+ <(?:NO-CARRIER,)?(\S+)> mtu (\d+) .*?( altname .*)?$|` +
	`^-o address: \d+: (ens[67] .*)$|^-4 route show table all: (.*ens[67].*)$|^-[46] rule: (.*)$|` +
	`ipv(\S+/ens[67]/(?:rp_filter|arp_ignore|arp_announce|accept_ra|autoconf|addr_gen_mode):\d)`)

// linkLocal matches the address that each link has after networkd brought it up. The agent leaves it.
var linkLocal = regexp.MustCompile(`inet6 fe80:`)

// configurationOf returns the configuration of the secondary links, and all rules.
func configurationOf(n *node) []string {
	var all []string
	for line := range strings.Lines(n.State()) {
		if found := configuration.FindStringSubmatch(strings.TrimSpace(line)); found != nil && !linkLocal.MatchString(line) {
			all = append(all, strings.Join(strings.Fields(strings.Join(found[1:], " ")), " "))
		}
	}
	return all
}

// leftRoutes and leftRules match what the platform configured and the agent leaves. No packet takes the routes without the
// rules. networkd itself forgets a route if it restarts while the agent removes the route's source address.
func (p platform) leftRoutes() *regexp.Regexp {
	return regexp.MustCompile(` table ` + cmp.Or(p.tables, "none") + ` proto `)
}

func (p platform) leftRules() *regexp.Regexp {
	return regexp.MustCompile(` lookup ` + cmp.Or(p.tables, "none") + ` proto `)
}

// wins waits until the links are as the agent alone configures them, but for what matches leaves. The primary link must
// be as networkd configures it, and packets take the link of their source address.
func (m *managedNode) wins(alone []string, leaves ...*regexp.Regexp) {
	m.t.Helper()
	m.host.eventually("the agent's configuration wins", func() error {
		now := configurationOf(m.node)
		for _, left := range leaves {
			now = slices.DeleteFunc(now, left.MatchString)
		}
		if diff := gocmp.Diff(alone, now); diff != "" {
			return fmt.Errorf("the configuration differs (-want +got):\n%s", diff)
		}
		return nil
	})
	m.host.eventually("packets take the right links", func() error {
		for to, link := range map[string]string{"192.0.2.1": primaryLink, "10.0.2.20": primaryLink, "192.0.2.1 from 10.0.1.10": "ens6"} {
			if route := m.IP("route get " + to); !strings.Contains(route, " dev "+link+" ") {
				return fmt.Errorf("packets to %s take %s, not %s", to, route, link)
			}
		}
		return nil
	})
	if address := m.IP("-4 -o address show dev " + primaryLink); !strings.Contains(address, "10.0.0.10/24") {
		m.t.Errorf("the primary link has %q", address)
	}
}

// changed waits until the agent has made a further change.
func (m *managedNode) changed(since int64) {
	m.t.Helper()
	m.host.eventually("the agent repairs what networkd did", func() error {
		if m.changes.Load() == since {
			return fmt.Errorf("it has made %d changes, as before", since)
		}
		return nil
	})
}

// startPlatformAgent starts the agent, with a folder of networkd if it is to write files.
func (m *managedNode) startPlatformAgent(networkdDir string) {
	before := m.configure
	m.configure = func(o *agent.Options) { before(o); o.NetworkdDir = networkdDir }
	m.startAgent()
	m.configure = before
}

// aloneConfiguration returns what the agent configures on a host without network programs.
func aloneConfiguration(t *testing.T) []string {
	t.Helper()
	n := newNode(t, "no-network-programs")
	attachSecondaries(n)
	n.promise(secondaries()...)
	n.becomes(patience, ready)
	var alone []string
	n.becomes(patience, func(objects []v1alpha1.NetworkInterface) string {
		for _, object := range objects {
			if link := reportOf(&object); link.State != v1alpha1.LinkReady {
				return "the link " + link.Name + " is " + string(link.State)
			}
		}
		alone = configurationOf(n)
		return ""
	})
	return alone
}

// The real systemd-networkd and systemd-udevd run with the files of each platform. Without the agent's files, networkd
// configures the links and the agent reverts what concerns pods: at first, after a restart of networkd, and with each
// lease of DHCP. With the files, networkd releases links that it had, and never touches those that are attached later.
func TestHostNetworkPrograms(t *testing.T) {
	netlinktest.New(t) // or end the test
	requireHostPrograms(t)
	library := buildENA(t)
	alone := aloneConfiguration(t)
	for name, p := range platforms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManagedNode(t, "host-"+strings.ToLower(strings.NewReplacer(" ", "-", ",", "").Replace(name)), p, library)
			attachSecondaries(m.node)
			m.settles(map[bool]string{true: "configured", false: "unmanaged"}[p.managed])
			if has := m.IP("-4 -o address show dev ens6"); strings.Contains(has, "10.0.1.10/24") != p.managed {
				t.Errorf("before the agent runs, the link has %q", has)
			}
			m.promise(secondaries()...)
			m.withoutFiles(alone)
			m.withFiles(alone)
		})
	}
}

// withoutFiles runs the agent and networkd against each other. networkd may never complete the configuration of a link, or
// fail, because the agent removes addresses that it adds.
func (m *managedNode) withoutFiles(alone []string) {
	m.startPlatformAgent("")
	m.wins(alone, m.platform.leftRoutes(), m.platform.leftRules())
	before := m.changes.Load()
	m.host.restartNetworkd()
	if !m.platform.managed {
		m.settles("unmanaged")
		m.wins(alone)
		m.stopAgent()
		return
	}
	m.host.acquires("ens6")
	m.host.acquires("ens7")
	m.changed(before)
	m.manages(primaryLink)
	m.wins(alone, m.platform.leftRoutes(), m.platform.leftRules())
	if now, _ := m.host.managed("ens6"); now.state == "configured" {
		before = m.changes.Load()
		m.host.eventually("networkd renews the lease", func() error { _, err := m.host.command("networkctl", "renew", "ens6"); return err })
		m.changed(before)
		m.wins(alone, m.platform.leftRoutes(), m.platform.leftRules())
	}
	m.stopAgent()
}

func (m *managedNode) withFiles(alone []string) {
	m.startPlatformAgent(m.host.etc)
	m.becomes(patience, ready)
	m.host.eventually("the agent has written its files", func() error {
		for n := range secondaryLinks {
			if _, err := os.Stat(filepath.Join(m.host.etc, fmt.Sprintf("00-multieni-0200000000%02x.network", n+1))); err != nil {
				return err
			}
		}
		return nil
	})
	m.host.reload()
	m.settles("unmanaged", "failed")
	// networkd keeps the rules of a link whose configuration failed, until it starts again.
	m.wins(alone, m.platform.leftRoutes(), m.platform.leftRules())
	before := m.changes.Load()
	m.host.restartNetworkd()
	m.settles("unmanaged")
	m.wins(alone, m.platform.leftRoutes())
	if changes := m.changes.Load() - before; m.platform.folder == "eks" && changes > 0 {
		m.t.Errorf("the agent made %d changes after a restart of a networkd that keeps rules of others", changes)
	}

	for _, link := range secondaryLinks {
		m.IP("link del " + link)
	}
	m.stopAgent()
	attachSecondaries(m.node)
	m.settles("unmanaged")
	for _, link := range secondaryLinks {
		if is := m.IP("-o link show dev "+link) + m.IP("-o address show dev "+link); strings.Contains(is, "UP") || strings.Contains(is, "inet") {
			m.t.Errorf("a link with a file of the agent is, before the agent sees it: %s", is)
		}
	}
	m.startPlatformAgent(m.host.etc)
	m.wins(alone)
}

// While a node of EKS boots, eni-bootstrap excludes a link before it attaches the interface, and at the next boot after
// nodeadm has configured it. The real networkctl makes networkd read the files.
func TestBootstrapWithNetworkd(t *testing.T) {
	netlinktest.New(t) // or end the test
	requireHostPrograms(t)
	m := newManagedNode(t, "host-bootstrap", platforms["EKS, attached while it boots"], buildENA(t))
	manager := networkd.Manager{Run: filepath.Join(m.host.run, "systemd"), Log: slog.New(slog.DiscardHandler),
		Reload: func(context.Context) error { _, err := m.host.command("networkctl", "reload"); return err }}
	manager.Leave(t.Context(), mac(1))
	attachSecondaries(m.node)
	m.ignores("ens6")
	m.manages("ens7")
	if is := m.IP("-o address show dev ens6") + m.IP("-4 rule show from 10.0.1.10"); is != "" {
		t.Errorf("the excluded link has %s", is)
	}
	manager.LeaveOnly(t.Context(), []string{mac(1), mac(2)})
	m.ignores("ens7")
	if is := m.IP("-4 -o address show dev ens7") + m.IP("-4 rule show from 10.0.2.10") + m.IP("-4 route show table all dev ens7"); is != "" {
		t.Errorf("the link that nodeadm configured still has %s", is)
	}
	m.manages(primaryLink)
}
