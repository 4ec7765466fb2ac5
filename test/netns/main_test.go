// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package netns_test runs agents in real network namespaces, against a real API server: from a declared interface to a
// node that accepts pods, and back.
package netns_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-logr/logr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/config/crd"
	"github.com/multieni/multieni/internal/controller/readiness"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/internal/host/netlink"
	"github.com/multieni/multieni/internal/host/netlink/netlinktest"
)

// server is started once for all tests of the package; each test has nodes of its own. It is nil without root, so every
// test checks for root first.
var server *envtest.Environment

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	if os.Geteuid() != 0 {
		return m.Run()
	}
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = errors.Join(server.Stop(), os.RemoveAll(filepath.Dir(auditLog()))) }()
	return m.Run()
}

// auditPolicy makes the API server log every request once it is answered.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}`

// auditLog is the file to which the API server logs requests.
func auditLog() string {
	return server.ControlPlane.GetAPIServer().Configure().Get("audit-log-path").Get(nil)[0]
}

func start() error {
	programs, err := assets.Dir(context.Background(), os.Stderr)
	if err != nil {
		return err
	}
	definitions, err := crd.Definitions()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "multieni-netns-*")
	if err != nil {
		return err
	}
	policy := filepath.Join(dir, "policy.json")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	server = &envtest.Environment{BinaryAssetsDirectory: programs, CRDs: definitions, ControlPlaneStartTimeout: 2 * time.Minute}
	server.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", filepath.Join(dir, "audit.log"))
	if _, err := server.Start(); err != nil {
		return fmt.Errorf("start an API server: %w", err)
	}
	return nil
}

// node is a node with its namespace, its objects and its agent.
type node struct {
	*netlinktest.Namespace
	t      *testing.T
	name   string
	client client.Client
	// eyes read the network independently of the agent.
	eyes *netlink.Host
	vpc  *netlinktest.Namespace
	// looks counts the agent's reads of the network, changes its changes.
	looks, changes atomic.Int64
	// readOnly are the settings that the agent cannot change.
	readOnly []hostnet.Setting
	// stopAgent ends the agent, if it runs.
	stopAgent func()
	// configure, if set, changes the agent's options.
	configure func(*agent.Options)
}

// counted is a host that counts its calls.
type counted struct {
	*netlink.Host
	n *node
}

func (c counted) Facts(devices []string) (hostnet.Facts, error) {
	facts, err := c.Host.Facts(devices)
	c.n.looks.Add(1)
	return facts, err
}

func (c counted) Apply(op hostnet.Operation) error {
	c.n.changes.Add(1)
	return c.Host.Apply(op)
}

// newNode makes a node and starts its agent.
func newNode(t *testing.T, name string, reapply bool) *node {
	t.Helper()
	n := newNamespaces(t, name, reapply)
	n.startAgent()
	return n
}

// startReadiness runs the readiness controller for this node until the test ends.
func (n *node) startReadiness(reapply bool) {
	n.t.Helper()
	byName := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", n.name)}
	mgr, err := ctrl.NewManager(server.Config, ctrl.Options{
		Scheme: n.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache:      cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: byName, &v1alpha1.NodeENIState{}: byName}},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	r := readiness.New(readiness.Options{
		Client: mgr.GetClient(), Taint: v1alpha1.NotReadyTaint, ReapplyTaint: reapply, Concurrency: 1, Now: time.Now,
	})
	if err := r.SetupWithManager(mgr); err != nil {
		n.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	n.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			n.t.Errorf("the readiness controller of %s ended: %v", n.name, err)
		}
	})
}

// newNamespaces makes a node that registered with the startup taint, and starts the controller that reports on it.
func newNamespaces(t *testing.T, name string, reapply bool) *node {
	t.Helper()
	n := &node{t: t, name: name, Namespace: netlinktest.New(t), vpc: netlinktest.New(t)}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if n.client, err = client.New(server.Config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{ProviderID: "aws:///us-west-2a/i-0123456789abcdef0", Taints: []corev1.Taint{
			{Key: v1alpha1.NotReadyTaint, Effect: corev1.TaintEffectNoSchedule}, {Key: "dedicated", Value: "telco", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
	if err := n.client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	n.eyes = n.open()
	n.startReadiness(reapply)
	return n
}

func (n *node) open() *netlink.Host {
	var host *netlink.Host
	var err error
	sysfs := n.t.TempDir()
	n.Do(func() { host, err = netlink.Open(netlink.Options{Device: device, Sysfs: sysfs}) })
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(host.Close)
	return host
}

// device makes the links that represent interfaces look like physical ones.
func device(name, mac string) string {
	if strings.HasPrefix(mac, "02:") && !strings.HasPrefix(name, "pod") {
		return "0000:00:" + mac[15:] + ".0"
	}
	return ""
}

func (n *node) startAgent() {
	n.t.Helper()
	api, err := agent.Connect(server.Config, n.name)
	if err != nil {
		n.t.Fatal(err)
	}
	options := agent.Options{
		Node: n.name, API: api, Host: counted{n.open(), n},
		Resync: 500 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
	if n.configure != nil {
		n.configure(&options)
	}
	a := agent.New(options)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	n.stopAgent = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			n.t.Errorf("the agent of %s ended: %v", n.name, err)
		}
	})
	n.t.Cleanup(n.stopAgent)
}

// promise writes the state as the controller does: the node's interfaces, as EC2 has them.
func (n *node) promise(interfaces ...v1alpha1.InterfaceState) {
	n.t.Helper()
	state := &v1alpha1.NodeENIState{}
	err := n.client.Get(n.t.Context(), client.ObjectKey{Name: n.name}, state)
	if client.IgnoreNotFound(err) != nil {
		n.t.Fatal(err)
	}
	if err != nil {
		state = &v1alpha1.NodeENIState{
			ObjectMeta: metav1.ObjectMeta{Name: n.name},
			Spec:       v1alpha1.NodeENIStateSpec{InstanceID: "i-0123456789abcdef0", Zone: "us-west-2a"},
		}
		for _, i := range interfaces {
			state.Spec.Members = append(state.Spec.Members, i.Member)
		}
		if err := n.client.Create(n.t.Context(), state); err != nil {
			n.t.Fatal(err)
		}
	}
	state.Status = v1alpha1.NodeENIStateStatus{ObservedGeneration: state.Generation, Interfaces: interfaces}
	if err := status.Write(n.t.Context(), n.client, v1alpha1.FieldOwnerController, state); err != nil {
		n.t.Fatal(err)
	}
}

// becomes waits until check returns "", and returns how long that took.
func (n *node) becomes(within time.Duration, check func(*corev1.Node, *v1alpha1.NodeENIState) string) time.Duration {
	n.t.Helper()
	begin := time.Now()
	for {
		object, state := &corev1.Node{}, &v1alpha1.NodeENIState{}
		if err := n.client.Get(n.t.Context(), client.ObjectKey{Name: n.name}, object); err != nil {
			n.t.Fatal(err)
		}
		if err := n.client.Get(n.t.Context(), client.ObjectKey{Name: n.name}, state); client.IgnoreNotFound(err) != nil {
			n.t.Fatal(err)
		}
		wrong := check(object, state)
		if wrong == "" {
			return time.Since(begin)
		}
		if time.Since(begin) > within {
			n.t.Fatalf("%s: after %s %s\nconditions: %+v\nlinks: %+v\ntaints: %v", n.name, within, wrong, object.Status.Conditions, state.Status.Links, object.Spec.Taints)
		}
		time.Sleep(5 * time.Millisecond) // it waits for the state of the world, not of our code
	}
}

// interfaceOf returns an interface of NodeENI web as EC2 has it.
func interfaceOf(n int, phase v1alpha1.Phase) v1alpha1.InterfaceState {
	return v1alpha1.InterfaceState{
		Member: v1alpha1.Member{NodeENI: "web", NodeENIUID: "7d2f0f5e", Ordinal: int32(n - 1)},
		Phase:  phase, ENIID: fmt.Sprintf("eni-%017x", n), MACAddress: mac(n), PrivateIP: fmt.Sprintf("10.0.1.%d", 10*n),
		SubnetID: "subnet-0f59b4f14737be9ad", SubnetCIDR: "10.0.1.0/24", DeviceIndex: int32(n), AddressMode: v1alpha1.AddressPrimary,
	}
}

func mac(n int) string { return fmt.Sprintf("02:00:00:00:00:%02x", n) }
