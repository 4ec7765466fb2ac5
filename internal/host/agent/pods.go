// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/core/text"
	"github.com/multieni/multieni/internal/host/podlease"
)

const (
	// podInterval is the time between two reads of leases, and between two reports that differ only in the use of
	// addresses. Pods start without the agent, so no event reports them.
	podInterval = 5 * time.Second
	// reasonNetworkFile is the reason of a network whose file the agent cannot write. reasonCNIProgram is the reason of
	// all networks of a node without the CNI program. reasonLocked is the reason of a network whose leases another process
	// has locked.
	reasonNetworkFile = "NetworkFileNotWritten"
	reasonCNIProgram  = "CNIProgramMissing"
	reasonLocked      = "LeasesLocked"
	// lockTime bounds how long one pass waits for locks of leases, so that the other networks and all links go on.
	lockTime = time.Second
)

// keepNetworks writes the file of each pod network of the node, ends other networks, and adds the state of each network
// to the snapshot. It ignores the state of another instance with the name of this node. Without a folder for the files
// it only adds the states.
func (a *Agent) keepNetworks(ctx context.Context, s *snapshot) error {
	if s.state == nil {
		return nil
	}
	others := s.isOthers()
	switch {
	case a.PodFiles == nil && others:
		s.networks = s.state.Status.PodNetworks
		return nil
	case a.PodFiles == nil:
		s.networks = DisabledNetworks(s.state, s.isConfirmed() && !s.recalled)
		return nil
	case others:
		s.networksUnknown = true
		return nil
	}
	present, err := a.PodFiles.Networks()
	if err != nil {
		s.networksUnknown = true
		return err
	}
	return a.keepFiles(ctx, s, present)
}

// keepFiles writes the files of the networks that the node has, ends the other networks that have a file, and adds the
// state of each to the snapshot.
func (a *Agent) keepFiles(ctx context.Context, s *snapshot, present map[string]podnet.Network) error {
	interfaces := map[string]string{}
	for network, file := range present {
		interfaces[network] = file.ENI
		a.granted = a.granted || file.IPv4 != nil && len(file.IPv4.Granted) > 0
	}
	served := ServedNetworks(s.state, interfaces)
	a.observe(ctx, s)
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	var failures []error
	for _, network := range slices.Sorted(maps.Keys(served)) {
		state, err := a.serveNetwork(ctx, s, network, served[network])
		a.qualify(&state, served[network].Pods)
		s.networks = append(s.networks, state)
		failures = append(failures, err)
	}
	for _, network := range slices.Sorted(maps.Keys(present)) {
		if _, is := served[network]; !is && s.isConfirmed() && !s.recalled {
			failures = append(failures, a.leaveNetwork(ctx, s, present[network]))
		}
	}
	failures = append(failures, a.sweepLeases(ctx, func(network string) bool {
		_, isServed := served[network]
		_, isPresent := present[network]
		return isServed || isPresent
	}))
	s.networks = OneOfEachInterface(s.networks)
	slices.SortFunc(s.networks, func(x, y v1alpha1.PodNetworkState) int { return strings.Compare(x.Network, y.Network) })
	a.forgetPresent(s)
	return errors.Join(failures...)
}

// serveNetwork writes the file of a pod network and returns its state, which includes the error. If its interface has
// no usable link, the file stays as it is, unless the network drains.
func (a *Agent) serveNetwork(
	ctx context.Context, s *snapshot, network string, i v1alpha1.InterfaceState,
) (state v1alpha1.PodNetworkState, err error) {
	last := LastReport(s.state, network, i.ENIID)
	state = v1alpha1.PodNetworkState{Network: network, NodeENI: i.NodeENI, ENIID: i.ENIID, Prefixes: MarkedPrefixes(last)}
	brought := a.updatePresent(s, i.ENIID, floating(i.Pods))
	if fault := problemOf(i, s.observed); fault != nil && (!i.Pods.Draining || !s.isOwn()) {
		state.Reason, state.Message = fault.Reason, text.Clip(fault.Message, maxMessage)
		if i.Pods.Draining {
			state.Message = text.Clip(fault.Message+"; the agent reports the network as drained once it knows that this is "+
				"the instance of the interface: let instance metadata answer, or the Node have the providerID of the instance",
				maxMessage)
		}
		return state, nil
	}
	facts := NetworkFacts{Last: last, Brought: brought, Link: linkOf(s.observed, i.MACAddress), LinkAt: s.readAt,
		Observes: a.PodAddresses != nil}
	if err := a.keepNetwork(ctx, i, &state, facts); err != nil {
		explainFailure(&state, err)
		return state, err
	}
	if i.Pods.Attachment != v1alpha1.PodAttachmentObserved {
		a.limit(&state)
	}
	return state, nil
}

// isOthers reports whether the state is that of another instance, as instance metadata says.
func (s *snapshot) isOthers() bool {
	return s.metadata != nil && s.metadata.InstanceID != s.state.Spec.InstanceID
}

// isOwn reports whether this is the instance of the state, as instance metadata says, which keepNetworks compared, or
// the Node. A network of another instance with the name of this node has no link here, and this node knows nothing of
// its pods.
func (s *snapshot) isOwn() bool {
	if s.metadata != nil || s.node == nil {
		return s.metadata != nil
	}
	instance, err := eni.ParseProviderID(s.node.Spec.ProviderID)
	return err == nil && instance.ID == s.state.Spec.InstanceID
}

// linkOf returns the index of an interface's link on the node; 0 if it is not there.
func linkOf(observed []hostnet.Observation, mac string) int {
	for _, o := range observed {
		if o.Link.MAC == mac && o.Facts != nil {
			return o.Facts.Index
		}
	}
	return 0
}

// leaveNetwork ends a pod network that the node no longer has, and adds its state to the snapshot until it has ended.
func (a *Agent) leaveNetwork(ctx context.Context, s *snapshot, network podnet.Network) error {
	left, err := a.endNetwork(ctx, s, network)
	if left == nil {
		return err
	}
	if err != nil {
		left.Drained = false
		explainFailure(left, err)
	}
	s.networks = append(s.networks, *left)
	return err
}

// explainFailure reports why the agent could not serve a network.
func explainFailure(state *v1alpha1.PodNetworkState, err error) {
	state.Reason, state.Message = reasonNetworkFile, text.Clip(err.Error(), maxMessage)
	if errors.Is(err, podlease.ErrLocked) {
		state.Reason = reasonLocked
	}
}

// endNetwork removes the file of a network that the state no longer lists. While a pod has an address, the network
// drains instead, and the agent continues to report it, so that the controller does not treat the interface as unused.
// endNetwork may return a state together with an error; the caller must report both.
func (a *Agent) endNetwork(
	ctx context.Context, s *snapshot, network podnet.Network,
) (*v1alpha1.PodNetworkState, error) {
	if network.ENI == "" {
		// no pod gets an address with an invalid file, and no report could name the interface
		return nil, a.PodFiles.RemoveNetwork(network.Name)
	}
	state := &v1alpha1.PodNetworkState{Network: network.Name, NodeENI: network.NodeENI, ENIID: network.ENI}
	brought := a.updatePresent(s, network.ENI, nil)
	store, err := a.PodFiles.Lock(ctx, network.Name)
	if err != nil {
		return state, err
	}
	defer store.Close()
	now := a.Now()
	leases, err := store.Current(now)
	if err != nil {
		return state, err
	}
	a.updateLeased(network, leases, nil)
	ended := EndNetwork(network, leases, brought, now, state)
	seesAll := a.seesAll(network.ENI)
	state.Drained = state.Drained && seesAll
	if ended && seesAll {
		if err := a.PodFiles.RemoveNetwork(network.Name); err != nil {
			return state, err
		}
		return nil, nil
	}
	if network.Draining {
		return state, nil
	}
	network.Draining = true
	return state, a.PodFiles.WriteNetwork(network)
}

// keepNetwork writes the file of one network under the lock of its leases, and completes its state. It adds to the
// facts what it reads under the lock.
func (a *Agent) keepNetwork(
	ctx context.Context, i v1alpha1.InterfaceState, state *v1alpha1.PodNetworkState, facts NetworkFacts,
) error {
	store, err := a.PodFiles.Lock(ctx, state.Network)
	if err != nil {
		return err
	}
	defer store.Close()
	facts.Now = a.Now()
	if facts.Leases, err = store.Current(facts.Now); err != nil {
		return err
	}
	network := PodNetwork(i, a.Node, a.DefaultMTU)
	a.updateLeased(network, facts.Leases, floating(i.Pods))
	if facts.Before, err = a.PodFiles.Network(state.Network); err != nil {
		return err
	}
	report := ServeNetwork(&network, i, facts, *state)
	if err := a.PodFiles.WriteNetwork(network); err != nil {
		return err
	}
	*state = report
	return nil
}

// sweepLeases ends and removes the leases of networks that the node does not have any more, whose pods are gone. A
// network that ended keeps the leases of its last pods for a while, and a reboot removes all files of networks.
func (a *Agent) sweepLeases(ctx context.Context, isNetwork func(string) bool) error {
	networks, err := a.PodFiles.Leased()
	failures := []error{err}
	for _, network := range networks {
		if isNetwork(network) {
			continue
		}
		store, err := a.PodFiles.LockLeased(ctx, network)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		leases, err := store.Current(a.Now())
		if err == nil && len(leases) == 0 {
			err = store.Remove()
		}
		store.Close()
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// NetworkFacts is the state of a network, read under the lock of its leases.
type NetworkFacts struct {
	// Last is the last report about the interface; nil if there is none.
	Last *v1alpha1.PodNetworkState
	// Before is the network in the present file; the zero value if there is none.
	Before podnet.Network
	Leases []podnet.Lease
	// Brought is the number of addresses that pods brought up themselves. Observes is set if the agent may observe them.
	Brought  int
	Observes bool
	// Link is the index of the interface's link on the node, as of LinkAt; 0 if it was not there.
	Link   int
	LinkAt time.Time
	Now    time.Time
}

// podsDue reports whether a report that differs only in pod networks is due. It is due at once if a network becomes
// drained, or is drained no longer: the controller waits for it. Other reports follow every podInterval.
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
	return !maps.Equal(phases(s.networks), phases(s.state.Status.PodNetworks)) ||
		a.Now().Sub(a.podsReported) >= podInterval
}
