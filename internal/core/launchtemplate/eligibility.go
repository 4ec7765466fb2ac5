// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/instancetype"
)

// InstanceType is an instance type with its limits.
type InstanceType struct {
	Name   string
	Limits eni.Limits
}

// Offline returns the instance types that are known without a call to EC2.
func Offline() []InstanceType {
	var types []InstanceType
	for _, name := range instancetype.Names() {
		limits, _ := instancetype.Offline(name)
		types = append(types, InstanceType{name, limits})
	}
	return types
}

// TypeReason is one CamelCase word for why an instance type cannot carry the interfaces.
type TypeReason string

// The reasons. The first ones come from the choice of types, the others from the type itself.
const (
	Excluded                TypeReason = "Excluded"
	OtherArchitecture       TypeReason = "OtherArchitecture"
	UnknownLimits           TypeReason = "UnknownLimits"
	NoSuchNetworkCard       TypeReason = "NoSuchNetworkCard"
	NoSuchDeviceIndex       TypeReason = "NoSuchDeviceIndex"
	TooManyInterfacesOnCard TypeReason = "TooManyInterfacesOnCard"
	TooManyInterfaces       TypeReason = "TooManyInterfaces"
	NoEFA                   TypeReason = "NoEFA"
	UnknownEFAs             TypeReason = "UnknownEFAs"
	TooManyEFAs             TypeReason = "TooManyEFAs"
	TooManyIPv4Addresses    TypeReason = "TooManyIPv4Addresses"
	TooManyIPv6Addresses    TypeReason = "TooManyIPv6Addresses"
	PrefixesUnsupported     TypeReason = "PrefixesUnsupported"
	TrackingUnsupported     TypeReason = "ConnectionTrackingUnsupported"
	ENAExpressUnsupported   TypeReason = "ENAExpressUnsupported"
)

// efasNotKnown is the message of UnknownEFAs.
const efasNotKnown = "how many Elastic Fabric Adapters it takes is not known offline: EC2 tells who may call " +
	"ec2:DescribeInstanceTypes"

// TypeVerdict is the result of the check whether an instance type can carry the interfaces.
type TypeVerdict struct {
	Name string
	// Reason is empty for a type that can carry them; else Message has the cause.
	Reason  TypeReason
	Message string
	// Shape selects the template for the type.
	Shape string
	// MaxPods is the number of pods for which the VPC CNI has addresses, without interfaces that it must not use: its own
	// formula with secondary addresses (amazon-vpc-cni-k8s README, "ENI allocation").
	MaxPods int
	// Interfaces and EFAs are the numbers with which an instance is launched.
	Interfaces, EFAs int
}

// Eligible reports whether the type can carry the interfaces.
func (v TypeVerdict) Eligible() bool { return v.Reason == "" }

// matches returns why the filter passes a type over, or nothing.
func (f TypeFilter) matches(name string) bool {
	matches := func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	}
	return (len(f.Include) == 0 || slices.ContainsFunc(f.Include, matches)) && !slices.ContainsFunc(f.Exclude, matches)
}

// candidate returns why a type is not a candidate, before its interfaces are considered.
func (t NodeTemplate) candidate(kind InstanceType) (TypeReason, string) {
	switch {
	case !t.Types.matches(kind.Name):
		return Excluded, "spec.instanceTypes does not choose it"
	case t.Image.Architecture != "" && instancetype.Architecture(kind.Name) != t.Image.Architecture:
		return OtherArchitecture, "the image is for " + t.Image.Architecture
	case !kind.Limits.Known():
		return UnknownLimits, "nothing says how many interfaces it takes"
	case t.Layout != "" && t.Layout != NoLayout && kind.Limits.EFAsUnknown:
		return UnknownEFAs, efasNotKnown
	case t.Layout != "" && t.Layout != NoLayout && kind.Limits.EFAs == 0:
		return NoEFA, "it takes no Elastic Fabric Adapter, which layout " + string(t.Layout) + " is about"
	default:
		return "", ""
	}
}

// judge checks interfaces against the limits of a type.
func judge(kind InstanceType, interfaces []Interface) TypeVerdict {
	v := TypeVerdict{Name: kind.Name, Interfaces: len(interfaces), EFAs: countEFAs(interfaces)}
	v.Reason, v.Message = fits(kind.Limits, interfaces, v.EFAs)
	if v.Eligible() {
		v.MaxPods = maxPods(kind.Limits, interfaces)
	}
	return v
}

func fits(limits eni.Limits, interfaces []Interface, efas int) (TypeReason, string) {
	perCard := map[int]int{}
	for _, i := range interfaces {
		perCard[i.Slot.Card]++
	}
	for card := range 1 + maxCard(interfaces) {
		takes, wanted := limits.MaxOnCard(card), perCard[card]
		switch {
		case wanted > 0 && takes == 0:
			return NoSuchNetworkCard, fmt.Sprintf("it has %s, and no card %d", limits.CardNames(), card)
		case wanted > takes:
			return TooManyInterfacesOnCard, fmt.Sprintf("network card %d takes %d interfaces, and %d are declared",
				card, takes, wanted)
		}
	}
	if reason, message := fitsIndices(limits, interfaces); reason != "" {
		return reason, message
	}
	switch {
	case len(interfaces) > limits.Interfaces:
		return TooManyInterfaces, fmt.Sprintf("it takes %d interfaces over all cards, and %d are declared",
			limits.Interfaces, len(interfaces))
	case efas > 0 && limits.EFAsUnknown:
		return UnknownEFAs, efasNotKnown
	case efas > 0 && limits.EFAs == 0:
		return NoEFA, "it takes no Elastic Fabric Adapter"
	case efas > limits.EFAs:
		return TooManyEFAs, fmt.Sprintf("it takes %d Elastic Fabric Adapters, and %d are declared", limits.EFAs, efas)
	}
	for _, i := range interfaces {
		if reason, message := fitsInterface(limits, i); reason != "" {
			return reason, message
		}
	}
	return "", ""
}

func fitsInterface(limits eni.Limits, i Interface) (TypeReason, string) {
	if reason, message := fitsAddresses(limits, i); reason != "" {
		return reason, message
	}
	return fitsENA(limits, i)
}

// fitsIndices checks device indices. A launch takes those below MaximumNetworkInterfaces of the card: EC2 refuses
// others, or ends the instance after the launch (aws/aws-k8s-tester#526, aws/aws-parallelcluster#4278).
func fitsIndices(limits eni.Limits, interfaces []Interface) (TypeReason, string) {
	for _, i := range interfaces {
		// A negative card is no card of any type, and a mistake in the interface.
		if last := limits.MaxOnCard(i.Slot.Card) - 1; i.Slot.Card >= 0 && i.Slot.Device > last {
			return NoSuchDeviceIndex, fmt.Sprintf("network card %d has the device indices 0 to %d, and %d is declared",
				i.Slot.Card, last, i.Slot.Device)
		}
	}
	return "", ""
}

func fitsAddresses(limits eni.Limits, i Interface) (TypeReason, string) {
	v4, v6 := 1+i.IPv4Prefixes, i.IPv6Prefixes
	switch {
	case limits.XenHypervisor && v4+v6 > 1:
		return PrefixesUnsupported, "its interfaces take no prefixes: it is no Nitro type"
	case v6 > 0 && limits.IPv6 == 0:
		return TooManyIPv6Addresses, "it has no IPv6"
	case v4 > limits.IPv4:
		return TooManyIPv4Addresses, fmt.Sprintf(
			"an interface takes %d IPv4 addresses and prefixes, and %s asks for %d with its primary one", limits.IPv4, i, v4)
	case v6 > limits.IPv6:
		return TooManyIPv6Addresses, fmt.Sprintf(
			"an interface takes %d IPv6 addresses and prefixes, and %s asks for %d", limits.IPv6, i, v6)
	default:
		return "", ""
	}
}

// fitsENA checks the ENA settings. EC2 refuses to launch a type that does not support one.
func fitsENA(limits eni.Limits, i Interface) (TypeReason, string) {
	switch {
	case !i.ConnectionTracking.IsZero() && !limits.TracksConnections():
		return TrackingUnsupported, "its interfaces take no timeouts of connection tracking: it is no Nitro type"
	case i.ENAExpress.IsOn() && !limits.ENAExpress:
		return ENAExpressUnsupported, "EC2 does not say that it supports ENA Express (ec2:DescribeInstanceTypes)"
	default:
		return "", ""
	}
}

func maxCard(interfaces []Interface) int {
	most := 0
	for _, i := range interfaces {
		most = max(most, i.Slot.Card)
	}
	return most
}

func countEFAs(interfaces []Interface) int {
	n := 0
	for _, i := range interfaces {
		if i.IsEFA() {
			n++
		}
	}
	return n
}

// maxPods counts only card 0, on which the CNI has its interfaces.
func maxPods(limits eni.Limits, interfaces []Interface) int {
	return (limits.MaxOnCard(0)-unmanagedReason(interfaces))*(limits.IPv4-1) + 2
}

// unmanagedReason is how many slots of card 0 are lost to the VPC CNI.
func unmanagedReason(interfaces []Interface) int {
	n := 0
	for _, i := range interfaces {
		if i.Slot.Card == 0 && i.unmanaged() {
			n++
		}
	}
	return n
}

// noEligibleType returns the problem that no type can carry the interfaces: the number of types for each reason, with
// one example.
func noEligibleType(verdicts []TypeVerdict) *Problem {
	type group struct {
		count   int
		example TypeVerdict
	}
	groups, chosen := map[TypeReason]*group{}, 0
	var order []TypeReason
	for _, v := range verdicts {
		if v.Eligible() {
			return nil
		}
		if v.Reason == Excluded {
			continue
		}
		chosen++
		if groups[v.Reason] == nil {
			groups[v.Reason], order = &group{example: v}, append(order, v.Reason)
		}
		groups[v.Reason].count++
	}
	if chosen == 0 {
		return &Problem{NoEligibleInstanceType, "spec.instanceTypes",
			"no instance type matches; check include and exclude, for example include: [\"m5.*\"]"}
	}
	slices.SortFunc(order, func(a, b TypeReason) int { return groups[b].count - groups[a].count })
	var words []string
	for _, reason := range order {
		g := groups[reason]
		words = append(words, fmt.Sprintf("%d for %s (%s: %s)", g.count, reason, g.example.Name, g.example.Message))
	}
	return &Problem{NoEligibleInstanceType, "spec.networkInterfaces", fmt.Sprintf(
		"none of the %d chosen instance types can carry the interfaces: %s; declare fewer, or choose larger types",
		chosen, strings.Join(words, ", "))}
}
