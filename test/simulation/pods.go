// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
)

// defaultMTU is the MTU of a link without a declared one, in bytes.
const defaultMTU = 9001

// pods draws what uses pod networks: users who declare them, agents that serve them, and pods that start and end
// without agents and API servers. It has a random stream of its own, so that it shifts no other draw.
type pods struct {
	random *rand.Rand
	acts   bool
	// excused is set once interfaces may be held for pods that no agent can report.
	excused bool
	// hosts are the nodes, by instance.
	hosts map[string]*podHost
}

// podHost is an instance with an agent.
type podHost struct {
	c              *cluster
	node, instance string
	// agent is the kind of agent that runs on the node, and process the product's agent.
	agent   agentKind
	process *agent.Agent
	// started counts the processes. pass is the last one that has not written its reports, nil for none, and holds is set
	// until it has written about addresses. servedAt is when it read what pods have. late are writes to the API server
	// that are under way.
	started  int
	pass     *agent.Pass
	servedAt time.Time
	holds    bool
	late     []func()
	// api is what the process knows of the API server, and checkpoint what it stored on the disk, unless it is full.
	api        *agentAPI
	checkpoint *agent.Checkpoint
	diskFull   bool
	// boot is the boot of the node, of bootsBegun.
	boot       podnet.Boot
	bootsBegun int
	// files are the files of networks, by folder: NETWORK/ENI. Lost are those that the agent cannot read: the world still
	// knows which pods have an interface.
	files map[string]podnet.Network
	lost  map[string]bool
	// leases are those of the CNI program, using the pods that have them, both by folder.
	leases map[string][]podnet.Lease
	using  map[string][]runningPod
	// bound are the devices that have a driver for user space, by interface, or none at present. Those are between two
	// drivers. driven are the devices that a program drives.
	bound, between, driven map[string]bool
	// unsaved are the bound devices that the checkpoint lost, and forgotten those whose interface has lost its object too,
	// or has another one without an answer: nothing names them any more.
	unsaved, forgotten map[string]bool
	// brought has, by interface, the addresses that its pods brought up themselves.
	brought map[string]map[netip.Addr]bool
	// cameAt has when they came up, by INTERFACE ADDRESS. drainedAt has since when the agent holds interfaces no more,
	// and openedAt since when it holds them again.
	cameAt, drainedAt, openedAt map[string]time.Time
	// lostSince has since when interfaces are held without a folder.
	lostSince map[string]time.Time
	// drainsSince has since when, after the healing, pods use closed networks, by folder.
	drainsSince map[string]time.Time
	// came has, by name, the addresses that came up under the agent and that it has not written. book has what it knows of
	// the objects.
	came map[string]bool
	book *addressBook
	// links are the indexes of links, by interface.
	links map[string]int
	fixed fixedHost
}

// folderOf names the folder of an interface and a network.
func folderOf(network, id string) string { return network + "/" + id }

func newPods(seed uint64) *pods {
	p := &pods{random: rand.New(rand.NewPCG(seed, 0x9d)), hosts: map[string]*podHost{}}
	p.acts = p.random.IntN(3) == 0
	return p
}

func (p *pods) happens(oneIn int) bool { return p.random.IntN(oneIn) == 0 }

// declarePods at times makes a new NodeENI a pod network.
func (r *run) declarePods(spec *v1alpha1.NodeENISpec) {
	if r.pods.acts && !r.pods.happens(4) {
		spec.Pods, spec.EnableDPDK = &v1alpha1.NodeENIPods{Namespaces: []string{"default"},
			Attachment: v1alpha1.PodAttachmentHostDevice}, false
		r.declarePrefixes(spec)
	}
}

// movePods lets agents and pods act. Agents run on all nodes: each interface that existed before its object waits for
// one. After the healing, agents read and report soon, and pods of a closed network end.
func (r *run) movePods() {
	r.findPodHosts()
	r.toggleDevices()
	for _, instance := range slices.Sorted(maps.Keys(r.pods.hosts)) {
		h := r.pods.hosts[instance]
		switch {
		case r.faults.off:
			h.followOnce()
			h.settle()
		case !r.pods.acts:
			if r.pods.happens(3) {
				h.passes()
			}
			h.moveDevices()
		default:
			h.replaceAgent()
			if r.pods.happens(2) {
				h.act()
			}
			h.actForPrefixes()
			h.moveDevices()
			h.moveObserved()
		}
	}
	if r.pods.acts && !r.faults.off && r.pods.happens(60) {
		r.togglePods()
	}
}

// togglePods lets a user make a NodeENI a pod network, or end that.
func (r *run) togglePods() {
	c := r.clusters[r.pods.random.IntN(len(r.clusters))]
	all := c.api.all(nodeENIs)
	if len(all) == 0 {
		return
	}
	name := all[r.pods.random.IntN(len(all))].GetName()
	_, _ = c.api.update(nodeENIs, name, "", func(o client.Object) (client.Object, error) {
		spec := &o.(*v1alpha1.NodeENI).Spec
		if r.editPrefixes(spec) {
			r.note(nil, "%s: a user changes the prefixes of NodeENI %s: %s", c.name, name, prefixesDigest(spec.Pods))
			return o, nil
		}
		if spec.Pods != nil {
			spec.Pods = nil
		} else if !spec.EnableDPDK {
			spec.Pods = &v1alpha1.NodeENIPods{Namespaces: []string{"default"}, Attachment: v1alpha1.PodAttachmentHostDevice}
			r.declarePrefixes(spec)
		}
		c.declareFollowing(spec.Pods)
		c.grantFixed(spec.Pods)
		r.declareEviction(spec.Pods)
		r.note(nil, "%s: a user makes NodeENI %s a network for pods: %s", c.name, name, prefixesDigest(spec.Pods))
		return o, nil
	})
}

// findPodHosts adds the hosts that joined, and removes those whose instances ended.
func (r *run) findPodHosts() {
	for instance := range r.pods.hosts {
		if r.truth().ended(instance) {
			delete(r.pods.hosts, instance)
		}
	}
	for _, c := range r.clusters {
		for _, object := range c.api.all(nodes) {
			ref, err := eni.ParseProviderID(object.(*corev1.Node).Spec.ProviderID)
			if err != nil || r.truth().ended(ref.ID) {
				continue
			}
			if h := r.pods.hosts[ref.ID]; h != nil {
				if owner := c.nodesOf(ref.ID)[0].Name; owner != h.node {
					h.node = owner // it booted, and registered under another name
					h.reboot()
				}
				continue
			}
			r.pods.hosts[ref.ID] = newPodHost(c, object.GetName(), ref.ID)
		}
	}
}

func newPodHost(c *cluster, node, instance string) *podHost {
	h := &podHost{
		c: c, node: node, instance: instance, files: map[string]podnet.Network{}, leases: map[string][]podnet.Lease{},
		using: map[string][]runningPod{}, brought: map[string]map[netip.Addr]bool{},
		drainsSince: map[string]time.Time{}, lostSince: map[string]time.Time{}, bound: map[string]bool{},
		driven: map[string]bool{}, between: map[string]bool{}, unsaved: map[string]bool{}, forgotten: map[string]bool{},
		cameAt: map[string]time.Time{}, drainedAt: map[string]time.Time{}, openedAt: map[string]time.Time{},
		links: map[string]int{},
	}
	h.beginBoot()
	h.runs(servesPods)
	return h
}

func (h *podHost) act() {
	p := h.c.run.pods
	h.follow()
	switch p.random.IntN(12) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		h.passes()
	case 8, 9:
		h.startPod()
	case 10:
		h.endPod()
	default:
		if p.happens(10) {
			h.reboot()
		}
	}
}

// settle does what an agent does within seconds.
func (h *podHost) settle() {
	if h.agent != servesPods {
		h.runs(servesPods)
	}
	h.arrive()
	h.passesOnce()
	h.bootIfLeasesAreLost()
	h.endPrograms()
	for at := range h.using {
		if !h.letsIn(at) && !h.linger(at) {
			h.removeAll(at)
		}
	}
	h.forgetBrought()
	h.deleteDamaged()
}

// startPod starts pods on a network of the node, without agent and API server.
func (h *podHost) startPod() {
	for _, network := range slices.Sorted(maps.Keys(h.files)) {
		file := h.files[network]
		if !file.IsOpen() || !h.hasLink(file.ENI) || h.c.run.pods.happens(2) || !h.add(network) {
			continue
		}
		for range h.c.run.prefixes.podsOf(file) - 1 {
			h.add(network)
		}
		return
	}
}

func (h *podHost) endPod() {
	network, is := h.firstInUse()
	if !is {
		return
	}
	ending := min(h.c.run.prefixes.podsOf(h.files[network]), len(h.using[network]))
	h.c.run.note(nil, "%s: %d pods of node %s and network %s end", h.c.name, ending, h.node, network)
	for range ending {
		if h.c.run.disks.random.IntN(8) == 0 {
			h.kill(network)
		} else {
			h.remove(network)
		}
	}
	h.forgetBrought()
}

// reboot removes the pods and what is in /run: the files of networks and their leases. The agent has only its
// checkpoint until it reads the API server.
func (h *podHost) reboot() {
	h.c.run.note(nil, "%s: node %s reboots", h.c.name, h.node)
	clear(h.using)
	clear(h.lostSince)
	clear(h.bound)
	h.unplug()
	h.beginBoot()
	h.files, h.leases, h.lost = map[string]podnet.Network{}, map[string][]podnet.Lease{}, nil
	h.forgetBrought()
	h.runs(h.agent)
	h.serve()
}

// bootIfLeasesAreLost lets a person boot a node that lost a folder while the API server has its hold in this boot: the
// agent opens the interface no more, and does not let it go.
func (h *podHost) bootIfLeasesAreLost() {
	for _, n := range h.api.known() {
		report := n.Status.Node
		if report == nil || !report.Open || report.Agent.BootID != h.boot.ID || n.Spec.DPDK != nil ||
			h.bound[n.Status.ENIID] {
			continue
		}
		isOf := func(file podnet.Network) bool { return file.ENI == n.Status.ENIID }
		isObserved := n.Spec.Pods != nil && n.Spec.Pods.Attachment == v1alpha1.PodAttachmentObserved
		if isObserved || slices.ContainsFunc(slices.Collect(maps.Values(h.files)), isOf) {
			delete(h.lostSince, n.Status.ENIID)
			continue
		}
		if h.lostSince[n.Status.ENIID].IsZero() {
			h.lostSince[n.Status.ENIID] = h.c.run.now
		}
		if h.c.run.now.Sub(h.lostSince[n.Status.ENIID]) >= lingering {
			h.reboot()
			return
		}
	}
}

// runsAgent reports whether an agent runs on the node: a kubelet runs pods while its Node exists.
func (h *podHost) runsAgent() bool { return h.c.api.get(nodes, h.node) != nil }

func (h *podHost) hasLink(id string) bool {
	i, exists := h.c.run.truth().interfaces[id]
	return exists && i.AttachedTo(h.instance)
}
