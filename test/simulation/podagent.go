// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podaddress"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
)

// This file has what the product's agent reads on a node, and writes: links, network namespaces, and files.

// runs starts a process of an agent of the given kind. It knows what the files and the API server have.
func (h *podHost) runs(kind agentKind) {
	h.agent, h.report, h.pass, h.holds, h.came = kind, nil, nil, false, map[string]bool{}
	h.book = newAddressBook(h)
	o := agent.Options{Node: h.node, DefaultMTU: defaultMTU, Addresses: h.book, MaxHolds: 1, Now: h.now,
		WriteCheckpoint: h.writeCheckpoint, Log: slog.New(slog.DiscardHandler)}
	if kind == servesPods {
		o.PodFiles, o.PodAddresses = podFiles{h}, namespaces{h}
	}
	h.process = agent.New(o)
}

// servePods lets the process serve the pod networks that it knows.
func (h *podHost) servePods() {
	var interfaces []v1alpha1.InterfaceState
	if h.observed != nil {
		interfaces = h.observed.Status.Interfaces
	}
	node, _ := h.c.api.get(nodes, h.node).(*corev1.Node)
	reading := agent.Reading{State: h.observed, Node: node, Recalled: h.recalled, ReadAt: h.now(),
		Metadata: &eni.Metadata{InstanceID: h.instance}}
	for _, i := range interfaces {
		o := h.observe(i)
		if reading.Observed = append(reading.Observed, o); o.Facts != nil {
			reading.Facts.Links = append(reading.Facts.Links, *o.Facts)
		}
	}
	h.book.read()
	h.pass, _ = h.process.ServePods(context.Background(), reading) // the reports have the errors
}

// observe returns what the agent sees of the link of an interface. A pod with attachment HostDevice has it.
func (h *podHost) observe(i v1alpha1.InterfaceState) hostnet.Observation {
	o := hostnet.Observation{Link: hostnet.Link{MAC: i.MACAddress}}
	switch {
	case !h.hasLink(i.ENIID):
		o.State, o.Reason = hostnet.Missing, hostnet.ReasonNotFound
	case h.hasWhole(i.ENIID):
		o.State, o.Reason = hostnet.Moved, hostnet.ReasonMoved
	default:
		o.State, o.Reason = hostnet.Ready, hostnet.ReasonReady
		o.Facts = &hostnet.LinkFacts{Index: h.linkOf(i.ENIID), MAC: i.MACAddress, Device: "device of " + i.ENIID}
	}
	return o
}

// hasWhole reports whether a pod of the host has a whole interface.
func (h *podHost) hasWhole(id string) bool { return h.attaches(id, podnet.HostDevice) }

// observes reports whether the agent only observes the pods of an interface.
func (h *podHost) observes(id string) bool { return h.attaches(id, podnet.Observed) }

// attaches reports whether a pod of the host uses an interface with an attachment.
func (h *podHost) attaches(id string, attachment podnet.Attachment) bool {
	for _, pods := range h.using {
		if slices.ContainsFunc(pods, func(p runningPod) bool {
			return p.eni == id && p.holder.Attachment == attachment
		}) {
			return true
		}
	}
	return false
}

// linkOf returns the index of an interface's link.
func (h *podHost) linkOf(id string) int {
	if h.links[id] == 0 {
		h.links[id] = len(h.links) + 1
	}
	return h.links[id]
}

// namespaces shows the network namespaces of the pods.
type namespaces struct{ *podHost }

// Namespaces implements [agent.PodAddresses]. Of the pods on an interface the first one brings up addresses.
func (n namespaces) Namespaces() (all []podaddress.Namespace, complete bool) {
	brings := map[string]bool{}
	for _, network := range slices.Sorted(maps.Keys(n.using)) {
		for _, pod := range n.using[network] {
			link := podaddress.Link{Index: 2, HostLink: n.linkOf(pod.eni), Addresses: pod.addresses}
			if pod.holder.Attachment == podnet.HostDevice {
				link.HostLink, link.Physical, link.MAC = 0, true, n.c.run.truth().interfaces[pod.eni].MAC
			}
			if !brings[pod.eni] {
				brings[pod.eni] = true
				brought := slices.SortedFunc(maps.Keys(n.brought[pod.eni]), netip.Addr.Compare)
				link.Addresses = append(slices.Clone(pod.addresses), brought...)
			}
			all = append(all, podaddress.Namespace{ID: pod.number, Links: []podaddress.Link{link}})
		}
	}
	return all, true
}

// Events implements [agent.PodAddresses]. The seed decides when the agent reads.
func (namespaces) Events() <-chan struct{} { return nil }

// podFiles are the files of a host in memory.
type podFiles struct{ *podHost }

// Networks implements [agent.PodFiles].
func (f podFiles) Networks() (map[string]podnet.Network, error) {
	present := map[string]podnet.Network{}
	for network := range f.files {
		file := f.readFile(network)
		file.Name = network
		present[network] = file
	}
	return present, nil
}

// Network implements [agent.PodFiles].
func (f podFiles) Network(network string) (podnet.Network, error) { return f.readFile(network), nil }

// WriteNetwork implements [agent.PodFiles].
func (f podFiles) WriteNetwork(file podnet.Network) error {
	if _, err := file.Encode(); err != nil {
		return err
	}
	f.files[file.Name] = file
	delete(f.lost, file.Name)
	return nil
}

// RemoveNetwork implements [agent.PodFiles].
func (f podFiles) RemoveNetwork(network string) error {
	delete(f.files, network)
	delete(f.lost, network)
	return nil
}

// Leased implements [agent.PodFiles].
func (f podFiles) Leased() ([]string, error) { return slices.Sorted(maps.Keys(f.leases)), nil }

// Lock implements [agent.PodFiles].
func (f podFiles) Lock(_ context.Context, network string) (agent.Leases, error) {
	return podLeases{f.podHost, network}, nil
}

// LockLeased implements [agent.PodFiles].
func (f podFiles) LockLeased(ctx context.Context, network string) (agent.Leases, error) {
	return f.Lock(ctx, network)
}

// podLeases are the leases of a network in memory.
type podLeases struct {
	*podHost
	network string
}

// Leases implements [agent.Leases].
func (l podLeases) Leases() ([]podnet.Lease, error) { return slices.Clone(l.leases[l.network]), nil }

// Current implements [agent.Leases].
func (l podLeases) Current(time.Time) ([]podnet.Lease, error) { return l.current(l.network), nil }

// Put implements [agent.Leases].
func (l podLeases) Put(leases ...podnet.Lease) error {
	for _, lease := range leases {
		l.put(l.network, lease)
	}
	return nil
}

// Remove implements [agent.Leases].
func (l podLeases) Remove() error {
	delete(l.leases, l.network)
	return nil
}

// Close implements [agent.Leases].
func (podLeases) Close() {}

// writeCheckpoint stores the checkpoint of the agent.
func (h *podHost) writeCheckpoint(checkpoint *v1alpha1.NodeENIState) error {
	h.checkpoint = checkpoint
	return nil
}
