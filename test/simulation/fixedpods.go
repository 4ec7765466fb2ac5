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

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/podnet"
)

const (
	// mostOrdinals is how many pods a StatefulSet has. Each network has one StatefulSet.
	mostOrdinals = 2
	// fixedBits is the length of the block of a subnet that a cluster grants, and fixedRangeBits that of the part for the
	// StatefulSet of one network.
	fixedBits, fixedRangeBits = 28, 31
)

// fixedPods are the pods of StatefulSets, which ask for fixed addresses, with the kubelets and agents that serve them.
// They have a random stream of their own, so that they shift no draw in runs without them.
type fixedPods struct {
	random *rand.Rand
	acts   bool
	// last is the pod of each name that started last, by cluster and name.
	last map[string]*fixedPod
	// started counts the pods.
	started int
	// served is the newest pod of each address that EC2 delivered the address to, as long as the pod has it.
	served map[netip.Addr]*fixedPod
	// quiet is set once users start no further pods.
	quiet bool
}

// fixedPod is a pod of a StatefulSet.
type fixedPod struct {
	name, uid string
	// number orders the pods by their starts, and sandboxes counts the sandboxes of the pod.
	number, sandboxes int
	host              *podHost
	network, eni      string
	// folder is that of the interface on which the pod has, or had, its address.
	folder  string
	address netip.Addr
	// deleted is set once the API server has no pod of this UID: a user deleted the pod by force, and the kubelet may
	// still run it.
	deleted bool
	// held is set once the agent made the pod the holder. Before, no agent of another node can know of it.
	held bool
}

// fixedHost is what the kubelet and the agent of a node do about fixed pods.
type fixedHost struct {
	// kubeletAway is set while the kubelet is stopped or does not reach the API server, and agentAway the same of the
	// agent.
	kubeletAway, agentAway bool
}

func newFixedPods(seed uint64) *fixedPods {
	f := &fixedPods{random: rand.New(rand.NewPCG(seed, 0xf1bed)), last: map[string]*fixedPod{},
		served: map[netip.Addr]*fixedPod{}}
	f.acts = f.random.IntN(3) == 0
	return f
}

func (f *fixedPods) happens(oneIn int) bool { return f.random.IntN(oneIn) == 0 }

// mostBrought is how many addresses pods bring up on one interface besides the fixed ones.
func (r *run) mostBrought() int {
	if r.fixed.acts {
		return mostBrought - mostOrdinals
	}
	return mostBrought
}

// reserveFixed reserves the granted blocks, as the documents say, so that EC2 gives none of their addresses to others.
func (r *run) reserveFixed() {
	if !r.fixed.acts {
		return
	}
	for _, c := range r.clusters {
		for _, s := range subnets {
			if block, is := c.fixedBlock(s); is {
				_, _ = r.model.CreateSubnetCIDRReservation(r.call(), &ec2.CreateSubnetCIDRReservationInput{
					SubnetID: s.id, CIDR: block.String(), ReservationType: "explicit"})
			}
		}
	}
	r.touched()
}

// fixedBlock is the block of a subnet whose addresses the cluster grants. The smallest subnet has none.
func (c *cluster) fixedBlock(s place) (block netip.Prefix, is bool) {
	cidr := netip.MustParsePrefix(s.cidr)
	if cidr.Bits() > 24 {
		return netip.Prefix{}, false
	}
	first := byte(128)
	if c.name != "red" {
		first = 176
	}
	return netip.PrefixFrom(inBlock(cidr, first), fixedBits), true
}

// grantFixed lets the pods of a network ask for addresses, nearly always.
func (c *cluster) grantFixed(pods *v1alpha1.NodeENIPods) {
	f := c.run.fixed
	if !f.acts || pods == nil || f.happens(8) {
		return
	}
	for _, s := range subnets {
		if block, is := c.fixedBlock(s); is {
			pods.Floating = append(pods.Floating, block.String())
		}
	}
}

// grantsFixed reports whether the cluster grants an address.
func (c *cluster) grantsFixed(address netip.Addr) bool {
	return c.run.fixed.acts && slices.ContainsFunc(subnets, func(s place) bool {
		block, is := c.fixedBlock(s)
		return is && block.Contains(address)
	})
}

// requestOf is the request of the StatefulSet of a network, in its annotation: a range in each subnet. is is false for
// networks without a StatefulSet.
func (c *cluster) requestOf(network string) (request podnet.Request, is bool) {
	name, ordinal, _ := strings.Cut(network, "--")
	var number int
	if _, err := fmt.Sscanf(name, "net-%d", &number); err != nil || ordinal != "" && ordinal != "1" {
		return podnet.Request{}, false
	}
	part := 2 * number
	if ordinal != "" {
		part++
	}
	for _, s := range subnets {
		if block, is := c.fixedBlock(s); is {
			first := block.Addr().As4()
			first[3] += byte(part * mostOrdinals)
			request.Fixed = append(request.Fixed, netip.PrefixFrom(netip.AddrFrom4(first), fixedRangeBits))
		}
	}
	return request, true
}

// moveFixed lets users, StatefulSets and kubelets act. After the healing every kubelet and agent works, and each name
// gets a pod.
func (r *run) moveFixed() {
	f := r.fixed
	if !f.acts {
		return
	}
	for _, instance := range slices.Sorted(maps.Keys(r.pods.hosts)) {
		r.pods.hosts[instance].moveKubelet()
	}
	for _, c := range r.clusters {
		for _, network := range c.openNetworks() {
			for ordinal := range mostOrdinals {
				c.moveFixedPod(network, fmt.Sprintf("%s-%d", network, ordinal))
			}
		}
	}
	r.checkFixed()
}

// openNetworks returns the networks of the cluster's nodes that have a StatefulSet.
func (c *cluster) openNetworks() []string {
	all := map[string]bool{}
	for _, h := range c.run.pods.hosts {
		for _, file := range h.files {
			if _, is := c.requestOf(file.Name); is && h.c == c && file.Attachment == podnet.IPVLAN && file.IPv4 != nil {
				all[file.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// moveKubelet at times separates the kubelet or the agent of a node from the API server, or lets it return. A kubelet
// that is back ends the pods that the API server does not have.
func (h *podHost) moveKubelet() {
	f := h.c.run.fixed
	if h.c.run.faults.off {
		h.fixed.kubeletAway, h.fixed.agentAway = false, false
	} else {
		h.separate()
	}
	if h.fixed.kubeletAway && f.happens(10) {
		h.restartEarlier()
	}
	if h.fixed.kubeletAway || !h.c.run.faults.off && !f.happens(4) {
		return
	}
	for _, network := range slices.Sorted(maps.Keys(h.using)) {
		for _, pod := range slices.Clone(h.using[network]) {
			if pod.fixed != nil && pod.fixed.deleted {
				h.endFixed(pod.fixed)
			}
		}
	}
}

// restartEarlier starts new sandboxes of pods that a user deleted. A kubelet without the API server does not know that.
func (h *podHost) restartEarlier() {
	for _, network := range slices.Sorted(maps.Keys(h.using)) {
		for _, pod := range slices.Clone(h.using[network]) {
			if p := pod.fixed; p != nil && p.deleted {
				h.endFixed(p)
				if h.openFolder(p.network) != "" {
					p.sandboxes++
					h.addFixed(p)
				}
			}
		}
	}
}

func (h *podHost) separate() {
	f := h.c.run.fixed
	switch f.random.IntN(100) {
	case 0, 1:
		h.fixed.kubeletAway = true
	case 2, 3:
		h.fixed.agentAway = true
	case 4, 5, 6:
		h.fixed.kubeletAway, h.fixed.agentAway = true, true
		h.c.run.note(nil, "%s: node %s does not reach the API server", h.c.name, h.node)
	case 7, 8, 9:
		h.fixed.kubeletAway = false
	case 10, 11, 12:
		h.fixed.agentAway = false
	case 13, 14:
		h.c.run.note(nil, "%s: the agent of node %s restarts", h.c.name, h.node)
		h.runs(h.agent)
	default:
	}
}

// running reports whether the kubelet of its node runs the pod.
func (p *fixedPod) running() bool {
	return p.host.c.run.pods.hosts[p.host.instance] == p.host && p.at() >= 0
}

func (p *fixedPod) at() int {
	return slices.IndexFunc(p.host.using[p.folder], func(other runningPod) bool { return other.fixed == p })
}

// hasFixed reports whether a pod has an address that it asked for. Until the kubelet of its node returns, an earlier
// pod of the same name can have it too.
func (p runningPod) hasFixed(address netip.Addr) bool {
	return p.fixed != nil && p.fixed.address == address
}

// holder is the link of the pod's present sandbox.
func (p *fixedPod) holder() podnet.Holder {
	return podnet.Holder{ContainerID: fmt.Sprintf("%s-%d", p.uid, p.sandboxes), Interface: "net1", PodNamespace: "default",
		Pod: p.name, PodUID: p.uid, BootID: p.host.boot.ID, Attachment: podnet.IPVLAN}
}

// endFixed ends a pod, with or without a call of the CNI program.
func (h *podHost) endFixed(p *fixedPod) {
	pods := h.using[p.folder]
	at := p.at()
	pods[0], pods[at] = pods[at], pods[0]
	h.c.run.note(nil, "%s: %s of node %s ends", h.c.name, p.uid, h.node)
	if h.c.run.fixed.happens(4) {
		h.kill(p.folder)
	} else {
		h.remove(p.folder)
	}
	h.forgetBrought()
}

// moveFixedPod lets a user delete the pod of a name, or its StatefulSet start the next one.
func (c *cluster) moveFixedPod(network, name string) {
	f, key := c.run.fixed, c.name+" "+name
	last := f.last[key]
	switch {
	case last == nil || last.deleted || !last.running():
		if last != nil && !last.deleted && c.restartSandbox(last) {
			return
		}
		if !f.quiet && (c.run.faults.off || f.happens(4)) {
			c.startFixed(network, name)
		}
	case !c.run.faults.off:
		c.deleteFixed(last)
	}
}

// deleteFixed at times lets a user delete a pod, also by force, or its sandbox end.
func (c *cluster) deleteFixed(last *fixedPod) {
	f, away := c.run.fixed, last.host.fixed.kubeletAway
	if away && f.happens(8) || f.happens(60) {
		last.deleted = true
		c.run.note(nil, "%s: a user deletes %s of node %s by force", c.name, last.uid, last.host.node)
		c.run.covers.Actors[forcesPod]++
		return
	}
	switch f.random.IntN(60) {
	case 0, 1:
		if !away {
			last.deleted = true
			last.host.endFixed(last)
		}
	case 2:
		c.run.note(nil, "%s: the sandbox of %s of node %s ends", c.name, last.uid, last.host.node)
		last.host.endFixed(last)
	default:
	}
}

// restartSandbox lets the kubelet start a sandbox for a pod that lost its own, on the same node. It reports whether the
// pod stays; otherwise a user deletes it.
func (c *cluster) restartSandbox(p *fixedPod) bool {
	h := p.host
	if c.run.pods.hosts[h.instance] != h || c.run.fixed.happens(8) {
		p.deleted = true
		return false
	}
	if !h.takesPods(p.network) {
		return !c.run.faults.off
	}
	p.sandboxes++
	if !h.addFixed(p) {
		p.deleted = c.run.faults.off
	}
	return true
}

// takesPods reports whether a kubelet can start a pod on a network of the node.
func (h *podHost) takesPods(network string) bool {
	return h.openFolder(network) != "" && (!h.fixed.kubeletAway || h.c.run.faults.off)
}

// openFolder returns the folder of a network from which pods get addresses; "" for none.
func (h *podHost) openFolder(network string) string {
	for _, at := range slices.Sorted(maps.Keys(h.files)) {
		if file := h.files[at]; file.Name == network && file.IsOpen() && h.hasLink(file.ENI) {
			return at
		}
	}
	return ""
}

// startFixed starts a pod on one of the nodes.
func (c *cluster) startFixed(network, name string) {
	f := c.run.fixed
	var hosts []*podHost
	for _, instance := range slices.Sorted(maps.Keys(c.run.pods.hosts)) {
		if h := c.run.pods.hosts[instance]; h.c == c && h.takesPods(network) {
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return
	}
	p := &fixedPod{name: name, uid: fmt.Sprintf("uid-%s-%d", name, f.started+1), number: f.started + 1,
		host: hosts[f.random.IntN(len(hosts))], network: network}
	if p.host.addFixed(p) {
		f.started++
		f.last[c.name+" "+name] = p
	}
}

// addFixed starts a sandbox of a pod, as the CNI program does. It reports whether the pod got an address.
func (h *podHost) addFixed(p *fixedPod) bool {
	r, at := h.c.run, h.openFolder(p.network)
	if at == "" {
		return false
	}
	file := h.files[at]
	request, _ := h.c.requestOf(p.network)
	leases, err := h.allocate(at, p.holder(), request)
	if err != nil {
		return false
	}
	p.eni, p.folder = file.ENI, at
	r.prefixes.pods++
	pod := runningPod{number: r.prefixes.pods, eni: file.ENI, holder: p.holder(), fixed: p}
	for _, lease := range leases {
		if h.c.grantsFixed(lease.Address) {
			p.address = lease.Address
			h.noteFixed(p)
		} else {
			h.checkStarted(at, lease.Address)
		}
		h.put(at, lease)
		pod.addresses = append(pod.addresses, lease.Address)
	}
	h.using[at] = append(h.using[at], pod)
	r.note(nil, "%s: %s of node %s gets %v on %s of network %s", h.c.name, p.uid, h.node, pod.addresses, file.ENI,
		p.network)
	return true
}

// noteFixed records that a pod has a granted address on an interface.
func (h *podHost) noteFixed(p *fixedPod) {
	r := h.c.run
	h.noteBrought(p.eni, p.address)
	r.covers.Actors[startsFixed]++
	r.watch.spent.needed += 2 // the address is assigned, and unassigned in the end
}

func (h *podHost) noteBrought(id string, address netip.Addr) {
	f := h.c.run.followers
	if f.brought[id] == nil {
		f.brought[id] = map[netip.Addr]bool{}
	}
	f.brought[id][address] = true
}
