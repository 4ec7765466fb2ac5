// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// Rendered converts an object for package render.
func Rendered(o *v1alpha1.NetworkInterface) render.Object {
	converted := render.Object{
		Name: o.Name, UID: string(o.UID), Spec: RenderedSpec(&o.Spec), Deleting: !o.DeletionTimestamp.IsZero(),
		ENIID: o.Status.ENIID, SubnetID: o.Status.SubnetID,
		Launched: o.Status.Evidence == v1alpha1.EvidenceLaunched, Held: o.Held(),
	}
	if o.Status.Slot != nil {
		slot := Slot(*o.Status.Slot)
		converted.Slot = &slot
	}
	for _, d := range o.Status.Drift {
		converted.Drift = append(converted.Drift, plan.Drift{Field: d.Field, Want: d.Want, Have: d.Have})
	}
	return converted
}

// Slot converts a slot.
func Slot(s v1alpha1.InterfaceSlot) eni.Slot {
	return eni.Slot{Card: int(s.NetworkCardIndex), Device: int(s.DeviceIndex)}
}

// SlotOf converts a slot for an object.
func SlotOf(s eni.Slot) v1alpha1.InterfaceSlot {
	return v1alpha1.InterfaceSlot{NetworkCardIndex: int32(s.Card), DeviceIndex: int32(s.Device)}
}

// Problem converts the problem of a spec, which may be nil.
func Problem(p *v1alpha1.InterfaceProblem) *plan.Problem {
	if p == nil {
		return nil
	}
	return &plan.Problem{Reason: plan.Reason(p.Reason), Message: p.Message}
}

// RenderedSpec converts the spec of an object for package render. [SpecOf] reverses it.
func RenderedSpec(s *v1alpha1.NetworkInterfaceSpec) render.Spec {
	converted := render.Spec{
		InstanceID: s.InstanceID, Zone: s.Zone, Ordinal: int(s.Ordinal), Origin: render.Origin(s.Origin),
		NodeName: s.NodeName,
		NodeENI: render.Reference{Name: s.NodeENI.Name, UID: string(s.NodeENI.UID),
			Generation: s.NodeENI.Generation},
		Revision: s.Revision, Problem: Problem(s.Problem), Slot: Slot(s.Slot), ExactSlot: s.ExactSlot,
		Template: render.Template{
			InterfaceType: string(s.InterfaceType), EC2: EC2Spec(s), Required: s.Required, Link: link(s.Link),
			Pods: pods(s.Pods),
		},
	}
	for _, subnet := range s.Subnets {
		converted.Subnets = append(converted.Subnets, render.Subnet(subnet))
	}
	if s.DPDK != nil {
		converted.DPDK = &render.DPDK{Driver: string(s.DPDK.Driver), ResourceName: s.DPDK.ResourceName,
			PCIAddress: s.DPDK.PCIAddress}
	}
	return converted
}

// EC2Spec returns what EC2 knows of the interface of a spec.
func EC2Spec(s *v1alpha1.NetworkInterfaceSpec) eni.Spec {
	tracking, asPrimary := ConnectionTracking(s.ConnectionTracking)
	return eni.Spec{
		Description: s.Description, Groups: s.SecurityGroupIDs, Tags: v1alpha1.Strings(s.Tags),
		SourceDestCheck: s.SourceDestCheck, DeleteOnTermination: s.DeleteOnTermination,
		LowestFree:         s.IPv4Allocation == v1alpha1.IPv4AllocationLowestFree,
		ConnectionTracking: tracking, TrackAsPrimary: asPrimary, ENAExpress: eni.ENAExpress(s.ENAExpress),
		AddressCounts: eni.AddressCounts{SecondaryIPv4: int(s.Counts.SecondaryIPv4),
			IPv4Prefixes: int(s.Counts.IPv4Prefixes), IPv6: int(s.Counts.IPv6), IPv6Prefixes: int(s.Counts.IPv6Prefixes)},
	}
}

// ConnectionTracking converts timeouts of connection tracking, which may be nil, and reports whether they are those of
// the primary interface.
func ConnectionTracking(t *v1alpha1.ConnectionTracking) (timeouts eni.ConnectionTracking, asPrimary bool) {
	if t == nil {
		return eni.ConnectionTracking{}, false
	}
	return eni.ConnectionTracking{
		TCPEstablished: int(t.TCPEstablishedTimeout), UDPStream: int(t.UDPStreamTimeout), UDP: int(t.UDPTimeout),
	}, t.As == v1alpha1.ConnectionTrackingPrimary
}

// ConnectionTrackingOf reverses [ConnectionTracking].
func ConnectionTrackingOf(t eni.ConnectionTracking, asPrimary bool) *v1alpha1.ConnectionTracking {
	if t.IsZero() && !asPrimary {
		return nil
	}
	converted := &v1alpha1.ConnectionTracking{
		TCPEstablishedTimeout: int32(t.TCPEstablished), UDPStreamTimeout: int32(t.UDPStream), UDPTimeout: int32(t.UDP),
	}
	if asPrimary {
		converted.As = v1alpha1.ConnectionTrackingPrimary
	}
	return converted
}

func link(l *v1alpha1.LinkSettings) *render.Link {
	if l == nil {
		return nil
	}
	converted := &render.Link{MTU: int(l.MTU), AddressMode: string(l.AddressMode)}
	for name, value := range l.Sysctls {
		if converted.Sysctls == nil {
			converted.Sysctls = map[string]int{}
		}
		converted.Sysctls[name] = int(value)
	}
	return converted
}

func pods(p *v1alpha1.PodSettings) *render.Pods {
	if p == nil {
		return nil
	}
	converted := &render.Pods{
		Attachment: string(p.Attachment), Closed: p.Closed, OnRemoval: string(p.OnRemoval),
		IPv6Prefixes: int(p.IPv6Prefixes), Routes: p.Routes, Floating: p.Floating,
	}
	if p.IPv4 != nil {
		converted.IPv4 = &render.PodPrefixes{Min: int(p.IPv4.Min), Max: int(p.IPv4.Max), Spare: int(p.IPv4.Spare)}
	}
	return converted
}

// SpecOf converts a rendered spec for an object.
func SpecOf(s render.Spec) v1alpha1.NetworkInterfaceSpec {
	converted := v1alpha1.NetworkInterfaceSpec{
		InstanceID: s.InstanceID, Zone: s.Zone, Ordinal: int32(s.Ordinal), Origin: v1alpha1.InterfaceOrigin(s.Origin),
		NodeName: s.NodeName,
		NodeENI: v1alpha1.NodeENIReference{Name: s.NodeENI.Name, UID: types.UID(s.NodeENI.UID),
			Generation: s.NodeENI.Generation},
		Revision: s.Revision, SecurityGroupIDs: s.EC2.Groups, Slot: SlotOf(s.Slot), ExactSlot: s.ExactSlot,
		InterfaceType: v1alpha1.InterfaceType(s.InterfaceType), Description: s.EC2.Description,
		SourceDestCheck: s.EC2.SourceDestCheck, DeleteOnTermination: s.EC2.DeleteOnTermination,
		Counts: v1alpha1.AddressCounts{SecondaryIPv4: int32(s.EC2.SecondaryIPv4),
			IPv4Prefixes: int32(s.EC2.IPv4Prefixes), IPv6: int32(s.EC2.IPv6), IPv6Prefixes: int32(s.EC2.IPv6Prefixes)},
		ConnectionTracking: ConnectionTrackingOf(s.EC2.ConnectionTracking, s.EC2.TrackAsPrimary),
		ENAExpress:         v1alpha1.ENAExpress(s.EC2.ENAExpress), Required: s.Required, Link: linkOf(s.Link),
		Pods: podsOf(s.Pods),
	}
	for key, value := range s.EC2.Tags {
		if converted.Tags == nil {
			converted.Tags = map[string]v1alpha1.TagValue{}
		}
		converted.Tags[key] = v1alpha1.TagValue(value)
	}
	if s.EC2.LowestFree {
		converted.IPv4Allocation = v1alpha1.IPv4AllocationLowestFree
	}
	for _, subnet := range s.Subnets {
		converted.Subnets = append(converted.Subnets, v1alpha1.InterfaceSubnet(subnet))
	}
	if s.Problem != nil {
		converted.Problem = &v1alpha1.InterfaceProblem{Reason: string(s.Problem.Reason),
			Message: clip(s.Problem.Message, maxMessage)}
	}
	if s.DPDK != nil {
		converted.DPDK = &v1alpha1.DPDKSettings{Driver: v1alpha1.DPDKDriver(s.DPDK.Driver),
			ResourceName: s.DPDK.ResourceName, PCIAddress: s.DPDK.PCIAddress}
	}
	return converted
}

func linkOf(l *render.Link) *v1alpha1.LinkSettings {
	if l == nil {
		return nil
	}
	converted := &v1alpha1.LinkSettings{MTU: int32(l.MTU), AddressMode: v1alpha1.AddressMode(l.AddressMode)}
	for name, value := range l.Sysctls {
		if converted.Sysctls == nil {
			converted.Sysctls = map[string]v1alpha1.SysctlValue{}
		}
		converted.Sysctls[name] = v1alpha1.SysctlValue(value)
	}
	return converted
}

func podsOf(p *render.Pods) *v1alpha1.PodSettings {
	if p == nil {
		return nil
	}
	converted := &v1alpha1.PodSettings{
		Attachment: v1alpha1.PodAttachment(p.Attachment), Closed: p.Closed,
		OnRemoval: v1alpha1.PodsOnRemoval(p.OnRemoval), IPv6Prefixes: int32(p.IPv6Prefixes), Routes: p.Routes,
		Floating: p.Floating,
	}
	if p.IPv4 != nil {
		converted.IPv4 = &v1alpha1.PodPrefixSettings{Min: int32(p.IPv4.Min), Max: int32(p.IPv4.Max),
			Spare: int32(p.IPv4.Spare)}
	}
	return converted
}
