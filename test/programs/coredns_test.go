// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package programs_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/config/crd"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/controller/podservice"
	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/test/size"
)

// The objects of a cluster with two pods of a StatefulSet on network n3, and one more.
const (
	namesObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: upf}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: upf}
---
apiVersion: v1
kind: Node
metadata: {name: node-a}
---
apiVersion: networking.k8s.aws/v1alpha1
kind: NetworkInterface
metadata: {name: n3-i-0123456789abcdef0-0}
spec:
  instanceID: i-0123456789abcdef0
  zone: us-east-1a
  ordinal: 0
  origin: Declared
  nodeName: node-a
  nodeENI: {name: n3, uid: uid-n3, generation: 1}
  slot: {networkCardIndex: 0, deviceIndex: 1}
  sourceDestCheck: true
  required: true
  pods: {attachment: IPVLAN}
status:
  eniID: eni-0000000000000000a
  evidence: Created
  pods: {prefixes: [10.0.64.16/28]}
`
	namesPod = `
apiVersion: v1
kind: Pod
metadata:
  name: upf-%[1]d
  namespace: upf
  labels: {app: upf}
  annotations:
    k8s.v1.cni.cncf.io/network-status: '[{"name":"upf/n3","interface":"net1","ips":["%[2]s"]}]'
spec:
  nodeName: node-a
  hostname: upf-%[1]d
  subdomain: upf
  containers: [{name: upf, image: upf}]
status:
  phase: Running
  podIP: 10.0.1.7
  podIPs: [{ip: 10.0.1.7}]
  conditions: [{type: Ready, status: "%[3]s"}]
`
	namesVirtual = `
apiVersion: v1
kind: Service
metadata:
  name: upf-n3-vip
  namespace: upf
  annotations: {networking.k8s.aws/pod-network: n3, networking.k8s.aws/pod-selector: app=upf}
spec: {clusterIP: 10.0.0.77, ports: [{name: pfcp, port: 8805, protocol: UDP}]}
`
)

// headlessOnPage returns the headless Service of docs/pod-networks.md.
func headlessOnPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/pod-networks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if strings.Contains(block, "kind: Service\n") && strings.Contains(block, "clusterIP: None") {
			return block
		}
	}
	t.Fatal("docs/pod-networks.md has no headless Service")
	return ""
}

// CoreDNS answers with the addresses that pods have on a pod network.
func TestCoreDNSAnswersWithPodNetworks(t *testing.T) {
	size.NeedsAll(t, "CoreDNS takes a minute to build")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	program, kubeconfig := filepath.Join(t.TempDir(), "coredns"), filepath.Join(t.TempDir(), "kubeconfig")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "coredns", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	programs, err := assets.Dir(t.Context(), os.Stderr)
	must(err)
	definitions, err := crd.Definitions()
	must(err)
	cluster := &envtest.Environment{BinaryAssetsDirectory: programs, CRDs: definitions}
	access, err := cluster.Start()
	must(err)
	t.Cleanup(func() { _ = cluster.Stop() })
	must(os.WriteFile(kubeconfig, cluster.KubeConfig, 0o600))
	scheme := runtime.NewScheme()
	must(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	api, err := client.New(access, client.Options{Scheme: scheme})
	must(err)
	create := func(into client.Object, manifest string) {
		t.Helper()
		must(yaml.UnmarshalStrict([]byte(manifest), into))
		status := into.DeepCopyObject().(client.Object)
		must(api.Create(t.Context(), into))
		status.SetResourceVersion(into.GetResourceVersion())
		if _, is := into.(*corev1.Service); !is {
			_ = api.Status().Update(t.Context(), status) // kinds without a status have no such part
		}
	}
	objects := strings.Split(namesObjects, "---")
	for n, into := range []client.Object{&corev1.Namespace{}, &corev1.ServiceAccount{}, &corev1.Node{}, &v1alpha1.NetworkInterface{}} {
		create(into, objects[n])
	}
	create(&corev1.Service{}, headlessOnPage(t))
	create(&corev1.Service{}, namesVirtual)
	for n, p := range []struct{ address, ready string }{{"10.0.64.17", "True"}, {"10.0.64.18", "True"}, {"10.0.64.19", "False"}, {"10.0.9.9", "True"}} {
		create(&corev1.Pod{}, fmt.Sprintf(namesPod, n, p.address, p.ready))
	}
	writer, err := discoveryclient.NewForConfig(access)
	must(err)
	// The reconciler finds interfaces by an index of the cache.
	cached, err := cache.New(access, cache.Options{Scheme: scheme})
	must(err)
	must(object.Index(t.Context(), cached))
	go func() { _ = cached.Start(t.Context()) }()
	reads, err := client.New(access, client.Options{Scheme: scheme, Cache: &client.CacheOptions{Reader: cached}})
	must(err)
	reconciler := podservice.New(podservice.Options{
		Client: reads, Slices: writer, Events: events.NewFakeRecorder(10), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	for _, name := range []string{"upf-n3", "upf-n3-vip"} {
		_, err := reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "upf", Name: name}})
		must(err)
	}

	server := startCoreDNS(t, program, kubeconfig)
	host := func(name string) func(context.Context) ([]string, error) {
		return func(ctx context.Context) ([]string, error) { return server.LookupHost(ctx, name) }
	}
	for name, c := range map[string]struct {
		ask  func(context.Context) ([]string, error)
		want []string // none: there is no such name
	}{
		"the headless name":                       {host("upf-n3.upf.svc.cluster.local."), []string{"10.0.64.17", "10.0.64.18"}},
		"a pod's name":                            {host("upf-1.upf-n3.upf.svc.cluster.local."), []string{"10.0.64.18"}},
		"a pod that is not ready":                 {host("upf-2.upf-n3.upf.svc.cluster.local."), nil},
		"a pod with an address of no network":     {host("upf-3.upf-n3.upf.svc.cluster.local."), nil},
		"the name of a Service with a cluster IP": {host("upf-n3-vip.upf.svc.cluster.local."), []string{"10.0.0.77"}},
		"a port by its name": {func(ctx context.Context) (ports []string, err error) {
			_, records, err := server.LookupSRV(ctx, "pfcp", "udp", "upf-n3.upf.svc.cluster.local.")
			for _, record := range records {
				ports = append(ports, fmt.Sprintf("%d %s", record.Port, record.Target))
			}
			return ports, err
		}, []string{"8805 upf-0.upf-n3.upf.svc.cluster.local.", "8805 upf-1.upf-n3.upf.svc.cluster.local."}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.ask(t.Context())
			missing := new(net.DNSError)
			if errors.As(err, &missing) && missing.IsNotFound {
				err = nil
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("the answer (-want +got):\n%s\n%v", diff, err)
			}
		})
	}
}

// startCoreDNS runs CoreDNS, and returns a resolver that asks it.
func startCoreDNS(t *testing.T, program, kubeconfig string) *net.Resolver {
	t.Helper()
	server := exec.CommandContext(t.Context(), program, "127.0.0.1:0")
	server.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	var logs bytes.Buffer
	server.Stderr = &logs
	ends, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	says, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ends.Close()
		_ = server.Wait()
	})
	address, err := bufio.NewReader(says).ReadString('\n')
	if err != nil {
		t.Fatalf("CoreDNS does not start: %v\n%s", err, logs.String())
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.TrimSpace(address))
	}}
}
