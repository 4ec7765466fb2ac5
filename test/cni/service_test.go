// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/multieni/multieni/test/size"
)

// TestAServiceLeadsToItsPods publishes pods that Multus attached, and connects to them by the name of the Service.
func TestAServiceLeadsToItsPods(t *testing.T) {
	size.NeedsAll(t, "CoreDNS takes a minute to build")
	w := newPodCluster(t)
	w.control("--pod-services")
	a, b := w.worker("node-a1", instanceA), w.worker("node-b1", instanceB)
	w.apply(podNetworks)
	w.apply(serviceN3)
	w.kubectl("", "wait", "nodeeni", "--all", "--for=condition=PodNetworkReady", "--timeout=60s")
	client, server := a.start("client", "n3"), b.start("upf-0", "n3")
	w.kubectl("", "label", "pod", "upf-0", "-n", "upf", "app=upf")
	at := b.addressesOf(server, "n3")[:1]
	server.serves(t, at[0])
	resolver := a.resolver(client)

	w.kubectl("", "wait", "endpointslices", "-n", "upf", "-l", "kubernetes.io/service-name=upf-n3", "--for=jsonpath={.endpoints[0].addresses[0]}="+at[0].String(), "--timeout=60s")
	if found := lookUp(t, resolver); len(found) > 0 {
		t.Errorf("a pod that is not ready has the name: %v", found)
	}
	w.kubectl("", "patch", "pod", "upf-0", "-n", "upf", "--subresource=status", "-p", `{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`)
	eventually(t, "an answer with the address of the pod", func() bool { return slices.Equal(lookUp(t, resolver), at) })
	if said, err := client.reads(t, at[0]); err != nil || said != "upf-0" {
		t.Errorf("the other end says %q: %v", said, err)
	}

	b.stop(server)
	eventually(t, "the end of the name", func() bool { return len(lookUp(t, resolver)) == 0 })
}

// nameN3 is the name of the Service.
const nameN3 = "upf-n3.upf.svc.cluster.local."

const serviceN3 = `
apiVersion: v1
kind: Service
metadata:
  name: upf-n3
  namespace: upf
  annotations: {networking.k8s.aws/pod-network: n3, networking.k8s.aws/pod-selector: app=upf}
spec: {clusterIP: None, ipFamilyPolicy: SingleStack, ipFamilies: [IPv4], ports: [{name: http, port: 8080}]}
`

// serves makes the pod answer connections at an address with its name.
func (p pod) serves(t *testing.T, at netip.Addr) {
	t.Helper()
	var listener net.Listener
	var err error
	p.links.Do(func() { listener, err = net.Listen("tcp", netip.AddrPortFrom(at, 8080).String()) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(connection, p.name)
			_ = connection.Close()
		}
	}()
}

// reads returns what the other end of a connection from the pod says.
func (p pod) reads(t *testing.T, from netip.Addr) (string, error) {
	t.Helper()
	var connection net.Conn
	var err error
	p.links.Do(func() { connection, err = net.DialTimeout("tcp", netip.AddrPortFrom(from, 8080).String(), time.Minute) })
	if err != nil {
		return "", err
	}
	defer connection.Close()
	said, err := io.ReadAll(connection)
	return string(said), err
}

// lookUp returns the addresses that a resolver finds for the name of the Service.
func lookUp(t *testing.T, resolver *net.Resolver) []netip.Addr {
	t.Helper()
	found, err := resolver.LookupNetIP(t.Context(), "ip4", nameN3)
	if missing := new(net.DNSError); err != nil && (!errors.As(err, &missing) || !missing.IsNotFound) {
		t.Errorf("the name cannot be looked up: %v", err)
	}
	return found
}

// bridgeAddress is the address of the node on the bridge of its pods.
const bridgeAddress = "172.31.0.1"

// resolver runs CoreDNS on the node, and returns a resolver for a pod of the node.
func (k *worker) resolver(of pod) *net.Resolver {
	k.Helper()
	address := k.coreDNS("0")
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (connection net.Conn, err error) {
		of.links.Do(func() { connection, err = new(net.Dialer).DialContext(ctx, network, address) })
		return connection, err
	}}
}

// coreDNS runs CoreDNS on the bridge of the node, where its pods reach it, and returns its address.
func (k *worker) coreDNS(port string) string {
	k.Helper()
	program := filepath.Join(k.TempDir(), "coredns")
	build := exec.CommandContext(k.Context(), "go", "build", "-C", "../programs/coredns", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		k.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	server := exec.CommandContext(k.Context(), program, net.JoinHostPort(bridgeAddress, port))
	server.Env = append(os.Environ(), "KUBECONFIG="+k.Kubeconfig)
	var logs bytes.Buffer
	server.Stderr = &logs
	ends, err := server.StdinPipe()
	if err != nil {
		k.Fatal(err)
	}
	says, err := server.StdoutPipe()
	if err != nil {
		k.Fatal(err)
	}
	k.links.Do(func() { err = server.Start() })
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() {
		_ = ends.Close()
		_ = server.Wait()
	})
	address, err := bufio.NewReader(says).ReadString('\n')
	if err != nil {
		k.Fatalf("CoreDNS does not start: %v\n%s", err, logs.String())
	}
	return strings.TrimSpace(address)
}
