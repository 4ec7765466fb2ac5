// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"net/netip"
	"strings"
)

// NetworkACL is the default network ACL of a VPC: awssim has no others. No packet is dropped by it.
type NetworkACL struct {
	NetworkACLID string                  `json:"networkAclId"`
	VPCID        string                  `json:"vpcId"`
	IsDefault    bool                    `json:"isDefault" xml:"default"`
	OwnerID      string                  `json:"ownerId"`
	Entries      []NetworkACLEntry       `json:"entries" xml:"entrySet"`
	Associations []NetworkACLAssociation `json:"associations" xml:"associationSet"`
	Tags         Tags                    `json:"tags" xml:"tagSet"`
}

// NetworkACLEntry is a rule of a network ACL.
type NetworkACLEntry struct {
	RuleNumber int          `json:"ruleNumber"`
	Protocol   string       `json:"protocol"`
	RuleAction string       `json:"ruleAction"`
	Egress     bool         `json:"egress"`
	CIDRBlock  netip.Prefix `json:"cidrBlock"`
}

// NetworkACLAssociation is the use of a network ACL by a subnet.
type NetworkACLAssociation struct {
	NetworkACLAssociationID string `json:"networkAclAssociationId"`
	NetworkACLID            string `json:"networkAclId"`
	SubnetID                string `json:"subnetId"`
}

// lastRule is the number of the rule that denies what no other allows (Amazon VPC user guide, "Default network ACL").
const lastRule = 32767

// defaultEntries are the rules of a default network ACL, which allow everything.
func defaultEntries() []NetworkACLEntry {
	var entries []NetworkACLEntry
	for _, egress := range []bool{true, false} {
		entries = append(entries,
			NetworkACLEntry{RuleNumber: 100, Protocol: protocolAll, RuleAction: "allow", Egress: egress, CIDRBlock: anyIPv4},
			NetworkACLEntry{RuleNumber: lastRule, Protocol: protocolAll, RuleAction: "deny", Egress: egress, CIDRBlock: anyIPv4},
		)
	}
	return entries
}

// DescribeNetworkACLsInput is the request of DescribeNetworkAcls.
type DescribeNetworkACLsInput struct {
	Page
	NetworkACLIDs []string `query:"NetworkAclId"`
}

// DescribeNetworkACLsOutput is its answer.
type DescribeNetworkACLsOutput struct {
	NetworkACLs []*NetworkACL `json:"networkAcls" xml:"networkAclSet"`
	NextToken   string        `json:"nextToken,omitempty"`
}

// DescribeNetworkACLs lists network ACLs.
func (m *Model) DescribeNetworkACLs(c Call, in *DescribeNetworkACLsInput) (*DescribeNetworkACLsOutput, error) {
	found, next, err := describe(m, c, m.networkACLs, in.NetworkACLIDs, in.Page)
	if err != nil {
		return nil, err
	}
	return &DescribeNetworkACLsOutput{found, next}, nil
}

func (m *Model) networkACLKind() kind[NetworkACL] {
	return kind[NetworkACL]{
		action:     "DescribeNetworkAcls",
		id:         func(a *NetworkACL) string { return a.NetworkACLID },
		tags:       func(a *NetworkACL) Tags { return a.Tags },
		retag:      func(a *NetworkACL, tags Tags) { a.Tags = tags },
		notFound:   networkACLNotFound,
		minResults: 5,
		maxResults: 1000,
		present:    m.presentNetworkACL,
		filters: map[string]func(*NetworkACL) []string{
			"association.subnet-id": func(a *NetworkACL) []string {
				return each(a.Associations, func(s NetworkACLAssociation) string { return s.SubnetID })
			},
			"default":        func(a *NetworkACL) []string { return truth(a.IsDefault) },
			"network-acl-id": func(a *NetworkACL) []string { return one(a.NetworkACLID) },
			"owner-id":       func(a *NetworkACL) []string { return one(a.OwnerID) },
			filterVPC:        func(a *NetworkACL) []string { return one(a.VPCID) },
		},
	}
}

// presentNetworkACL adds the subnets of the VPC, which all use its default network ACL.
func (m *Model) presentNetworkACL(acl *NetworkACL, l look) *NetworkACL {
	complete := *acl
	for _, id := range m.subnets.order {
		if subnet := m.subnets.view(id, l.at(id)); subnet != nil && subnet.VPCID == acl.VPCID {
			complete.Associations = append(complete.Associations, NetworkACLAssociation{
				NetworkACLAssociationID: strings.Replace(id, "subnet-", "aclassoc-", 1),
				NetworkACLID:            acl.NetworkACLID, SubnetID: id,
			})
		}
	}
	return &complete
}

func networkACLNotFound(id string) *Error {
	if !isWellFormed(id, "acl") {
		return refuse("InvalidNetworkAclId.Malformed", "Invalid id: %q (expecting \"acl-...\")", id)
	}
	return refuse("InvalidNetworkAclID.NotFound", "The networkAcl ID '%s' does not exist", id)
}
