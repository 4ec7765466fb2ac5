// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podhost

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/podaddress"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/internal/host/podlease"
)

// Pod is a running pod with a link on an interface.
type Pod struct {
	Name, Network string
	// ENI is the interface, and Address the address that the pod got.
	ENI     string
	Address netip.Addr
	// asked is set if the pod asked for its address, which then moves with it.
	asked bool
	// brought are the addresses that the pod brought up itself.
	brought []netip.Addr
	mac     string
	number  int
}

// StartPod starts a pod on a network that takes any address.
func (h *Host) StartPod(network, name string) error {
	return h.StartPodThatAsks(network, name, podnet.Request{})
}

// StartPodThatAsks starts a pod on a network, as multieni-ipam does: under the lock of the leases, by the network's
// file. The error says why the pod cannot start.
func (h *Host) StartPodThatAsks(network, name string, request podnet.Request) error {
	store, err := podlease.OpenPresent(context.Background(), h.podsDir(), network)
	if err != nil {
		return err
	}
	defer store.Close()
	now := time.Now()
	boot, err := podlease.ThisBoot(now)
	if err != nil {
		return err
	}
	all, err := store.Current(now)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("network %s has no interface on node %s", network, h.Node)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	holder := podnet.Holder{
		ContainerID: name, Interface: "net1", Config: network, PodNamespace: "default", Pod: name, PodUID: "uid-" + name,
		BootID: boot.ID,
	}
	at := podlease.Choose(all, holder)
	file := all[at].Network
	holder.Attachment, holder.Link = file.Attachment, h.linkOf(file.MAC)
	var others []podnet.Lease
	for n := range all {
		if n != at {
			others = append(others, all[n].Leases...)
		}
	}
	mine, err := file.Allocate(all[at].Leases, others, holder, request, now)
	if err != nil {
		return err
	}
	if err := store.Put(file.ENI, mine...); err != nil {
		return err
	}
	h.started++
	h.pods = append(h.pods, &Pod{Name: name, Network: network, ENI: file.ENI, Address: mine[0].Address, mac: file.MAC,
		asked: len(file.Granted(mine)) > 0, number: h.started})
	h.tell(file.ENI)
	return nil
}

// EndPod ends a pod, which drops the addresses that it brought up.
func (h *Host) EndPod(name string) {
	h.Helper()
	pod := h.pod(name)
	store, err := podlease.OpenPresent(context.Background(), h.podsDir(), pod.Network)
	if err != nil {
		h.Fatal(err)
	}
	defer store.Close()
	all, err := store.Folders()
	for _, folder := range all {
		ended := podnet.End(folder.Leases, time.Now(), func(l podnet.Lease) bool { return l.Pod == name })
		err = errors.Join(err, store.End(folder.ENI, ended...))
	}
	if err != nil {
		h.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pods = slices.DeleteFunc(h.pods, func(p *Pod) bool { return p == pod })
	signal(h.came)
	h.tell(pod.ENI)
}

// Pods returns the running pods.
func (h *Host) Pods() []Pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Pod
	for _, p := range h.pods {
		all = append(all, *p)
	}
	return all
}

// BringUp lets a pod bring up an address on its link, and Drop lets it drop the address.
func (h *Host) BringUp(pod string, address netip.Addr) {
	h.Helper()
	h.change(pod, func(p *Pod) { p.brought = append(slices.Clone(p.brought), address) })
}

// Drop lets a pod drop an address that it brought up.
func (h *Host) Drop(pod string, address netip.Addr) {
	h.Helper()
	h.change(pod, func(p *Pod) {
		p.brought = slices.DeleteFunc(slices.Clone(p.brought), func(a netip.Addr) bool { return a == address })
	})
}

func (h *Host) change(name string, change func(*Pod)) {
	h.Helper()
	pod := h.pod(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	change(pod)
	signal(h.came)
}

func (h *Host) pod(name string) *Pod {
	h.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	n := slices.IndexFunc(h.pods, func(p *Pod) bool { return p.Name == name })
	if n < 0 {
		h.Fatalf("node %s has no pod %s", h.Node, name)
	}
	return h.pods[n]
}

// observer shows the namespaces of the pods to the agent, as the kernel does.
type observer struct{ *Host }

func (h *Host) asObserver() agent.PodAddresses { return observer{h} }

// Namespaces is part of [agent.PodAddresses].
func (o observer) Namespaces() (namespaces []podaddress.Namespace, complete bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.pods {
		link := podaddress.Link{Index: 3, HostLink: o.linkOf(p.mac), OnNode: true,
			Addresses: append(slices.Clone(p.brought), p.Address)}
		own := podaddress.Link{Index: 2, OnNode: true, Addresses: []netip.Addr{podIP(p.number)}}
		namespaces = append(namespaces, podaddress.Namespace{ID: p.number, Links: []podaddress.Link{own, link}})
	}
	return namespaces, true
}

// Events is part of [agent.PodAddresses].
func (o observer) Events() <-chan struct{} { return o.came }

// leaseEvents tells the agent of the leases that pods of this node get and lose.
type leaseEvents struct{ *Host }

// Watch is part of [agent.LeaseEvents].
func (e leaseEvents) Watch(_, eni string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watched[eni] = true
	return nil
}

// tell tells the agent that a lease of an interface changed, if it watches the interface.
func (h *Host) tell(eni string) {
	if h.watched[eni] {
		signal(h.leased)
	}
}

// Events is part of [agent.LeaseEvents].
func (e leaseEvents) Events() <-chan struct{} { return e.leased }

// podIP is the address of a pod in the network of its cluster.
func podIP(number int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("192.168.%d.%d", number/250, number%250+1))
}
