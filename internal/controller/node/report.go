// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/status"
)

// report writes the node's status if it changed, with events for what a person would want to know, and lets the state
// go when nothing is left to report.
func (r *Reconciler) report(ctx context.Context, s *snapshot) error {
	if s.empty() {
		r.forgetVolatile(s)
		if s.state == nil {
			return nil
		}
		removed, promised := s.state.Status.Interfaces, controller.OwnersInSpec(s.state.Spec)
		letGo, err := r.release(ctx, s)
		if letGo {
			r.Ledgers.Settled(s.name, promised...)
			r.recordEvents(s, removed, nil)
		}
		return err
	}
	if s.state == nil {
		return nil
	}
	before := s.state.Status
	before.Links = nil // the agent's part
	after := r.status(s)
	if equality.Semantic.DeepEqual(before, after) {
		r.endDeferral(&r.state.StatusWrites, s.name)
		return nil
	}
	if s.canWait(before, after) && r.deferStatus(s, &r.state.StatusWrites) {
		return nil
	}
	r.endDeferral(&r.state.StatusWrites, s.name)
	s.state.Status = after
	if err := status.Write(ctx, r.Client, v1alpha1.FieldOwnerController, s.state); err != nil {
		return err
	}
	r.recordEvents(s, before.Interfaces, after.Interfaces)
	r.announceOmitted(s, before, after)
	return nil
}

// empty reports whether nothing is promised and nothing exists.
func (s *snapshot) empty() bool {
	return !slices.ContainsFunc(s.plans, func(p plan.Plan) bool { return len(p.Members) > 0 || len(p.Ledger) > 0 })
}

// status converts the plans into the status of the node's state. Of members that wait for their turn it says what it said
// before: what their plan rests on is not confirmed yet.
func (r *Reconciler) status(s *snapshot) v1alpha1.NodeENIStateStatus {
	var (
		st      v1alpha1.NodeENIStateStatus
		members []plan.Member
	)
	for _, p := range s.plans {
		members = append(members, p.Members...)
		st.Unverified = append(st.Unverified, unverified(p)...)
	}
	st.Unverified = st.Unverified[:min(len(st.Unverified), mostUnverified)]
	before := s.state.Status
	said := byKey(before.Interfaces)
	st.ObservedGeneration, st.InstanceID = s.state.Generation, s.owner()
	for _, m := range distinct(members) {
		state := s.interfaceState(m)
		counts := !preJoinOnly(m) && (m.Desired || m.Why.Reason == plan.Retained)
		if s.waiting[m.Key] {
			was, known := said[m.Key]
			if !known {
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

// distinct keeps one member of each key, ordered by NodeENI: the wanted one, where an old interface and its successor overlap.
// What a tag says the name of the NodeENI is can differ between the two.
func distinct(members []plan.Member) []plan.Member {
	slices.SortStableFunc(members, func(a, b plan.Member) int {
		return cmp.Or(a.Key.Compare(b.Key), -cmp.Compare(rank(a), rank(b)))
	})
	members = slices.CompactFunc(members, func(a, b plan.Member) bool { return a.Key == b.Key })
	slices.SortStableFunc(members, func(a, b plan.Member) int { return cmp.Compare(a.NodeENI, b.NodeENI) })
	return members
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

// preJoinOnly reports whether the instance got an interface before it joined, for a network that no NodeENI asks for: it is told
// of, and nothing waits for it.
func preJoinOnly(m plan.Member) bool {
	return identity.IsNetworkOwner(m.NodeENIUID) && m.Why.Reason == plan.Retained
}

// summary says in one outcome how the node stands.
func summary(members []plan.Member, st v1alpha1.NodeENIStateStatus) status.Outcome {
	for _, m := range members {
		if m.Desired && !m.Why.Reason.Transient() && m.Why.Reason != plan.Drifted {
			return status.Outcome{State: status.Stalled, Reason: string(m.Why.Reason), Message: fmt.Sprintf("NodeENI %s: %s", m.NodeENI, m.Why.Message)}
		}
	}
	for _, m := range members {
		if m.Why.Reason == plan.Replacing {
			return status.Outcome{State: status.Progressing, Reason: string(plan.Replacing), Message: fmt.Sprintf("NodeENI %s: %s", m.NodeENI, m.Why.Message)}
		}
		if len(m.Drift) > 0 && m.Why.Reason != plan.Removing && m.Why.Reason != plan.Retained {
			return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonDrifted, Message: fmt.Sprintf("NodeENI %s: %s", m.NodeENI, m.Why.Message)}
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
	return status.Outcome{State: status.Ready, Reason: v1alpha1.ReasonAttached, Message: fmt.Sprintf("%d of %d interfaces are attached", st.Attached, st.Desired)}
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
	i := m.Interface
	if i == nil {
		return state
	}
	state.ENIID, state.MACAddress, state.SubnetID, state.Zone = i.ID, i.MAC, i.SubnetID, i.Zone
	state.SecurityGroupIDs = slices.Sorted(slices.Values(i.Groups))
	if i.PrimaryIPv4.IsValid() {
		state.PrivateIP = i.PrimaryIPv4.String()
	}
	state.SecondaryPrivateIPs, state.IPv4Prefixes = joinWords(i.SecondaryIPv4), joinWords(i.IPv4Prefixes)
	state.IPv6Addresses, state.IPv6Prefixes = joinWords(i.IPv6), joinWords(i.IPv6Prefixes)
	if i.Attachment != nil {
		// Before that, which slot it will get is a matter of how well EC2 is known at the moment.
		state.NetworkCardIndex, state.DeviceIndex = int32(i.Attachment.Slot.Card), int32(i.Attachment.Slot.Device)
		state.AttachmentID, state.DeleteOnTermination = i.Attachment.ID, i.Attachment.DeleteOnTermination
	}
	return state
}

func apiMember(m identity.Member) v1alpha1.Member {
	return v1alpha1.Member{
		NodeENI: m.NodeENI, NodeENIUID: types.UID(m.NodeENIUID), Ordinal: int32(m.Ordinal), Generation: m.Generation,
	}
}

// addHostSettings adds what the agent on the node needs to know of the NodeENI. While there is none to ask, all stays as it was
// said before: the interface is in use as it is.
func (s *snapshot) addHostSettings(state *v1alpha1.InterfaceState, m plan.Member) {
	was := s.lastReported(m)
	state.SubnetCIDR = was.SubnetCIDR
	nodeENI := s.nodeENI(m.NodeENIUID)
	if nodeENI == nil {
		state.MTU, state.AddressMode, state.Sysctls, state.Required = was.MTU, was.AddressMode, was.Sysctls, was.Required
		state.DPDKDriver, state.DPDKPCIAddress, state.DPDKResourceName = was.DPDKDriver, was.DPDKPCIAddress, was.DPDKResourceName
		if identity.IsNetworkOwner(m.NodeENIUID) && m.Interface != nil {
			addLinkOfNetwork(state, m.Interface.Tags)
		}
		return
	}
	spec := nodeENI.Spec.DeepCopy()
	state.MTU = ptr.Deref(spec.MTU, 0)
	state.AddressMode, state.Sysctls, state.Required = spec.AddressMode, spec.Sysctls, spec.Required
	addDevice(state, *spec)
	for _, subnet := range nodeENI.Status.Subnets {
		if m.Interface != nil && subnet.ID == m.Interface.SubnetID {
			state.SubnetCIDR = subnet.CIDR
		}
	}
}

// addLinkOfNetwork adds what the tags of a network's interface say of its link.
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

// lastReported returns what the state says of the member's interface.
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

// addDevice adds which driver the device shall have, and under which name pods ask for it.
func addDevice(state *v1alpha1.InterfaceState, spec v1alpha1.NodeENISpec) {
	state.DPDKPCIAddress, state.DPDKResourceName = spec.DPDKPCIAddress, spec.DPDKResourceName
	if spec.EnableDPDK {
		state.DPDKDriver = cmp.Or(spec.DPDKDriver, v1alpha1.DPDKDriverVFIO)
	}
	if state.DPDKResourceName == "" && (spec.EnableDPDK || spec.DPDKPCIAddress != "") {
		state.DPDKResourceName = hostpci.DefaultResource
	}
}

func joinWords[T fmt.Stringer](values []T) []string {
	var all []string
	for _, v := range values {
		all = append(all, v.String())
	}
	return all
}

func clip(text string, length int) string {
	if len(text) > length {
		return strings.ToValidUTF8(text[:length], "")
	}
	return text
}
