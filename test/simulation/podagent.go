// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/core/podaddress"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/internal/host/podlease"
)

// This file has what the product's agent reads on a node, and writes there: links, devices, network namespaces, and
// files. agentapi.go has what it reads from the API server, and writes there.

// runs starts a process of an agent of the given kind. It knows what the files and the API server have.
func (h *podHost) runs(kind agentKind) {
	h.started++
	h.agent, h.pass, h.holds, h.came = kind, nil, false, map[string]bool{}
	h.book, h.api = newAddressBook(h), &agentAPI{host: h}
	h.process = agent.New(agent.Options{Node: h.node, DefaultMTU: defaultMTU, Addresses: h.book, MaxHolds: 1, Now: h.now,
		Process:     podnet.Process{Boot: h.boot.ID, ID: fmt.Sprintf("process-%d", h.started)},
		Checkpoints: checkpoints{h}, PodFiles: podFiles{h}, PodAddresses: namespaces{h}, PodsDisabled: kind == servesNone,
		Log: slog.New(slog.DiscardHandler)})
}

// serve lets the process decide about the interfaces that it knows, and write files, the checkpoint and devices.
func (h *podHost) serve() {
	node, _ := h.c.api.get(nodes, h.node).(*corev1.Node)
	metadata := h.metadata()
	reading := agent.Reading{Interfaces: h.api.known(), Read: h.api.read, Node: node, ReadAt: h.now(), Metadata: &metadata,
		Bus: h.bus()}
	var bindings []hostpci.Binding
	reading.Observe = func(links []hostnet.Link, devices []hostpci.Device, records []hostpci.OriginalBinding) (
		hostnet.Facts, []hostnet.Observation) {
		facts, observed := h.linkFacts(), make([]hostnet.Observation, 0, len(links))
		for _, link := range links {
			observed = append(observed, h.observe(link, facts))
		}
		var ofDevices []hostnet.Observation
		bindings, ofDevices = hostpci.Plan(devices, records, reading.Bus, facts)
		return facts, append(observed, ofDevices...)
	}
	h.book.read()
	h.servedAt = h.c.run.now
	h.pass, _ = h.process.Serve(context.Background(), reading) // the reports have the errors
	h.holds = true
	h.rebind(h.pass, bindings)
}

// linkFacts are the links in the node's own namespace.
func (h *podHost) linkFacts() (facts hostnet.Facts) {
	for _, i := range h.c.run.truth().ordered {
		if h.hasLink(i.ID) && !h.bound[i.ID] && !h.hasWhole(i.ID) {
			facts.Links = append(facts.Links, hostnet.LinkFacts{Index: h.linkOf(i.ID), MAC: i.MAC, Device: h.address(i.ID),
				Name: fmt.Sprintf("eth%d", h.linkOf(i.ID)), Driver: "ena", Up: true, Carrier: true})
		}
	}
	return facts
}

// observe returns what the agent sees of a link. A pod with attachment HostDevice has it.
func (h *podHost) observe(link hostnet.Link, facts hostnet.Facts) hostnet.Observation {
	o := hostnet.Observation{Link: link}
	at := slices.IndexFunc(facts.Links, func(l hostnet.LinkFacts) bool { return l.MAC == link.MAC })
	id := ""
	for _, i := range h.c.run.truth().ordered {
		if i.MAC == link.MAC {
			id = i.ID
		}
	}
	switch {
	case at >= 0:
		o.State, o.Reason, o.Facts = hostnet.Ready, hostnet.ReasonReady, &facts.Links[at]
	case id != "" && h.hasLink(id) && h.hasWhole(id):
		o.State, o.Reason = hostnet.Moved, hostnet.ReasonMoved
	default:
		o.State, o.Reason = hostnet.Missing, hostnet.ReasonNotFound
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

// Folders implements [agent.PodFiles].
func (f podFiles) Folders() (map[string][]string, error) {
	all := map[string][]string{}
	for _, at := range slices.Sorted(maps.Keys(f.files)) {
		network, id, _ := strings.Cut(at, "/")
		all[network] = append(all[network], id)
	}
	return all, nil
}

// Lock implements [agent.PodFiles].
func (f podFiles) Lock(_ context.Context, network string) (agent.Files, error) {
	return networkFiles{f.podHost, network}, nil
}

// LockPresent implements [agent.PodFiles].
func (f podFiles) LockPresent(ctx context.Context, network string) (agent.Files, error) {
	if all, _ := f.Folders(); all[network] == nil {
		return nil, fs.ErrNotExist
	}
	return f.Lock(ctx, network)
}

// networkFiles are the files of a network in memory.
type networkFiles struct {
	*podHost
	network string
}

// errDamaged is why a file cannot be read.
var errDamaged = errors.New("the file is damaged")

// Current implements [agent.Files].
func (f networkFiles) Current(time.Time) (all []podlease.Folder, err error) {
	for _, at := range slices.Sorted(maps.Keys(f.files)) {
		network, id, _ := strings.Cut(at, "/")
		if network != f.network {
			continue
		}
		folder := podlease.Folder{Folder: podnet.Folder{Network: f.files[at], Leases: f.current(at)}}
		if f.lost[at] {
			folder.Network, folder.Invalid = podnet.Network{Name: network, ENI: id, Phase: podnet.Closed}, errDamaged
		}
		all = append(all, folder)
	}
	return all, nil
}

// WriteNetwork implements [agent.Files].
func (f networkFiles) WriteNetwork(file podnet.Network) error {
	if _, err := file.Encode(); err != nil {
		return err
	}
	at := folderOf(f.network, file.ENI)
	if before := f.files[at]; before.Phase != file.Phase {
		f.c.run.note(nil, "%s: the agent of node %s makes %s %s for %s", f.c.name, f.node, at, file.Phase, file.UID)
	}
	f.files[at] = file
	delete(f.lost, at)
	return nil
}

// RemoveFolder implements [agent.Files].
func (f networkFiles) RemoveFolder(id string) error {
	at := folderOf(f.network, id)
	if slices.ContainsFunc(f.leases[at], podnet.Lease.InUse) {
		return errors.New("a pod has an address")
	}
	delete(f.files, at)
	delete(f.leases, at)
	delete(f.lost, at)
	return nil
}

// Put implements [agent.Files].
func (f networkFiles) Put(id string, leases ...podnet.Lease) error {
	for _, lease := range leases {
		f.put(folderOf(f.network, id), lease)
	}
	return nil
}

// Remove implements [agent.Files].
func (networkFiles) Remove() error { return nil }

// Close implements [agent.Files].
func (networkFiles) Close() {}

// checkpoints is the disk of a host with the checkpoint of the agent.
type checkpoints struct{ *podHost }

// Read implements [agent.Checkpoints].
func (c checkpoints) Read() (*agent.Checkpoint, error) { return c.checkpoint, nil }

// errDiskFull is the error of a disk without room.
var errDiskFull = errors.New("no space left on device")

// Write implements [agent.Checkpoints].
func (c checkpoints) Write(checkpoint *agent.Checkpoint) error {
	if c.diskFull && !c.c.run.faults.off {
		return errDiskFull
	}
	stored := *checkpoint
	stored.Held, stored.Interfaces = slices.Clone(stored.Held), slices.Clone(stored.Interfaces)
	c.podHost.checkpoint = &stored
	return nil
}
