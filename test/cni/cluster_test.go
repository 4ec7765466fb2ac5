// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fabric"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/cli"
	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/internal/dev/cluster"
	"github.com/multieni/multieni/internal/dev/cluster/clustertest"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/internal/host/netlink"
	"github.com/multieni/multieni/internal/host/netlink/netlinktest"
	"github.com/multieni/multieni/internal/host/pci"
	"github.com/multieni/multieni/internal/host/podcni"
	"github.com/multieni/multieni/internal/host/podlease"
	"github.com/multieni/multieni/test/needs"
)

// shared is the API server of the tests with a cluster.
var shared *cluster.Cluster

// podCluster is a cluster with a real API server, a controller, an agent for each node, Multus and CNI plugins, but no
// kubelets. The nodes are network namespaces on the simulated VPC.
type podCluster struct {
	*testing.T
	*cluster.Cluster
	fabric *fabric.Fabric
	multus string
	// blind is set if agents do not observe the addresses of pods.
	blind bool
}

func newPodCluster(t *testing.T) *podCluster {
	t.Helper()
	return newPodClusterOf(t, awssim.ExampleWorld())
}

// newPodClusterOf is newPodCluster with another AWS account.
func newPodClusterOf(t *testing.T, account awssim.World) *podCluster {
	t.Helper()
	needs.Namespaces(t, fabric.Possible())
	multus, err := assets.Multus(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	w := &podCluster{T: t, multus: multus}
	w.Cluster = clustertest.Join(t, shared, cluster.Options{
		AWS: &awssim.Options{World: account, Behavior: &ec2.Behavior{}, Limits: map[string]awssim.Bucket{}},
	})
	for _, variable := range w.Env() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	if w.fabric, err = fabric.New(w.Simulator); err != nil {
		t.Fatal(err)
	}
	w.run("fabric", w.fabric.Follow)
	t.Cleanup(func() {
		if err := w.fabric.Close(); err != nil {
			t.Errorf("close the fabric: %v", err)
		}
	})
	w.apply(multusDefinition)
	w.removeObjects()
	return w
}

// removeObjects removes the objects that the test before left, with their finalizers, since no controller runs.
func (w *podCluster) removeObjects() {
	w.Helper()
	w.kubectl("", "delete", "pods", "--all", "-n", "upf", "--grace-period=0", "--force")
	const kinds = "nodeenis,networkinterfaces,floatingaddresses"
	for name := range strings.Lines(w.kubectl("", "get", kinds, "-o", "name")) {
		w.kubectl("", "patch", strings.TrimSpace(name), "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
	}
	w.kubectl("", "delete", kinds, "--all", "--timeout=30s")
}

// run runs a part of the cluster until the returned function is called, or the test ends.
func (w *podCluster) run(what string, part func(context.Context) error) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		select {
		case err := <-ended:
			w.Errorf("%s ended before the test: %v", what, err)
			cancel()
			return
		default:
		}
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			w.Errorf("%s: %v", what, err)
		}
	}
	w.Cleanup(stop)
	return stop
}

// control runs a controller with flags.
func (w *podCluster) control(arguments ...string) (stop func()) {
	w.Helper()
	var o options.Controller
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.Bind(flags)
	if err := flags.Parse(arguments); err != nil {
		w.Fatal(err)
	}
	o.MetricsAddress, o.ProbeAddress, o.LeaderElect = "0", "0", false
	if err := o.Validate(); err != nil {
		w.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(w.Output(), nil))
	access := rest.CopyConfig(w.Config)
	access.QPS = -1
	return w.run("controller", func(ctx context.Context) error {
		return cli.RunController(ctx, o, cli.Environment{
			Kubernetes: access, Metrics: prometheus.NewRegistry(), Log: log,
			AWS: func(ctx context.Context, region string) (aws.Config, error) {
				return awsec2.Load(ctx, region, "test", log)
			},
		})
	})
}

// kubectl runs kubectl, and returns what it prints.
func (w *podCluster) kubectl(input string, arguments ...string) string {
	w.Helper()
	command := exec.CommandContext(w.Context(), w.Kubectl, arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig)
	command.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		w.Fatalf("kubectl %s: %v: %s", strings.Join(arguments, " "), err, errs.String())
	}
	return strings.TrimSpace(out.String())
}

func (w *podCluster) apply(manifests string) {
	w.Helper()
	w.kubectl(manifests, "apply", "-f", "-")
}

// worker is a node with its agent.
type worker struct {
	*node
	*podCluster
	name, instance string
	// bootID identifies the boot of the node, and state is the folder of the checkpoint of its agent.
	bootID, state string
	plugins       string // the folder that the runtime looks for plugins in first
	stopAgent     func()
	// cutOff ends the node's connection to the API server.
	cutOff func()
}

// worker makes an instance a node with a network, an agent and a runtime.
func (w *podCluster) worker(name, instance string) *worker {
	w.Helper()
	k := &worker{podCluster: w, name: name, instance: instance, state: w.TempDir(), node: &node{tb: w.T, pods: filepath.Join(w.TempDir(), "pods")}}
	folders, err := programs()
	if err != nil {
		w.Fatal(err)
	}
	k.plugins = k.substitute(folders[0], folders[1])
	k.node.programs = append([]string{k.plugins, w.multus}, folders...)
	w.kubectl("", "label", "node", name, "ng=upf", "name="+name)
	k.boot()
	return k
}

// substitute returns a folder with programs that pass their configuration on to ours and to the plugins of the CNI
// project, with two changes: the environment names the folder of this node, since all nodes of the test share one file
// system, and macvlan replaces ipvlan, which kernels can lack. macvlan differs in the MAC addresses of pods only, and the simulated
// VPC delivers to both.
func (k *worker) substitute(ours, plugins string) (dir string) {
	k.Helper()
	dir = k.TempDir()
	folders := fmt.Sprintf("%s=%s", podcni.PodsVariable, k.node.pods)
	for name, program := range map[string]string{
		"ipvlan": filepath.Join(plugins, "macvlan"), "host-device": filepath.Join(plugins, "host-device"),
		podcni.RoutesName: filepath.Join(ours, podcni.RoutesName),
	} {
		script := fmt.Sprintf("#!/bin/sh\nsed -e 's/\"ipvlan\"/\"macvlan\"/' -e 's/\"mode\": *\"l2\"/\"mode\":\"bridge\"/' | %s %s\n",
			folders, program)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			k.Fatal(err)
		}
	}
	return dir
}

// boot starts the node with a new network namespace, without the files that a boot removes.
func (k *worker) boot() {
	k.Helper()
	if k.stopAgent != nil {
		k.stopAgent()
		k.links.End()
	}
	if err := errors.Join(os.RemoveAll(k.node.pods), os.MkdirAll(k.node.pods, 0o755)); err != nil {
		k.Fatal(err)
	}
	k.bootID = rand.Text()
	k.links = netlinktest.New(k.T)
	k.restart()
	k.reachAPIServer()
	name := func(a *ec2.Attachment) string {
		if a.DeviceIndex == 0 {
			return ""
		}
		return fmt.Sprintf("ens%d", 5+a.DeviceIndex)
	}
	if err := k.fabric.AddNode(fabric.Node{InstanceID: k.instance, Namespace: k.links.Path(), LinkName: name}); err != nil {
		k.Fatal(err)
	}
	k.startAgent()
}

func (k *worker) startAgent() {
	k.Helper()
	api, err := agent.Connect(k.Config, k.name)
	if err != nil {
		k.Fatal(err)
	}
	sysfs := filepath.Join(k.TempDir(), "no-sysfs")
	var host *netlink.Host
	var pods *netlink.PodNetworks
	k.links.Do(func() {
		if host, err = netlink.Open(netlink.Options{Device: k.device, Sysfs: sysfs}); err == nil {
			pods, err = netlink.OpenPodNetworks(k.device)
		}
	})
	if err != nil {
		k.Fatal(err)
	}
	o := agent.Options{
		Node: k.name, API: api, Host: host, PCI: pci.Open(sysfs), Resync: time.Minute, DefaultMTU: 9001,
		PodsDir: k.node.pods, StateDir: k.state, Process: podnet.Process{Boot: k.bootID, ID: rand.Text()}, PodAddresses: pods, Log: slog.New(slog.NewTextHandler(k.Output(), nil)).With("node", k.name),
	}
	if k.blind {
		o.PodAddresses = nil
	}
	leases, err := podlease.OpenWatch(k.node.pods)
	if err != nil {
		k.Fatal(err)
	}
	o.LeaseEvents = leases
	a := agent.New(o)
	stop := k.run("agent of "+k.name, a.Run)
	k.stopAgent = func() {
		stop()
		leases.Close()
		pods.Close()
		host.Close()
	}
}

// reachAPIServer forwards the address of the API server, which is on the loopback link of this process, into the node's namespace.
func (k *worker) reachAPIServer() {
	k.Helper()
	server, err := url.Parse(k.Config.Host)
	if err != nil {
		k.Fatal(err)
	}
	var listener net.Listener
	k.links.Do(func() { listener, err = net.Listen("tcp", server.Host) })
	if err != nil {
		k.Fatal(err)
	}
	k.cutOff = func() { _ = listener.Close() }
	k.Cleanup(k.cutOff)
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(near, server.Host)
		}
	}()
}

// forward copies a connection to and from an address until both sides have ended.
func forward(near net.Conn, address string) {
	defer near.Close()
	far, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer far.Close()
	var copies sync.WaitGroup
	copies.Go(func() { _, _ = io.Copy(far, near); _ = far.(*net.TCPConn).CloseWrite() })
	copies.Go(func() { _, _ = io.Copy(near, far); _ = near.(*net.TCPConn).CloseWrite() })
	copies.Wait()
}

// device returns the address of a simulated interface's device on the PCI bus.
func (w *podCluster) device(_, mac string) string {
	for _, i := range w.Simulator.State().NetworkInterfaces {
		if i.MACAddress == mac && i.Attachment != nil {
			return fmt.Sprintf("0000:00:%02x.0", 5+i.Attachment.DeviceIndex)
		}
	}
	return ""
}

// ready waits until pods can attach to a network.
func (k *worker) ready(network string) {
	k.Helper()
	eventually(k.T, "the file of network "+network+" on "+k.name, func() bool {
		one, err := podlease.Find(k.node.pods, network, podnet.Holder{})
		return err == nil && one.IsOpen()
	})
}

// network reads the file of a network.
func (k *worker) network(network string) podnet.Network {
	k.Helper()
	one, err := podlease.Find(k.node.pods, network, podnet.Holder{})
	if err = errors.Join(err, one.Invalid); err != nil {
		k.Fatal(err)
	}
	return one.Network
}

// prefixes returns the IPv4 prefixes of a network in its file.
func (k *worker) prefixes(network string) []netip.Prefix {
	k.Helper()
	return k.network(network).IPv4.Prefixes
}

// start starts a pod with networks as a kubelet does: an object with the annotation, a sandbox, and one call of Multus.
func (k *worker) start(name, networks string) pod {
	k.Helper()
	p := k.declare(name, networks)
	if err := k.launch(p); err != nil {
		k.Fatalf("start %s: %v", name, err)
	}
	return p
}

// declare creates the object of a pod with networks.
func (k *worker) declare(name, networks string) pod {
	k.Helper()
	k.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: upf, annotations: {k8s.v1.cni.cncf.io/networks: '%s'}}
spec: {nodeName: %s, automountServiceAccountToken: false, containers: [{name: upf, image: registry.example.com/upf}]}`, name, networks, k.name))
	return k.pod(name)
}

// launch sets up a sandbox by one call of Multus. It repeats the call, as kubelets do, if Multus could not read the pod
// in time: Multus allows about a second for that, and a loaded machine can need more.
func (k *worker) launch(p pod) error {
	k.Helper()
	list := k.throughMultus()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		_, err := k.add(list, p, "eth0")
		if err == nil {
			return nil
		}
		if failure := k.end(list, p, "eth0"); failure != nil {
			return errors.Join(err, failure)
		}
		if !strings.Contains(err.Error(), "error waiting for pod") || time.Now().After(deadline) {
			return err
		}
	}
}

// stop ends a pod as a kubelet does.
func (k *worker) stop(p pod) {
	k.Helper()
	k.del(k.throughMultus(), p, "eth0")
	k.kubectl("", "delete", "pod", p.name, "-n", "upf", "--grace-period=0", "--force")
}

// throughMultus is the configuration of Multus, whose default network is a bridge on the node.
func (k *worker) throughMultus() *libcni.NetworkConfigList {
	k.Helper()
	return k.configuration("multus", fmt.Sprintf(`{
		"type": "multus", "kubeconfig": %q, "cniDir": %q, "logToStderr": true, "delegates": [{
			"cniVersion": "1.0.0", "name": "default", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": {
				"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "172.31.0.0/24"}]]}}]}]}`,
		k.Kubeconfig, filepath.Join(k.plugins, "multus"), filepath.Join(k.plugins, "host-local")))
}

// addressesOf returns the addresses of a pod in a network, IPv4 first.
func (k *worker) addressesOf(p pod, network string) []netip.Addr {
	k.Helper()
	var all []netip.Addr
	for _, l := range k.read(network) {
		if l.InUse() && l.Pod == p.name {
			all = append(all, l.Address)
		}
	}
	if len(all) == 2 && all[0].Is6() {
		all[0], all[1] = all[1], all[0]
	}
	return all
}

func (w *podCluster) ping(from, to pod, at []netip.Addr) {
	w.Helper()
	if len(at) == 0 {
		w.Errorf("%s has no address", to.name)
	}
	for _, address := range at {
		if !from.pings(w.T, address) {
			w.Errorf("%s gets no answer from %s of %s", from.name, address, to.name)
		}
	}
}
