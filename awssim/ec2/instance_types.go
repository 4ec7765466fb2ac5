// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"slices"

	"github.com/multieni/multieni/awssim/instancetypes"
)

// InstanceType is an instance type in DescribeInstanceTypes, with the fields that concern network interfaces and
// those that EC2 returns for every type.
type InstanceType struct {
	InstanceType                  string             `json:"instanceType"`
	CurrentGeneration             bool               `json:"currentGeneration"`
	BareMetal                     bool               `json:"bareMetal"`
	Hypervisor                    string             `json:"hypervisor,omitempty"`
	VCPUInfo                      VCPUInfo           `json:"vCpuInfo"`
	MemoryInfo                    MemoryInfo         `json:"memoryInfo"`
	ProcessorInfo                 ProcessorInfo      `json:"processorInfo"`
	NetworkInfo                   NetworkInfo        `json:"networkInfo"`
	EBSInfo                       EBSInfo            `json:"ebsInfo"`
	PlacementGroupInfo            PlacementGroupInfo `json:"placementGroupInfo"`
	SupportedUsageClasses         []string           `json:"supportedUsageClasses"`
	SupportedRootDeviceTypes      []string           `json:"supportedRootDeviceTypes"`
	BurstablePerformanceSupported bool               `json:"burstablePerformanceSupported"`
	InstanceStorageSupported      bool               `json:"instanceStorageSupported"`
}

// EBSInfo is what a type can do with volumes.
type EBSInfo struct {
	EBSOptimizedSupport string `json:"ebsOptimizedSupport"`
	EncryptionSupport   string `json:"encryptionSupport"`
	NVMeSupport         string `json:"nvmeSupport"`
}

// PlacementGroupInfo is the kinds of placement groups that take a type.
type PlacementGroupInfo struct {
	SupportedStrategies []string `json:"supportedStrategies"`
}

// VCPUInfo is the number of processors.
type VCPUInfo struct {
	DefaultVCPUs          int `json:"defaultVCpus"`
	DefaultCores          int `json:"defaultCores"`
	DefaultThreadsPerCore int `json:"defaultThreadsPerCore"`
}

// MemoryInfo is the size of the memory.
type MemoryInfo struct {
	SizeInMiB int `json:"sizeInMiB"`
}

// ProcessorInfo is the kind of processor.
type ProcessorInfo struct {
	SupportedArchitectures []string `json:"supportedArchitectures"`
}

// NetworkInfo has the limits of network interfaces.
type NetworkInfo struct {
	NetworkPerformance        string        `json:"networkPerformance,omitempty"`
	MaximumNetworkInterfaces  int           `json:"maximumNetworkInterfaces"`
	MaximumNetworkCards       int           `json:"maximumNetworkCards"`
	DefaultNetworkCardIndex   int           `json:"defaultNetworkCardIndex"`
	NetworkCards              []NetworkCard `json:"networkCards"`
	IPv4AddressesPerInterface int           `json:"ipv4AddressesPerInterface"`
	IPv6AddressesPerInterface int           `json:"ipv6AddressesPerInterface"`
	IPv6Supported             bool          `json:"ipv6Supported"`
	ENASupport                string        `json:"enaSupport"`
	ENASRDSupported           bool          `json:"enaSrdSupported"`
	EFASupported              bool          `json:"efaSupported"`
	EFAInfo                   EFAInfo       `json:"efaInfo,omitzero"`

	ConnectionTracking *DefaultConnectionTracking `json:"connectionTrackingConfiguration,omitempty"`
}

// NetworkCard is one network card.
type NetworkCard struct {
	NetworkCardIndex         int    `json:"networkCardIndex"`
	NetworkPerformance       string `json:"networkPerformance,omitempty"`
	MaximumNetworkInterfaces int    `json:"maximumNetworkInterfaces"`
}

// EFAInfo is the limit of Elastic Fabric Adapters.
type EFAInfo struct {
	MaximumEFAInterfaces int `json:"maximumEfaInterfaces"`
}

// DescribeInstanceTypesInput is the request of DescribeInstanceTypes.
type DescribeInstanceTypesInput struct {
	Page
	InstanceTypes []string `query:"InstanceType"`
}

// DescribeInstanceTypesOutput is its answer.
type DescribeInstanceTypesOutput struct {
	InstanceTypes []*InstanceType `json:"instanceTypes" xml:"instanceTypeSet"`
	NextToken     string          `json:"nextToken,omitempty"`
}

// DescribeInstanceTypes lists instance types.
func (m *Model) DescribeInstanceTypes(c Call, in *DescribeInstanceTypesInput) (*DescribeInstanceTypesOutput, error) {
	if m.types == nil {
		m.types = newTable(typeKind())
		for _, name := range instancetypes.Names() {
			known, _ := instancetypes.Lookup(name)
			m.types.put(name, describeType(known), m.now(), m.now())
		}
	}
	if in.MaxResults == nil && len(in.InstanceTypes) == 0 {
		// EC2 pages by itself when the request has no page size.
		in = &DescribeInstanceTypesInput{Page: in.Page}
		in.MaxResults = new(maxTypesPerPage)
	}
	found, next, err := describe(m, c, m.types, in.InstanceTypes, in.Page)
	if err != nil {
		return nil, err
	}
	return &DescribeInstanceTypesOutput{found, next}, nil
}

// maxTypesPerPage is the limit of MaxResults and of names in a request.
const maxTypesPerPage = 100

func describeType(t instancetypes.Type) *InstanceType {
	info := NetworkInfo{
		NetworkPerformance:        t.Performance,
		MaximumNetworkInterfaces:  t.MaxInterfaces,
		MaximumNetworkCards:       len(t.Cards),
		IPv4AddressesPerInterface: t.IPv4PerInterface,
		IPv6AddressesPerInterface: t.IPv6PerInterface,
		IPv6Supported:             t.IPv6Supported,
		ENASupport:                t.ENASupport,
		ENASRDSupported:           t.ENASRDSupported,
		EFASupported:              t.EFASupported,
		EFAInfo:                   EFAInfo{t.MaxEFAInterfaces},
		ConnectionTracking:        defaultTracking(t),
	}
	for _, card := range t.Cards {
		info.NetworkCards = append(info.NetworkCards, NetworkCard{card.Index, card.Performance, card.MaxInterfaces})
	}
	return &InstanceType{
		InstanceType: t.Name, CurrentGeneration: t.CurrentGeneration, BareMetal: t.BareMetal, Hypervisor: t.Hypervisor,
		VCPUInfo: VCPUInfo{t.VCPUs, t.Cores, t.VCPUs / t.Cores}, MemoryInfo: MemoryInfo{t.MemoryMiB},
		ProcessorInfo: ProcessorInfo{t.Architectures}, NetworkInfo: info,
		EBSInfo:            EBSInfo{t.EBSOptimized, "supported", t.NVMe},
		PlacementGroupInfo: PlacementGroupInfo{t.PlacementStrategies}, SupportedUsageClasses: t.UsageClasses,
		SupportedRootDeviceTypes: t.RootDeviceTypes, BurstablePerformanceSupported: t.Burstable,
		InstanceStorageSupported: t.InstanceStorage,
	}
}

func typeKind() kind[InstanceType] {
	return kind[InstanceType]{
		action: "DescribeInstanceTypes",
		id:     func(t *InstanceType) string { return t.InstanceType },
		notFound: func(name string) *Error {
			return refuse("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		},
		minResults: 5,
		maxResults: maxTypesPerPage,
		check: func(names []string, _ Page) error {
			if len(names) > maxTypesPerPage {
				return invalidValue("The request names %d instance types, the maximum is %d", len(names), maxTypesPerPage)
			}
			return nil
		},
		filters: map[string]func(*InstanceType) []string{
			"burstable-performance-supported": func(t *InstanceType) []string {
				return truth(t.BurstablePerformanceSupported)
			},
			"instance-storage-supported": func(t *InstanceType) []string { return truth(t.InstanceStorageSupported) },
			"supported-root-device-type": func(t *InstanceType) []string { return t.SupportedRootDeviceTypes },
			"supported-usage-class":      func(t *InstanceType) []string { return t.SupportedUsageClasses },
			"placement-group-info.supported-strategies": func(t *InstanceType) []string {
				return t.PlacementGroupInfo.SupportedStrategies
			},
			"ebs-info.ebs-optimized-support": func(t *InstanceType) []string { return one(t.EBSInfo.EBSOptimizedSupport) },
			"ebs-info.nvme-support":          func(t *InstanceType) []string { return one(t.EBSInfo.NVMeSupport) },
			"vcpu-info.default-cores":        func(t *InstanceType) []string { return number(t.VCPUInfo.DefaultCores) },
			"bare-metal":                     func(t *InstanceType) []string { return truth(t.BareMetal) },
			"current-generation":             func(t *InstanceType) []string { return truth(t.CurrentGeneration) },
			"hypervisor":                     func(t *InstanceType) []string { return one(t.Hypervisor) },
			"instance-type":                  func(t *InstanceType) []string { return one(t.InstanceType) },
			"memory-info.size-in-mib":        func(t *InstanceType) []string { return number(t.MemoryInfo.SizeInMiB) },
			"vcpu-info.default-vcpus":        func(t *InstanceType) []string { return number(t.VCPUInfo.DefaultVCPUs) },
			"processor-info.supported-architecture": func(t *InstanceType) []string {
				return slices.Clone(t.ProcessorInfo.SupportedArchitectures)
			},
			"network-info.efa-supported": func(t *InstanceType) []string { return truth(t.NetworkInfo.EFASupported) },
			"network-info.ena-support":   func(t *InstanceType) []string { return one(t.NetworkInfo.ENASupport) },
			"network-info.efa-info.maximum-efa-interfaces": func(t *InstanceType) []string {
				return number(t.NetworkInfo.EFAInfo.MaximumEFAInterfaces)
			},
			"network-info.ipv4-addresses-per-interface": func(t *InstanceType) []string {
				return number(t.NetworkInfo.IPv4AddressesPerInterface)
			},
			"network-info.ipv6-addresses-per-interface": func(t *InstanceType) []string {
				return number(t.NetworkInfo.IPv6AddressesPerInterface)
			},
			"network-info.ipv6-supported": func(t *InstanceType) []string { return truth(t.NetworkInfo.IPv6Supported) },
			"network-info.maximum-network-cards": func(t *InstanceType) []string {
				return number(t.NetworkInfo.MaximumNetworkCards)
			},
			"network-info.maximum-network-interfaces": func(t *InstanceType) []string {
				return number(t.NetworkInfo.MaximumNetworkInterfaces)
			},
			"network-info.network-performance": func(t *InstanceType) []string { return one(t.NetworkInfo.NetworkPerformance) },
		},
	}
}
