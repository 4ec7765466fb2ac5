// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
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

// podHost is an instance with an agent, as far as it serves pod networks.
type podHost struct {
	c              *cluster
	node, instance string
	// agent is the kind of agent that runs on the node.
	agent agentKind
	// observed is the NodeENIState that the agent read last, checkpoint what it stored of that.
	observed, checkpoint *v1alpha1.NodeENIState
	// recalled is set while the agent knows only its checkpoint. boot is the boot of the node, of bootsBegun.
	recalled   bool
	boot       podnet.Boot
	bootsBegun int
	// files are the files of networks, by network. Lost are those that the agent cannot read: the world still knows which
	// pods have an interface.
	files map[string]podnet.Network
	lost  map[string]bool
	// leases are those of the CNI program, using the pods that have them, both by network.
	leases map[string][]podnet.Lease
	using  map[string][]runningPod
	// brought has, by interface, the addresses that its pods brought up themselves.
	brought map[string]map[netip.Addr]bool
	// cameAt has when they came up, by INTERFACE ADDRESS. drainedAt has since when the agent reports interfaces as
	// drained.
	cameAt, drainedAt map[string]time.Time
	// drainsSince has since when, after the healing, pods use draining networks, by network.
	drainsSince map[string]time.Time
	// came has, by name, the addresses that came up under the agent and that it has not written. book has what it knows of
	// the objects.
	came map[string]bool
	book *addressBook
	// process is the product's agent, and pass its last one; nil for none since its start. links are the indexes of links,
	// by interface.
	process *agent.Agent
	pass    *agent.Pass
	links   map[string]int
	// report is what the agent is about to write; nil for nothing. holds is set until it has written about addresses.
	report func()
	holds  bool
	fixed  fixedHost
}

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

// movePods lets agents and pods act. After the healing, agents read and report soon, and pods of a draining network
// end.
func (r *run) movePods() {
	if !r.pods.acts {
		return
	}
	r.findPodHosts()
	for _, instance := range slices.Sorted(maps.Keys(r.pods.hosts)) {
		h := r.pods.hosts[instance]
		if r.faults.off {
			h.followOnce()
			h.settle()
		} else {
			h.replaceAgent()
			if r.pods.happens(2) {
				h.act()
			}
			h.actForPrefixes()
		}
	}
	if !r.faults.off && r.pods.happens(60) {
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
					h.node, h.checkpoint = owner, nil // it booted, and registered under another name
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
		drainsSince: map[string]time.Time{},
		cameAt:      map[string]time.Time{}, drainedAt: map[string]time.Time{}, links: map[string]int{},
	}
	h.beginBoot()
	h.runs(servesPods)
	return h
}

func (h *podHost) act() {
	p := h.c.run.pods
	h.follow()
	switch p.random.IntN(12) {
	case 0, 1, 2:
		h.read()
	case 3, 4, 5:
		h.serve()
	case 6, 7:
		h.write()
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
	h.read()
	h.serve()
	h.write()
	for network := range h.using {
		if file, is := h.files[network]; (!is || file.Draining) && !h.linger(network) {
			h.removeAll(network)
		}
	}
	h.forgetBrought()
	h.deleteDamaged()
}

// read lets the agent read its NodeENIState.
func (h *podHost) read() {
	h.recalled = false
	h.observed, _ = h.c.api.get(states, h.node).(*v1alpha1.NodeENIState)
}

// serve lets the agent write the files of the networks that it knows, and make its next report.
func (h *podHost) serve() {
	if h.agent == knowsNone {
		h.serveNone()
		return
	}
	h.servePods()
	reports, due := h.pass.Report()
	h.holds = true
	h.noteDrained(reports)
	h.decideReport(reports, due)
}

// knowsState reports whether the agent knows a state of its instance.
func (h *podHost) knowsState() bool {
	return h.observed != nil && h.observed.Spec.InstanceID == h.instance
}

// decideReport lets the agent report the given networks if that is due.
func (h *podHost) decideReport(reports []v1alpha1.PodNetworkState, due bool) {
	h.report = nil
	if !due {
		return
	}
	node, pass := h.node, h.pass
	h.report = func() {
		h.c.run.note(nil, "%s: the agent of node %s reports %s", h.c.name, node, summary(reports))
		_, err := h.c.api.update(states, node, "", func(o client.Object) (client.Object, error) {
			o.(*v1alpha1.NodeENIState).Status.PodNetworks = reports
			return o, nil
		})
		if err == nil && pass != nil {
			pass.Reported()
		}
	}
}

// write lets the agent write its report, which may be old by now.
func (h *podHost) write() {
	if h.report != nil {
		h.report()
		h.report = nil
	}
	if h.holds {
		h.holds = false
		_ = h.pass.Hold(context.Background()) // another pass follows an error
		if h.book.ended {
			h.runs(h.agent)
		}
	}
}

// startPod starts pods on a network of the node, without agent and API server.
func (h *podHost) startPod() {
	for _, network := range slices.Sorted(maps.Keys(h.files)) {
		file := h.files[network]
		if file.Draining || !h.hasLink(file.ENI) || h.c.run.pods.happens(2) || !h.add(network) {
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

// reboot removes the pods and the files of networks. The agent has only its checkpoint until it reads the API server.
func (h *podHost) reboot() {
	h.c.run.note(nil, "%s: node %s reboots", h.c.name, h.node)
	clear(h.using)
	h.beginBoot()
	h.files, h.lost, h.report = map[string]podnet.Network{}, nil, nil
	h.forgetBrought()
	h.runs(h.agent)
	if h.recall(); h.observed != nil && h.agent == servesPods {
		h.servePods()
	}
}

func (h *podHost) hasLink(id string) bool {
	i, exists := h.c.run.truth().interfaces[id]
	return exists && i.AttachedTo(h.instance)
}

func summary(reports []v1alpha1.PodNetworkState) string {
	var all []string
	for _, n := range reports {
		text := n.Network + " " + n.ENIID
		if n.Drained {
			text += " drained"
		}
		for _, p := range n.Prefixes {
			if p.Phase != v1alpha1.PodPrefixActive {
				text += fmt.Sprintf(" %s %s", p.CIDR, p.Phase)
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
