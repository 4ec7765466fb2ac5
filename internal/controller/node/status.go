// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// mostUnverified is the most unverified interfaces that a NodeENIState lists.
const mostUnverified = 64

// result is what a reconciliation decided about one instance.
type result struct {
	instanceID string
	plan       plan.Plan
	// read is set if the plan had a read of the instance.
	read bool
	// verified are the interfaces with evidence besides their tags.
	verified []string
	// unverified are the interfaces that are retained because only their tags say that they belong to the cluster.
	unverified []render.Unverified
	// generations are those of the NodeENIs that a plan of the node's own instance is based on.
	generations map[types.UID]int64
	// waiting are the members that wait for a worker.
	waiting map[identity.Key]bool
	// keepsState is set if the read that must precede the end of the node's state waits for a worker.
	keepsState bool
}

// reconciled is a snapshot with the results for its instances, from which the status is computed. It does not change.
type reconciled struct {
	*snapshot
	results []result
	// generations and waiting are those of all results.
	generations map[types.UID]int64
	waiting     map[identity.Key]bool
}

func newReconciled(s *snapshot, results []result) reconciled {
	generations, waiting := map[types.UID]int64{}, map[identity.Key]bool{}
	for _, one := range results {
		maps.Copy(generations, one.generations)
		maps.Copy(waiting, one.waiting)
	}
	return reconciled{s, results, generations, waiting}
}

// empty reports whether the ledger is empty and no interface exists.
func (s reconciled) empty() bool {
	return !slices.ContainsFunc(s.results, func(one result) bool {
		return len(one.plan.Members) > 0 || len(one.plan.Ledger) > 0
	})
}

// requeueAt returns the earliest time that a plan asks for, zero if none does.
func (s reconciled) requeueAt() (earliest time.Time) {
	for _, one := range s.results {
		earliest = sooner(earliest, one.plan.RequeueAt)
	}
	return earliest
}

// status converts the plans into the status of the node's state. Members that wait for a worker keep their last status:
// the basis of their plan is not confirmed yet.
func (s reconciled) status() v1alpha1.NodeENIStateStatus {
	var (
		st      v1alpha1.NodeENIStateStatus
		members []plan.Member
	)
	for _, one := range s.results {
		members = append(members, one.plan.Members...)
		st.Unverified = append(st.Unverified, unverified(one.unverified)...)
	}
	st.Unverified = st.Unverified[:min(len(st.Unverified), mostUnverified)]
	before := s.state.Status
	said := byKey(before.Interfaces)
	st.ObservedGeneration, st.InstanceID = s.state.Generation, s.owner()
	all := slices.Clone(members)
	for _, m := range distinct(members) {
		state := s.interfaceState(serving(all, m, said[m.Key]))
		counts := !preJoinOnly(m) && (m.Desired || m.Why.Reason == plan.Retained)
		if s.waiting[m.Key] {
			was, known := said[m.Key]
			if !known || s.servesAnother(all, m.Key, was.ENIID) {
				continue
			}
			state, counts = was, !preJoinOnly(m) && was.Reason != string(plan.Removing)
		}
		st.Interfaces = append(st.Interfaces, state)
		if !counts {
			continue
		}
		st.Desired++
		if state.Phase == v1alpha1.PhaseAttached {
			st.Attached++
		}
	}
	st.NodeENIs = s.observed()
	omit(&st)
	if len(s.waiting) > 0 && len(before.Conditions) > 0 {
		st.ObservedGeneration, st.Conditions, st.Desired = before.ObservedGeneration, before.Conditions, before.Desired
		return st
	}
	st.Conditions = status.Summarize(before.Conditions, s.state.Generation, summary(members, st))
	return st
}

// servesAnother reports whether an interface is that of a planned member with another key. A state lists each interface
// once: the API server refuses the report of an agent about two networks of one interface.
func (s reconciled) servesAnother(members []plan.Member, key identity.Key, eniID string) bool {
	return slices.ContainsFunc(members, func(m plan.Member) bool {
		return m.Key != key && !s.waiting[m.Key] && m.Interface != nil && m.Interface.ID == eniID
	})
}

func unverified(retained []render.Unverified) []v1alpha1.UnverifiedInterface {
	var all []v1alpha1.UnverifiedInterface
	for _, u := range retained {
		all = append(all, v1alpha1.UnverifiedInterface{ENIID: u.ID, Copy: u.Copy, Message: clip(u.Message, 1024)})
	}
	return all
}

// distinct keeps one member of each key, ordered by NodeENI. Where an old interface and its successor overlap, it keeps
// the desired one. The NodeENI's name in the tags can differ between the two.
func distinct(members []plan.Member) []plan.Member {
	slices.SortStableFunc(members, func(a, b plan.Member) int {
		return cmp.Or(a.Key.Compare(b.Key), -cmp.Compare(rank(a), rank(b)))
	})
	members = slices.CompactFunc(members, func(a, b plan.Member) bool { return a.Key == b.Key })
	slices.SortStableFunc(members, func(a, b plan.Member) int { return cmp.Compare(a.NodeENI, b.NodeENI) })
	return members
}

// serving returns the member that the state lists for a key. Of an old interface and its successor, that is the one
// that the state already lists as a pod network, as long as it is attached: the agent reports only the pods of listed
// interfaces.
func serving(members []plan.Member, m plan.Member, said v1alpha1.InterfaceState) plan.Member {
	for _, other := range members {
		i := other.Interface
		if other.Key == m.Key && other.InstanceID == m.InstanceID && said.Pods != nil && i != nil && i.ID == said.ENIID &&
			i.Attachment != nil {
			return other
		}
	}
	return m
}

func rank(m plan.Member) int {
	switch {
	case m.Desired:
		return 3
	case m.Interface != nil && m.Interface.Attachment != nil:
		return 2
	case m.Interface != nil:
		return 1
	default:
		return 0
	}
}

// preJoinOnly reports whether this is a pre-join interface that no NodeENI claims: the status lists it, and nothing
// waits for it.
func preJoinOnly(m plan.Member) bool {
	return m.Owner.IsNetwork() && m.Why.Reason == plan.Retained
}

// summary returns the state of the node in one outcome.
func summary(members []plan.Member, st v1alpha1.NodeENIStateStatus) status.Outcome {
	for _, m := range members {
		if m.Desired && !m.Why.Reason.Transient() && m.Why.Reason != plan.Drifted {
			return status.Outcome{State: status.Stalled, Reason: string(m.Why.Reason),
				Message: fmt.Sprintf("NodeENI %s: %s", m.NodeENI, m.Why.Message)}
		}
	}
	for _, m := range members {
		if m.Why.Reason == plan.Replacing {
			return status.Outcome{State: status.Progressing, Reason: string(plan.Replacing),
				Message: fmt.Sprintf("NodeENI %s: %s", m.NodeENI, m.Why.Message)}
		}
		if len(m.Drift) > 0 && m.Why.Reason != plan.Removing && m.Why.Reason != plan.Retained {
			return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonDrifted,
				Message: fmt.Sprintf("NodeENI %s: %s", m.NodeENI, m.Why.Message)}
		}
	}
	for _, m := range members {
		if !m.Ready() && !preJoinOnly(m) {
			return status.Outcome{
				State: status.Progressing, Reason: cmp.Or(string(m.Why.Reason), v1alpha1.ReasonProgressing),
				Message: fmt.Sprintf("%d of %d interfaces are attached; NodeENI %s: %s", st.Attached, st.Desired, m.NodeENI,
					cmp.Or(m.Why.Message, string(m.Phase))),
			}
		}
	}
	return status.Outcome{State: status.Ready, Reason: v1alpha1.ReasonAttached,
		Message: fmt.Sprintf("%d of %d interfaces are attached", st.Attached, st.Desired)}
}

func (s *snapshot) interfaceState(m plan.Member) v1alpha1.InterfaceState {
	state := v1alpha1.InterfaceState{
		Member:               apiMember(m.Member),
		Phase:                v1alpha1.Phase(m.Phase),
		InstanceID:           m.InstanceID,
		Unverified:           m.Unverified,
		NetworkCardIndex:     int32(m.RequestedSlot.Card),
		DeviceIndex:          int32(m.RequestedSlot.Device),
		RequestedDeviceIndex: int32(m.RequestedSlot.Device),
		Reason:               string(m.Why.Reason),
		Message:              clip(m.Why.Message, 1024),
	}
	for _, d := range m.Drift {
		state.Drift = append(state.Drift, v1alpha1.Drift{Field: d.Field, Want: clip(d.Want, 1024), Have: clip(d.Have, 1024)})
	}
	s.addHostSettings(&state, m)
	if m.DrainPods && state.Pods != nil {
		state.Pods = drained(state.Pods)
	}
	i := m.Interface
	if i == nil {
		return state
	}
	if state.Pods != nil {
		state.Pods = s.opened(*state.Pods, m, s.lastReported(m).Pods)
	}
	state.ENIID, state.MACAddress, state.SubnetID, state.Zone = i.ID, i.MAC, i.SubnetID, i.Zone
	state.SecurityGroupIDs = slices.Sorted(slices.Values(i.Groups))
	if i.PrimaryIPv4.IsValid() {
		state.PrivateIP = i.PrimaryIPv4.String()
	}
	usable := i.Without(eni.Addresses{IPv4Prefixes: m.Withheld, IPv6Prefixes: m.Withheld})
	state.SecondaryPrivateIPs, state.IPv6Addresses = controller.Texts(i.SecondaryIPv4), controller.Texts(i.IPv6)
	state.IPv4Prefixes, state.IPv6Prefixes = controller.Texts(usable.IPv4Prefixes), controller.Texts(usable.IPv6Prefixes)
	state.RequestedAddresses = controller.AddressTexts(m.Requested)
	controller.AddENA(&state, m.ENA)
	if i.Attachment != nil {
		// Before that, the slot depends on how current the inventory is.
		state.NetworkCardIndex, state.DeviceIndex = int32(i.Attachment.Slot.Card), int32(i.Attachment.Slot.Device)
		state.AttachmentID, state.DeleteOnTermination = i.Attachment.ID, i.Attachment.DeleteOnTermination
	}
	return state
}

func apiMember(m identity.Member) v1alpha1.Member {
	return v1alpha1.Member{
		NodeENI: m.NodeENI, NodeENIUID: types.UID(m.Owner), Ordinal: int32(m.Ordinal), Generation: int64(m.Generation),
	}
}

// addHostSettings adds the settings of the NodeENI that the agent on the node needs. Without the NodeENI, all settings
// stay as last reported because the interface is in use with them.
func (s *snapshot) addHostSettings(state *v1alpha1.InterfaceState, m plan.Member) {
	was := s.lastReported(m)
	state.SubnetCIDR = was.SubnetCIDR
	nodeENI := s.nodeENI(m.Owner)
	if nodeENI == nil {
		state.MTU, state.AddressMode, state.Sysctls, state.Required = was.MTU, was.AddressMode, was.Sysctls, was.Required
		state.DPDKDriver, state.DPDKPCIAddress, state.DPDKResourceName = was.DPDKDriver, was.DPDKPCIAddress,
			was.DPDKResourceName
		state.Pods = was.Pods
		if m.Owner.IsNetwork() && m.Interface != nil {
			addLinkOfNetwork(state, m.Interface.Tags)
		}
		return
	}
	spec := nodeENI.Spec.DeepCopy()
	state.MTU = ptr.Deref(spec.MTU, 0)
	state.AddressMode, state.Sysctls, state.Required = spec.AddressMode, spec.Sysctls, spec.Required
	state.Pods = s.podsOf(spec.Pods, was)
	addDevice(state, *spec)
	if subnet, known := s.subnetOf(m, nodeENI); known {
		state.SubnetCIDR = subnet.CIDR
		if state.Pods != nil {
			state.Pods.SubnetIPv6CIDR = subnet.IPv6CIDR
			state.Pods.Floating = s.floating(spec.Pods, subnet)
		}
	}
}

// subnetOf returns the subnet of a member's interface: as the NodeENI lists it or, if the NodeENI no longer selects it,
// as EC2 returned it.
func (s *snapshot) subnetOf(m plan.Member, nodeENI *v1alpha1.NodeENI) (v1alpha1.ResolvedSubnet, bool) {
	if m.Interface == nil {
		return v1alpha1.ResolvedSubnet{}, false
	}
	if subnet, selected := selectedSubnet(nodeENI, m.Interface.SubnetID); selected {
		return subnet, true
	}
	former, known := s.formerSubnets[m.Interface.SubnetID]
	return controller.ResolvedSubnet(former, nodeENI.Spec), known
}

// selectedSubnet returns the subnet of an ID from the status of a NodeENI.
func selectedSubnet(nodeENI *v1alpha1.NodeENI, id string) (v1alpha1.ResolvedSubnet, bool) {
	n := slices.IndexFunc(nodeENI.Status.Subnets, func(s v1alpha1.ResolvedSubnet) bool { return s.ID == id })
	if n < 0 {
		return v1alpha1.ResolvedSubnet{}, false
	}
	return nodeENI.Status.Subnets[n], true
}

// formerSubnetIDs returns the subnets of interfaces that their NodeENIs no longer select.
func (s *snapshot) formerSubnetIDs(results []result) []string {
	ids := map[string]bool{}
	for _, one := range results {
		for _, m := range one.plan.Members {
			nodeENI := s.nodeENI(m.Owner)
			if nodeENI == nil || m.Interface == nil {
				continue
			}
			if _, selected := selectedSubnet(nodeENI, m.Interface.SubnetID); !selected {
				ids[m.Interface.SubnetID] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// addLinkOfNetwork adds what the tags of a network's interface say about its link.
func addLinkOfNetwork(state *v1alpha1.InterfaceState, tags map[string]string) {
	mtu, settings := identity.ReadLink(tags)
	state.MTU, state.Sysctls = int32(mtu), nil
	for name, value := range settings {
		if state.Sysctls == nil {
			state.Sysctls = map[string]v1alpha1.SysctlValue{}
		}
		state.Sysctls[string(name)] = v1alpha1.SysctlValue(value)
	}
}

// lastReported returns what the state says about the member's interface.
func (s *snapshot) lastReported(m plan.Member) v1alpha1.InterfaceState {
	if m.Interface != nil && s.state != nil {
		for _, i := range s.state.Status.Interfaces {
			if i.ENIID == m.Interface.ID {
				return i
			}
		}
	}
	return v1alpha1.InterfaceState{}
}

// addDevice adds the driver that the device must have, and the name under which pods request it.
func addDevice(state *v1alpha1.InterfaceState, spec v1alpha1.NodeENISpec) {
	state.DPDKPCIAddress, state.DPDKResourceName = spec.DPDKPCIAddress, spec.DPDKResourceName
	if spec.EnableDPDK {
		state.DPDKDriver = cmp.Or(spec.DPDKDriver, v1alpha1.DPDKDriverVFIO)
	}
	if state.DPDKResourceName == "" && (spec.EnableDPDK || spec.DPDKPCIAddress != "") {
		state.DPDKResourceName = hostpci.DefaultResource
	}
}

func clip(text string, length int) string {
	if len(text) > length {
		return strings.ToValidUTF8(text[:length], "")
	}
	return text
}

// observed returns the generation of each NodeENI that the interfaces were compared with. For a NodeENI with an
// interface that waits at the semaphore, it repeats the state's value, because the plan for that interface is not
// confirmed yet.
func (s reconciled) observed() []v1alpha1.ObservedNodeENI {
	all, waiting := map[types.UID]v1alpha1.ObservedNodeENI{}, map[types.UID]bool{}
	exists := map[types.UID]bool{}
	for _, one := range s.results {
		if !s.present(one.instanceID) {
			continue
		}
		for _, m := range one.plan.Members {
			uid := types.UID(m.Owner)
			exists[uid] = exists[uid] || m.Interface != nil
			waiting[uid] = waiting[uid] || s.waiting[m.Key]
			if generation, judged := s.generations[uid]; judged && (m.Desired || m.Why.Reason == plan.Retained) {
				all[uid] = v1alpha1.ObservedNodeENI{NodeENI: m.NodeENI, NodeENIUID: uid, ObservedGeneration: generation}
			}
		}
	}
	for uid := range waiting {
		if waiting[uid] {
			delete(all, uid)
		}
	}
	for _, said := range s.state.Status.NodeENIs {
		if waiting[said.NodeENIUID] && s.state.Status.InstanceID == s.instance.ID {
			all[said.NodeENIUID] = said
		}
	}
	return firstNodeENIs(all, exists)
}

// firstNodeENIs orders NodeENIs by name. If there are more than a state can list, it prefers those with an interface.
func firstNodeENIs(all map[types.UID]v1alpha1.ObservedNodeENI, exists map[types.UID]bool) []v1alpha1.ObservedNodeENI {
	var list []v1alpha1.ObservedNodeENI
	for _, o := range all {
		list = append(list, o)
	}
	byName := func(a, b v1alpha1.ObservedNodeENI) int {
		return cmp.Or(cmp.Compare(a.NodeENI, b.NodeENI), cmp.Compare(a.NodeENIUID, b.NodeENIUID))
	}
	slices.SortFunc(list, byName)
	if len(list) > v1alpha1.MaxNodeENIs {
		slices.SortStableFunc(list, func(a, b v1alpha1.ObservedNodeENI) int {
			return cmp.Compare(rankOf(exists[a.NodeENIUID], false), rankOf(exists[b.NodeENIUID], false))
		})
		list = list[:v1alpha1.MaxNodeENIs]
		slices.SortFunc(list, byName)
	}
	return list
}

// omit removes from a status the interfaces beyond the limit of a NodeENIState, and counts them for their NodeENIs. It
// keeps interfaces that exist in EC2 first, because agents learn of them here, then those that can be created.
func omit(st *v1alpha1.NodeENIStateStatus) {
	for _, o := range st.NodeENIs {
		st.InterfacesOmitted += o.Omitted
	}
	rank := func(i v1alpha1.InterfaceState) int { return rankOf(i.ENIID != "", i.Phase == v1alpha1.PhaseBlocked) }
	ranked := slices.SortedStableFunc(slices.Values(st.Interfaces), func(a, b v1alpha1.InterfaceState) int {
		return cmp.Compare(rank(a), rank(b))
	})
	out, room := map[identity.Key]bool{}, v1alpha1.MaxInterfaces
	for _, i := range ranked {
		// The subnets of a single zone can require ordinals that no instance has slots for.
		if room == 0 || i.Ordinal > identity.MaxOrdinal {
			out[keyOf(i)] = true
			countOmitted(st, i)
			continue
		}
		room--
	}
	st.InterfacesOmitted += int32(len(out))
	st.Interfaces = slices.DeleteFunc(st.Interfaces, func(i v1alpha1.InterfaceState) bool { return out[keyOf(i)] })
}

// rankOf orders what a state lists: interfaces that exist in EC2, those that can be created, and those that cannot.
func rankOf(exists, blocked bool) int {
	switch {
	case exists:
		return 0
	case !blocked:
		return 1
	default:
		return 2
	}
}

// countOmitted counts an omitted interface for its NodeENI.
func countOmitted(st *v1alpha1.NodeENIStateStatus, i v1alpha1.InterfaceState) {
	for n := range st.NodeENIs {
		o := &st.NodeENIs[n]
		if o.NodeENIUID != i.NodeENIUID {
			continue
		}
		o.Omitted++
		if i.Phase == v1alpha1.PhaseBlocked {
			o.Blocked++
			o.Reason = cmp.Or(o.Reason, i.Reason)
		}
	}
}

func keyOf(i v1alpha1.InterfaceState) identity.Key {
	return identity.Key{Owner: identity.Owner(i.NodeENIUID), Ordinal: int(i.Ordinal)}
}

func byKey(interfaces []v1alpha1.InterfaceState) map[identity.Key]v1alpha1.InterfaceState {
	all := make(map[identity.Key]v1alpha1.InterfaceState, len(interfaces))
	for _, i := range interfaces {
		all[keyOf(i)] = i
	}
	return all
}
