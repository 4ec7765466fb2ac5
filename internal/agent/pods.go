// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/netattach"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/core/text"
	"github.com/multieni/multieni/internal/podlease"
)

const (
	// podInterval is the time between two reads of leases, and between two reports that differ in the use of addresses
	// only. Pods start without the agent, so no event reports them.
	podInterval = 5 * time.Second
	// mostCounted bounds the number of free addresses in a report: a prefix of IPv6 has more than 32 bits can count.
	mostCounted = 1 << 16
	// reasonNetworkFile is the reason of a network whose file the agent cannot write, reasonCNIProgram that of all
	// networks of a node without the CNI program.
	reasonNetworkFile = "NetworkFileNotWritten"
	reasonCNIProgram  = "CNIProgramMissing"
)

// router6 is the link-local address of the router in every subnet of a VPC (VPC user guide, "Subnet sizing").
var router6 = netip.MustParseAddr("fe80:ec2::1")

// keepNetworks writes the file of each pod network of the node, ends other networks, and adds the state of each network
// to the snapshot. The state of another instance, which bore the name of the node or bears it now, concerns no pod
// here.
func (a *Agent) keepNetworks(s *snapshot) error {
	if a.NetworksDir == "" || s.state == nil {
		return nil
	}
	if s.metadata != nil && s.metadata.InstanceID != s.state.Spec.InstanceID {
		s.networksUnknown = true
		return nil
	}
	present, err := a.presentNetworks()
	if err != nil {
		s.networksUnknown = true
		return err
	}
	interfaces := map[string]string{}
	for network, file := range present {
		interfaces[network] = file.ENI
	}
	served := ServedNetworks(s.state, interfaces)
	a.observe(s)
	var failures []error
	for _, network := range slices.Sorted(maps.Keys(served)) {
		state, err := a.serveNetwork(s, network, served[network])
		a.qualify(&state, served[network].Pods)
		s.networks = append(s.networks, state)
		failures = append(failures, err)
	}
	for _, network := range slices.Sorted(maps.Keys(present)) {
		if _, is := served[network]; !is && s.isConfirmed() && !s.recalled {
			failures = append(failures, a.leaveNetwork(s, present[network]))
		}
	}
	slices.SortFunc(s.networks, func(x, y v1alpha1.PodNetworkState) int { return strings.Compare(x.Network, y.Network) })
	a.forgetClaims(s)
	return errors.Join(failures...)
}

// serveNetwork writes the file of a pod network and returns its state, which has the error as well. Without the link of
// its interface the network stays as it is, unless it drains.
func (a *Agent) serveNetwork(
	s *snapshot, network string, i v1alpha1.InterfaceState,
) (state v1alpha1.PodNetworkState, err error) {
	last := LastReport(s.state, network, i.ENIID)
	state = v1alpha1.PodNetworkState{Network: network, NodeENI: i.NodeENI, ENIID: i.ENIID, Prefixes: MarkedPrefixes(last)}
	a.addClaims(s, &state, floating(i.Pods))
	if fault := problem(i, s.observed); fault != nil && (!i.Pods.Draining || s.metadata == nil) {
		state.Reason, state.Message = fault.Reason, text.Clip(fault.Message, maxMessage)
		return state, nil
	}
	if err := a.keepNetwork(i, &state, last); err != nil {
		state.Reason, state.Message = reasonNetworkFile, text.Clip(err.Error(), maxMessage)
		return state, err
	}
	if i.Pods.Attachment == v1alpha1.PodAttachmentObserved {
		a.completeObserved(&state)
	} else {
		a.limit(&state)
	}
	return state, nil
}

// leaveNetwork ends a pod network that the node no longer has, and adds its state to the snapshot while there is one.
func (a *Agent) leaveNetwork(s *snapshot, network podnet.Network) error {
	left, err := a.endNetwork(s, network)
	if left == nil {
		return err
	}
	if err != nil {
		left.Drained, left.Reason, left.Message = false, reasonNetworkFile, text.Clip(err.Error(), maxMessage)
	}
	s.networks = append(s.networks, *left)
	return err
}

// ServedNetworks returns the interface of each pod network of a node, by network. Two NodeENIs have a network of one
// name while an earlier NodeENI still has its interface: the network then stays with the interface of the given files.
// An interface that passed to another network stays with the one that has a file: the leases of that one are in use.
// A network that is to drain is one also if EC2 never completed the attachment: the controller waits for the report.
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
		network := netattach.Network{NodeENI: i.NodeENI, Ordinal: int(i.Ordinal)}.Name()
		if _, is := served[network]; (!is || files[network] == i.ENIID) && !isTaken(files, network, i.ENIID) {
			served[network] = i
		}
	}
	return served
}

// isTaken reports whether the file of another network has the interface, and that of the network does not.
func isTaken(files map[string]string, network, eni string) bool {
	return files[network] != eni && slices.Contains(slices.Collect(maps.Values(files)), eni)
}

// presentNetworks returns the networks that have a file. Unreadable files are written again.
func (a *Agent) presentNetworks() (map[string]podnet.Network, error) {
	entries, err := os.ReadDir(a.NetworksDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the files of networks: %w", err)
	}
	present := map[string]podnet.Network{}
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), ".json")
		if !is {
			continue
		}
		content, err := os.ReadFile(filepath.Join(a.NetworksDir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the file of network %s: %w", name, err)
		}
		network, _ := podnet.ParseNetwork(content)
		network.Name = name
		present[name] = network
	}
	return present, nil
}

// endNetwork removes the file of a network that the state does not list any more. While a pod has an address, the
// network drains instead, and the agent goes on reporting it: the controller must not take the interface for unused. An
// error may come with a state, which must be reported too.
func (a *Agent) endNetwork(s *snapshot, network podnet.Network) (*v1alpha1.PodNetworkState, error) {
	path := filepath.Join(a.NetworksDir, network.Name+".json")
	if network.ENI == "" {
		return nil, os.Remove(path) // no pod gets an address by an unreadable file, and no report could name the interface
	}
	state := &v1alpha1.PodNetworkState{Network: network.Name, NodeENI: network.NodeENI, ENIID: network.ENI}
	a.addClaims(s, state, nil)
	store, err := podlease.Open(a.LeasesDir, network.Name)
	if err != nil {
		return state, err
	}
	defer store.Close()
	leases, err := store.Leases()
	if err != nil {
		return state, err
	}
	ended := EndNetwork(network, leases, time.Now(), state)
	if ended && (a.PodAddresses == nil || a.foundAll) {
		if err := os.Remove(path); err != nil {
			return state, fmt.Errorf("remove the file of network %s: %w", network.Name, err)
		}
		return nil, nil
	}
	if network.Draining {
		return state, nil
	}
	network.Draining = true
	content, err := network.Encode()
	if err == nil {
		err = podlease.WriteFile(path, content)
	}
	return state, err
}

// EndNetwork completes the report about a network that the state of the node does not list any more. It reports whether
// no pod has an address, so that the file of the network can go; the network drains until then.
func EndNetwork(network podnet.Network, leases []podnet.Lease, now time.Time, report *v1alpha1.PodNetworkState) bool {
	complete(report, network.Usage(leases, now), nil)
	completeDraining(report, true)
	return report.Used == 0 && liveClaims(report) == 0
}

// LastReport returns what the agent last reported of a network; nil if it reported nothing, or of another interface.
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

// Draining reports whether no further pod may get an address of an interface: the controller says so, or could take the
// last report, or its absence, as leave to detach the interface.
func Draining(i v1alpha1.InterfaceState, last *v1alpha1.PodNetworkState) bool {
	return i.Pods.Draining || last == nil || last.Drained
}

// basicReports returns what the next agent needs of the last report. It changes seldom.
func basicReports(networks []v1alpha1.PodNetworkState) []v1alpha1.PodNetworkState {
	var basic []v1alpha1.PodNetworkState
	for _, n := range networks {
		basic = append(basic, v1alpha1.PodNetworkState{
			Network: n.Network, NodeENI: n.NodeENI, ENIID: n.ENIID, Drained: n.Drained, Prefixes: MarkedPrefixes(&n),
		})
	}
	return basic
}

// keepNetwork writes the file of one network under the lock of its leases, and completes its state.
func (a *Agent) keepNetwork(i v1alpha1.InterfaceState, state, last *v1alpha1.PodNetworkState) error {
	store, err := podlease.Open(a.LeasesDir, state.Network)
	if err != nil {
		return err
	}
	defer store.Close()
	leases, err := store.Leases()
	if err != nil {
		return err
	}
	path := filepath.Join(a.NetworksDir, state.Network+".json")
	present, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the file of network %s: %w", state.Network, err)
	}
	before, _ := podnet.ParseNetwork(present) // an unreadable file is written again
	network := PodNetwork(i, a.Node, a.DefaultMTU)
	report := ServeNetwork(&network, i, NetworkFacts{Last: last, Before: before, Leases: leases, Now: time.Now()}, *state)
	content, err := network.Encode()
	if err != nil {
		return fmt.Errorf("write the file of network %s: %w", state.Network, err)
	}
	if !bytes.Equal(content, present) {
		if err := errors.Join(os.MkdirAll(a.NetworksDir, 0o755), podlease.WriteFile(path, content)); err != nil {
			return fmt.Errorf("write the file of network %s: %w", state.Network, err)
		}
	}
	*state = report
	return nil
}

// NetworkFacts is what the agent knows of a network under the lock of its leases.
type NetworkFacts struct {
	// Last is the last report about the interface; nil without one.
	Last *v1alpha1.PodNetworkState
	// Before is the network of the present file; the zero value without one.
	Before podnet.Network
	Leases []podnet.Lease
	Now    time.Time
}

// ServeNetwork sets the marks of an interface's network, which the agent then writes, and returns the report with its
// use. The agent reports it only after it has written the file.
func ServeNetwork(
	network *podnet.Network, i v1alpha1.InterfaceState, facts NetworkFacts, report v1alpha1.PodNetworkState,
) v1alpha1.PodNetworkState {
	marks := marks(facts.Last)
	network.Draining = Draining(i, facts.Last)
	network.KeepReturned(facts.Before, facts.Now)
	for _, family := range []*podnet.Family{network.IPv4, network.IPv6} {
		keepMarks(family, facts.Before, i.ENIID, marks, facts.Now)
	}
	drained := drainedPrefixes(*network, facts.Before, facts.Leases, marks, facts.Now)
	drain(network.IPv4, facts.Leases, podnet.Demand{Min: int(i.Pods.IPv4Prefixes), Spare: int(i.Pods.Spare)}, facts.Now)
	drain(network.IPv6, facts.Leases, podnet.Demand{Min: int(i.Pods.IPv6Prefixes)}, facts.Now)
	complete(&report, network.Usage(facts.Leases, facts.Now), drained)
	if network.Draining {
		completeDraining(&report, i.Pods.Draining)
	}
	return report
}

// drainedPrefixes returns the draining prefixes that no pod uses. The mark was in the file before the leases were read,
// and in the last report: that one is in the checkpoint too, so that an agent that starts without the API server marks
// the prefix again.
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

// completeDraining says why no further pod gets an address of a network whose file is written. The CNI program reads
// the file under the lock of the leases, so that none does from then on.
func completeDraining(state *v1alpha1.PodNetworkState, removed bool) {
	state.Ready = false
	if !removed {
		state.Reason, state.Message = v1alpha1.ReasonNetworkPending, "pods can attach once the API server has this report"
		return
	}
	state.Drained, state.Reason = state.Used == 0 && liveClaims(state) == 0, v1alpha1.ReasonNetworkDraining
	state.Message = "no further pod gets an address of the interface, which is to be removed, or to be no network for " +
		"pods any more"
}

// PodNetwork returns the pod network of an interface, without marks.
func PodNetwork(i v1alpha1.InterfaceState, node string, defaultMTU int) podnet.Network {
	named := netattach.Network{NodeENI: i.NodeENI, Ordinal: int(i.Ordinal)}
	network := podnet.Network{
		Version: podnet.Version, Name: named.Name(), NodeENI: i.NodeENI, Node: node, Link: hostnet.AltName(named.LinkName()),
		ENI: i.ENIID, MAC: i.MACAddress, MTU: defaultMTU, Attachment: podnet.Attachment(i.Pods.Attachment),
	}
	if i.MTU > 0 {
		network.MTU = int(i.MTU)
	}
	host := network.Attachment == podnet.HostDevice
	if subnet, err := netip.ParsePrefix(i.SubnetCIDR); err == nil && (host || i.Pods.IPv4Prefixes > 0) {
		// The router of a subnet has its second address (VPC user guide, "Subnet sizing").
		network.IPv4 = &podnet.Family{Subnet: subnet, Gateway: subnet.Addr().Next(), MaxPrefixes: int(i.Pods.IPv4MaxPrefixes),
			Prefixes: prefixes(i.IPv4Prefixes)}
	}
	if subnet, err := netip.ParsePrefix(i.Pods.SubnetIPv6CIDR); err == nil && i.Pods.IPv6Prefixes > 0 {
		network.IPv6 = &podnet.Family{Subnet: subnet, Gateway: router6, MaxPrefixes: int(i.Pods.IPv6Prefixes),
			Prefixes: prefixes(i.IPv6Prefixes)}
	}
	if address, err := netip.ParseAddr(i.PrivateIP); err == nil && host && network.IPv4 != nil {
		network.Addresses = append(network.Addresses, address)
	}
	for _, to := range i.Pods.Routes {
		if route, err := netip.ParsePrefix(to); err == nil {
			network.Routes = append(network.Routes, route)
		}
	}
	return network
}

func prefixes(texts []string) []podnet.Prefix {
	var all []podnet.Prefix
	for _, text := range texts {
		if cidr, err := netip.ParsePrefix(text); err == nil {
			all = append(all, podnet.Prefix{CIDR: cidr})
		}
	}
	return all
}

// keepMarks sets what the file before, or the last report, says of each prefix of the same interface.
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

// drain marks the idle prefixes of a family that nothing needs.
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

// complete fills in the use of a network whose file is written.
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
			v1alpha1.PodReference{Namespace: text.Clip(namespace, 63), Name: text.Clip(name, 253)})
	}
}

func count(n int64) int32 { return int32(min(n, mostCounted)) }

// podsDue reports whether a report that differs in pod networks only is due. Pods wait for that of a network which may
// open and of an address that they brought up, and the controller for that of a drained one; the others follow each
// other slowly.
func (a *Agent) podsDue(s *snapshot) bool {
	if equality.Semantic.DeepEqual(s.networks, s.state.Status.PodNetworks) {
		return false
	}
	phases := func(networks []v1alpha1.PodNetworkState) map[string]bool {
		drained := map[string]bool{}
		for _, n := range networks {
			drained[n.ENIID] = n.Drained
		}
		return drained
	}
	claims := func(networks []v1alpha1.PodNetworkState) map[string][]v1alpha1.PodAddressClaim {
		claims := map[string][]v1alpha1.PodAddressClaim{}
		for _, n := range networks {
			if len(n.Claims) > 0 {
				claims[n.ENIID] = n.Claims
			}
		}
		return claims
	}
	return !maps.Equal(phases(s.networks), phases(s.state.Status.PodNetworks)) ||
		!equality.Semantic.DeepEqual(claims(s.networks), claims(s.state.Status.PodNetworks)) ||
		time.Since(a.podsReported) >= podInterval
}
