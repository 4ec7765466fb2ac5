// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodenet gives simulated nodes a network: a namespace, in which a link appears for each attached interface of
// the simulated EC2, and an agent that configures the links. The links and their configuration are real. Only their
// role as EC2 devices is simulated; package fabric delivers their packets.
//
// Every node names its links differently, as on different instance types and distributions.
//
// Pods of these nodes get the networks of their annotation: see [Options].
package nodenet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fabric"
	"github.com/multieni/multieni/awssim/namespace"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/internal/host/netlink"
	"github.com/multieni/multieni/internal/host/pci"
	"github.com/multieni/multieni/internal/host/podlease"
)

// Options configure the networks of nodes.
type Options struct {
	Config    *rest.Config
	Simulator *awssim.Simulator
	// Dir is the folder for the namespace files: one for each node, and pods/NAMESPACE/NAME for each pod with networks.
	Dir string
	// Programs are the CNI programs that give pods their networks. With nil, pods get none.
	Programs *Programs
	Logger   *slog.Logger
}

// Nodes returns the nodes that have a network, each with the name of its link at a device index.
func Nodes() map[string]func(device int) string {
	return map[string]func(int) string{
		"node-a1": func(device int) string { return fmt.Sprintf("eth%d", device) },
		"node-b1": func(device int) string { return fmt.Sprintf("ens%d", 5+device) },
		"node-c1": func(device int) string { return fmt.Sprintf("enp%ds0", 38+device) },
	}
}

// Network has the networks of all nodes.
type Network struct {
	options Options
	vpcs    *fabric.Fabric
	nodes   []*node
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	failures []error
}

// node is one node with its network.
type node struct {
	name      string
	linkName  func(device int) string
	namespace *namespace.Namespace
	host      *netlink.Host
	// instance is the ID of its instance, "" while it has none.
	instance string
	// pods is the folder that its agent shares with CNI programs, and state that of the agent's checkpoint.
	pods, state string
	// runtime calls the CNI programs of the node; nil if pods get no networks.
	runtime *libcni.CNIConfig
}

// Start creates the networks and starts the agents, which run until [Network.Stop].
func Start(ctx context.Context, o Options) (*Network, error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	n := &Network{options: o, stop: stop}
	if err := n.start(running); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	return n, nil
}

func (n *Network) start(ctx context.Context) (err error) {
	if n.vpcs, err = fabric.New(n.options.Simulator); err != nil {
		return err
	}
	names := Nodes()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := n.add(ctx, name, names[name]); err != nil {
			return fmt.Errorf("give %s a network: %w", name, err)
		}
	}
	n.run("the VPCs", func() error { return n.follow(ctx) })
	if n.options.Programs == nil {
		return nil
	}
	pods, err := newPods(n.options, n.nodes)
	if err != nil {
		return err
	}
	n.run("pods", func() error { return pods.run(ctx) })
	return nil
}

// run runs a part of the network until the end of its context.
func (n *Network) run(what string, part func() error) {
	n.running.Go(func() {
		if err := part(); err != nil {
			n.fail(fmt.Errorf("%s: %w", what, err))
		}
	})
}

// Stop ends the agents and the networks, and returns their errors.
func (n *Network) Stop() error {
	n.stop()
	n.running.Wait()
	errs := n.failures
	if n.vpcs != nil {
		errs = append(errs, n.vpcs.Close())
	}
	for _, node := range n.nodes {
		if node.host != nil {
			node.host.Close()
		}
		errs = append(errs, node.namespace.Close(), os.Remove(n.entrance(node.name)),
			os.RemoveAll(node.pods), os.RemoveAll(node.state))
	}
	return errors.Join(errs...)
}

// entrance returns the path of a node's namespace file, for nsenter --net=FILE.
func (n *Network) entrance(node string) string { return filepath.Join(n.options.Dir, node) }

// open creates a namespace file. One of a killed process may still exist.
func open(file string, space *namespace.Namespace) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(space.Path(), file)
}

func (n *Network) add(ctx context.Context, name string, linkName func(int) string) error {
	space, err := namespace.New()
	if err != nil {
		return err
	}
	nd := &node{
		name: name, linkName: linkName, namespace: space,
		pods:  filepath.Join(n.options.Dir, "nodes", name, "pods"),
		state: filepath.Join(n.options.Dir, "nodes", name, "state"),
	}
	n.nodes = append(n.nodes, nd)
	// A new namespace means that the node has booted: no earlier pod has an address.
	if err := errors.Join(open(n.entrance(name), space), os.RemoveAll(nd.pods), os.RemoveAll(nd.state)); err != nil {
		return err
	}
	options := netlink.Options{Device: n.device, Sysfs: n.noSysfs()}
	var failure error
	if err := errors.Join(space.Do(func() { nd.host, failure = netlink.Open(options) }), failure); err != nil {
		return err
	}
	return n.startAgent(ctx, nd)
}

// device returns the PCI address of the link of a simulated interface.
func (n *Network) device(_, mac string) string {
	for _, i := range n.options.Simulator.State().NetworkInterfaces {
		if i.MACAddress == mac && i.Attachment != nil {
			return fmt.Sprintf("0000:00:%02x.0", 5+i.Attachment.DeviceIndex)
		}
	}
	return ""
}

// noSysfs is a folder that does not exist: the links have no devices.
func (n *Network) noSysfs() string { return filepath.Join(n.options.Dir, "no-sysfs") }

func (n *Network) startAgent(ctx context.Context, nd *node) error {
	api, err := agent.Connect(n.options.Config, nd.name)
	if err != nil {
		return err
	}
	o := agent.Options{
		Node: nd.name, API: api, Host: nd.host, PCI: pci.Open(n.noSysfs()),
		Resync: 30 * time.Second, Log: n.options.Logger.With("node", nd.name),
		PodsDir: nd.pods, PodsDisabled: n.options.Programs == nil, StateDir: nd.state,
		Process: podnet.Process{Boot: rand.Text(), ID: rand.Text()}, // of a boot of its own, since its files are gone
	}
	leases, err := podlease.OpenWatch(nd.pods)
	if err != nil {
		return err
	}
	o.LeaseEvents = leases
	a := agent.New(o)
	n.run("the agent of "+nd.name, func() error {
		defer leases.Close()
		return a.Run(ctx)
	})
	return nil
}

func (n *Network) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failures = append(n.failures, err)
	n.options.Logger.Error("the network of a node", "err", err)
}

// follow adds and removes links when interfaces are attached and detached, until the context ends.
func (n *Network) follow(ctx context.Context) error {
	for state := n.options.Simulator.State(); ; {
		for _, nd := range n.nodes {
			if err := n.move(nd, instanceOf(state, nd.name)); err != nil {
				return fmt.Errorf("links of %s: %w", nd.name, err)
			}
		}
		if err := n.vpcs.Sync(); err != nil {
			return err
		}
		var err error
		state, err = n.options.Simulator.StateAfter(ctx, state.Revision)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of the context is how following ends
		}
		if err != nil {
			return err
		}
	}
}

// move moves the links of an instance to a node, which may have been another instance.
func (n *Network) move(nd *node, instance string) error {
	if nd.instance == instance {
		return nil
	}
	if err := n.vpcs.RemoveNode(nd.instance); err != nil {
		return err
	}
	nd.instance = instance
	if instance == "" {
		return nil
	}
	return n.vpcs.AddNode(fabric.Node{InstanceID: instance, Namespace: nd.namespace.Path(), LinkName: nd.link})
}

// link returns the name of the link of an attachment. The primary interface has none: nothing in the namespace would
// use it.
func (nd *node) link(a *ec2.Attachment) string {
	if a.DeviceIndex == 0 {
		return ""
	}
	return nd.linkName(a.DeviceIndex)
}

// instanceOf returns the ID of the running instance of a node, or "".
func instanceOf(state ec2.State, node string) string {
	for _, instance := range state.Instances {
		if instance.Tags["Name"] == node && instance.State.Name == ec2.Running {
			return instance.InstanceID
		}
	}
	return ""
}
