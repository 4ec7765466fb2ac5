// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"net/http"
	"slices"
	"time"

	"github.com/multieni/multieni/awssim/fault"
)

// Types of network interfaces.
const (
	interfaceTypeInterface = "interface"
	interfaceTypeEFA       = "efa"
	interfaceTypeEFAOnly   = "efa-only"
)

// Defaults of Service Quotas.
const (
	maxInterfaces         = 5000 // network interfaces per Region
	maxGroupsPerInterface = 5    // security groups per network interface
)

// CreateNetworkInterfaceInput is the request of CreateNetworkInterface.
type CreateNetworkInterfaceInput struct {
	InterfaceSettings
	TagSpecifications []TagSpecification `query:"TagSpecification"`
	ClientToken       string             `query:"ClientToken"`
	DryRun            bool               `query:"DryRun"`
}

// CreateNetworkInterfaceOutput is its answer.
type CreateNetworkInterfaceOutput struct {
	NetworkInterface *NetworkInterface `json:"networkInterface"`
	ClientToken      string            `json:"clientToken,omitempty"`
}

// CreateNetworkInterface creates an interface in a subnet. The same token and parameters return the same interface.
func (m *Model) CreateNetworkInterface(c Call, in *CreateNetworkInterfaceInput) (*CreateNetworkInterfaceOutput, error) {
	m.Advance(c.Now)
	const action = "CreateNetworkInterface"
	tags, err := tagsFor("network-interface", in.TagSpecifications)
	if err != nil {
		return nil, err
	}
	request := *in
	request.ClientToken, request.DryRun = "", false
	if _, strikes := m.faults.Draw(fault.Quota, m.now(), action, in.SubnetID); strikes {
		return nil, interfaceQuota()
	}
	if _, strikes := m.faults.Draw(fault.ForgetToken, m.now(), action, in.SubnetID); !strikes {
		known, err := m.replay(action, in.ClientToken, request)
		if err != nil {
			return nil, err
		}
		if known != nil {
			return &CreateNetworkInterfaceOutput{NetworkInterface: m.interfaces.get(known.IDs[0]),
				ClientToken: in.ClientToken}, nil
		}
	}
	if err := m.canCreate(action, in, tags); err != nil {
		return nil, err
	}
	eni, err := m.create(in.InterfaceSettings, "", tags)
	if err != nil {
		return nil, err
	}
	m.remember(action, in.ClientToken, request, []string{eni.NetworkInterfaceID})
	m.hide(action, eni.NetworkInterfaceID)
	answer := *eni
	answer.Status = StatusPending
	return &CreateNetworkInterfaceOutput{NetworkInterface: &answer, ClientToken: in.ClientToken}, nil
}

// canCreate returns the errors of create, and those of this action alone. With DryRun it always returns an error.
func (m *Model) canCreate(action string, in *CreateNetworkInterfaceInput, tags Tags) error {
	w, err := m.validateSettings(in.InterfaceSettings)
	if err != nil {
		return err
	}
	if m.behavior.PrefixesWithTagsFail && !w.prefixes4.isEmpty() && len(tags) > 0 {
		return &Error{Code: "InternalError", Message: "An internal error has occurred",
			Status: http.StatusInternalServerError}
	}
	if _, strikes := m.faults.Draw(fault.SubnetFull, m.now(), action, in.SubnetID); strikes {
		return subnetFull()
	}
	if in.DryRun {
		return m.wouldGrant(in.SubnetID, w)
	}
	return nil
}

// wouldGrant returns the result of a dry run that depends on free addresses.
func (m *Model) wouldGrant(subnetID string, w addressRequest) error {
	g, err := m.pools[subnetID].grant(w)
	if err != nil {
		return err
	}
	m.pools[subnetID].giveBack(g)
	return dryRun()
}

// validateSettings returns an error for settings that are invalid in the subnet, and reads the requested addresses.
func (m *Model) validateSettings(s InterfaceSettings) (addressRequest, error) {
	if s.SubnetID == "" {
		return addressRequest{}, missing("subnetId")
	}
	switch s.InterfaceType {
	case "", interfaceTypeInterface, interfaceTypeEFA, interfaceTypeEFAOnly:
	case "trunk", "branch":
		return addressRequest{}, notModelled("network interfaces of type " + s.InterfaceType)
	default:
		return addressRequest{}, invalidValue("Value (%s) for parameter interfaceType is invalid.", s.InterfaceType)
	}
	if len(s.Description) > 255 {
		return addressRequest{}, invalidValue("Value for parameter description is invalid. It has %d characters, the "+
			"maximum is 255.", len(s.Description))
	}
	if err := s.ConnectionTracking.validate(); err != nil {
		return addressRequest{}, err
	}
	subnet := m.subnets.get(s.SubnetID)
	if subnet == nil {
		return addressRequest{}, subnetNotFound(s.SubnetID)
	}
	if _, err := m.groupsFor(subnet.VPCID, s.Groups, securityGroupIDNotFound); err != nil {
		return addressRequest{}, err
	}
	w, err := s.addressRequest()
	if err == nil && subnet.AssignIPv6AddressOnCreation {
		w = w.withIPv6()
	}
	return w, err
}

// create creates an interface. It draws an ID if that is empty.
func (m *Model) create(s InterfaceSettings, id string, tags Tags) (*NetworkInterface, error) {
	w, err := m.validateSettings(s)
	if err != nil {
		return nil, err
	}
	if m.live >= m.quota() {
		return nil, interfaceQuota()
	}
	g, err := m.pools[s.SubnetID].grant(w)
	if err != nil {
		return nil, err
	}
	subnet := m.subnets.get(s.SubnetID)
	// validateSettings has already looked up the groups.
	groups, _ := m.groupsFor(subnet.VPCID, s.Groups, securityGroupIDNotFound)
	if id == "" {
		id = m.id("eni")
	}
	eni := &NetworkInterface{
		NetworkInterfaceID: id,
		SubnetID:           s.SubnetID,
		VPCID:              subnet.VPCID,
		AvailabilityZone:   subnet.AvailabilityZone,
		AvailabilityZoneID: subnet.AvailabilityZoneID,
		InterfaceType:      s.InterfaceType,
		Description:        s.Description,
		Status:             StatusPending,
		MACAddress:         m.mac(),
		SourceDestCheck:    true,
		Groups:             groups,
		OwnerID:            m.account,
		Tags:               tags,
		ConnectionTracking: s.ConnectionTracking,
	}
	if eni.InterfaceType == "" {
		eni.InterfaceType = interfaceTypeInterface
	}
	m.addGrant(eni, g)
	m.live++
	m.becomeAvailable(eni)
	return m.interfaces.get(id), nil
}

// becomeAvailable stores a new interface, which is pending at first if that takes any time.
func (m *Model) becomeAvailable(eni *NetworkInterface) {
	id := eni.NetworkInterfaceID
	wait := m.behavior.Available.Draw(m.random)
	if wait == 0 {
		eni.Status = StatusAvailable
	}
	m.putInterface(id, eni)
	if wait > 0 {
		m.events.available.After(wait, id)
	}
}

// available makes a pending interface available.
func (m *Model) available(id string) {
	if now := m.interfaces.get(id); now != nil && now.Status == StatusPending {
		m.changeInterface(id, func(e *NetworkInterface) { e.Status = StatusAvailable })
	}
}

func (m *Model) quota() int {
	if m.world.Quotas.NetworkInterfaces > 0 {
		return m.world.Quotas.NetworkInterfaces
	}
	return maxInterfaces
}

func interfaceQuota() *Error {
	return refuse("NetworkInterfaceLimitExceeded", "The maximum number of network interfaces has been reached.")
}

// addGrant adds addresses to those of the interface.
func (m *Model) addGrant(eni *NetworkInterface, g grant) {
	eni.PrivateIPAddresses = slices.Clone(eni.PrivateIPAddresses)
	if g.primary.IsValid() {
		eni.PrivateIPAddress, eni.PrivateDNSName = g.primary, m.dnsName(g.primary)
		eni.PrivateIPAddresses = append(eni.PrivateIPAddresses,
			PrivateIPAddress{PrivateIPAddress: g.primary, PrivateDNSName: eni.PrivateDNSName, Primary: true})
	}
	for _, address := range g.ipv4 {
		eni.PrivateIPAddresses = append(eni.PrivateIPAddresses,
			PrivateIPAddress{PrivateIPAddress: address, PrivateDNSName: m.dnsName(address)})
	}
	eni.IPv4Prefixes = slices.Clone(eni.IPv4Prefixes)
	for _, prefix := range g.prefixes4 {
		eni.IPv4Prefixes = append(eni.IPv4Prefixes, IPv4Prefix{prefix})
	}
	eni.IPv6Addresses = slices.Clone(eni.IPv6Addresses)
	for _, address := range g.ipv6 {
		eni.IPv6Addresses = append(eni.IPv6Addresses, IPv6Address{IPv6Address: address})
	}
	if len(eni.IPv6Addresses) > 0 {
		eni.IPv6Address = eni.IPv6Addresses[0].IPv6Address
	}
	eni.IPv6Prefixes = slices.Clone(eni.IPv6Prefixes)
	for _, prefix := range g.prefixes6 {
		eni.IPv6Prefixes = append(eni.IPv6Prefixes, IPv6Prefix{prefix})
	}
}

// granted returns all addresses and prefixes that the interface has of its subnet.
func granted(eni *NetworkInterface) grant {
	var g grant
	for _, address := range eni.PrivateIPAddresses {
		g.ipv4 = append(g.ipv4, address.PrivateIPAddress)
	}
	for _, prefix := range eni.IPv4Prefixes {
		g.prefixes4 = append(g.prefixes4, prefix.IPv4Prefix)
	}
	for _, address := range eni.IPv6Addresses {
		g.ipv6 = append(g.ipv6, address.IPv6Address)
	}
	for _, prefix := range eni.IPv6Prefixes {
		g.prefixes6 = append(g.prefixes6, prefix.IPv6Prefix)
	}
	return g
}

// groupsFor returns the security groups; none means the default group of the VPC.
func (m *Model) groupsFor(vpcID string, ids []string, notFound func(string) *Error) ([]GroupIdentifier, error) {
	if len(ids) == 0 {
		return m.defaultGroup(vpcID), nil
	}
	if len(ids) > maxGroupsPerInterface {
		return nil, refuse("SecurityGroupsPerInterfaceLimitExceeded",
			"The maximum number of security groups per interface (%d) has been reached.", maxGroupsPerInterface)
	}
	var groups []GroupIdentifier
	for _, id := range ids {
		group := m.groups.get(id)
		if group == nil {
			return nil, notFound(id)
		}
		if group.VPCID != vpcID {
			return nil, refuse("InvalidParameter", "Security group %s and the subnet belong to different networks.", id)
		}
		groups = append(groups, GroupIdentifier{GroupID: id, GroupName: group.GroupName})
	}
	return groups, nil
}

func (m *Model) defaultGroup(vpcID string) []GroupIdentifier {
	for _, group := range m.groups.all() {
		if group.VPCID == vpcID && group.GroupName == "default" {
			return []GroupIdentifier{{GroupID: group.GroupID, GroupName: group.GroupName}}
		}
	}
	return nil
}

// hide lets a fault hide a new resource.
func (m *Model) hide(action, id string) {
	f, strikes := m.faults.Draw(fault.HideNew, m.now(), action, id)
	if !strikes {
		return
	}
	until := m.now().Add(f.Age)
	hideIn(m.interfaces, id, until)
	hideIn(m.instances, id, until)
	hideIn(m.templates, id, until)
	hideIn(m.versions, id, until)
	hideIn(m.fleets, id, until)
	hideIn(m.spotFleets, id, until)
	hideIn(m.reservations, id, until)
}

func hideIn[T any](t *table[T], id string, until time.Time) {
	if e := t.entries[id]; e != nil {
		e.hiddenUntil = until
	}
}

// DeleteNetworkInterfaceInput is the request of DeleteNetworkInterface.
type DeleteNetworkInterfaceInput struct {
	NetworkInterfaceID string `query:"NetworkInterfaceId"`
	DryRun             bool   `query:"DryRun"`
}

// DeleteNetworkInterface deletes an available interface.
func (m *Model) DeleteNetworkInterface(c Call, in *DeleteNetworkInterfaceInput) (*Return, error) {
	m.Advance(c.Now)
	eni, err := m.interfaceOf(in.NetworkInterfaceID)
	switch {
	case err != nil:
		return nil, err
	case eni.RequesterManaged:
		return nil, notYours(eni)
	case eni.Attachment != nil:
		code := m.behavior.DeleteInUseCode
		if code == "" {
			code = "InvalidParameterValue"
		}
		return nil, refuse(code, "Network interface '%s' is currently in use.", in.NetworkInterfaceID)
	case in.DryRun:
		return nil, dryRun()
	}
	m.delete(eni)
	return &Return{true}, nil
}

// delete removes an interface and frees its addresses.
func (m *Model) delete(eni *NetworkInterface) {
	m.pools[eni.SubnetID].giveBack(granted(eni))
	if eni.Attachment != nil {
		delete(m.attachments, eni.Attachment.AttachmentID)
	}
	m.live--
	m.burn(eni.NetworkInterfaceID)
	m.putInterface(eni.NetworkInterfaceID, nil)
}

// interfaceOf returns the interface that a call names.
func (m *Model) interfaceOf(id string) (*NetworkInterface, error) {
	if id == "" {
		return nil, missing("networkInterfaceId")
	}
	eni := m.interfaces.get(id)
	if eni == nil || m.interfaces.entries[id].hiddenUntil.After(m.now()) {
		return nil, interfaceNotFound(id)
	}
	return eni, nil
}

func interfaceNotFound(id string) *Error {
	if !isWellFormed(id, "eni") {
		return refuse("InvalidNetworkInterfaceId.Malformed", "Invalid id: %q (expecting \"eni-...\")", id)
	}
	return refuse("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", id)
}

// notYours is the error for interfaces of AWS services. The message is that for interfaces of ELB.
func notYours(eni *NetworkInterface) *Error {
	return refuse("OperationNotPermitted", "You are not allowed to manage '%s', which belongs to %s.",
		eni.NetworkInterfaceID, eni.RequesterID)
}
