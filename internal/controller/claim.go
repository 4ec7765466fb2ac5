// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"

	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/core/render"
)

// NodeENI converts a NodeENI for packages render and fleet, without the matches of its selectors and the ranges of
// SubnetReservations.
func NodeENI(n *v1alpha1.NodeENI) render.NodeENI {
	return render.NodeENI{
		Name: n.Name, UID: string(n.UID), Generation: n.Generation,
		Deleting: !n.DeletionTimestamp.IsZero(), Paused: Paused(n), Selector: v1alpha1.Strings(n.Spec.NodeSelector),
		FirstSlot: eni.Slot{Card: int(n.Spec.NetworkCardIndex), Device: int(n.Spec.DeviceIndex)},
		ExactSlot: n.Spec.DeviceIndexPolicy == v1alpha1.DeviceIndexExact, Template: template(n.Spec),
	}
}

func template(spec v1alpha1.NodeENISpec) render.Template {
	t := render.Template{
		InterfaceType: string(spec.InterfaceType), EC2: ec2Spec(spec), Required: ptr.Deref(spec.Required, true),
		DPDK: dpdk(spec), Pods: pods(spec.Pods),
	}
	if !spec.EnableDPDK {
		t.Link = &render.Link{MTU: int(ptr.Deref(spec.MTU, 0)), AddressMode: string(spec.AddressMode)}
		for name, value := range spec.Sysctls {
			if t.Link.Sysctls == nil {
				t.Link.Sysctls = map[string]int{}
			}
			t.Link.Sysctls[name] = int(value)
		}
	}
	return t
}

// dpdk returns the driver that the device must have, and the name under which pods request it.
func dpdk(spec v1alpha1.NodeENISpec) *render.DPDK {
	d := render.DPDK{ResourceName: spec.DPDKResourceName, PCIAddress: spec.DPDKPCIAddress}
	if spec.EnableDPDK {
		d.Driver = string(cmp.Or(spec.DPDKDriver, v1alpha1.DPDKDriverVFIO))
	}
	if d == (render.DPDK{}) {
		return nil
	}
	if d.ResourceName == "" {
		d.ResourceName = hostpci.DefaultResource
	}
	return &d
}

func pods(p *v1alpha1.NodeENIPods) *render.Pods {
	if p == nil {
		return nil
	}
	converted := &render.Pods{
		Attachment: string(p.Attachment), OnRemoval: string(p.OnRemoval), Floating: p.Floating,
	}
	if p.IPv4 != nil {
		converted.IPv4 = &render.PodPrefixes{Min: int(p.IPv4.Prefixes.Min),
			Max: int(max(p.IPv4.Prefixes.Max, p.IPv4.Prefixes.Min)), Spare: int(ptr.Deref(p.IPv4.Spare, 0))}
	}
	if p.IPv6 != nil {
		converted.IPv6Prefixes = int(p.IPv6.Prefixes)
	}
	for _, route := range p.Routes {
		converted.Routes = append(converted.Routes, route.To)
	}
	return converted
}

// AddressCounts returns the least numbers of addresses of an interface. The schema excludes other counts
// in addition to those of pods.
func AddressCounts(spec v1alpha1.NodeENISpec) eni.AddressCounts {
	counts := eni.AddressCounts{
		SecondaryIPv4: int(spec.SecondaryPrivateIPAddressCount),
		IPv4Prefixes:  int(spec.IPv4PrefixCount),
		IPv6:          int(spec.IPv6AddressCount),
		IPv6Prefixes:  int(spec.IPv6PrefixCount),
	}
	if spec.Pods != nil && spec.Pods.IPv4 != nil {
		counts.IPv4Prefixes = int(spec.Pods.IPv4.Prefixes.Min)
	}
	if spec.Pods != nil && spec.Pods.IPv6 != nil {
		counts.IPv6Prefixes = int(spec.Pods.IPv6.Prefixes)
	}
	return counts
}

// ec2Spec returns what EC2 knows of the interfaces of a NodeENI, without the matches of its selectors.
func ec2Spec(spec v1alpha1.NodeENISpec) eni.Spec {
	tracking, asPrimary := object.ConnectionTracking(spec.ConnectionTracking)
	return eni.Spec{
		Description:         spec.Description,
		Tags:                v1alpha1.Strings(spec.Tags),
		SourceDestCheck:     ptr.Deref(spec.SourceDestCheck, true),
		DeleteOnTermination: ptr.Deref(spec.DeleteOnTermination, true),
		ConnectionTracking:  tracking,
		TrackAsPrimary:      asPrimary,
		ENAExpress:          eni.ENAExpress(spec.ENAExpress),
		LowestFree:          spec.IPv4Allocation == v1alpha1.IPv4AllocationLowestFree,
		AddressCounts:       AddressCounts(spec),
	}
}
