// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podnet"
)

const (
	// mostPrefixes is the largest number of prefixes that a user declares: the smallest instance type takes ten
	// addresses and prefixes, and other programs assign some.
	mostPrefixes = 3
	// mostAtOnce is how many pods start or end at once.
	mostAtOnce = 8
	// hostSpeed is how much faster than the world the clock of a node runs, so that prefixes become unused within a
	// run.
	hostSpeed = 10
)

// prefixUsers are users who declare networks whose pods have addresses of prefixes. They have a random stream of their
// own, so that they shift no other draw.
type prefixUsers struct {
	random *rand.Rand
	acts   bool
	// pods numbers the pods.
	pods int
}

func newPrefixUsers(seed uint64) *prefixUsers {
	u := &prefixUsers{random: rand.New(rand.NewPCG(seed, 0x28))}
	u.acts = u.random.IntN(3) == 0
	return u
}

// longer is how many times longer the chaos lasts: prefixes are assigned late in a run, and become unused later.
func (u *prefixUsers) longer() int {
	if u.acts {
		return 2
	}
	return 1
}

// declarePrefixes at times gives a pod network prefixes. The schema excludes other IPv4 counts.
func (r *run) declarePrefixes(spec *v1alpha1.NodeENISpec) {
	u := r.prefixes
	if !u.acts || spec.Pods == nil || u.random.IntN(4) == 0 {
		return
	}
	spec.Pods.Attachment = v1alpha1.PodAttachmentIPVLAN
	families := u.random.IntN(4)
	if families > 0 {
		spec.Pods.IPv4, spec.SecondaryPrivateIPAddressCount, spec.IPv4PrefixCount = &v1alpha1.PodIPv4{}, 0, 0
	}
	if families < 2 {
		spec.Pods.IPv6, spec.IPv6AddressCount = &v1alpha1.PodIPv6{}, 0
		r.covers.Actors[declaresIPv6]++
	}
	r.drawPrefixes(spec.Pods)
}

func (r *run) drawPrefixes(pods *v1alpha1.NodeENIPods) {
	u := r.prefixes
	if pods.IPv6 != nil {
		pods.IPv6.Prefixes = int32(1 + u.random.IntN(2))
	}
	ipv4 := pods.IPv4
	if ipv4 == nil {
		return
	}
	ipv4.Prefixes.Min = int32(1 + u.random.IntN(mostPrefixes-1))
	ipv4.Prefixes.Max = ipv4.Prefixes.Min + int32(u.random.IntN(mostPrefixes-int(ipv4.Prefixes.Min)+1))
	ipv4.Spare = ptr.To(int32(u.random.IntN(15)))
}

// editPrefixes at times lets a user change the numbers of a network with prefixes. It reports whether it did.
func (r *run) editPrefixes(spec *v1alpha1.NodeENISpec) bool {
	if u := r.prefixes; !u.acts || !hasPrefixes(spec.Pods) || u.random.IntN(3) == 0 {
		return false
	}
	r.drawPrefixes(spec.Pods)
	return true
}

// hasPrefixes reports whether pods have addresses of prefixes.
func hasPrefixes(pods *v1alpha1.NodeENIPods) bool {
	return pods != nil && (pods.IPv4 != nil || pods.IPv6 != nil)
}

// actForPrefixes at times lets the agent and the pods of a host act.
func (h *podHost) actForPrefixes() {
	u := h.c.run.prefixes
	if !u.acts {
		return
	}
	switch u.random.IntN(6) {
	case 0, 1, 2:
		h.passes()
	case 3:
		h.startPod()
	case 4:
		if u.random.IntN(2) == 0 {
			h.endPod()
		}
	default:
	}
}

// now is the time by the clock of the node.
func (h *podHost) now() time.Time { return beginning.Add(hostSpeed * h.c.run.now.Sub(beginning)) }

// podsOf returns how many pods start or end at once on a network.
func (u *prefixUsers) podsOf(network podnet.Network) int {
	if network.Attachment != podnet.IPVLAN {
		return 1
	}
	return 1 + u.random.IntN(mostAtOnce)
}

// runningPod is a pod with its addresses, and the interface that has them.
type runningPod struct {
	number    int
	eni       string
	holder    podnet.Holder
	addresses []netip.Addr
	// fixed is set if it is the pod of a StatefulSet.
	fixed *fixedPod
}

// add starts a pod on a network, as the CNI program does. It reports whether the pod got an address.
func (h *podHost) add(network string) bool {
	r := h.c.run
	r.prefixes.pods++
	name := fmt.Sprintf("pod-%d", r.prefixes.pods)
	file := h.files[network]
	pod := runningPod{number: r.prefixes.pods, eni: file.ENI, holder: podnet.Holder{ContainerID: name, Interface: "net1",
		PodNamespace: "default", Pod: name, PodUID: "uid-" + name, BootID: h.boot.ID, Attachment: file.Attachment}}
	leases, err := h.allocate(network, pod.holder, podnet.Request{})
	if err != nil {
		return false
	}
	for _, lease := range leases {
		h.checkStarted(network, lease.Address)
		h.put(network, lease)
		r.note(nil, "%s: %s of node %s gets %s on %s of network %s", h.c.name, name, h.node, lease.Address,
			file.ENI, network)
		pod.addresses = append(pod.addresses, lease.Address)
	}
	h.using[network] = append(h.using[network], pod)
	if i, exists := r.truth().interfaces[file.ENI]; exists && file.Attachment == podnet.Observed {
		h.bringUp(i)
	}
	r.covers.Actors[startsPod]++
	if file.Attachment == podnet.IPVLAN {
		r.watch.spent.needed += 2 // another prefix is assigned, and unassigned in the end
	}
	return true
}

// allocate gives a pod its addresses. With attachment Observed another CNI plugin starts the pod, without an address.
func (h *podHost) allocate(network string, holder podnet.Holder, request podnet.Request) ([]podnet.Lease, error) {
	if holder.Attachment == podnet.Observed {
		h.c.run.covers.Actors[startsObserved]++
		return nil, nil
	}
	return h.files[network].Allocate(h.current(network), h.others(network), holder, request, h.now())
}

// others returns the leases of the other interfaces of a network.
func (h *podHost) others(at string) (all []podnet.Lease) {
	for other, file := range h.files {
		if other != at && file.Name == h.files[at].Name {
			all = append(all, h.current(other)...)
		}
	}
	return all
}

// remove ends the first pod of a network. Its addresses rest.
func (h *podHost) remove(network string) {
	pod := h.using[network][0]
	h.free(network, func(l podnet.Lease) bool { return l.Is(pod.holder) })
	h.dropFirst(network)
}

// kill ends the first pod of a network without a call of the CNI program. Its leases stay until the agent or the
// program finds that its network namespace is gone.
func (h *podHost) kill(network string) {
	h.dropFirst(network)
	h.c.run.covers.Actors[killsPod]++
}

func (h *podHost) dropFirst(network string) {
	if h.using[network] = h.using[network][1:]; len(h.using[network]) == 0 {
		delete(h.using, network)
	}
}

// removeAll ends all pods of a network.
func (h *podHost) removeAll(network string) {
	for len(h.using[network]) > 0 {
		h.remove(network)
	}
}

func (h *podHost) free(network string, ended func(podnet.Lease) bool) {
	for _, lease := range podnet.End(h.leases[network], h.now(), ended) {
		at := slices.IndexFunc(h.leases[network], func(l podnet.Lease) bool { return l.Address == lease.Address })
		h.leases[network][at] = lease
	}
}

// checkStarted checks I19 for a pod that starts: EC2 has its address on the interface, and no other pod has it. A pod
// with the whole interface has its IPv6 addresses as well.
func (h *podHost) checkStarted(network string, address netip.Addr) {
	r, id := h.c.run, h.files[network].ENI
	r.judged("I19")
	i := r.truth().interfaces[id]
	prefixes := slices.Concat(i.IPv4Prefixes, i.IPv6Prefixes)
	has := i.PrimaryIPv4 == address || slices.Contains(i.IPv6, address) ||
		slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
	if !has {
		r.violate("I19", "a pod of node %s gets %s of network %s, which EC2 does not have on %s: %s", h.node, address,
			network, id, r.describe(i))
	}
	for _, other := range r.pods.hosts {
		if pod := other.holderOf(address); pod != nil {
			r.violate("I19", "%s of node %s has %s, which a pod of node %s gets on %s", pod.holder.Pod, other.node,
				address, h.node, id)
		}
	}
}

// holderOf returns the pod of the host that has an address on an attached interface; nil for none.
func (h *podHost) holderOf(address netip.Addr) *runningPod {
	if h.c.run.truth().ended(h.instance) {
		return nil
	}
	for _, pods := range h.using {
		for n := range pods {
			if slices.Contains(pods[n].addresses, address) && h.hasLink(pods[n].eni) && !pods[n].hasFixed(address) {
				return &pods[n]
			}
		}
	}
	return nil
}

// unassigningPrefixes checks I19 for calls: no prefix is unassigned while a pod has an address of it.
func (r *run) unassigningPrefixes(p *process, q request) {
	for _, prefix := range slices.Concat(q.unassigns.IPv4Prefixes, q.unassigns.IPv6Prefixes) {
		r.judged("I19")
		for _, host := range r.pods.hosts {
			if pod := host.podIn(prefix, q.target); pod != nil {
				r.violate("I19", "%s unassigns %s from %s, and %s of node %s has an address of it", p.name, prefix, q.target,
					pod.holder.Pod, host.node)
			}
		}
	}
}

// podIn returns the pod of the host that has an address of a prefix on an attached interface; nil for none.
func (h *podHost) podIn(prefix netip.Prefix, id string) *runningPod {
	if h.c.run.truth().ended(h.instance) || !h.hasLink(id) {
		return nil
	}
	for _, pods := range h.using {
		for n := range pods {
			if pods[n].eni == id && slices.ContainsFunc(pods[n].addresses, prefix.Contains) {
				return &pods[n]
			}
		}
	}
	return nil
}

// prefixesDigest summarizes the declared prefixes for the trace.
func prefixesDigest(pods *v1alpha1.NodeENIPods) string {
	if pods == nil {
		return "none"
	}
	words := []string{string(pods.Attachment)}
	if pods.IPv4 != nil {
		words = append(words, fmt.Sprintf("%d-%d spare %d", pods.IPv4.Prefixes.Min, pods.IPv4.Prefixes.Max,
			ptr.Deref(pods.IPv4.Spare, 0)))
	}
	if pods.IPv6 != nil {
		words = append(words, fmt.Sprintf("IPv6 %d", pods.IPv6.Prefixes))
	}
	return strings.Join(words, " ")
}
