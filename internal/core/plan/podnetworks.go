// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
)

// PodPrefixSize is the number of addresses of an IPv4 prefix that EC2 delegates to an interface: a /28 (EC2 user guide,
// "Assign prefixes to network interfaces").
const PodPrefixSize = 16

// PrefixDemand says how the number of IPv4 prefixes of an interface follows the pods that use them. The count in the
// interface's spec is the minimum.
type PrefixDemand struct {
	// Pods is set if the NodeENI is a network for pods. Without a report of the agent its interfaces then keep their
	// prefixes.
	Pods bool
	// Max is the maximum number of IPv4 prefixes; 0 if pods need none.
	Max int
	// Spare is the number of free addresses below which the interface gets another prefix.
	Spare int
}

// PodNetwork is the pod network of an interface, as the agent of the node reports it.
type PodNetwork struct {
	// Unreported is set if the interface is a network for pods and the agent has not reported how they use it.
	Unreported bool
	// Outdated is set if the report can no longer change: the agent runs without pod networks and repeats the report of an
	// agent that had them, or the state of the node is that of another instance.
	Outdated bool
	// Drained is set if no pod has an address, and none can get one.
	Drained bool
	// Used and Free are numbers of addresses. Free excludes the addresses of draining prefixes.
	Used, Free int
	// Prefixes has the prefixes that the agent knows.
	Prefixes map[netip.Prefix]PodPrefix
	// Pods are pods with an address, as NAMESPACE/NAME. PodsOmitted is the number of further ones.
	Pods        []string
	PodsOmitted int
}

// PodPrefix is a prefix of a pod network.
type PodPrefix struct {
	Used int
	// Draining is set if new pods get no address of the prefix, Drained if no pod uses the prefix or can start to.
	Draining, Drained bool
}

// Prefixes returns the number of prefixes that an interface with the given ones must have: as many as Spare requires,
// and at most Max. A prefix that the report does not list yet counts as free, so that one shortage leads to one call.
func (d PrefixDemand) Prefixes(have []netip.Prefix, network PodNetwork) int {
	free := network.Free
	for _, prefix := range have {
		if _, known := network.Prefixes[prefix]; !known {
			free += PodPrefixSize
		}
	}
	if free >= d.Spare {
		return len(have)
	}
	missing := (d.Spare - free + PodPrefixSize - 1) / PodPrefixSize
	return max(len(have), min(len(have)+missing, d.Max))
}

// releasable returns the addresses that no pod uses or can start to use. With a report of the agent these are the
// drained prefixes only.
func releasable(all eni.Addresses, network *PodNetwork) eni.Addresses {
	if network == nil {
		return all
	}
	inUse := func(prefix netip.Prefix) bool {
		known := network.Prefixes[prefix]
		return !known.Drained || known.Used > 0
	}
	all = all.Without(eni.Addresses{}) // do not change the caller's
	all.IPv4Prefixes = slices.DeleteFunc(all.IPv4Prefixes, inUse)
	all.IPv6Prefixes = slices.DeleteFunc(all.IPv6Prefixes, inUse)
	if network.Unreported || network.Used > 0 && len(network.Prefixes) == 0 { // a pod may have the interface itself
		all.SecondaryIPv4, all.IPv6 = nil, nil
	}
	return all
}

// pods names the pods with an address.
func (n PodNetwork) pods() string {
	names := strings.Join(n.Pods, ", ")
	switch {
	case names == "":
		return fmt.Sprintf("pods with %d addresses", n.Used)
	case n.PodsOmitted > 0:
		return fmt.Sprintf("%s and %d more", names, n.PodsOmitted)
	default:
		return names
	}
}

// demandFor returns the demand for addresses of a member's interface.
func (p *planner) demandFor(m *Interface, i eni.Interface) addressDemand {
	stored := p.Stored[i.ID]
	d := addressDemand{want: m.Settings.Spec.AddressCounts, requested: stored.Requested, floating: stored.Floating}
	d.most, d.instanceType = m.PodPrefixes, p.slots.instanceType
	d.settledAt, d.countedAt = p.prefixesSettledAt(i.ID), p.countedAt(m)
	if room := p.Limits.IPv4 - 1 - len(i.SecondaryIPv4); p.Limits.IPv4 > 0 && d.most.Max > room {
		d.limit = max(room, 1) // a minimum above the limit is AddressLimit
	}
	d.network, d.recheckAt = p.usedNetwork(i.ID, d.most.Pods)
	if d.network == nil || d.network.Unreported || d.most.Max == 0 {
		return d
	}
	if d.limit > 0 {
		d.most.Max = d.limit
	}
	d.grown = d.most.Prefixes(i.IPv4Prefixes, *d.network)
	return d
}

// usedNetwork returns the report about an interface, or nil if pods cannot use its addresses. Without a report it is
// unknown which they use: if the interface is declared as a network for pods, or was one, and until it is certain that
// no report is lost. The time is when that is certain; zero if it does not matter.
func (p *planner) usedNetwork(id string, isDeclared bool) (network *PodNetwork, recheckAt time.Time) {
	if network = p.Stored[id].Report; network != nil {
		return network, time.Time{}
	}
	if isDeclared || p.isPublished(id) {
		return &PodNetwork{Unreported: true}, time.Time{}
	}
	if lost, until := p.reportMayBeLost(id); lost {
		return &PodNetwork{Unreported: true}, until
	}
	return nil, time.Time{}
}

// isPublished reports whether the state of the node lists an interface as a network that the agent may have opened, or
// may open, to pods. No leader then unassigns a prefix before the agent reports it as drained.
func (p *planner) isPublished(id string) bool {
	listed := p.Stored[id].Listed
	return listed != nil && (!listed.Draining || listed.Opened)
}

// prefixesSettledAt returns the time until which a read may still have the prefixes of an interface that EC2 unassigned
// last; zero if it may not.
func (p *planner) prefixesSettledAt(id string) time.Time {
	_, until := p.unassignedPrefixes(id, p.now)
	return until
}

// settledAt returns the time from which a read of a member's interface certainly shows all changes of its addresses:
// those by earlier leaders, and those by calls of this process without an answer. EC2 has no client token for these
// calls.
func (p *planner) settledAt(m *Interface) time.Time {
	at := p.Era.SettledAt()
	for _, last := range p.unanswered(m) {
		if until := last.At.Add(inventory.StaleReadWindow); until.After(at) {
			at = until
		}
	}
	return at
}

// unanswered returns the last calls for the addresses of a member's interface that EC2 did not answer.
func (p *planner) unanswered(m *Interface) []Backoff {
	return slices.DeleteFunc(slices.Collect(maps.Values(p.Backoffs[m.Key].Updates)), func(last Backoff) bool {
		change, _ := last.Action.(Change)
		switch change.To.(type) {
		case AssignAddresses, UnassignAddresses:
			return last.Class != eni.Transient
		default:
			return true
		}
	})
}

// countedAt returns settledAt, or zero if the read on which calls depend is later. The read of an interface can be
// older than the snapshot: one without the effect of a call counts for nothing.
func (p *planner) countedAt(m *Interface) time.Time {
	at, read := p.settledAt(m), p.now
	if p.Snapshot != nil {
		read = p.Snapshot.At
	}
	switch {
	case read.Before(at):
		return at
	case p.Snapshot != nil && m.Record != nil && m.Record.LastRead.Before(at):
		return p.now.Add(uncertainRecheck)
	default:
		return time.Time{}
	}
}

// readAt returns when the read of a member's interface began; zero if that is not known.
func (p *planner) readAt(m *Interface) time.Time {
	switch {
	case p.Snapshot != nil:
		return p.Snapshot.At
	case m.Record != nil:
		return m.Record.LastRead
	default:
		return time.Time{}
	}
}

// withhold adds the prefixes that pods must not use yet. A read can still show a prefix that a call has unassigned, and
// EC2 may have assigned it to another interface since. Until a read certainly shows the effect of all calls, pods use
// no prefix that a call of this process unassigned. Of an interface that an earlier leader may know, they use only
// prefixes that the state of the node lists for pods: an earlier leader can have unassigned any other. The state is
// written over the version that was read, so no earlier leader can list one again.
func (p *planner) withhold(s step) step {
	i := s.Interface
	if i == nil {
		return s
	}
	if stored := p.Stored[i.ID]; stored.Listed == nil && !stored.MayLackReport && !s.m.IsPodNetwork {
		return s // no pod uses its prefixes
	}
	prefixes, read := slices.Concat(i.IPv4Prefixes, i.IPv6Prefixes), p.readAt(s.m)
	usable := prefixes
	unassigned, until := p.unassignedPrefixes(i.ID, read)
	if at := p.settledAt(s.m); read.Before(at) {
		if s.m.Record == nil || !s.m.Record.Made {
			usable = p.listedForPods(i.ID)
		}
		for _, last := range p.unanswered(s.m) {
			if change, is := last.Action.(Change).To.(UnassignAddresses); is {
				unassigned = slices.Concat(unassigned, change.Surplus.IPv4Prefixes, change.Surplus.IPv6Prefixes)
			}
		}
		until = later(until, at)
	}
	s.Withheld = without(prefixes, without(usable, unassigned))
	switch {
	case len(s.Withheld) == 0:
	case p.now.Before(until):
		s = s.requeue(until)
	default:
		s.needsFreshRead = true
	}
	return s
}

// listedForPods returns the prefixes that the state of the node lists for pods. Before a leader publishes the network,
// it can unassign a prefix that the state still lists.
func (p *planner) listedForPods(id string) []netip.Prefix {
	if !p.isPublished(id) {
		return nil
	}
	return p.Stored[id].ListedPrefixes
}

// unassignedPrefixes returns the prefixes that EC2 unassigned last from an interface, if the read may still show them,
// and when a read shows them no more. A call that unassigned only addresses does not count.
func (p *planner) unassignedPrefixes(id string, read time.Time) (all []netip.Prefix, until time.Time) {
	for _, family := range []Family{IPv4, IPv6} {
		last := p.RepeatedUpdates[id][FieldOf(UnassignAddresses{Family: family})]
		unassigned, _ := last.To.(UnassignAddresses)
		prefixes := slices.Concat(unassigned.Surplus.IPv4Prefixes, unassigned.Surplus.IPv6Prefixes)
		if at := last.At.Add(inventory.StaleReadWindow); read.Before(at) && len(prefixes) > 0 {
			all, until = slices.Concat(all, prefixes), later(until, at)
		}
	}
	return all, until
}

// reportMayBeLost reports whether the report about an interface may be lost: a user may have deleted the state that had
// it. If the present state does not list the interface as a network for pods, a report that is still missing at the
// given time proves that it is none.
func (p *planner) reportMayBeLost(id string) (lost bool, until time.Time) {
	stored := p.Stored[id]
	if stored.Listed != nil {
		return stored.MayLackReport, time.Time{}
	}
	return p.now.Before(stored.ReportDue), stored.ReportDue
}

// podsDraining reports whether a member's interface is a network for pods, and whether the state of the node lets it
// drain. The state does not list a network that was declared after its last write.
func (p *planner) podsDraining(m *Interface) (draining, isNetwork bool) {
	listed := p.Stored[m.Record.ID].Listed
	return listed != nil && listed.Draining, listed != nil || m.IsPodNetwork
}

// podsOpened reports whether the agent may have opened the network of an interface to pods.
func (p *planner) podsOpened(id string) bool {
	listed := p.Stored[id].Listed
	return listed != nil && listed.Opened
}

// keptForPods reports whether an interface that is being removed stays attached because of pods. Pods can start without
// the agent, so a report without pods proves nothing: the node drains the network first, and then the agent reports it
// as drained. Without a report, an interface is unused only if the agent has not opened its network to pods: another
// agent on the node, one without pod networks or of another release, can have removed the report.
func (p *planner) keptForPods(m *Interface) bool {
	report := p.Stored[m.Record.ID].Report
	draining, isNetwork := p.podsDraining(m)
	switch {
	case p.ended:
		return false
	case report != nil:
		return !report.Drained || isNetwork && !draining
	case isNetwork && !draining, p.podsOpened(m.Record.ID):
		return true
	default:
		lost, _ := p.reportMayBeLost(m.Record.ID)
		return lost
	}
}

// withoutPodNetworks says why the pods of an interface are unknown.
const withoutPodNetworks = "the agent of the node does not report them; run it with pod networks (pods.enabled=true " +
	"in the values of the chart), or terminate the instance"

// waitForPods waits until no pod can use an interface that is being removed, and names the pods to evict if the NodeENI
// asks for it.
func (p *planner) waitForPods(s step) step {
	id, network := s.m.Record.ID, p.Stored[s.m.Record.ID].Report
	draining, isNetwork := p.podsDraining(s.m)
	if _, until := p.reportMayBeLost(id); network == nil && !isNetwork {
		s.Why.Message = fmt.Sprintf("%s will be removed (%s), and is detached at %s unless the agent of the node reports "+
			"that it is in use: the interface is older than the NodeENIState of the node, so an earlier report may be lost",
			id, s.m.Why.Message, until.UTC().Format(time.RFC3339))
		return s.requeue(until)
	}
	s = s.requeue(p.now.Add(foreignSlotRecheck))
	if !draining {
		s.needsFreshRead = p.Snapshot == nil // drain a network only for a detach that EC2's own state allows
	}
	outdated := network != nil && network.Outdated
	switch {
	case network == nil && p.podsOpened(id), outdated && network.Used == 0:
		s.Why.Message = fmt.Sprintf("%s will be removed (%s), and is not detached because pods may have addresses of it: %s",
			id, s.m.Why.Message, withoutPodNetworks)
		return s
	case network == nil, network.Used == 0:
		s.Why.Message = fmt.Sprintf("%s will be removed (%s), and is detached when the agent of the node reports that no "+
			"pod can get an address of it; if the node has no agent any more, start it or terminate the "+
			"instance", id, s.m.Why.Message)
		return s
	}
	s.Why = Problem{InUseByPods,
		fmt.Sprintf("%s will be removed (%s), and is not detached while pods have addresses of it: %s",
			id, s.m.Why.Message, network.pods())}
	switch {
	case p.NodeAbsent:
		s.Why.Message += "; no Node names the instance, so no agent can report the end of its pods: let the instance join " +
			"again, or terminate the instance"
		return s
	case outdated: // the pods may be others by now
		s.Why.Message += "; " + withoutPodNetworks
		return s
	case s.m.EvictPods:
		s.evictions = append(s.evictions, Eviction{
			Member: s.m.Member.Member, InterfaceID: id, Pods: network.Pods, Why: s.m.Why.Message, Replaces: s.m.Settings != nil,
		})
		return s
	}
	if len(network.Pods) == 0 { // the agent knows addresses and not which pods have them: none can be evicted
		s.Why.Message += "; delete or move the pods: kubectl get floatingaddresses -o wide has the addresses on the " +
			"interface, and the pod IP of each holder"
		return s
	}
	s.Why.Message += "; delete or move the pods, or set pods.onRemoval: Evict"
	return s
}
