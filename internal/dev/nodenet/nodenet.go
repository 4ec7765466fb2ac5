// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodenet gives simulated nodes a network: a namespace, in which a link appears for each interface that the
// simulated EC2 has attached, and an agent that configures the links. The links, and all that the agents do to them,
// are the kernel's. Only their role as EC2 devices is simulated.
//
// Every node names its links differently, as instance types and distributions do.
package nodenet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/namespace"
	"github.com/multieni/multieni/internal/agent"
	"github.com/multieni/multieni/internal/netlink"
	"github.com/multieni/multieni/internal/pci"
)

// Options are what the networks of nodes need.
type Options struct {
	Config    *rest.Config
	Simulator *awssim.Simulator
	// Dir takes a file per node that leads into its namespace.
	Dir    string
	Logger *slog.Logger
}

// Nodes returns the nodes that have a network, and how each calls the link at a device index.
func Nodes() map[string]func(device int) string {
	return map[string]func(int) string{
		"node-a1": func(device int) string { return fmt.Sprintf("eth%d", device) },
		"node-b1": func(device int) string { return fmt.Sprintf("ens%d", 5+device) },
		"node-c1": func(device int) string { return fmt.Sprintf("enp%ds0", 38+device) },
	}
}

// pollPeriod is how soon an attachment shows on its node.
const pollPeriod = 50 * time.Millisecond

// Network is the networks of all nodes.
type Network struct {
	options Options
	vpc     *namespace.Namespace
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
	// links are the names of its links by interface.
	links map[string]string
}

// Start makes the networks and starts the agents, which run until [Network.Stop].
func Start(ctx context.Context, o Options) (*Network, error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	n := &Network{options: o, stop: stop}
	if err := n.start(running); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	return n, nil
}

func (n *Network) start(ctx context.Context) (err error) {
	if n.vpc, err = namespace.New(); err != nil {
		return err
	}
	if err := os.MkdirAll(n.options.Dir, 0o755); err != nil {
		return err
	}
	for name, linkName := range Nodes() {
		if err := n.add(ctx, name, linkName); err != nil {
			return fmt.Errorf("give %s a network: %w", name, err)
		}
	}
	n.running.Go(func() { n.keep(ctx) })
	return nil
}

// Stop ends the agents and the networks, and says what went wrong meanwhile.
func (n *Network) Stop() error {
	n.stop()
	n.running.Wait()
	errs := n.failures
	for _, node := range n.nodes {
		if node.host != nil {
			node.host.Close()
		}
		errs = append(errs, node.namespace.Close(), os.Remove(n.entrance(node.name)))
	}
	if n.vpc != nil {
		errs = append(errs, n.vpc.Close())
	}
	return errors.Join(errs...)
}

// entrance is the file that leads into a node's namespace: nsenter --net=FILE.
func (n *Network) entrance(node string) string { return filepath.Join(n.options.Dir, node) }

func (n *Network) add(ctx context.Context, name string, linkName func(int) string) error {
	space, err := namespace.New()
	if err != nil {
		return err
	}
	nd := &node{name: name, linkName: linkName, namespace: space, links: map[string]string{}}
	n.nodes = append(n.nodes, nd)
	// One may be left of a process that was killed.
	if err := errors.Join(removeIfThere(n.entrance(name)), os.Symlink(space.Path(), n.entrance(name))); err != nil {
		return err
	}
	options := netlink.Options{Device: n.device, Sysfs: filepath.Join(n.options.Dir, "no-sysfs")}
	var failure error
	if err := errors.Join(space.Do(func() { nd.host, failure = netlink.Open(options) }), failure); err != nil {
		return err
	}
	return n.startAgent(ctx, nd)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// device returns where on the bus a link of a simulated interface is.
func (n *Network) device(_, mac string) string {
	for _, i := range n.options.Simulator.State().NetworkInterfaces {
		if i.MACAddress == mac && i.Attachment != nil {
			return fmt.Sprintf("0000:00:%02x.0", 5+i.Attachment.DeviceIndex)
		}
	}
	return ""
}

func (n *Network) startAgent(ctx context.Context, nd *node) error {
	api, err := agent.Connect(n.options.Config, nd.name)
	if err != nil {
		return err
	}
	a := agent.New(agent.Options{
		Node: nd.name, API: api, Host: nd.host, PCI: pci.Open(filepath.Join(n.options.Dir, "no-sysfs")),
		Taint: v1alpha1.NotReadyTaint, Resync: 30 * time.Second, Log: n.options.Logger.With("node", nd.name),
	})
	n.running.Go(func() {
		if err := a.Run(ctx); err != nil {
			n.fail(fmt.Errorf("the agent of %s: %w", nd.name, err))
		}
	})
	return nil
}

func (n *Network) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failures = append(n.failures, err)
	n.options.Logger.Error("the network of a node", "err", err)
}

// keep makes links appear and vanish as interfaces are attached and detached.
func (n *Network) keep(ctx context.Context) {
	for {
		state := n.options.Simulator.State()
		for _, nd := range n.nodes {
			if err := nd.follow(attachedTo(state, nd.name), n.vpc); err != nil {
				n.fail(fmt.Errorf("links of %s: %w", nd.name, err))
				return
			}
		}
		select {
		case <-time.After(pollPeriod):
		case <-ctx.Done():
			return
		}
	}
}

// attachedTo returns the interfaces that EC2 has attached to the node's instance, without its primary interface.
func attachedTo(state ec2.State, node string) map[string]*ec2.NetworkInterface {
	instances := map[string]bool{}
	for _, instance := range state.Instances {
		if instance.Tags["Name"] == node {
			instances[instance.InstanceID] = true
		}
	}
	attached := map[string]*ec2.NetworkInterface{}
	for _, i := range state.NetworkInterfaces {
		if a := i.Attachment; a != nil && instances[a.InstanceID] && a.DeviceIndex > 0 && a.Status == ec2.Attached {
			attached[i.NetworkInterfaceID] = i
		}
	}
	return attached
}

// follow makes the links those of the interfaces.
func (nd *node) follow(attached map[string]*ec2.NetworkInterface, vpc *namespace.Namespace) error {
	for id, link := range nd.links {
		if attached[id] != nil {
			continue
		}
		if _, err := nd.namespace.IP("link del " + link); err != nil {
			return err
		}
		delete(nd.links, id)
	}
	for id, i := range attached {
		if nd.links[id] != "" {
			continue
		}
		link := nd.linkName(i.Attachment.DeviceIndex)
		if err := nd.namespace.Attach(link, i.MACAddress, vpc, peer(id)); err != nil {
			return err
		}
		nd.links[id] = link
	}
	return nil
}

// peer is the name of the far end of a link: as much of the interface's ID as a name can have.
func peer(id string) string { return id[max(0, len(id)-15):] }
