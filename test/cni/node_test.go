// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package cni_test runs multieni-ipam and multieni-routes as container runtimes run them: by libcni, beneath the CNI
// project's own plugins, in network namespaces.
package cni_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/internal/dev/cluster"
	"github.com/multieni/multieni/internal/dev/cluster/clustertest"
	"github.com/multieni/multieni/internal/dev/nodenet"
	"github.com/multieni/multieni/internal/host/netlink/netlinktest"
	"github.com/multieni/multieni/internal/host/podlease"
	"github.com/multieni/multieni/test/inputs"
)

// programs returns the folders of the CNI programs: ours, built once, and those of the CNI project.
var programs = sync.OnceValues(func() ([]string, error) {
	if folders := os.Getenv(guestPrograms); folders != "" {
		return filepath.SplitList(folders), nil
	}
	plugins, err := assets.CNIPlugins(context.Background(), os.Stderr)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "multieni-cni-*")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "multieni-cni")
	if err := inputs.Build(context.Background(), program, "../../cmd/multieni-cni", "-ldflags", "-s -w"); err != nil {
		return nil, err
	}
	if output, err := exec.CommandContext(context.Background(), program, "install", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("install multieni-cni: %w: %s", err, output)
	}
	return []string{dir, plugins}, nil
})

func TestMain(m *testing.M) {
	if os.Getenv(guestPrograms) != "" {
		os.Exit(m.Run())
	}
	code := clustertest.Run(m, func(c *cluster.Cluster) { shared = c })
	if folders, err := programs(); err == nil {
		_ = os.RemoveAll(folders[0])
	}
	os.Exit(code)
}

// node is a node with one interface, of NodeENI n3, and the files of its agent.
type node struct {
	tb    testing.TB
	links *netlinktest.Namespace
	// vpc has the other end, eni, of the interface that was attached last.
	vpc      *netlinktest.Namespace
	programs []string
	runtime  *libcni.CNIConfig
	// pods is the folder that the agent and the CNI program share.
	pods string
}

func newNode(tb testing.TB) *node {
	tb.Helper()
	n := &node{tb: tb, links: netlinktest.New(tb), pods: tb.TempDir()}
	var err error
	if n.programs, err = programs(); err != nil {
		tb.Fatal(err)
	}
	n.restart()
	n.attach("ens6", "n3", "02:00:00:00:00:06")
	return n
}

// restart gives the node a runtime without the memory of its calls.
func (n *node) restart() {
	n.runtime = libcni.NewCNIConfigWithCacheDir(n.programs, n.tb.TempDir(), nodenet.Execution(n.pods, os.Stderr))
}

// attach attaches an interface of a NodeENI.
func (n *node) attach(link, nodeENI, mac string) {
	n.tb.Helper()
	n.vpc = netlinktest.New(n.tb)
	n.links.Attach(link, mac, n.vpc, "eni")
	n.links.IP(fmt.Sprintf("link property add dev %s altname net-%s", link, nodeENI))
	n.links.IP(fmt.Sprintf("link set %s mtu 9001 up", link))
}

// network is the pod network of a NodeENI with that number of IPv4 prefixes from the third part of the subnet, and one
// IPv6 prefix.
func network(name string, third, prefixes int) podnet.Network {
	block := func(last int) netip.Prefix { return netip.MustParsePrefix(fmt.Sprintf("10.0.%d.%d/28", third, last)) }
	network := podnet.Network{
		Name: name, NodeENI: name, Node: "node-1", Link: "net-" + name, ENI: "eni-" + name, MTU: 9001,
		Attachment: podnet.IPVLAN, UID: "uid-" + name, Phase: podnet.Open,
		IPv4: &podnet.Family{
			Subnet: netip.MustParsePrefix(fmt.Sprintf("10.0.%d.0/24", third)), Gateway: netip.MustParseAddr(fmt.Sprintf("10.0.%d.1", third)),
			MaxPrefixes: prefixes,
		},
		IPv6: &podnet.Family{
			Subnet: netip.MustParsePrefix(fmt.Sprintf("2001:db8:0:%x::/64", third)), Gateway: netip.MustParseAddr("fe80:ec2::1"),
			Prefixes: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("2001:db8:0:%x:5::/80", third))},
		},
		Routes: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.6%d.0.0/16", third))},
	}
	for i := range prefixes {
		network.IPv4.Prefixes = append(network.IPv4.Prefixes, block(16*(i+1)))
	}
	return network
}

// write writes the file of a network as the agent does.
func (n *node) write(network podnet.Network) {
	n.tb.Helper()
	store, err := podlease.Open(n.pods, network.Name)
	if err != nil {
		n.tb.Fatal(err)
	}
	defer store.Close()
	if err := store.WriteNetwork(network); err != nil {
		n.tb.Fatal(err)
	}
}

// folder returns the folder of the interface of a network; that of network if the agent has made none.
func (n *node) folder(network string) string {
	n.tb.Helper()
	all, err := podlease.All(n.pods)
	if err != nil {
		n.tb.Fatal(err)
	}
	if len(all[network]) > 0 {
		return filepath.Join(n.pods, network, all[network][0])
	}
	return filepath.Join(n.pods, network, "eni-"+network)
}

// file returns the path of the file of a network.
func (n *node) file(network string) string { return filepath.Join(n.folder(network), "network.json") }

// leaseFiles returns the paths of the leases of a network.
func (n *node) leaseFiles(network string) (leases []string) {
	files, _ := filepath.Glob(filepath.Join(n.folder(network), "*.json"))
	for _, file := range files {
		if filepath.Base(file) != "network.json" {
			leases = append(leases, file)
		}
	}
	return leases
}

// ipam is the IPAM section of a network.
func (n *node) ipam(network string) string {
	return fmt.Sprintf(`{"type": "multieni-ipam", "network": %q}`, network)
}

// configuration is a CNI configuration with the plugins.
func (n *node) configuration(name, plugins string) *libcni.NetworkConfigList {
	n.tb.Helper()
	list, err := libcni.ConfListFromBytes([]byte(fmt.Sprintf(`{"cniVersion": "1.1.0", "name": %q, "plugins": [%s]}`, name, plugins)))
	if err != nil {
		n.tb.Fatal(err)
	}
	return list
}

// guestPrograms names the folders of the CNI programs in the virtual machine whose kernel has ipvlan. That machine has
// no compiler.
const guestPrograms = "MULTIENI_GUEST_PROGRAMS"

// attachment is the plugin that lets pods share an interface. A kernel may lack ipvlan; macvlan differs only in the MAC
// addresses of pods.
func attachment() string {
	if os.Getenv(guestPrograms) != "" {
		return `"type": "ipvlan", "mode": "l2"`
	}
	return `"type": "macvlan", "mode": "bridge"`
}

// shared lets pods share the interface.
func (n *node) shared(network string) *libcni.NetworkConfigList {
	return n.configuration(network, fmt.Sprintf(`{%s, "master": "net-%s", "ipam": %s}, {"type": "multieni-routes"}`,
		attachment(), network, n.ipam(network)))
}

// addressOnly runs multieni-ipam alone.
func (n *node) addressOnly(network string) *libcni.NetworkConfigList {
	return n.configuration(network, fmt.Sprintf(`{"type": "multieni-ipam", "ipam": %s}`, n.ipam(network)))
}

// pod is a sandbox of a pod.
type pod struct {
	name  string
	links *netlinktest.Namespace
	// uid is the UID that the runtime passes; Multus compares it with that of the API server.
	uid string
}

func (n *node) pod(name string) pod {
	return pod{name: name, links: netlinktest.NewMounted(n.tb)}
}

func (p pod) runtimeConf(link string) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: "sandbox-" + p.name, NetNS: p.links.Path(), IfName: link,
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "upf"}, {"K8S_POD_NAME", p.name}, {"K8S_POD_UID", p.uid}},
	}
}

// add adds a link of a network to a pod, in the node's namespace as the runtime does.
func (n *node) add(list *libcni.NetworkConfigList, p pod, link string) (*current.Result, error) {
	var added types.Result
	var err error
	n.links.Do(func() { added, err = n.runtime.AddNetworkList(context.Background(), list, p.runtimeConf(link)) })
	if err != nil {
		return nil, err
	}
	return current.NewResultFromResult(added)
}

func (n *node) mustAdd(list *libcni.NetworkConfigList, p pod, link string) *current.Result {
	n.tb.Helper()
	result, err := n.add(list, p, link)
	if err != nil {
		n.tb.Fatalf("add %s to %s: %v", link, p.name, err)
	}
	return result
}

func (n *node) del(list *libcni.NetworkConfigList, p pod, link string) {
	n.tb.Helper()
	if err := n.end(list, p, link); err != nil {
		n.tb.Fatalf("delete %s of %s: %v", link, p.name, err)
	}
}

// end removes a link of a network from a pod.
func (n *node) end(list *libcni.NetworkConfigList, p pod, link string) (err error) {
	n.links.Do(func() { err = n.runtime.DelNetworkList(context.Background(), list, p.runtimeConf(link)) })
	return err
}

func (n *node) check(list *libcni.NetworkConfigList, p pod, link string) error {
	var err error
	n.links.Do(func() { err = n.runtime.CheckNetworkList(context.Background(), list, p.runtimeConf(link)) })
	return err
}

// inUse returns the addresses in use with their pods.
func (n *node) inUse(network string) map[string]string {
	n.tb.Helper()
	used := map[string]string{}
	for _, l := range n.read(network) {
		if l.InUse() {
			used[l.Address.String()] = l.PodName()
		}
	}
	return used
}

func (n *node) read(network string) []podnet.Lease {
	n.tb.Helper()
	store, err := podlease.OpenPresent(n.tb.Context(), n.pods, network)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		n.tb.Fatal(err)
	}
	defer store.Close()
	all, err := store.Folders()
	if err != nil {
		n.tb.Fatal(err)
	}
	var leases []podnet.Lease
	for _, folder := range all {
		leases = append(leases, folder.Leases...)
	}
	return leases
}

// change rewrites the leases of a network, as if time had passed or the node had booted.
func (n *node) change(network string, change func(*podnet.Lease)) {
	n.tb.Helper()
	store, err := podlease.Open(n.pods, network)
	if err != nil {
		n.tb.Fatal(err)
	}
	defer store.Close()
	all, err := store.Folders()
	for _, folder := range all {
		for i := range folder.Leases {
			change(&folder.Leases[i])
		}
		err = errors.Join(err, store.Put(folder.ENI, folder.Leases...))
	}
	if err != nil {
		n.tb.Fatal(err)
	}
}

// rest ends the rest of released addresses.
func (n *node) rest(network string) {
	n.tb.Helper()
	n.change(network, func(l *podnet.Lease) {
		if !l.InUse() {
			l.Freed = l.Freed.Add(-podnet.RestTime)
		}
	})
}

// code returns CNI's code of an error, or 0.
func code(err error) uint {
	if fault := (*types.Error)(nil); errors.As(err, &fault) {
		return fault.Code
	}
	return 0
}

// eventually waits until the condition holds.
func eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatal(what + " did not happen")
		}
	}
}
