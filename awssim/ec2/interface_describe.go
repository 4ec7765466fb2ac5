// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"slices"
	"strings"
)

// filterAttachedTo finds the interfaces of an instance.
const filterAttachedTo = "attachment.instance-id"

// DescribeNetworkInterfacesInput is the request of DescribeNetworkInterfaces.
type DescribeNetworkInterfacesInput struct {
	Page
	NetworkInterfaceIDs []string `query:"NetworkInterfaceId"`
}

// DescribeNetworkInterfacesOutput is its answer.
type DescribeNetworkInterfacesOutput struct {
	NetworkInterfaces []*NetworkInterface `json:"networkInterfaces" xml:"networkInterfaceSet"`
	NextToken         string              `json:"nextToken,omitempty"`
}

// DescribeNetworkInterfaces lists interfaces.
func (m *Model) DescribeNetworkInterfaces(
	c Call, in *DescribeNetworkInterfacesInput,
) (*DescribeNetworkInterfacesOutput, error) {
	found, next, err := describe(m, c, m.interfaces, in.NetworkInterfaceIDs, in.Page)
	if err != nil {
		return nil, err
	}
	return &DescribeNetworkInterfacesOutput{found, next}, nil
}

// Filters of several kinds of resources.
const (
	filterGroup  = "group-id"
	filterSubnet = "subnet-id"
	filterVPC    = "vpc-id"
)

func (m *Model) interfaceKind() kind[NetworkInterface] {
	return kind[NetworkInterface]{
		action:          "DescribeNetworkInterfaces",
		id:              func(n *NetworkInterface) string { return n.NetworkInterfaceID },
		filters:         interfaceFilters(),
		tags:            func(n *NetworkInterface) Tags { return n.Tags },
		notFound:        interfaceNotFound,
		minResults:      5,
		maxResults:      1000,
		idsExcludePages: true,
		check:           m.checkUnpaged,
		keys:            interfaceKeys,
		isIndexed: func(filter string) bool {
			return filter == filterAttachedTo || filter == "network-interface-id" || filter == filterSubnet ||
				strings.HasPrefix(filter, "tag:")
		},
	}
}

func interfaceKeys(n *NetworkInterface) []string {
	keys := make([]string, 0, len(n.Tags)+3)
	keys = append(keys, indexKey("network-interface-id", n.NetworkInterfaceID), indexKey(filterSubnet, n.SubnetID))
	if n.Attachment != nil && n.Attachment.InstanceID != "" {
		keys = append(keys, indexKey(filterAttachedTo, n.Attachment.InstanceID))
	}
	for key, value := range n.Tags {
		keys = append(keys, indexKey("tag:"+key, value))
	}
	return keys
}

// checkUnpaged returns an error for listing a large account at once (EC2 API reference, DescribeNetworkInterfaces; the
// code is not documented).
func (m *Model) checkUnpaged(ids []string, p Page) error {
	allowed := []string{filterGroup, "mac-address", "private-dns-name", "private-ip-address", filterSubnet, filterVPC}
	limit := cmp.Or(m.behavior.UnpagedLimit, 1000)
	isAllowed := slices.ContainsFunc(p.Filters, func(f Filter) bool { return slices.Contains(allowed, f.Name) })
	if p.MaxResults != nil || len(ids) > 0 || isAllowed || m.live <= limit {
		return nil
	}
	return refuse("OperationNotPermitted",
		"There are more than %d network interfaces: use pagination, or one of the filters %s", limit,
		strings.Join(allowed, ", "))
}

func interfaceFilters() map[string]func(*NetworkInterface) []string {
	filters := map[string]func(*NetworkInterface) []string{
		"availability-zone":    func(n *NetworkInterface) []string { return one(n.AvailabilityZone) },
		"availability-zone-id": func(n *NetworkInterface) []string { return one(n.AvailabilityZoneID) },
		"description":          func(n *NetworkInterface) []string { return one(n.Description) },
		filterGroup: func(n *NetworkInterface) []string {
			return each(n.Groups, func(g GroupIdentifier) string { return g.GroupID })
		},
		"interface-type":       func(n *NetworkInterface) []string { return one(n.InterfaceType) },
		"mac-address":          func(n *NetworkInterface) []string { return one(n.MACAddress) },
		"network-interface-id": func(n *NetworkInterface) []string { return one(n.NetworkInterfaceID) },
		"owner-id":             func(n *NetworkInterface) []string { return one(n.OwnerID) },
		"private-dns-name":     func(n *NetworkInterface) []string { return one(n.PrivateDNSName) },
		"private-ip-address":   privateAddresses,
		"requester-id":         func(n *NetworkInterface) []string { return one(n.RequesterID) },
		"requester-managed":    func(n *NetworkInterface) []string { return truth(n.RequesterManaged) },
		"source-dest-check":    func(n *NetworkInterface) []string { return truth(n.SourceDestCheck) },
		"status":               func(n *NetworkInterface) []string { return one(n.Status) },
		filterSubnet:           func(n *NetworkInterface) []string { return one(n.SubnetID) },
		filterVPC:              func(n *NetworkInterface) []string { return one(n.VPCID) },

		"addresses.private-ip-address": privateAddresses,
		"addresses.primary": func(n *NetworkInterface) []string {
			return each(n.PrivateIPAddresses, func(a PrivateIPAddress) string { return truth(a.Primary)[0] })
		},
		"ipv6-addresses.ipv6-address": func(n *NetworkInterface) []string {
			return each(n.IPv6Addresses, func(a IPv6Address) string { return a.IPv6Address.String() })
		},
		// No service of AWS operates interfaces of a simulated world.
		"operator.managed":   func(*NetworkInterface) []string { return truth(false) },
		"operator.principal": never,
	}
	for name, get := range map[string]func(*Association) []string{
		"ip-owner-id":     func(a *Association) []string { return one(a.IPOwnerID) },
		"public-dns-name": func(a *Association) []string { return one(a.PublicDNSName) },
		"public-ip": func(a *Association) []string {
			if !a.PublicIP.IsValid() {
				return nil
			}
			return one(a.PublicIP.String())
		},
		// Elastic IP addresses, which alone have these, are not modelled.
		"allocation-id":  func(*Association) []string { return nil },
		"association-id": func(*Association) []string { return nil },
	} {
		filters["association."+name] = func(n *NetworkInterface) []string {
			if n.Association == nil {
				return nil
			}
			return get(n.Association)
		}
	}
	for _, name := range []string{"public-ip", "ip-owner-id"} {
		filters["addresses.association."+name] = filters["association."+name]
	}
	for name, get := range map[string]func(*Attachment) []string{
		"attach-time":           func(a *Attachment) []string { return one(a.AttachTime.UTC().Format(filterTime)) },
		"attachment-id":         func(a *Attachment) []string { return one(a.AttachmentID) },
		"delete-on-termination": func(a *Attachment) []string { return truth(a.DeleteOnTermination) },
		"device-index":          func(a *Attachment) []string { return number(a.DeviceIndex) },
		"instance-id":           func(a *Attachment) []string { return one(a.InstanceID) },
		"instance-owner-id":     func(a *Attachment) []string { return one(a.InstanceOwnerID) },
		"status":                func(a *Attachment) []string { return one(a.Status) },
	} {
		filters["attachment."+name] = func(n *NetworkInterface) []string {
			if n.Attachment == nil {
				return nil
			}
			return get(n.Attachment)
		}
	}
	return filters
}

// never is a filter on an attribute that no interface has.
func never(*NetworkInterface) []string { return nil }

// filterTime returns a time in the form of EC2's filters.
const filterTime = "2006-01-02T15:04:05.000Z"

func privateAddresses(n *NetworkInterface) []string {
	return each(n.PrivateIPAddresses, func(a PrivateIPAddress) string { return a.PrivateIPAddress.String() })
}

// bySlot sorts interfaces that are attached.
func bySlot(list []*NetworkInterface) []*NetworkInterface {
	slices.SortFunc(list, compareSlots)
	return list
}

func compareSlots(a, b *NetworkInterface) int {
	x, y := a.Attachment.slot(), b.Attachment.slot()
	return cmp.Or(cmp.Compare(x.card, y.card), cmp.Compare(x.device, y.device))
}
