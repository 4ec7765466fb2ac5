// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
)

// ZoneTypeWavelength is the type of zones whose subnets have carrier addresses.
const ZoneTypeWavelength = "wavelength-zone"

// publicAddress returns an unused address of 198.18.0.0/15, which RFC 2544 reserves for benchmarks.
func (m *Model) publicAddress() netip.Addr {
	m.publics++
	base := [4]byte{198, 18, 0, 0}
	binary.BigEndian.PutUint32(base[:], binary.BigEndian.Uint32(base[:])+m.publics%(1<<17))
	return netip.AddrFrom4(base)
}

// isAmazons reports whether EC2 assigned the public address itself.
func (a *Association) isAmazons() bool { return a != nil && a.PublicIP.IsValid() }

// canAssociate returns EC2's error for public and carrier addresses in a launch. The codes for carrier addresses are
// estimates.
func (m *Model) canAssociate(spec InterfaceSpecification, l launch) error {
	carrier := isSet(spec.AssociateCarrierIPAddress)
	public := isSet(spec.AssociatePublicIPAddress)
	switch {
	case spec.AssociatePublicIPAddress != nil && len(l.interfaces) > 1:
		return invalidCombination("The associatePublicIPAddress parameter cannot be specified when launching with " +
			"multiple network interfaces")
	case !public && !carrier:
		return nil
	case public && carrier:
		return invalidCombination("A public IP address and a carrier IP address cannot be associated with the same " +
			"network interface")
	case spec.slot() != slot{}:
		return invalidCombination("A public or carrier IP address can be associated with the primary network interface only")
	case spec.NetworkInterfaceID != "":
		return invalidCombination("A public or carrier IP address cannot be specified together with the ID of a " +
			"network interface")
	case spec.InterfaceType == interfaceTypeEFAOnly:
		return invalidCombination("An EFA-only network interface has no IP addresses")
	case carrier && spec.SubnetID != "" && !m.isWavelength(spec.SubnetID):
		return invalidCombination("A carrier IP address can be associated in a subnet of a Wavelength Zone only")
	}
	return nil
}

func isSet(value *bool) bool { return value != nil && *value }

func (m *Model) isWavelength(subnetID string) bool {
	subnet := m.subnets.get(subnetID)
	return subnet != nil && slices.ContainsFunc(m.zones, func(z AvailabilityZone) bool {
		return z.ZoneName == subnet.AvailabilityZone && z.ZoneType == ZoneTypeWavelength
	})
}

// associate gives a new primary interface the address that the launch requests, or that its subnet gives to an instance
// with no other interface.
func (m *Model) associate(eni *NetworkInterface, spec InterfaceSpecification, l launch) *NetworkInterface {
	public := spec.slot() == slot{} && eni.PrivateIPAddress.IsValid() && m.subnets.get(eni.SubnetID).MapPublicIPOnLaunch &&
		(len(l.interfaces) == 1 || m.behavior.PublicWithSeveralInterfaces)
	if spec.AssociatePublicIPAddress != nil {
		public = *spec.AssociatePublicIPAddress
	}
	switch {
	case isSet(spec.AssociateCarrierIPAddress):
		m.setAssociation(eni.NetworkInterfaceID, &Association{CarrierIP: m.publicAddress(), IPOwnerID: "aws-wavelength"})
	case public:
		m.givePublic(eni.NetworkInterfaceID)
	}
	return m.interfaces.get(eni.NetworkInterfaceID)
}

func (m *Model) givePublic(eniID string) {
	address := m.publicAddress()
	m.setAssociation(eniID, &Association{
		PublicIP: address, IPOwnerID: "amazon",
		PublicDNSName: "ec2-" + strings.ReplaceAll(address.String(), ".", "-") + ".compute-1.amazonaws.com",
	})
}

func (m *Model) setAssociation(eniID string, a *Association) {
	m.changeInterface(eniID, func(e *NetworkInterface) { e.Association = a })
}

// losePublic removes the address that EC2 assigned from a stopped instance.
func (m *Model) losePublic(instanceID string) {
	for _, eni := range m.interfacesOf(instanceID) {
		if eni.Association.isAmazons() {
			m.setAssociation(eni.NetworkInterfaceID, nil)
		}
	}
}

// regainPublic assigns another address to a started instance, unless it now has several interfaces (EC2 user guide,
// "Public IPv4 addresses").
func (m *Model) regainPublic(instanceID string) {
	enis := m.interfacesOf(instanceID)
	if m.instances.get(instanceID).internal.HadPublicAddress && len(enis) == 1 && enis[0].Association == nil {
		m.givePublic(enis[0].NetworkInterfaceID)
	}
}
