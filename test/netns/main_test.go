// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package netns_test runs agents in real network namespaces, against a real API server: from a declared interface to a
// link that is ready, and back.
package netns_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/go-logr/logr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/config/crd"
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
	// instance is the EC2 instance of the node, and pods the folder that the agent shares with the CNI program.
	instance, pods string
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
func newNode(t *testing.T, name string) *node {
	t.Helper()
	n := newNamespaces(t, name)
	n.startAgent()
	return n
}

// newNamespaces makes a node that has registered.
func newNamespaces(t *testing.T, name string) *node {
	t.Helper()
	n := &node{t: t, name: name, instance: fmt.Sprintf("i-%017x", instances.Add(1)), Namespace: netlinktest.New(t),
		vpc: netlinktest.New(t), pods: filepath.Join(t.TempDir(), "run", "pods")}
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
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-west-2a/" + n.instance},
	}
	if err := n.client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	n.eyes = n.open()
	return n
}

// instances numbers the instances: the nodes of all tests share one API server.
var instances atomic.Int64

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
		Resync: 500 * time.Millisecond, PodsDir: n.pods, Log: slog.New(slog.DiscardHandler),
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

// promise makes the objects of the node as the controllers do: the given interfaces, as EC2 has them, and no others.
func (n *node) promise(interfaces ...*v1alpha1.NetworkInterface) {
	n.t.Helper()
	names := map[string]bool{}
	for _, want := range interfaces {
		want = n.named(want)
		names[want.Name] = true
		n.write(want)
	}
	n.tell(slices.Sorted(maps.Keys(names))...)
	for _, object := range n.objects() {
		if !names[object.Name] {
			n.forget(object.Name)
		}
	}
}

// tell writes the names of the objects into the Node, as the controller does.
func (n *node) tell(names ...string) {
	n.t.Helper()
	object := &corev1.Node{}
	if err := n.client.Get(n.t.Context(), client.ObjectKey{Name: n.name}, object); err != nil {
		n.t.Fatal(err)
	}
	before := object.DeepCopy()
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.NetworkInterfacesAnnotation, strings.Join(names, ","))
	if err := n.client.Status().Patch(n.t.Context(), object, client.MergeFrom(before)); err != nil {
		n.t.Fatal(err)
	}
}

// named returns an interface with its name and its instance.
func (n *node) named(i *v1alpha1.NetworkInterface) *v1alpha1.NetworkInterface {
	i = i.DeepCopy()
	i.Name = fmt.Sprintf("%s-%s-%d", i.Spec.NodeENI.Name, n.instance, i.Spec.Ordinal)
	i.Labels = map[string]string{v1alpha1.InstanceLabel: n.instance}
	i.Finalizers = []string{v1alpha1.InterfaceFinalizer}
	i.Spec.InstanceID, i.Spec.Zone, i.Spec.NodeName, i.Spec.Origin = n.instance, "us-west-2a", n.name, v1alpha1.OriginDeclared
	return i
}

// write creates an object or changes its spec, and writes all of its status but the agent's part.
func (n *node) write(want *v1alpha1.NetworkInterface) {
	n.t.Helper()
	object := &v1alpha1.NetworkInterface{}
	err := n.client.Get(n.t.Context(), client.ObjectKeyFromObject(want), object)
	if client.IgnoreNotFound(err) != nil {
		n.t.Fatal(err)
	}
	if err != nil {
		object = want.DeepCopy()
		err = n.client.Create(n.t.Context(), object)
	} else {
		before := object.DeepCopy()
		object.Spec = want.Spec
		err = n.client.Patch(n.t.Context(), object, client.MergeFrom(before))
	}
	if err == nil {
		before := object.DeepCopy()
		node := object.Status.Node
		object.Status = want.Status
		object.Status.Node = node
		err = n.client.Status().Patch(n.t.Context(), object, client.MergeFrom(before))
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// order orders the removal of an interface. Its object stays until release.
func (n *node) order(i *v1alpha1.NetworkInterface) {
	n.t.Helper()
	if err := n.client.Delete(n.t.Context(), n.named(i)); err != nil {
		n.t.Fatal(err)
	}
}

// forget tears an object away: its finalizer goes first, so no agent sees an order.
func (n *node) forget(name string) {
	n.t.Helper()
	object := &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: name}}
	finalizers := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := n.client.Patch(n.t.Context(), object, finalizers); client.IgnoreNotFound(err) != nil {
		n.t.Fatal(err)
	}
	if err := n.client.Delete(n.t.Context(), object); client.IgnoreNotFound(err) != nil {
		n.t.Fatal(err)
	}
}

// objects returns the objects of the node, by name.
func (n *node) objects() []v1alpha1.NetworkInterface {
	n.t.Helper()
	var list v1alpha1.NetworkInterfaceList
	if err := n.client.List(n.t.Context(), &list, client.MatchingLabels{v1alpha1.InstanceLabel: n.instance}); err != nil {
		n.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.NetworkInterface) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// becomes waits until check returns "", and returns how long that took.
func (n *node) becomes(within time.Duration, check func([]v1alpha1.NetworkInterface) string) time.Duration {
	n.t.Helper()
	begin := time.Now()
	for {
		objects := n.objects()
		wrong := check(objects)
		if wrong == "" {
			return time.Since(begin)
		}
		if time.Since(begin) > within {
			var reports []string
			for _, object := range objects {
				reports = append(reports, fmt.Sprintf("%s: %+v, %+v", object.Name, object.Status.Node, reportOf(&object)))
			}
			n.t.Fatalf("%s: after %s %s\n%s", n.name, within, wrong, strings.Join(reports, "\n"))
		}
		time.Sleep(5 * time.Millisecond) // it waits for the state of the world, not of our code
	}
}

// reportOf returns the link of an object, as its agent reported it; the zero value for none.
func reportOf(object *v1alpha1.NetworkInterface) v1alpha1.LinkReport {
	if object.Status.Node == nil || object.Status.Node.Link == nil {
		return v1alpha1.LinkReport{}
	}
	return *object.Status.Node.Link
}

// attached returns an interface of NodeENI web as EC2 has it.
func attached(n int) *v1alpha1.NetworkInterface {
	i := &v1alpha1.NetworkInterface{}
	i.Spec = v1alpha1.NetworkInterfaceSpec{
		NodeENI: v1alpha1.NodeENIReference{Name: "web"}, Ordinal: int32(n - 1), Slot: v1alpha1.InterfaceSlot{DeviceIndex: int32(n)},
		Subnets: []v1alpha1.InterfaceSubnet{{ID: "subnet-0f59b4f14737be9ad", CIDR: "10.0.1.0/24"}},
		Link:    &v1alpha1.LinkSettings{AddressMode: v1alpha1.AddressPrimary},
	}
	i.Status = v1alpha1.NetworkInterfaceStatus{
		ENIID: fmt.Sprintf("eni-%017x", n), MACAddress: mac(n), SubnetID: "subnet-0f59b4f14737be9ad", Evidence: v1alpha1.EvidenceCreated,
		Slot: &v1alpha1.InterfaceSlot{DeviceIndex: int32(n)}, Addresses: v1alpha1.InterfaceAddresses{PrivateIP: fmt.Sprintf("10.0.1.%d", 10*n)},
	}
	return i
}

// declared returns an interface of NodeENI web that EC2 does not have yet.
func declared(n int) *v1alpha1.NetworkInterface {
	i := attached(n)
	i.Status = v1alpha1.NetworkInterfaceStatus{}
	return i
}

func mac(n int) string { return fmt.Sprintf("02:00:00:00:00:%02x", n) }
