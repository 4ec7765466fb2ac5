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
	"github.com/multieni/multieni/internal/core/eni"
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
	spec.Pods.Attachment, spec.Pods.IPv4 = v1alpha1.PodAttachmentIPVLAN, &v1alpha1.PodIPv4{}
	spec.SecondaryPrivateIPAddressCount, spec.IPv4PrefixCount = 0, 0
	r.drawPrefixes(spec.Pods.IPv4)
}

func (r *run) drawPrefixes(ipv4 *v1alpha1.PodIPv4) {
	u := r.prefixes
	ipv4.Prefixes.Min = int32(1 + u.random.IntN(mostPrefixes-1))
	ipv4.Prefixes.Max = ipv4.Prefixes.Min + int32(u.random.IntN(mostPrefixes-int(ipv4.Prefixes.Min)+1))
	ipv4.Spare = ptr.To(int32(u.random.IntN(15)))
}

// editPrefixes at times lets a user change the numbers of a network with prefixes. It reports whether it did.
func (r *run) editPrefixes(spec *v1alpha1.NodeENISpec) bool {
	if u := r.prefixes; !u.acts || spec.Pods == nil || spec.Pods.IPv4 == nil || u.random.IntN(3) == 0 {
		return false
	}
	r.drawPrefixes(spec.Pods.IPv4)
	return true
}

// actForPrefixes at times lets the agent and the pods of a host act.
func (h *podHost) actForPrefixes() {
	u := h.c.run.prefixes
	if !u.acts {
		return
	}
	switch u.random.IntN(6) {
	case 0:
		h.read()
		h.serve()
	case 1:
		h.serve()
	case 2:
		h.write()
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

// runningPod is a pod with the interface that has its addresses.
type runningPod struct {
	eni    string
	holder podnet.Holder
}

// add starts a pod on a network, as the CNI program does. It reports whether the pod got an address.
func (h *podHost) add(network string) bool {
	r := h.c.run
	r.prefixes.pods++
	name := fmt.Sprintf("pod-%d", r.prefixes.pods)
	holder := podnet.Holder{ContainerID: name, Interface: "net1", PodNamespace: "default", Pod: name}
	leases, err := h.files[network].Allocate(h.leases[network], holder, h.now())
	if err != nil {
		return false
	}
	for _, lease := range leases {
		h.checkStarted(network, lease.Address)
		h.leases[network] = append(slices.DeleteFunc(h.leases[network], func(l podnet.Lease) bool {
			return l.Address == lease.Address
		}), lease)
		r.note(nil, "%s: %s of node %s gets %s on %s of network %s", h.c.name, name, h.node, lease.Address,
			h.files[network].ENI, network)
	}
	h.using[network] = append(h.using[network], runningPod{h.files[network].ENI, holder})
	r.covers.Actors[startsPod]++
	if file := h.files[network]; file.IPv4 != nil && len(file.IPv4.Prefixes) > 0 {
		r.watch.spent.needed += 2 // another prefix is assigned, and unassigned in the end
	}
	return true
}

// remove ends the first pod of a network. Its addresses rest.
func (h *podHost) remove(network string) {
	pod := h.using[network][0]
	h.free(network, func(l podnet.Lease) bool { return l.Is(pod.holder) })
	if h.using[network] = h.using[network][1:]; len(h.using[network]) == 0 {
		delete(h.using, network)
	}
}

// removeAll ends all pods of a network.
func (h *podHost) removeAll(network string) {
	h.free(network, func(podnet.Lease) bool { return true })
	delete(h.using, network)
}

func (h *podHost) free(network string, ended func(podnet.Lease) bool) {
	for _, lease := range podnet.End(h.leases[network], h.now(), ended) {
		at := slices.IndexFunc(h.leases[network], func(l podnet.Lease) bool { return l.Address == lease.Address })
		h.leases[network][at] = lease
	}
}

// checkStarted checks I19 for a pod that starts: EC2 has its address on the interface, and no other pod has it.
func (h *podHost) checkStarted(network string, address netip.Addr) {
	r, id := h.c.run, h.files[network].ENI
	r.judged("I19")
	i := r.truth().interfaces[id]
	has := i.PrimaryIPv4 == address || slices.ContainsFunc(i.IPv4Prefixes, func(p netip.Prefix) bool {
		return p.Contains(address)
	})
	if !has {
		r.violate("I19", "a pod of node %s gets %s of network %s, which EC2 does not have on %s: %s", h.node, address,
			network, id, describe(i))
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
	for network, pods := range h.using {
		for _, lease := range h.leases[network] {
			if lease.Address != address || !lease.InUse() {
				continue
			}
			at := slices.IndexFunc(pods, func(p runningPod) bool { return lease.Is(p.holder) })
			if at >= 0 && h.hasLink(pods[at].eni) {
				return &pods[at]
			}
		}
	}
	return nil
}

// unassigningPrefixes checks I19 for calls: no prefix is unassigned while a pod has an address of it.
func (r *run) unassigningPrefixes(p *process, q request) {
	for _, prefix := range q.unassigns.IPv4Prefixes {
		r.judged("I19")
		for address := prefix.Addr(); prefix.Contains(address); address = address.Next() {
			for _, host := range r.pods.hosts {
				if pod := host.holderOf(address); pod != nil && pod.eni == q.target {
					r.violate("I19", "%s unassigns %s from %s, and %s of node %s has %s", p.name, prefix, q.target, pod.holder.Pod,
						host.node, address)
				}
			}
		}
	}
}

// leastPrefixes returns how many IPv4 prefixes each interface of a NodeENI must have.
func leastPrefixes(spec v1alpha1.NodeENISpec) int {
	if spec.Pods != nil && spec.Pods.IPv4 != nil {
		return int(spec.Pods.IPv4.Prefixes.Min)
	}
	return int(spec.IPv4PrefixCount)
}

// grownPrefixes returns how many IPv4 prefixes an interface must have for the present use of its network.
func (r *run) grownPrefixes(spec v1alpha1.NodeENISpec, i eni.Interface) int {
	least := leastPrefixes(spec)
	if spec.Pods == nil || spec.Pods.IPv4 == nil || i.Attachment == nil {
		return least
	}
	host := r.pods.hosts[i.Attachment.InstanceID]
	if host == nil {
		return least
	}
	for network, file := range host.files {
		if file.ENI != i.ID || file.Draining || file.IPv4 == nil {
			continue
		}
		usage := file.Usage(host.leases[network], host.now()).IPv4
		if usage.Free < int64(ptr.Deref(spec.Pods.IPv4.Spare, 0)) {
			return max(least, min(len(i.IPv4Prefixes)+1, int(spec.Pods.IPv4.Prefixes.Max)))
		}
	}
	return least
}

// serves reports whether pods can get addresses of an interface.
func (h *podHost) serves(id string) bool {
	for _, file := range h.files {
		if file.ENI == id && !file.Draining {
			return true
		}
	}
	return false
}

// drainedOn returns the prefixes of an interface that the agent of its node reports as drained.
func (c *cluster) drainedOn(i eni.Interface) (drained []netip.Prefix) {
	for _, object := range c.api.all(states) {
		for _, network := range object.(*v1alpha1.NodeENIState).Status.PodNetworks {
			for _, p := range network.Prefixes {
				if network.ENIID == i.ID && p.Phase == v1alpha1.PodPrefixDrained {
					drained = append(drained, netip.MustParsePrefix(p.CIDR))
				}
			}
		}
	}
	return drained
}

// lacksReports reports whether no agent reports how pods use an interface: two Nodes name the instance, the older one
// owns it, and the agent runs under the name of the other.
func (c *cluster) lacksReports(claim expectedClaim, i eni.Interface) bool {
	host := c.run.pods.hosts[i.Attachment.InstanceID]
	return host != nil && host.c == c && host.node != claim.node.Name
}

// checkPrefixes checks I19 when all is well: an interface has the prefixes that its pods need, and no drained one.
func (c *cluster) checkPrefixes(claim expectedClaim, i eni.Interface) *Violation {
	spec := claim.nodeENI.Spec
	if spec.Pods == nil || spec.Pods.IPv4 == nil || i.Attachment == nil || c.run.watch.tampered(i.ID) {
		return nil
	}
	c.run.judged("I19")
	host := c.run.pods.hosts[i.Attachment.InstanceID]
	if host != nil && host.c == c && !c.lacksReports(claim, i) && !host.serves(i.ID) {
		return &Violation{"I19", fmt.Sprintf("no pod of node %s can get an address of %s: %s", host.node, i.ID, describe(i))}
	}
	if need := c.run.grownPrefixes(spec, i); len(i.IPv4Prefixes) < need && !c.full(claim, i) {
		return &Violation{"I19", fmt.Sprintf("%s has %d prefixes, and its pods need %d: %s", i.ID, len(i.IPv4Prefixes),
			need, describe(i))}
	}
	requested := c.requested(i).IPv4Prefixes
	for _, prefix := range c.drainedOn(i) {
		if slices.Contains(requested, prefix) {
			return &Violation{"I19", fmt.Sprintf("%s still has %s, which no pod uses: %s", i.ID, prefix, describe(i))}
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
	return strings.Join(words, " ")
}
