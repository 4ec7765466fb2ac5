// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package instancetypes is what the simulator's DescribeInstanceTypes knows: about 1,400 EC2 instance types
// with their network limits, and for the ones people run, vCPUs, memory, EFA and ENA Express.
//
// It joins three sources, and a reader who wants to add a type touches only the last two files:
//
//   - interfaces, network cards and addresses come from the table that AWS publishes as a Go package
//     (amazon-vpc-resource-controller-k8s/pkg/aws/vpc);
//   - table.go has a row per well-known type with what that table leaves out, and the few types that it lacks whole;
//   - families.go says which families follow a rule so regular (vCPUs from the size, memory from the vCPUs) that
//     their other sizes can be computed.
//
// What none of the three says is left at zero, which means unknown. Nothing here is a guess.
package instancetypes

import (
	"maps"
	"slices"

	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/vpc"
)

// Type is one EC2 instance type, as far as DescribeInstanceTypes tells it to someone who attaches network interfaces.
type Type struct {
	// Name is EC2's, for example "m5.xlarge".
	Name string
	// VCPUs is the default number of virtual CPUs; 0 means unknown.
	VCPUs int
	// MemoryMiB is the memory in MiB; 0 means unknown.
	MemoryMiB int
	// Cards are the network cards, in order of their index, which starts at 0 and has no gaps.
	Cards []Card
	// MaxInterfaces is the number of network interfaces an instance may have over all its cards, the primary included.
	MaxInterfaces int
	// IPv4PerInterface is the number of IPv4 addresses per interface, the primary address included. A prefix takes one.
	IPv4PerInterface int
	// IPv6PerInterface is the number of IPv6 addresses per interface; 0 where the type has no IPv6.
	IPv6PerInterface int
	// IPv6Supported is false for the oldest generations only.
	IPv6Supported bool
	// EFASupported tells whether Elastic Fabric Adapters can be attached at launch.
	// False also means that we have no row for the type.
	EFASupported bool
	// MaxEFAInterfaces is how many of the interfaces may be Elastic Fabric Adapters; 0 without EFA.
	MaxEFAInterfaces int
	// ENASRDSupported tells whether ENA Express can be enabled. False also means that we have no row for the type.
	ENASRDSupported bool
	// Hypervisor is "nitro" or "xen", and empty for bare metal.
	Hypervisor string
	// BareMetal tells whether the instance is the whole host.
	BareMetal bool
	// CurrentGeneration is false for what EC2 lists as previous generation.
	CurrentGeneration bool
	// Architectures is what EC2 calls SupportedArchitectures: one of x86_64, arm64, x86_64_mac and arm64_mac.
	// The 32-bit i386 that the oldest types also run is left out.
	Architectures []string
}

// Card is one network card of an instance type.
type Card struct {
	// Index is the network card index, as in AttachNetworkInterface.
	Index int
	// MaxInterfaces is the number of interfaces that the card takes.
	MaxInterfaces int
	// Performance is EC2's wording of the bandwidth, such as "Up to 10 Gigabit"; empty means unknown.
	Performance string
}

// Lookup returns the instance type with the given name, and false when there is none.
// The result shares nothing with the tables: the caller may change it.
func Lookup(name string) (Type, bool) {
	limits, ok := limitsOf(name)
	if !ok {
		return Type{}, false
	}
	facts := factsOf(name)
	family := familyOf(name)
	t := Type{
		Name:              name,
		VCPUs:             facts.vcpus,
		MemoryMiB:         facts.memory,
		MaxInterfaces:     limits.Interface,
		IPv4PerInterface:  limits.IPv4PerInterface,
		IPv6Supported:     !withoutIPv6[family],
		EFASupported:      facts.efas > 0,
		MaxEFAInterfaces:  facts.efas,
		ENASRDSupported:   facts.enaExpress,
		Hypervisor:        limits.Hypervisor,
		BareMetal:         limits.IsBareMetal,
		CurrentGeneration: !previousGeneration[family],
		Architectures:     []string{architectureOf(family)},
	}
	if t.IPv6Supported {
		// Where EC2 has IPv6 at all, an interface takes as many IPv6 addresses as IPv4 ones.
		t.IPv6PerInterface = limits.IPv4PerInterface
	}
	for _, card := range limits.NetworkCards {
		t.Cards = append(t.Cards, Card{
			Index:         int(card.NetworkCardIndex),
			MaxInterfaces: int(card.MaximumNetworkInterfaces),
			Performance:   facts.performance,
		})
	}
	return t, true
}

// Names returns the name of every known instance type, sorted.
func Names() []string {
	names := slices.Concat(slices.Collect(maps.Keys(vpc.Limits)), slices.Collect(maps.Keys(lacking)))
	slices.Sort(names)
	return slices.Compact(names)
}

// limitsOf prefers AWS's table, so that a row of ours stops mattering when AWS adds the type.
func limitsOf(name string) (vpc.VPCLimits, bool) {
	if limits, ok := vpc.Limits[name]; ok {
		return *limits, true
	}
	limits, ok := lacking[name]
	return limits, ok
}

// factsOf returns the row of the type, completed by the rule of its family.
func factsOf(name string) facts {
	row := known[name]
	if row.vcpus == 0 {
		row.vcpus, row.memory = bySize(name)
	}
	return row
}
