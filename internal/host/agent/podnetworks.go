// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/netattach"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/core/text"
	"github.com/multieni/multieni/internal/host/podlease"
)

// mostCounted bounds the number of free addresses in a report: an IPv6 prefix has more addresses than an int32 can
// count.
const mostCounted = 1 << 16

// reasonRangeUnknown is the reason of a network whose subnet has no known range of a declared family.
const reasonRangeUnknown = "SubnetRangeUnknown"

// ServedNetworks returns the interface of each pod network of a node, by network. Two NodeENIs can have a network of
// the same name while an earlier NodeENI still has its interface: the network then stays with the interface in its
// file. An interface that moved to another network stays with the network that has a file, because the leases of that
// network are in use; no other interface gets that network before its file is removed. A draining network is included
// even if EC2 never completed the attachment: the controller waits for the report.
func ServedNetworks(state *v1alpha1.NodeENIState, files map[string]string) map[string]v1alpha1.InterfaceState {
	served := map[string]v1alpha1.InterfaceState{}
	for _, i := range state.Status.Interfaces {
		if i.Pods == nil || i.MACAddress == "" {
			continue
		}
		if neverAttached := i.Phase == v1alpha1.PhaseAttaching && i.Pods.Draining; i.Phase != v1alpha1.PhaseAttached &&
			!neverAttached {
			continue
		}
		network := networkOf(i).Name()
		if files[network] == i.ENIID {
			served[network] = i
			continue
		}
		if _, is := served[network]; !is && !isTaken(files, network, i.ENIID) && !isLeased(files[network], state, network) {
			served[network] = i
		}
	}
	return served
}

// isTaken reports whether the file of another network names the interface, and the file of this network does not.
func isTaken(files map[string]string, network, eni string) bool {
	return files[network] != eni && slices.Contains(slices.Collect(maps.Values(files)), eni)
}

// isLeased reports whether the state lists the interface in the file of a network, and not as that network: it moved to
// another one, or its NodeENI and the record of its pods are gone. A lease does not name its interface: if another
// interface got the file, the pods would count as its own, and the interface that they use as drained.
func isLeased(eni string, state *v1alpha1.NodeENIState, network string) bool {
	return slices.ContainsFunc(state.Status.Interfaces, func(i v1alpha1.InterfaceState) bool {
		return i.ENIID != "" && i.ENIID == eni && (networkOf(i).Name() != network || i.Pods == nil)
	})
}

func networkOf(i v1alpha1.InterfaceState) netattach.Network {
	return netattach.Network{NodeENI: i.NodeENI, Ordinal: int(i.Ordinal)}
}

// EndNetwork completes the report about a network that the state of the node no longer lists. The argument brought is
// the number of addresses that pods brought up themselves. It reports whether no pod has an address, so that the file
// of the network can be removed; the network drains until then.
func EndNetwork(
	network podnet.Network, leases []podnet.Lease, brought int, now time.Time, report *v1alpha1.PodNetworkState,
) bool {
	usage := network.Usage(leases, now)
	complete(report, usage, nil)
	completeDraining(report, true, brought)
	explainUnreadable(report, usage)
	return report.Used == 0 && brought == 0
}

// OneOfEachInterface returns the networks without further ones of an interface, which the API server would refuse. Two
// files name one interface only if a user copied one. The network that the state lists comes first; it is not drained
// while the other one is not.
func OneOfEachInterface(networks []v1alpha1.PodNetworkState) (all []v1alpha1.PodNetworkState) {
	for _, network := range networks {
		at := slices.IndexFunc(all, func(n v1alpha1.PodNetworkState) bool { return n.ENIID == network.ENIID })
		if at < 0 {
			all = append(all, network)
			continue
		}
		all[at].Drained = all[at].Drained && network.Drained
	}
	return all
}

// LastReport returns the last report of the agent about a network with the given interface; nil if there is none.
func LastReport(state *v1alpha1.NodeENIState, network, eni string) *v1alpha1.PodNetworkState {
	for n := range state.Status.PodNetworks {
		if last := &state.Status.PodNetworks[n]; last.Network == network && last.ENIID == eni {
			return last
		}
	}
	return nil
}

// marks returns the prefixes of a network that the agent reported as draining. The file with the marks is lost at a
// reboot.
func marks(last *v1alpha1.PodNetworkState) map[string]bool {
	marks := map[string]bool{}
	for _, p := range MarkedPrefixes(last) {
		marks[p.CIDR] = true
	}
	return marks
}

// MarkedPrefixes returns the prefixes that the agent reported as draining. Each report has them: after a reboot the
// agent knows them by its last report alone.
func MarkedPrefixes(last *v1alpha1.PodNetworkState) (marked []v1alpha1.PodPrefix) {
	if last == nil {
		return nil
	}
	for _, p := range last.Prefixes {
		if p.Phase != v1alpha1.PodPrefixActive {
			marked = append(marked, v1alpha1.PodPrefix{CIDR: p.CIDR, Phase: v1alpha1.PodPrefixDraining})
		}
	}
	return marked
}

// Draining reports whether no further pod may get an address of an interface: the controller drains it, could detach it
// because of the last report, or has not recorded that the network is open. Without that record, a report that is lost
// would mean that no pod uses the interface.
func Draining(i v1alpha1.InterfaceState, last *v1alpha1.PodNetworkState) bool {
	return i.Pods.Draining || !i.Pods.Opened || last == nil || last.Drained
}

// DisabledNetworks returns the reports of an agent without pod networks, which lets no pod attach and cannot tell when
// pods end. It repeats the last reports: without them the controller could take the interfaces for unused. It reports
// an interface as drained if no agent can have opened its network. Confirmed says that the state lists all interfaces.
func DisabledNetworks(state *v1alpha1.NodeENIState, confirmed bool) (reports []v1alpha1.PodNetworkState) {
	named := map[string]string{}
	for _, last := range state.Status.PodNetworks {
		named[last.Network] = last.ENIID
	}
	served := ServedNetworks(state, named)
	for _, last := range state.Status.PodNetworks {
		listed := slices.ContainsFunc(state.Status.Interfaces, func(i v1alpha1.InterfaceState) bool {
			return i.ENIID == last.ENIID
		})
		if !confirmed || listed && (!last.Drained || served[last.Network].ENIID == last.ENIID) {
			delete(served, last.Network)
			reports = append(reports, *last.DeepCopy())
		}
	}
	for network, i := range served {
		reports = append(reports, v1alpha1.PodNetworkState{
			Network: network, NodeENI: i.NodeENI, ENIID: i.ENIID,
			Drained: !i.Pods.Opened && !slices.Contains(state.Spec.EarlierInterfaces, i.ENIID),
		})
	}
	for n := range reports {
		r := &reports[n]
		r.Ready, r.Capacity, r.Reason = false, 0, v1alpha1.ReasonPodNetworksDisabled
		r.Message = "the agent runs without pod networks and cannot tell which pods use the interface; set " +
			"pods.enabled=true in the values of the chart"
	}
	slices.SortFunc(reports, func(x, y v1alpha1.PodNetworkState) int { return strings.Compare(x.Network, y.Network) })
	return reports
}

// basicReports returns the part of the last report that the next agent needs. It changes seldom.
func basicReports(networks []v1alpha1.PodNetworkState) []v1alpha1.PodNetworkState {
	var basic []v1alpha1.PodNetworkState
	for _, n := range networks {
		basic = append(basic, v1alpha1.PodNetworkState{
			Network: n.Network, NodeENI: n.NodeENI, ENIID: n.ENIID, Drained: n.Drained, Prefixes: MarkedPrefixes(&n),
		})
	}
	return basic
}

// ServeNetwork sets the marks of an interface's network, and returns the report with the use of its addresses. The
// agent first writes the file with the marks, and then the report.
func ServeNetwork(
	network *podnet.Network, i v1alpha1.InterfaceState, facts NetworkFacts, report v1alpha1.PodNetworkState,
) v1alpha1.PodNetworkState {
	marks := marks(facts.Last)
	unknown := keepRanges(network, i, facts.Before)
	network.Draining = Draining(i, facts.Last) || unknown != ""
	for _, family := range []*podnet.Family{network.IPv4, network.IPv6} {
		keepMarks(family, facts.Before, i.ENIID, marks, facts.Now)
	}
	drained := drainedPrefixes(*network, facts.Before, facts.Leases, marks, facts.Now)
	demand := podnet.Demand{Min: int(i.Pods.IPv4Prefixes), Spare: int(i.Pods.Spare), Returnable: requestedPrefixes(i)}
	drain(network.IPv4, facts.Leases, demand, facts.Now)
	demand.Min, demand.Spare = int(i.Pods.IPv6Prefixes), 0
	drain(network.IPv6, facts.Leases, demand, facts.Now)
	usage := network.Usage(facts.Leases, facts.Now)
	complete(&report, usage, drained)
	switch {
	case unknown != "" && !i.Pods.Draining:
		explainUnknownRange(&report, unknown)
	case network.Draining:
		completeDraining(&report, i.Pods.Draining, facts.Brought)
	default:
		explainLostLinks(&report, facts)
	}
	explainUnreadable(&report, usage)
	if i.Pods.Attachment == v1alpha1.PodAttachmentObserved {
		completeObserved(&report, facts)
	}
	return report
}

// explainLostLinks names the pods that ran while the interface was detached. The network takes further pods.
func explainLostLinks(state *v1alpha1.PodNetworkState, facts NetworkFacts) {
	var pods []string
	for _, l := range facts.Leases {
		if l.HasLostLink(facts.Link, facts.LinkAt) && !slices.Contains(pods, l.PodName()) {
			pods = append(pods, l.PodName())
		}
	}
	if len(pods) > 0 {
		slices.Sort(pods)
		state.Reason = v1alpha1.ReasonPodsWithoutLink
		state.Message = text.Clip(fmt.Sprintf("the interface was detached while pods ran, and they have lost their link: "+
			"delete these pods, so that they start again: %s", strings.Join(pods, ", ")), maxMessage)
	}
}

// explainUnknownRange reports that pods would lack the address of a declared family. A pod gets one of each, or none.
func explainUnknownRange(state *v1alpha1.PodNetworkState, family string) {
	state.Ready, state.Reason, state.Capacity = false, reasonRangeUnknown, 0
	state.Message = fmt.Sprintf("the state of the node has no %s range of the interface's subnet, and no pod starts "+
		"without an address of it: wait until the controller has read the subnet; if it has no %s range, associate one "+
		"with it, or take %s out of the NodeENI", family, family, family)
}

// explainUnreadable names the damaged leases, which keep addresses in use without a pod.
func explainUnreadable(state *v1alpha1.PodNetworkState, usage podnet.Usage) {
	if len(usage.Unreadable) == 0 {
		return
	}
	address := usage.Unreadable[0]
	state.Message = text.Clip(fmt.Sprintf("%s; the lease of %v is damaged, so its address stays in use: "+
		"once no pod of the node has the address, delete %s",
		state.Message, address, podlease.Path(state.Network, address)), maxMessage)
}

// WithoutCheckpoint returns the reports of an agent whose checkpoint could not be written. It reports nothing as
// drained: an agent that starts without the API server would not know the marks, and would let pods have what was
// returned to EC2.
func WithoutCheckpoint(networks []v1alpha1.PodNetworkState, failure error) []v1alpha1.PodNetworkState {
	reports := make([]v1alpha1.PodNetworkState, 0, len(networks))
	for _, network := range networks {
		report := *network.DeepCopy()
		kept := report.Drained
		for n := range report.Prefixes {
			if p := &report.Prefixes[n]; p.Phase == v1alpha1.PodPrefixDrained {
				p.Phase, kept = v1alpha1.PodPrefixDraining, true
			}
		}
		if report.Drained = false; kept {
			report.Message = text.Clip(fmt.Sprintf("%s; nothing is reported as drained: %v", report.Message, failure),
				maxMessage)
		}
		reports = append(reports, report)
	}
	return reports
}

// drainedPrefixes returns the draining prefixes that no pod uses. The mark must have been in the file before the leases
// were read, and in the last report. The checkpoint has that report too, so that an agent that starts without the API
// server marks the prefix again.
func drainedPrefixes(network, before podnet.Network, leases []podnet.Lease, marks map[string]bool,
	now time.Time) map[netip.Prefix]bool {
	drained := map[netip.Prefix]bool{}
	for _, family := range []*podnet.Family{network.IPv4, network.IPv6} {
		if family == nil {
			continue
		}
		for _, prefix := range family.Drained(leases, now) {
			drained[prefix] = isMarked(before, prefix) && marks[prefix.String()]
		}
	}
	return drained
}

// completeDraining reports why no further pod gets an address of a network. The CNI program reads the file under the
// lock of the leases, so no pod gets one once the file is written.
func completeDraining(state *v1alpha1.PodNetworkState, removed bool, brought int) {
	state.Ready = false
	if !removed {
		state.Reason = v1alpha1.ReasonNetworkPending
		state.Message = "pods can attach once the controller has recorded this report"
		return
	}
	state.Drained, state.Reason = state.Used == 0 && brought == 0, v1alpha1.ReasonNetworkDraining
	state.Message = "no further pod gets an address of the interface, because it will be removed or its NodeENI no " +
		"longer has pods"
}

// keepMarks copies the marks of the previous file of the same interface, and those of the last report, to the prefixes.
func keepMarks(family *podnet.Family, before podnet.Network, eni string, marks map[string]bool, now time.Time) {
	if family == nil {
		return
	}
	for n := range family.Prefixes {
		p := &family.Prefixes[n]
		p.Since, p.Draining = now.UTC().Truncate(time.Second), marks[p.CIDR.String()]
		if before.ENI != eni {
			continue
		}
		if known := find(before, p.CIDR); known != nil {
			p.Since, p.Draining = known.Since, p.Draining || known.Draining
		}
	}
}

func find(network podnet.Network, cidr netip.Prefix) *podnet.Prefix {
	for _, family := range []*podnet.Family{network.IPv4, network.IPv6} {
		if family == nil {
			continue
		}
		for n := range family.Prefixes {
			if family.Prefixes[n].CIDR == cidr {
				return &family.Prefixes[n]
			}
		}
	}
	return nil
}

func isMarked(network podnet.Network, cidr netip.Prefix) bool {
	known := find(network, cidr)
	return known != nil && known.Draining
}

// requestedPrefixes returns the prefixes of an interface that the controller has a record of requesting. It unassigns
// no others: another program assigned them, or EC2's answer was lost.
func requestedPrefixes(i v1alpha1.InterfaceState) (requested []netip.Prefix) {
	for _, text := range i.RequestedAddresses {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			requested = append(requested, prefix)
		}
	}
	return requested
}

// drain marks the idle prefixes of a family that the demand does not need.
func drain(family *podnet.Family, leases []podnet.Lease, demand podnet.Demand, now time.Time) {
	if family == nil {
		return
	}
	for _, idle := range family.Drain(leases, demand, now) {
		for n := range family.Prefixes {
			family.Prefixes[n].Draining = family.Prefixes[n].Draining || family.Prefixes[n].CIDR == idle
		}
	}
}

// complete fills in the use of a network.
func complete(state *v1alpha1.PodNetworkState, usage podnet.Usage, drained map[netip.Prefix]bool) {
	state.Ready, state.Reason, state.Message = true, v1alpha1.ReasonNetworkReady, "the file of the network is written"
	state.Prefixes = nil
	state.Used, state.Capacity = count(usage.IPv4.Used+usage.IPv6.Used), count(usage.Capacity)
	state.Free = count(usage.IPv4.Free)
	if len(usage.IPv4.Prefixes) == 0 && usage.IPv4.Free == 0 {
		state.Free = count(usage.IPv6.Free)
	}
	for _, p := range slices.Concat(usage.IPv4.Prefixes, usage.IPv6.Prefixes) {
		phase := v1alpha1.PodPrefixActive
		switch {
		case drained[p.CIDR]:
			phase = v1alpha1.PodPrefixDrained
		case p.Draining:
			phase = v1alpha1.PodPrefixDraining
		}
		state.Prefixes = append(state.Prefixes, v1alpha1.PodPrefix{CIDR: p.CIDR.String(), Used: count(p.Used), Phase: phase})
	}
	for n, pod := range usage.Pods {
		if n == v1alpha1.MaxPodsOfNetwork {
			state.PodsOmitted = int32(len(usage.Pods) - n + usage.MorePods)
			break
		}
		namespace, name, named := strings.Cut(pod.Name, "/")
		if !named {
			namespace, name = "", pod.Name
		}
		state.Pods = append(state.Pods,
			v1alpha1.PodReference{Namespace: text.Clip(namespace, 63), Name: text.Clip(name, 253), UID: text.Clip(pod.UID, 63)})
	}
}

func count(n int64) int32 { return int32(min(n, mostCounted)) }
