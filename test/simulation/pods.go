// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
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
	// files are the files of networks, by network. Lost are those that the agent cannot read: the world still knows which
	// pods have an interface.
	files map[string]podnet.Network
	lost  map[string]bool
	// leases are those of the CNI program, using the pods that have them, both by network.
	leases map[string][]podnet.Lease
	using  map[string][]runningPod
	// brought has, by interface, the addresses that its pods brought up themselves.
	brought map[string]map[netip.Addr]bool
	// came has, by name, the addresses that the agent saw come up and has not written; follows those that it watches.
	came, follows map[string]bool
	// report is what the agent is about to write; nil for nothing. holds are its writes about addresses.
	report func()
	holds  []func()
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
			h.agent = servesPods
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
			r.pods.hosts[ref.ID] = &podHost{
				c: c, node: object.GetName(), instance: ref.ID, files: map[string]podnet.Network{},
				leases: map[string][]podnet.Lease{},
				using:  map[string][]runningPod{}, brought: map[string]map[netip.Addr]bool{},
				came: map[string]bool{}, follows: map[string]bool{},
			}
		}
	}
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
	h.read()
	h.serve()
	h.write()
	for network, file := range h.files {
		if file.Draining {
			h.removeAll(network)
		}
	}
	h.forgetBrought()
}

// read lets the agent read its NodeENIState.
func (h *podHost) read() {
	if state, is := h.c.api.get(states, h.node).(*v1alpha1.NodeENIState); is && state.Spec.InstanceID == h.instance {
		h.observed = state
	} else {
		h.observed = nil
	}
}

// serve writes the files of the networks that the agent knows, and makes its next report.
func (h *podHost) serve() {
	h.decideHolds()
	if h.observed == nil {
		return
	}
	h.checkpoint = h.observed
	reports := h.reports()
	node := h.node
	if equality.Semantic.DeepEqual(reports, h.observed.Status.PodNetworks) {
		h.report = nil
		return
	}
	h.report = func() {
		h.c.run.note(nil, "%s: the agent of node %s reports %s", h.c.name, node, summary(reports))
		_, _ = h.c.api.update(states, node, "", func(o client.Object) (client.Object, error) {
			o.(*v1alpha1.NodeENIState).Status.PodNetworks = reports
			return o, nil
		})
	}
}

func (h *podHost) serveNetworks() (reports []v1alpha1.PodNetworkState) {
	files, interfaces := map[string]podnet.Network{}, map[string]string{}
	for network, file := range h.files {
		if !h.lost[network] {
			interfaces[network] = file.ENI
		}
	}
	served := agent.ServedNetworks(h.observed, interfaces)
	for _, network := range slices.Sorted(maps.Keys(served)) {
		i := served[network]
		last := agent.LastReport(h.observed, network, i.ENIID)
		report := v1alpha1.PodNetworkState{Network: network, NodeENI: i.NodeENI, ENIID: i.ENIID, Reason: "LinkNotFound",
			Prefixes: agent.MarkedPrefixes(last)}
		files[network] = h.files[network]
		if h.hasLink(i.ENIID) || i.Pods.Draining {
			file := agent.PodNetwork(i, h.node, defaultMTU)
			facts := agent.NetworkFacts{Last: last, Before: h.readFile(network), Leases: h.leases[network], Now: h.now(),
				Brought: len(h.present(i.ENIID, i.SubnetID, controller.FloatingRanges(i.Pods)))}
			served := agent.ServeNetwork(&file, i, facts, report)
			if _, err := file.Encode(); err == nil { // the range of the subnet may be unknown yet
				files[network], report = file, served
				delete(h.lost, network)
			}
		}
		reports = append(reports, report)
	}
	for _, network := range slices.Sorted(maps.Keys(h.files)) {
		file := h.files[network]
		if _, is := served[network]; is {
			continue
		}
		if h.lost[network] {
			if len(h.using[network]) > 0 {
				files[network] = file
			}
			continue
		}
		if h.observed.Status.ObservedGeneration == 0 { // the controller has not reported yet: the agent releases nothing
			files[network] = file
			continue
		}
		report := v1alpha1.PodNetworkState{
			Network: network, NodeENI: file.NodeENI, ENIID: file.ENI,
		}
		if !agent.EndNetwork(file, h.leases[network], len(h.brought[file.ENI]), h.now(), &report) {
			file.Draining = true
			files[network], reports = file, append(reports, report)
		}
	}
	h.files = files
	return reports
}

// write lets the agent write its report, which may be old by now.
func (h *podHost) write() {
	if h.report != nil {
		h.report()
		h.report = nil
	}
	h.writeHolds()
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
		h.remove(network)
	}
	h.forgetBrought()
}

// reboot removes the pods and the files. The agent has only its checkpoint until it reads the API server.
func (h *podHost) reboot() {
	h.c.run.note(nil, "%s: node %s reboots", h.c.name, h.node)
	for _, network := range slices.Sorted(maps.Keys(h.using)) {
		h.removeAll(network)
	}
	h.files, h.lost, h.report = map[string]podnet.Network{}, nil, nil
	h.forgetBrought()
	h.restartHolds()
	if h.observed = h.checkpoint; h.observed != nil && h.agent == servesPods {
		h.serveNetworks()
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

// hasWhole reports whether a pod has a whole interface, with all of its addresses.
func (r *run) hasWhole(id string) bool {
	for _, h := range r.pods.hosts {
		for network, pods := range h.using {
			if h.files[network].Attachment == podnet.HostDevice && slices.ContainsFunc(pods, func(p runningPod) bool {
				return p.eni == id
			}) {
				return true
			}
		}
	}
	return false
}

// heldForPods reports whether an interface may have pods that no agent can report: the state of its Node is that of
// another instance, or no Node names the instance any more and a state under a former name waits, or the NodeENI says
// that no state reports the interface.
func (c *cluster) heldForPods(i eni.Interface) bool {
	if i.Attachment == nil || !c.run.pods.excused {
		return false
	}
	host := c.run.pods.hosts[i.Attachment.InstanceID]
	if host == nil || host.c != c {
		return false
	}
	if len(c.nodesOf(host.instance)) == 0 && c.waitsWithoutNode(host, i) {
		return true
	}
	state := c.state(host.node)
	if state == nil || state.Spec.InstanceID == host.instance {
		return false
	}
	told := slices.ContainsFunc(state.Status.Interfaces, func(said v1alpha1.InterfaceState) bool {
		return said.ENIID == i.ID && said.Pods != nil && said.Pods.Draining || waitsForUser(said, i)
	})
	return told || !c.run.truth().ended(state.Spec.InstanceID)
}

// waitsWithoutNode reports whether an interface of a host that no Node names waits for a user: a state under a former
// name says so, or the NodeENI that is being deleted.
func (c *cluster) waitsWithoutNode(host *podHost, i eni.Interface) bool {
	former := func(object client.Object) bool {
		return object.GetName() != host.node && slices.ContainsFunc(object.(*v1alpha1.NodeENIState).Status.Interfaces,
			func(said v1alpha1.InterfaceState) bool { return waitsForUser(said, i) })
	}
	return slices.ContainsFunc(c.api.all(states), former) || c.saysUnreported(i)
}

// waitsForUser reports whether a state says that only a user can end the wait for the pods of an interface.
func waitsForUser(said v1alpha1.InterfaceState, i eni.Interface) bool {
	return said.ENIID == i.ID && strings.Contains(said.Message, "terminate the instance")
}

// saysUnreported reports whether a NodeENI that is being deleted says that no state reports some of its interfaces, and
// no state reports this one.
func (c *cluster) saysUnreported(i eni.Interface) bool {
	nodeENI := c.nodeENIOf(spotOf(i).uid)
	if nodeENI == nil || nodeENI.DeletionTimestamp.IsZero() {
		return false
	}
	for _, object := range c.api.all(states) {
		if slices.ContainsFunc(object.(*v1alpha1.NodeENIState).Status.Interfaces,
			func(said v1alpha1.InterfaceState) bool { return said.ENIID == i.ID }) {
			return false
		}
	}
	ready := apimeta.FindStatusCondition(nodeENI.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonUnreported
}

// interrupting checks I16: no interface is detached under a pod.
func (r *run) interrupting(p *process, q request, i eni.Interface) {
	if !strings.HasPrefix(q.action, "Detach") || i.Attachment == nil || p.expired {
		return
	}
	host := r.pods.hosts[i.Attachment.InstanceID]
	if host == nil || r.truth().ended(host.instance) {
		return
	}
	its := host.c.nodesOf(host.instance)
	if len(its) == 0 || its[0].Name != host.node {
		return // the instance has no state, so its agent can report nothing
	}
	if host.c.isStripped(spotOf(i).uid) && host.c.api.get(states, host.node) == nil {
		return // neither a NodeENI nor a state says that it is a pod network
	}
	r.judged("I16")
	for network, pods := range host.using {
		if slices.ContainsFunc(pods, func(p runningPod) bool { return p.eni == i.ID }) {
			r.violate("I16", "%s %s %s, which a pod of network %s uses: %s", p.name, q.action, q.target, network, describe(i))
		}
	}
}
