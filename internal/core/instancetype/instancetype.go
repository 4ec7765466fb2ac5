// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package instancetype has the numbers of network interfaces and addresses of instance types, without a call to EC2.
//
// EC2's own answer (DescribeInstanceTypes) is current and takes precedence as a whole; [Offline] is for callers that
// have no permission for that call, get an error, or cannot make it. Its figures are the table that AWS publishes as a
// Go package (amazon-vpc-resource-controller-k8s/pkg/aws/vpc), completed in three ways: the types the table lacks, the
// IPv6 limits, and the Elastic Fabric Adapters if published answers of EC2 have them.
package instancetype

import (
	"slices"
	"strings"

	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/vpc"

	"github.com/multieni/multieni/internal/core/eni"
)

// Offline returns the limits of an instance type such as "m5.large", and false for a type that is not in the table.
func Offline(instanceType string) (eni.Limits, bool) {
	limits, ok := offlineGaps(instanceType)
	if published, is := vpc.Limits[instanceType]; is {
		limits, ok = convert(instanceType, published), true
	}
	if !ok {
		return eni.Limits{}, false
	}
	adapters, known := efas()[instanceType]
	limits.EFAs, limits.EFAsUnknown = adapters, !known
	return limits, true
}

// Names returns the names of all types that [Offline] knows, sorted.
func Names() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range vpc.Limits {
			if !yield(name) {
				return
			}
		}
		for _, name := range unpublished {
			if _, published := vpc.Limits[name]; !published && !yield(name) {
				return
			}
		}
	})
}

func convert(instanceType string, published *vpc.VPCLimits) eni.Limits {
	limits := eni.Limits{
		Cards:         make([]int, len(published.NetworkCards)),
		Interfaces:    published.Interface,
		IPv4:          published.IPv4PerInterface,
		IPv6:          ipv6(instanceType, published.IPv4PerInterface),
		XenHypervisor: published.Hypervisor == "xen",
	}
	for _, card := range published.NetworkCards {
		limits.Cards[card.NetworkCardIndex] = int(card.MaximumNetworkInterfaces)
	}
	return limits
}

// ipv6 is as many as IPv4 addresses (EC2 API reference, AssignIpv6Addresses), except for the families that have no
// IPv6 at all (EC2 user guide, "IPv6 addresses").
func ipv6(instanceType string, ipv4 int) int {
	switch family, _, _ := strings.Cut(instanceType, "."); family {
	case "c1", "m1", "m2", "m3", "t1":
		return 0
	default:
		return ipv4
	}
}

// unpublished are the types that [lacking] knows.
var unpublished = []string{
	"hpc6a.48xlarge", "hpc6id.32xlarge", "hpc7a.12xlarge", "hpc7a.24xlarge", "hpc7a.48xlarge", "hpc7a.96xlarge",
	"hpc8a.96xlarge",
	"trn2.48xlarge",
}

// offlineGaps returns the limits of the types that the published table leaves out (EC2 instance types guide, network
// specifications). All of them are Nitro types whose cards are alike.
func offlineGaps(instanceType string) (eni.Limits, bool) {
	switch instanceType {
	case "hpc6a.48xlarge":
		return uniform(1, 2), true
	case "hpc6id.32xlarge":
		return uniform(2, 1), true
	case "hpc7a.12xlarge", "hpc7a.24xlarge", "hpc7a.48xlarge", "hpc7a.96xlarge", "hpc8a.96xlarge":
		return uniform(2, 2), true
	case "trn2.48xlarge":
		return uniform(16, 2), true
	default:
		return eni.Limits{}, false
	}
}

// uniform returns the limits of a number of equal cards, whose interfaces have 50 addresses each.
func uniform(cards, perCard int) eni.Limits {
	limits := eni.Limits{Interfaces: cards * perCard, IPv4: 50, IPv6: 50}
	for range cards {
		limits.Cards = append(limits.Cards, perCard)
	}
	return limits
}
