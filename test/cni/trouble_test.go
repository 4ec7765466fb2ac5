// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/test/size"
)

const (
	namespaceUPF = `
apiVersion: v1
kind: Namespace
metadata: {name: upf}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: upf}
---
`
	// growing is NodeENI n3 with a minimum and a maximum number of prefixes, and a number of spare addresses.
	growing = namespaceUPF + `
apiVersion: networking.k8s.aws/v1alpha1
kind: NodeENI
metadata: {name: n3}
spec:
  nodeSelector: {ng: upf}
  subnetIDs: [` + subnetA + `, ` + subnetB + `]
  securityGroupIDs: [sg-05da196f3314d4af8]
  pods:
    namespaces: [upf]
    ipv4: {prefixes: {min: %d, max: %d}, spare: 8}
    routes: [{to: 10.0.64.0/18}]
`
	perPrefix = 16
)

// declare declares a network, and waits until pods can attach to it.
func (w *podCluster) declare(manifests string) {
	w.Helper()
	w.apply(manifests)
	w.kubectl("", "wait", "nodeeni", "--all", "--for=condition=Ready", "--timeout=60s")
	w.kubectl("", "wait", "nodeeni", "--all", "--for=condition=PodNetworkReady", "--timeout=60s")
}

// pods creates objects and sandboxes of pods with network n3.
func (k *worker) pods(count int) []pod {
	k.Helper()
	var all []pod
	var manifests strings.Builder
	for n := range count {
		p := k.pod(fmt.Sprintf("upf-%d", n))
		all = append(all, p)
		fmt.Fprintf(&manifests, `
---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: upf, annotations: {k8s.v1.cni.cncf.io/networks: n3}}
spec: {nodeName: %s, automountServiceAccountToken: false, containers: [{name: upf, image: registry.example.com/upf}]}`, p.name, k.name)
	}
	k.kubectl(manifests.String(), "create", "-f", "-")
	return all
}

// attempt starts the pods concurrently, as a runtime with several workers does, and returns those that do not start,
// with their errors.
func (k *worker) attempt(pods []pod) (left []pod, failures []error) {
	k.Helper()
	const workers = 8
	var all errgroup.Group
	var lock sync.Mutex
	all.SetLimit(workers)
	for _, p := range pods {
		all.Go(func() error {
			if err := k.launch(p); err != nil {
				lock.Lock()
				defer lock.Unlock()
				left, failures = append(left, p), append(failures, err)
			}
			return nil
		})
	}
	_ = all.Wait()
	return left, failures
}

// refused fails unless Multus reports the error of multieni-ipam for one pod: the code "try again later", and the parts
// of its text.
func refused(t *testing.T, failures []error, parts ...string) {
	t.Helper()
	if len(failures) != 1 {
		t.Fatalf("%d pods do not start, want one: %v", len(failures), failures)
	}
	for _, part := range append(parts, "NodeENI n3", "node-a1") {
		if !strings.Contains(failures[0].Error(), part) {
			t.Errorf("the error of the pod lacks %q: %v", part, failures[0])
		}
	}
}

// haveAddresses fails unless each of the pods has one IPv4 address of network n3, and no other pod has it.
func (k *worker) haveAddresses(pods []pod) {
	k.Helper()
	holders := map[netip.Addr]string{}
	for _, p := range pods {
		at := k.addressesOf(p, "n3")
		if len(at) != 1 {
			k.Errorf("%s has the addresses %v, want one", p.name, at)
			continue
		}
		if other := holders[at[0]]; other != "" {
			k.Errorf("%s and %s have %v", other, p.name, at[0])
		}
		holders[at[0]] = p.name
		if link := p.links.IP("-4 -o address show dev net1"); !strings.Contains(link, " "+at[0].String()+"/") {
			k.Errorf("the lease of %s is %v, its link has %s", p.name, at[0], link)
		}
	}
}

// While EC2 throttles, pods get the addresses that the node has. The first pod without one starts after the throttling.
func TestPodsWhileEC2ThrottlesTheGrowth(t *testing.T) {
	size.NeedsAll(t, "EC2 throttles for a minute")
	w := newPodCluster(t)
	w.control()
	a, b := w.worker("node-a1", instanceA), w.worker("node-b1", instanceB)
	w.declare(fmt.Sprintf(growing, 1, 2))
	throttle, err := w.Simulator.AddFault(fault.Fault{Kind: fault.Throttle, Action: "AssignPrivateIpAddresses"})
	if err != nil {
		t.Fatal(err)
	}
	peer := b.start("peer", "n3")
	pods := a.pods(perPrefix + 1)
	left, failures := a.attempt(pods)
	refused(t, failures, "1 of at most 2 prefixes", "kubectl eni why node-a1")
	eventually(t, "a throttled call", func() bool {
		return w.Simulator.Calls().Actions["AssignPrivateIpAddresses"].Throttled > 0
	})
	w.Simulator.RemoveFault(throttle.ID)
	eventually(t, "the second prefix", func() bool { return len(a.prefixes("n3")) == 2 })
	if _, failures := a.attempt(left); len(failures) > 0 {
		t.Fatal(failures)
	}
	a.haveAddresses(pods)
	w.ping(peer, left[0], a.addressesOf(left[0], "n3"))
}

// EC2 refuses the growth in a subnet without a free /28. The error of the pod and the conditions say so, and the pod
// starts once another user of the subnet has released a block.
func TestPodsWhileTheSubnetIsFull(t *testing.T) {
	size.NeedsAll(t, "its pods wait two minutes for a subnet")
	account := awssim.ExampleWorld()
	for i := range account.Subnets {
		if account.Subnets[i].SubnetID == subnetA {
			account.Subnets[i].CIDRBlock = netip.MustParsePrefix("10.0.64.0/26")
		}
	}
	w := newPodClusterOf(t, account)
	stopController := w.control()
	a, b := w.worker("node-a1", instanceA), w.worker("node-b1", instanceB)
	w.declare(fmt.Sprintf(growing, 1, 2))
	others := sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://ec2.test"), HTTPClient: &http.Client{Transport: w.Simulator.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	subnet := subnetA
	taken, err := others.CreateNetworkInterface(t.Context(), &sdk.CreateNetworkInterfaceInput{SubnetId: &subnet, Ipv4PrefixCount: aws.Int32(1)})
	if err != nil {
		t.Fatal(err)
	}
	peer := b.start("peer", "n3")
	pods := a.pods(perPrefix + 1)
	left, failures := a.attempt(pods)
	refused(t, failures, "1 of at most 2 prefixes", "kubectl eni why node-a1")
	w.kubectl("", "wait", "nodeeni", "n3", "--for=jsonpath={.status.conditions[?(@.type=='Ready')].reason}=NoFreePrefix", "--timeout=60s")
	message := w.kubectl("", "get", "nodeeni", "n3", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].message}")
	for _, part := range []string{"node-a1", "InsufficientCidrBlocks", "declare a prefix reservation", "kubectl eni subnets"} {
		if !strings.Contains(message, part) {
			t.Errorf("the condition Ready lacks %q: %s", part, message)
		}
	}
	if _, err := others.DeleteNetworkInterface(t.Context(), &sdk.DeleteNetworkInterfaceInput{
		NetworkInterfaceId: taken.NetworkInterface.NetworkInterfaceId,
	}); err != nil {
		t.Fatal(err)
	}
	stopController() // the next one tries at once, this one within ten minutes
	w.control()
	eventually(t, "the second prefix", func() bool { return len(a.prefixes("n3")) == 2 })
	if _, failures := a.attempt(left); len(failures) > 0 {
		t.Fatal(failures)
	}
	w.ping(peer, left[0], a.addressesOf(left[0], "n3"))
}

// All pods but one get an address of their own while the prefixes grow to their limit.
func TestAllPodsStartAtOnceThroughMultus(t *testing.T) {
	size.NeedsAll(t, "it starts all pods of a node")
	first := size.Of(1, 1, 12)
	last := first + 1
	w := newPodCluster(t)
	w.control()
	a := w.worker("node-a1", instanceA)
	w.declare(fmt.Sprintf(growing, first, last))
	pods := a.pods(last*perPrefix + 1)
	left, _ := a.attempt(pods)
	eventually(t, "the last prefix", func() bool { return len(a.prefixes("n3")) == last })
	left, failures := a.attempt(left)
	refused(t, failures, fmt.Sprintf("%d of at most %d prefixes", last, last), "raise spec.pods.ipv4.prefixes.max")
	var started []pod
	for _, p := range pods {
		if p != left[0] {
			started = append(started, p)
		}
	}
	a.haveAddresses(started)
}
