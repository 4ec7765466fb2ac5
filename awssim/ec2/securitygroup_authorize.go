// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"net/netip"
	"slices"
)

// AuthorizeSecurityGroupInput is the request of AuthorizeSecurityGroupIngress and AuthorizeSecurityGroupEgress.
type AuthorizeSecurityGroupInput struct {
	GroupID           string             `query:"GroupId"`
	IPPermissions     []IPPermission     `query:"IpPermissions"`
	TagSpecifications []TagSpecification `query:"TagSpecification"`
	DryRun            bool               `query:"DryRun"`
}

// AuthorizeSecurityGroupOutput is their answer.
type AuthorizeSecurityGroupOutput struct {
	Return             bool                 `json:"return"`
	SecurityGroupRules []*SecurityGroupRule `json:"securityGroupRules" xml:"securityGroupRuleSet"`
}

// AuthorizeSecurityGroupIngress adds rules for packets to the interfaces of a security group.
func (m *Model) AuthorizeSecurityGroupIngress(
	c Call, in *AuthorizeSecurityGroupInput,
) (*AuthorizeSecurityGroupOutput, error) {
	return m.authorizeSecurityGroup(c, in, false)
}

// AuthorizeSecurityGroupEgress adds rules for packets from the interfaces of a security group.
func (m *Model) AuthorizeSecurityGroupEgress(
	c Call, in *AuthorizeSecurityGroupInput,
) (*AuthorizeSecurityGroupOutput, error) {
	return m.authorizeSecurityGroup(c, in, true)
}

// authorizeSecurityGroup adds all rules of the request or none.
func (m *Model) authorizeSecurityGroup(
	c Call, in *AuthorizeSecurityGroupInput, isEgress bool,
) (*AuthorizeSecurityGroupOutput, error) {
	m.Advance(c.Now)
	if _, err := m.groupOf(in.GroupID); err != nil {
		return nil, err
	}
	tags, err := tagsFor("security-group-rule", in.TagSpecifications)
	if err != nil {
		return nil, err
	}
	rules, err := m.rulesOf(in.GroupID, in.IPPermissions, isEgress)
	if err != nil {
		return nil, err
	}
	if err := m.canAuthorize(in.GroupID, rules, isEgress); err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	for _, rule := range rules {
		rule.Tags = tags
		m.putRule(rule)
	}
	return &AuthorizeSecurityGroupOutput{true, rules}, nil
}

// canAuthorize checks new rules against each other and those of the group.
func (m *Model) canAuthorize(groupID string, rules []*SecurityGroupRule, isEgress bool) error {
	have := without(m.groupRules.indexed(indexKey(filterGroup, groupID)), func(r *SecurityGroupRule) bool {
		return r.IsEgress != isEgress
	})
	for _, rule := range rules {
		if slices.ContainsFunc(have, rule.allowsAs) {
			return refuse("InvalidPermission.Duplicate",
				"the specified rule \"peer: %s, %s, from port: %d, to port: %d, ALLOW\" already exists",
				rule.peer(), rule.IPProtocol, rule.FromPort, rule.ToPort)
		}
		have = append(have, rule)
	}
	if len(have) > maxRulesPerGroup {
		return refuse("RulesPerSecurityGroupLimitExceeded",
			"The maximum number of rules per security group has been reached.")
	}
	return nil
}

func (r *SecurityGroupRule) peer() string {
	switch {
	case r.CIDRIPv4.IsValid():
		return r.CIDRIPv4.String()
	case r.CIDRIPv6.IsValid():
		return r.CIDRIPv6.String()
	case r.ReferencedGroup != nil:
		return r.ReferencedGroup.GroupID
	default:
		return r.PrefixListID
	}
}

// rulesOf reads the permissions of a request as rules without IDs: one for each peer.
func (m *Model) rulesOf(groupID string, permissions []IPPermission, isEgress bool) ([]*SecurityGroupRule, error) {
	if len(permissions) == 0 {
		return nil, missing("ipPermissions")
	}
	var rules []*SecurityGroupRule
	for _, p := range permissions {
		base, err := baseRule(p)
		if err != nil {
			return nil, err
		}
		base.GroupID, base.IsEgress = groupID, isEgress
		some, err := m.withPeers(base, p)
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			return nil, missing("ipRanges, ipv6Ranges, groups or prefixListIds of the permission")
		}
		rules = append(rules, some...)
	}
	return rules, nil
}

// baseRule reads the protocol and the ports of a permission.
func baseRule(p IPPermission) (SecurityGroupRule, error) {
	protocol, ok := protocolOf(p.IPProtocol)
	from, to := p.ports()
	rule := SecurityGroupRule{IPProtocol: protocol, FromPort: from, ToPort: to}
	switch {
	case p.IPProtocol == "":
		return rule, missing("ipProtocol")
	case !ok:
		return rule, invalidValue("Invalid value '%s' for IP protocol. Unknown protocol.", p.IPProtocol)
	case protocol == protocolTCP || protocol == protocolUDP:
		if p.FromPort == nil || p.ToPort == nil {
			return rule, invalidValue("Invalid value 'Must specify both from and to ports with TCP/UDP.' for portRange.")
		}
		if from < 0 || to > 65535 || from > to {
			return rule, invalidValue("Invalid TCP/UDP port range (%d-%d)", from, to)
		}
	case protocol != protocolICMP && protocol != protocolICMPv6:
		// EC2 allows all ports of other protocols.
		rule.FromPort, rule.ToPort = noPort, noPort
	}
	return rule, nil
}

// withPeers returns a rule for each peer of a permission.
func (m *Model) withPeers(base SecurityGroupRule, p IPPermission) ([]*SecurityGroupRule, error) {
	var rules []*SecurityGroupRule
	add := func(description string, set func(*SecurityGroupRule)) {
		rule := base
		rule.Description = description
		set(&rule)
		rules = append(rules, &rule)
	}
	for _, r := range p.IPRanges {
		cidr, err := readPeer(r.CIDRIP)
		if err != nil || !cidr.Addr().Is4() {
			return nil, malformedPeer(r.CIDRIP)
		}
		add(r.Description, func(rule *SecurityGroupRule) { rule.CIDRIPv4 = cidr })
	}
	for _, r := range p.IPv6Ranges {
		cidr, err := readPeer(r.CIDRIPv6)
		if err != nil || !cidr.Addr().Is6() {
			return nil, malformedPeer(r.CIDRIPv6)
		}
		add(r.Description, func(rule *SecurityGroupRule) { rule.CIDRIPv6 = cidr })
	}
	for _, l := range p.PrefixListIDs {
		add(l.Description, func(rule *SecurityGroupRule) { rule.PrefixListID = l.PrefixListID })
	}
	for _, g := range p.Groups {
		if _, err := m.groupOf(g.GroupID); err != nil {
			return nil, err
		}
		add(g.Description, func(rule *SecurityGroupRule) {
			rule.ReferencedGroup = &ReferencedSecurityGroup{GroupID: g.GroupID, UserID: m.account}
		})
	}
	return rules, nil
}

// readPeer reads a range of a rule, whose bits behind the prefix length EC2 clears.
func readPeer(text string) (netip.Prefix, error) {
	cidr, err := netip.ParsePrefix(text)
	return cidr.Masked(), err
}

func malformedPeer(text string) *Error { return invalidValue("CIDR block %s is malformed", text) }

// RevokeSecurityGroupInput is the request of RevokeSecurityGroupIngress and RevokeSecurityGroupEgress.
type RevokeSecurityGroupInput struct {
	GroupID              string         `query:"GroupId"`
	IPPermissions        []IPPermission `query:"IpPermissions"`
	SecurityGroupRuleIDs []string       `query:"SecurityGroupRuleId"`
	DryRun               bool           `query:"DryRun"`
}

// RevokeSecurityGroupOutput is their answer.
type RevokeSecurityGroupOutput struct {
	Return                    bool                       `json:"return"`
	UnknownIPPermissions      []IPPermission             `json:"unknownIpPermissions" xml:"unknownIpPermissionSet"`
	RevokedSecurityGroupRules []RevokedSecurityGroupRule `json:"revokedSecurityGroupRules" xml:"revokedSecurityGroupRuleSet"`
}

// RevokedSecurityGroupRule is a rule that a security group has no more.
type RevokedSecurityGroupRule struct {
	SecurityGroupRuleID string       `json:"securityGroupRuleId"`
	GroupID             string       `json:"groupId"`
	IsEgress            bool         `json:"isEgress"`
	IPProtocol          string       `json:"ipProtocol"`
	FromPort            int          `json:"fromPort"`
	ToPort              int          `json:"toPort"`
	CIDRIPv4            netip.Prefix `json:"cidrIpv4,omitzero"`
	CIDRIPv6            netip.Prefix `json:"cidrIpv6,omitzero"`
	PrefixListID        string       `json:"prefixListId,omitempty"`
	ReferencedGroupID   string       `json:"referencedGroupId,omitempty"`
	Description         string       `json:"description,omitempty"`
}

// RevokeSecurityGroupIngress removes rules for packets to the interfaces of a security group.
func (m *Model) RevokeSecurityGroupIngress(c Call, in *RevokeSecurityGroupInput) (*RevokeSecurityGroupOutput, error) {
	return m.revokeSecurityGroup(c, in, false)
}

// RevokeSecurityGroupEgress removes rules for packets from the interfaces of a security group.
func (m *Model) RevokeSecurityGroupEgress(c Call, in *RevokeSecurityGroupInput) (*RevokeSecurityGroupOutput, error) {
	return m.revokeSecurityGroup(c, in, true)
}

// revokeSecurityGroup removes all rules of the request or none.
func (m *Model) revokeSecurityGroup(
	c Call, in *RevokeSecurityGroupInput, isEgress bool,
) (*RevokeSecurityGroupOutput, error) {
	m.Advance(c.Now)
	if _, err := m.groupOf(in.GroupID); err != nil {
		return nil, err
	}
	rules, err := m.rulesToRevoke(in, isEgress)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	out := &RevokeSecurityGroupOutput{Return: true}
	for _, r := range rules {
		put(m, m.groupRules, r.SecurityGroupRuleID, nil)
		revoked := RevokedSecurityGroupRule{
			SecurityGroupRuleID: r.SecurityGroupRuleID, GroupID: r.GroupID, IsEgress: r.IsEgress,
			IPProtocol: r.IPProtocol, FromPort: r.FromPort, ToPort: r.ToPort, CIDRIPv4: r.CIDRIPv4,
			CIDRIPv6: r.CIDRIPv6, PrefixListID: r.PrefixListID, Description: r.Description,
		}
		if r.ReferencedGroup != nil {
			revoked.ReferencedGroupID = r.ReferencedGroup.GroupID
		}
		out.RevokedSecurityGroupRules = append(out.RevokedSecurityGroupRules, revoked)
	}
	return out, nil
}

// rulesToRevoke returns the rules of the group that a request names, by their IDs or by what they allow.
func (m *Model) rulesToRevoke(in *RevokeSecurityGroupInput, isEgress bool) ([]*SecurityGroupRule, error) {
	if len(in.SecurityGroupRuleIDs) > 0 {
		if len(in.IPPermissions) > 0 {
			return nil, invalidCombination("Rules can be given by their IDs or by their permissions, not by both")
		}
		return m.rulesByID(in, isEgress)
	}
	wanted, err := m.rulesOf(in.GroupID, in.IPPermissions, isEgress)
	if err != nil {
		return nil, err
	}
	have := m.groupRules.indexed(indexKey(filterGroup, in.GroupID))
	var rules []*SecurityGroupRule
	for _, rule := range wanted {
		at := slices.IndexFunc(have, rule.allowsAs)
		if at < 0 {
			return nil, refuse("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
		}
		rules = append(rules, have[at])
	}
	return rules, nil
}

func (m *Model) rulesByID(in *RevokeSecurityGroupInput, isEgress bool) ([]*SecurityGroupRule, error) {
	var rules []*SecurityGroupRule
	for _, id := range in.SecurityGroupRuleIDs {
		rule := m.groupRules.get(id)
		if rule == nil || rule.GroupID != in.GroupID || rule.IsEgress != isEgress {
			return nil, groupRuleNotFound(id)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}
