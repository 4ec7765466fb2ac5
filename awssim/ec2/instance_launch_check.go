// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"maps"
	"slices"

	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/instancetypes"
)

// canLaunch returns EC2's error for the interfaces of a launch, before any is created.
func (m *Model) canLaunch(l launch) error {
	primary := l.interfaces[0]
	switch {
	case primary.slot() != slot{}:
		return invalidCombination("The primary network interface must be at device index 0 of network card 0")
	case primary.InterfaceType == interfaceTypeEFAOnly:
		return invalidCombination("The primary network interface must have an IP address, which EFA-only ones have not")
	}
	seen := newLayout(l.zone)
	for _, spec := range l.interfaces {
		where, err := m.canLaunchInterface(spec, l)
		if err != nil {
			return err
		}
		if err := seen.add(spec, where); err != nil {
			return err
		}
	}
	if err := seen.fits(l.instanceType); err != nil {
		return err
	}
	return indexesFit(seen, l.instanceType)
}

// indexesFit checks the device indices of a launch, whose cards are known to exist. EC2 takes those below the number of
// interfaces of the card: it refuses others (aws/aws-k8s-tester#526) or ends the instance after the launch
// (aws/aws-parallelcluster#4278).
func indexesFit(seen layout, limits instancetypes.Type) error {
	for _, spec := range seen.specs {
		at := slices.IndexFunc(limits.Cards, func(c instancetypes.Card) bool { return c.Index == spec.slot().card })
		if most := limits.Cards[at].MaxInterfaces - 1; spec.slot().device > most {
			return invalidValue("The device index %d is too high for network card %d of the instance type '%s'. Specify a "+
				"number from 0 to %d, and try again.", spec.slot().device, spec.slot().card, limits.Name, most)
		}
	}
	return nil
}

// place has the location of an interface, as far as it is known, and its type.
type place struct {
	zone, vpc     string
	interfaceType string
}

// layout has the interfaces of one instance so far.
type layout struct {
	specs     []InterfaceSpecification
	slots     map[slot]bool
	perCard   map[int]int
	efaOnCard map[int]int
	existing  map[string]bool
	efas      int
	zone, vpc string
}

func newLayout(zone string) layout {
	return layout{slots: map[slot]bool{}, perCard: map[int]int{}, efaOnCard: map[int]int{},
		existing: map[string]bool{}, zone: zone}
}

// add returns an error for an interface that is not compatible with the others.
func (l *layout) add(spec InterfaceSpecification, where place) error {
	at := spec.slot()
	switch {
	case at.device < 0:
		return invalidValue("Value (%d) for parameter deviceIndex is invalid. It cannot be negative.", at.device)
	case l.slots[at]:
		return invalidValue("The device index '%d' of network card %d is used more than once", at.device, at.card)
	case l.existing[spec.NetworkInterfaceID]:
		return refuse("InvalidNetworkInterface.InUse", "Interface: [%s] is used more than once.", spec.NetworkInterfaceID)
	case l.zone != "" && where.zone != "" && l.zone != where.zone:
		return invalidCombination("The network interfaces of an instance must be in the same availability zone, and " +
			"in that of its placement")
	case l.vpc != "" && where.vpc != "" && l.vpc != where.vpc:
		return invalidCombination("The network interfaces of an instance must be in the same VPC")
	}
	l.specs = append(l.specs, spec)
	l.slots[at] = true
	l.perCard[at.card]++
	if spec.NetworkInterfaceID != "" {
		l.existing[spec.NetworkInterfaceID] = true
	}
	if isEFA(where.interfaceType) {
		l.efas++
		l.efaOnCard[at.card]++
	}
	l.zone, l.vpc = cmp.Or(where.zone, l.zone), cmp.Or(where.vpc, l.vpc)
	return nil
}

// fits checks the limits of the instance type.
func (l *layout) fits(limits instancetypes.Type) error {
	switch {
	case len(l.slots) > limits.MaxInterfaces:
		return refuse("AttachmentLimitExceeded", "Interface count %d exceeds the limit for %s", len(l.slots), limits.Name)
	case l.efas > limits.MaxEFAInterfaces:
		return tooManyEFAs(limits)
	}
	for _, card := range slices.Sorted(maps.Keys(l.perCard)) {
		n := l.perCard[card]
		at := slices.IndexFunc(limits.Cards, func(c instancetypes.Card) bool { return c.Index == card })
		if at < 0 {
			return noSuchCard(limits, card)
		}
		if n > limits.Cards[at].MaxInterfaces {
			return cardFull(limits, card, n)
		}
		if l.efaOnCard[card] > efasPerCard(limits) {
			return tooManyEFAsOnCard(limits, card)
		}
	}
	return nil
}

// tooManyEFAs is an error whose code is an estimate.
func tooManyEFAs(limits instancetypes.Type) *Error {
	return refuse("AttachmentLimitExceeded", "The instance type '%s' takes at most %d Elastic Fabric Adapters",
		limits.Name, limits.MaxEFAInterfaces)
}

// efasPerCard returns the number of Elastic Fabric Adapters of a network card: one, unless the type has more of them
// than cards.
func efasPerCard(limits instancetypes.Type) int {
	return max(1, (limits.MaxEFAInterfaces+len(limits.Cards)-1)/max(1, len(limits.Cards)))
}

// tooManyEFAsOnCard is an error whose code is an estimate.
func tooManyEFAsOnCard(limits instancetypes.Type, card int) *Error {
	return refuse("AttachmentLimitExceeded",
		"Network card %d of the instance type '%s' takes at most %d Elastic Fabric Adapters",
		card, limits.Name, efasPerCard(limits))
}

func noSuchCard(limits instancetypes.Type, card int) *Error {
	return invalidValue("The instance type '%s' does not have a network card with index %d.", limits.Name, card)
}

func cardFull(limits instancetypes.Type, card, count int) *Error {
	return refuse("AttachmentLimitExceeded", "Interface count %d exceeds the limit for network card %d of %s", count,
		card, limits.Name)
}

// canLaunchInterface returns the error of one interface alone, and its place.
func (m *Model) canLaunchInterface(spec InterfaceSpecification, l launch) (place, error) {
	if err := m.canAssociate(spec, l); err != nil {
		return place{}, err
	}
	if err := supportsENASRD(l.instanceType.Name, spec.ENASRD); err != nil {
		return place{}, err
	}
	if err := tracks(l.instanceType.Name, spec.ConnectionTracking); err != nil {
		return place{}, err
	}
	if spec.NetworkInterfaceID != "" {
		return m.canLaunchExisting(spec, l)
	}
	if l.count > 1 && (spec.PrivateIPAddress != "" || len(spec.PrivateIPAddresses) > 0) {
		return place{}, invalidCombination("A private IP address cannot be specified when launching multiple instances")
	}
	w, err := m.validateSettings(spec.InterfaceSettings)
	if err != nil {
		return place{}, err
	}
	if isEFA(spec.InterfaceType) && !l.instanceType.EFASupported {
		return place{}, refuse("UnsupportedOperation",
			"Elastic Fabric Adapter is not supported on the instance type '%s'.", l.instanceType.Name)
	}
	if n := 1 + w.ipv4.size() + w.prefixes4.size(); n > l.instanceType.IPv4PerInterface {
		return place{}, refuse("InvalidInterface.IpAddressLimitExceeded",
			"%d exceeds the number of private addresses per interface of %s",
			n, l.instanceType.Name)
	}
	if _, strikes := m.faults.Draw(fault.SubnetFull, m.now(), "RunInstances", spec.SubnetID); strikes {
		return place{}, subnetFull()
	}
	subnet := m.subnets.get(spec.SubnetID)
	return place{subnet.AvailabilityZone, subnet.VPCID, spec.InterfaceType}, nil
}

func (m *Model) canLaunchExisting(spec InterfaceSpecification, l launch) (place, error) {
	if l.count > 1 {
		return place{}, invalidCombination(
			"An existing network interface cannot be specified when launching multiple instances")
	}
	eni, err := m.interfaceOf(spec.NetworkInterfaceID)
	switch {
	case err != nil:
		return place{}, err
	case spec.SubnetID != "" || len(spec.Groups) > 0 || spec.Description != "":
		return place{}, invalidCombination("Settings of a network interface cannot be specified together with its ID")
	case eni.RequesterManaged:
		return place{}, notYours(eni)
	case eni.Attachment != nil:
		return place{}, refuse("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", eni.NetworkInterfaceID)
	}
	return place{eni.AvailabilityZone, eni.VPCID, eni.InterfaceType}, fits(eni, l.instanceType)
}
