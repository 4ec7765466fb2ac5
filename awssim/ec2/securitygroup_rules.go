// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"net/netip"
	"slices"
	"strconv"
)

// SecurityGroupRule is one rule of a security group: a protocol with ports, and one peer.
type SecurityGroupRule struct {
	SecurityGroupRuleID  string                   `json:"securityGroupRuleId"`
	SecurityGroupRuleARN string                   `json:"securityGroupRuleArn"`
	GroupID              string                   `json:"groupId"`
	GroupOwnerID         string                   `json:"groupOwnerId"`
	IsEgress             bool                     `json:"isEgress"`
	IPProtocol           string                   `json:"ipProtocol"`
	FromPort             int                      `json:"fromPort"`
	ToPort               int                      `json:"toPort"`
	CIDRIPv4             netip.Prefix             `json:"cidrIpv4,omitzero"`
	CIDRIPv6             netip.Prefix             `json:"cidrIpv6,omitzero"`
	PrefixListID         string                   `json:"prefixListId,omitempty"`
	ReferencedGroup      *ReferencedSecurityGroup `json:"referencedGroupInfo,omitempty"`
	Description          string                   `json:"description,omitempty"`
	Tags                 Tags                     `json:"tags" xml:"tagSet"`
}

// ReferencedSecurityGroup is a group whose interfaces are the peers of a rule.
type ReferencedSecurityGroup struct {
	GroupID string `json:"groupId"`
	UserID  string `json:"userId"`
}

// IPPermission is all rules of a security group and a direction with the same protocol and ports.
type IPPermission struct {
	IPProtocol    string            `json:"ipProtocol" query:"IpProtocol"`
	FromPort      *int              `json:"fromPort,omitempty" query:"FromPort"`
	ToPort        *int              `json:"toPort,omitempty" query:"ToPort"`
	Groups        []UserIDGroupPair `json:"userIdGroupPairs" xml:"groups" query:"Groups"`
	IPRanges      []IPRange         `json:"ipRanges" query:"IpRanges"`
	IPv6Ranges    []IPv6Range       `json:"ipv6Ranges" query:"Ipv6Ranges"`
	PrefixListIDs []PrefixListID    `json:"prefixListIds" query:"PrefixListIds"`
}

// UserIDGroupPair is a security group as the peer of rules.
type UserIDGroupPair struct {
	UserID      string `json:"userId" query:"UserId"`
	GroupID     string `json:"groupId" query:"GroupId"`
	Description string `json:"description,omitempty" query:"Description"`
}

// IPRange is a range of IPv4 addresses as the peer of rules.
type IPRange struct {
	CIDRIP      string `json:"cidrIp" query:"CidrIp"`
	Description string `json:"description,omitempty" query:"Description"`
}

// IPv6Range is a range of IPv6 addresses as the peer of rules.
type IPv6Range struct {
	CIDRIPv6    string `json:"cidrIpv6" query:"CidrIpv6"`
	Description string `json:"description,omitempty" query:"Description"`
}

// PrefixListID is a managed prefix list as the peer of rules.
type PrefixListID struct {
	PrefixListID string `json:"prefixListId" query:"PrefixListId"`
	Description  string `json:"description,omitempty" query:"Description"`
}

// Protocols of rules that are known by a name.
const (
	protocolAll    = "-1"
	protocolTCP    = "tcp"
	protocolUDP    = "udp"
	protocolICMP   = "icmp"
	protocolICMPv6 = "icmpv6"
)

// noPort is the port of rules for all ports, and an ICMP rule's number for all types or codes.
const noPort = -1

// maxRulesPerGroup is the default of Service Quotas for the rules of a security group in each direction.
const maxRulesPerGroup = 60

var (
	anyIPv4 = netip.MustParsePrefix("0.0.0.0/0")
	anyIPv6 = netip.MustParsePrefix("::/0")
)

// allowsAs reports whether two rules allow the same.
func (r *SecurityGroupRule) allowsAs(other *SecurityGroupRule) bool {
	referenced := func(r *SecurityGroupRule) (id string) {
		if r.ReferencedGroup != nil {
			id = r.ReferencedGroup.GroupID
		}
		return id
	}
	return r.IsEgress == other.IsEgress && r.IPProtocol == other.IPProtocol && r.FromPort == other.FromPort &&
		r.ToPort == other.ToPort && r.CIDRIPv4 == other.CIDRIPv4 && r.CIDRIPv6 == other.CIDRIPv6 &&
		r.PrefixListID == other.PrefixListID && referenced(r) == referenced(other)
}

// putRule adds a rule to its group. A rule for all protocols has no ports.
func (m *Model) putRule(rule *SecurityGroupRule) {
	rule.SecurityGroupRuleID = m.networkID("sgr")
	rule.SecurityGroupRuleARN = m.ARN("security-group-rule", rule.SecurityGroupRuleID)
	rule.GroupOwnerID = m.account
	if rule.IPProtocol == protocolAll {
		rule.FromPort, rule.ToPort = noPort, noPort
	}
	put(m, m.groupRules, rule.SecurityGroupRuleID, rule)
}

// permissionsOf returns the rules of a group as the reader sees them, of each direction.
func (m *Model) permissionsOf(groupID string, l look) (ingress, egress []IPPermission) {
	of := []Filter{{filterGroup, one(groupID)}}
	for _, id := range m.groupRules.candidates(of, l.age > 0) {
		rule := m.groupRules.view(id, l.at(id))
		switch {
		case rule == nil || rule.GroupID != groupID:
		case rule.IsEgress:
			egress = addPermission(egress, rule)
		default:
			ingress = addPermission(ingress, rule)
		}
	}
	return ingress, egress
}

// addPermission adds a rule to the permission of its protocol and ports.
func addPermission(list []IPPermission, r *SecurityGroupRule) []IPPermission {
	at := slices.IndexFunc(list, func(p IPPermission) bool {
		from, to := p.ports()
		return p.IPProtocol == r.IPProtocol && from == r.FromPort && to == r.ToPort
	})
	if at < 0 {
		at = len(list)
		list = append(list, IPPermission{IPProtocol: r.IPProtocol})
		if r.IPProtocol != protocolAll {
			list[at].FromPort, list[at].ToPort = &r.FromPort, &r.ToPort
		}
	}
	switch p := &list[at]; {
	case r.CIDRIPv4.IsValid():
		p.IPRanges = append(p.IPRanges, IPRange{r.CIDRIPv4.String(), r.Description})
	case r.CIDRIPv6.IsValid():
		p.IPv6Ranges = append(p.IPv6Ranges, IPv6Range{r.CIDRIPv6.String(), r.Description})
	case r.PrefixListID != "":
		p.PrefixListIDs = append(p.PrefixListIDs, PrefixListID{r.PrefixListID, r.Description})
	case r.ReferencedGroup != nil:
		p.Groups = append(p.Groups, UserIDGroupPair{r.ReferencedGroup.UserID, r.ReferencedGroup.GroupID, r.Description})
	}
	return list
}

func (p IPPermission) ports() (from, to int) {
	from, to = noPort, noPort
	if p.FromPort != nil {
		from = *p.FromPort
	}
	if p.ToPort != nil {
		to = *p.ToPort
	}
	return from, to
}

// permissionFilters are the filters of security groups by their rules, without the direction.
func permissionFilters() map[string]func(IPPermission) []string {
	return map[string]func(IPPermission) []string{
		"cidr": func(p IPPermission) []string {
			return each(p.IPRanges, func(r IPRange) string { return r.CIDRIP })
		},
		"ipv6-cidr": func(p IPPermission) []string {
			return each(p.IPv6Ranges, func(r IPv6Range) string { return r.CIDRIPv6 })
		},
		filterGroup: func(p IPPermission) []string {
			return each(p.Groups, func(g UserIDGroupPair) string { return g.GroupID })
		},
		"prefix-list-id": func(p IPPermission) []string {
			return each(p.PrefixListIDs, func(l PrefixListID) string { return l.PrefixListID })
		},
		"protocol": func(p IPPermission) []string { return one(p.IPProtocol) },
		"from-port": func(p IPPermission) []string {
			from, _ := p.ports()
			return number(from)
		},
		"to-port": func(p IPPermission) []string {
			_, to := p.ports()
			return number(to)
		},
	}
}

// DescribeSecurityGroupRulesInput is the request of DescribeSecurityGroupRules.
type DescribeSecurityGroupRulesInput struct {
	Page
	SecurityGroupRuleIDs []string `query:"SecurityGroupRuleId"`
}

// DescribeSecurityGroupRulesOutput is its answer.
type DescribeSecurityGroupRulesOutput struct {
	SecurityGroupRules []*SecurityGroupRule `json:"securityGroupRules" xml:"securityGroupRuleSet"`
	NextToken          string               `json:"nextToken,omitempty"`
}

// DescribeSecurityGroupRules lists rules of security groups.
func (m *Model) DescribeSecurityGroupRules(
	c Call, in *DescribeSecurityGroupRulesInput,
) (*DescribeSecurityGroupRulesOutput, error) {
	found, next, err := describe(m, c, m.groupRules, in.SecurityGroupRuleIDs, in.Page)
	if err != nil {
		return nil, err
	}
	return &DescribeSecurityGroupRulesOutput{found, next}, nil
}

func groupRuleKind() kind[SecurityGroupRule] {
	return kind[SecurityGroupRule]{
		action:     "DescribeSecurityGroupRules",
		id:         func(r *SecurityGroupRule) string { return r.SecurityGroupRuleID },
		tags:       func(r *SecurityGroupRule) Tags { return r.Tags },
		retag:      func(r *SecurityGroupRule, tags Tags) { r.Tags = tags },
		notFound:   groupRuleNotFound,
		minResults: 5,
		maxResults: 1000,
		filters: map[string]func(*SecurityGroupRule) []string{
			filterGroup:              func(r *SecurityGroupRule) []string { return one(r.GroupID) },
			"security-group-rule-id": func(r *SecurityGroupRule) []string { return one(r.SecurityGroupRuleID) },
		},
		keys:      func(r *SecurityGroupRule) []string { return []string{indexKey(filterGroup, r.GroupID)} },
		isIndexed: func(filter string) bool { return filter == filterGroup },
	}
}

func groupRuleNotFound(id string) *Error {
	if !isWellFormed(id, "sgr") {
		return refuse("InvalidSecurityGroupRuleId.Malformed", "Invalid id: %q (expecting \"sgr-...\")", id)
	}
	return refuse("InvalidSecurityGroupRuleId.NotFound", "The security group rule ID '%s' does not exist", id)
}

// protocolOf returns the name of a protocol that EC2 knows by a name and a number, and the number of any other.
func protocolOf(given string) (string, bool) {
	byNumber := map[string]string{"1": protocolICMP, "6": protocolTCP, "17": protocolUDP, "58": protocolICMPv6}
	if name, ok := byNumber[given]; ok {
		return name, true
	}
	switch given {
	case protocolAll, protocolTCP, protocolUDP, protocolICMP, protocolICMPv6:
		return given, true
	}
	n, err := strconv.Atoi(given)
	return given, err == nil && n >= 0 && n <= 255
}
