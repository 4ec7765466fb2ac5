// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package instancetypes has the data of the simulator's DescribeInstanceTypes: about 1,400 EC2 instance types.
//
// described.tsv has nearly all of them as EC2 itself describes them; hack/instancetypes writes it from published
// answers of EC2. For the others, interfaces, network cards and addresses come from the table that AWS publishes as a
// Go package (amazon-vpc-resource-controller-k8s/pkg/aws/vpc). Values that are not in that table are zero, which means
// unknown.
package instancetypes

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/vpc"
)

// Type is one EC2 instance type, with the fields of DescribeInstanceTypes that concern network interfaces.
type Type struct {
	// Name is EC2's, for example "m5.xlarge".
	Name string
	// VCPUs is the default number of virtual CPUs, and Cores that of their cores.
	VCPUs, Cores int
	// MemoryMiB is the memory in MiB.
	MemoryMiB int
	// Cards are the network cards, in order of their index, which starts at 0 and has no gaps.
	Cards []Card
	// MaxInterfaces is the number of network interfaces an instance may have over all its cards, the primary included.
	MaxInterfaces int
	// IPv4PerInterface is the number of IPv4 addresses per interface, the primary address included. A prefix counts as
	// one.
	IPv4PerInterface int
	// IPv6PerInterface is the number of IPv6 addresses per interface; 0 where the type has no IPv6.
	IPv6PerInterface int
	// IPv6Supported is false for the oldest generations only.
	IPv6Supported bool
	// EFASupported reports whether Elastic Fabric Adapters can be attached at launch. False also means that EC2's answer
	// for the type is not in the table.
	EFASupported bool
	// MaxEFAInterfaces is the number of interfaces that may be Elastic Fabric Adapters; 0 without EFA.
	MaxEFAInterfaces int
	// ENASupport is unsupported, supported or required.
	ENASupport string
	// ENASRDSupported reports whether ENA Express can be enabled. False also means that EC2's answer for the type is not
	// in the table.
	ENASRDSupported bool
	// Hypervisor is "nitro" or "xen", and empty for bare metal.
	Hypervisor string
	// BareMetal reports whether the instance is the whole host.
	BareMetal bool
	// CurrentGeneration is false for types that EC2 lists as previous generation.
	CurrentGeneration bool
	// Architectures are EC2's SupportedArchitectures: one of x86_64, arm64, x86_64_mac and arm64_mac. The oldest types
	// also run i386.
	Architectures []string
	// Burstable reports whether CPU credits limit the instance.
	Burstable bool
	// InstanceStorage reports whether the instance has disks of its host.
	InstanceStorage bool
	// UsageClasses are the ways to buy the type: on-demand, spot and capacity-block.
	UsageClasses []string
	// RootDeviceTypes are ebs and instance-store.
	RootDeviceTypes []string
	// EBSOptimized and NVMe are EC2's EbsOptimizedSupport and NvmeSupport.
	EBSOptimized, NVMe string
	// PlacementStrategies are those of placement groups that take the type.
	PlacementStrategies []string
	// Performance is EC2's wording of the bandwidth over all cards, such as "200 Gigabit"; empty means unknown.
	Performance string
}

// Card is one network card of an instance type.
type Card struct {
	// Index is the network card index, as in AttachNetworkInterface.
	Index int
	// MaxInterfaces is the number of interfaces that the card supports.
	MaxInterfaces int
	// Performance is EC2's wording of the bandwidth, such as "Up to 10 Gigabit"; empty means unknown.
	Performance string
}

// Lookup returns the instance type with the given name, and false if there is none. The caller may change the cards and
// the architectures of the result; its other lists are shared.
func Lookup(name string) (Type, bool) {
	if t, ok := described()[name]; ok {
		t.Cards, t.Architectures = slices.Clone(t.Cards), slices.Clone(t.Architectures)
		return t, true
	}
	limits, ok := vpc.Limits[name]
	if !ok {
		return Type{}, false
	}
	s, ok := sizeOf(name)
	if !ok {
		return Type{}, false
	}
	return undescribed(name, s, limits), true
}

// Names returns the name of every known instance type, sorted.
func Names() []string {
	names := slices.Collect(maps.Keys(described()))
	for name := range vpc.Limits {
		if _, ok := sizeOf(name); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// undescribed returns a type from the data of AWS's Go package. Every type without IPv6 is described, so an interface
// of the type has as many IPv6 addresses as IPv4 addresses. The package has neither the generation nor what concerns no
// interface: the type is current and has EBS volumes, like most types.
func undescribed(name string, s size, limits *vpc.VPCLimits) Type {
	t := Type{
		Name: name, MaxInterfaces: limits.Interface, IPv4PerInterface: limits.IPv4PerInterface,
		IPv6PerInterface: limits.IPv4PerInterface, IPv6Supported: true, Hypervisor: limits.Hypervisor,
		BareMetal: limits.IsBareMetal, CurrentGeneration: true, Architectures: []string{architecture(name)},
		VCPUs: s.vcpus, MemoryMiB: s.memoryMiB, Cores: s.vcpus / 2, InstanceStorage: hasDisks(name),
		ENASupport: "required", UsageClasses: []string{"on-demand", "spot"}, RootDeviceTypes: []string{"ebs"},
		EBSOptimized: "default", NVMe: "required", PlacementStrategies: []string{"cluster", "partition", "spread"},
	}
	if t.Hypervisor == "xen" {
		t.ENASupport, t.NVMe = "supported", "unsupported"
	}
	if t.Architectures[0] == "arm64" { // Graviton has one thread per core
		t.Cores = s.vcpus
	}
	for _, card := range limits.NetworkCards {
		t.Cards = append(t.Cards, Card{Index: int(card.NetworkCardIndex), MaxInterfaces: int(card.MaximumNetworkInterfaces)})
	}
	return t
}

// architecture follows the naming convention: a "g" among the letters after the generation means Graviton.
func architecture(name string) string {
	family, _, _ := strings.Cut(name, ".")
	digit := strings.IndexAny(family, "0123456789")
	switch {
	case strings.HasPrefix(family, "mac"):
		return "arm64_mac"
	case digit >= 0 && strings.Contains(family[digit:], "g"):
		return "arm64"
	default:
		return "x86_64"
	}
}
