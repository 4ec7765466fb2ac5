// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/core/render"
)

// NodeENI converts a NodeENI for package render, without the matches of its selectors.
func NodeENI(n *v1alpha1.NodeENI) render.NodeENI {
	return render.NodeENI{
		Name: n.Name, UID: string(n.UID), Generation: n.Generation, Deleting: !n.DeletionTimestamp.IsZero(),
		Paused: Paused(n), Selector: v1alpha1.Strings(n.Spec.NodeSelector),
		FirstSlot: eni.Slot{Card: int(n.Spec.NetworkCardIndex), Device: int(n.Spec.DeviceIndex)},
		ExactSlot: n.Spec.DeviceIndexPolicy == v1alpha1.DeviceIndexExact,
		Template: render.Template{
			InterfaceType: string(n.Spec.InterfaceType), EC2: interfaceSpec(n.Spec),
			Required: ptr.Deref(n.Spec.Required, true), Link: link(n.Spec), DPDK: device(n.Spec), Pods: pods(n.Spec.Pods),
		},
	}
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

func interfaceSpec(spec v1alpha1.NodeENISpec) eni.Spec {
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

// link returns the settings of the link; nil for a device that a program in user space drives.
func link(spec v1alpha1.NodeENISpec) *render.Link {
	if spec.EnableDPDK {
		return nil
	}
	settings := &render.Link{MTU: int(ptr.Deref(spec.MTU, 0)), AddressMode: string(spec.AddressMode)}
	for name, value := range spec.Sysctls {
		if settings.Sysctls == nil {
			settings.Sysctls = map[string]int{}
		}
		settings.Sysctls[name] = int(value)
	}
	return settings
}

// device returns the driver that the device must have, and the name under which pods request it; nil for neither.
func device(spec v1alpha1.NodeENISpec) *render.DPDK {
	d := render.DPDK{PCIAddress: spec.DPDKPCIAddress, ResourceName: spec.DPDKResourceName}
	if spec.EnableDPDK {
		d.Driver = string(cmp.Or(spec.DPDKDriver, v1alpha1.DPDKDriverVFIO))
	}
	if d.ResourceName == "" && (spec.EnableDPDK || spec.DPDKPCIAddress != "") {
		d.ResourceName = hostpci.DefaultResource
	}
	if d == (render.DPDK{}) {
		return nil
	}
	return &d
}

func pods(declared *v1alpha1.NodeENIPods) *render.Pods {
	if declared == nil {
		return nil
	}
	settings := &render.Pods{
		Attachment: string(declared.Attachment), OnRemoval: string(declared.OnRemoval),
		Floating: slices.Clone(declared.Floating),
	}
	if declared.IPv4 != nil {
		settings.IPv4 = &render.PodPrefixes{Min: int(declared.IPv4.Prefixes.Min),
			Max: int(declared.IPv4.Prefixes.Most()), Spare: int(ptr.Deref(declared.IPv4.Spare, 0))}
	}
	if declared.IPv6 != nil {
		settings.IPv6Prefixes = int(declared.IPv6.Prefixes)
	}
	for _, route := range declared.Routes {
		settings.Routes = append(settings.Routes, route.To)
	}
	return settings
}
