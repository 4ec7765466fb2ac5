// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"regexp"
	"slices"
)

// SecurityGroup is a security group. No packet is dropped by its rules.
type SecurityGroup struct {
	GroupID             string         `json:"groupId"`
	GroupName           string         `json:"groupName"`
	Description         string         `json:"description" xml:"groupDescription"`
	VPCID               string         `json:"vpcId"`
	SecurityGroupARN    string         `json:"securityGroupArn"`
	OwnerID             string         `json:"ownerId"`
	IPPermissions       []IPPermission `json:"ipPermissions" xml:"ipPermissions"`
	IPPermissionsEgress []IPPermission `json:"ipPermissionsEgress" xml:"ipPermissionsEgress"`
	Tags                Tags           `json:"tags" xml:"tagSet"`
}

// maxGroupNameLength is the largest number of characters of a security group's name and of its description (EC2 API
// reference, CreateSecurityGroup).
const maxGroupNameLength = 255

// groupText matches the characters of names and descriptions of security groups (EC2 API reference,
// CreateSecurityGroup).
var groupText = regexp.MustCompile(`^[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]*$`)

// CreateSecurityGroupInput is the request of CreateSecurityGroup.
type CreateSecurityGroupInput struct {
	GroupName         string             `query:"GroupName"`
	Description       string             `query:"GroupDescription"`
	VPCID             string             `query:"VpcId"`
	TagSpecifications []TagSpecification `query:"TagSpecification"`
	DryRun            bool               `query:"DryRun"`
}

// CreateSecurityGroupOutput is its answer.
type CreateSecurityGroupOutput struct {
	GroupID          string `json:"groupId"`
	SecurityGroupARN string `json:"securityGroupArn"`
	Tags             Tags   `json:"tags,omitempty" xml:"tagSet"`
}

// CreateSecurityGroup creates a security group, which allows all traffic out and none in. Without a VPC it belongs to
// the default VPC.
func (m *Model) CreateSecurityGroup(c Call, in *CreateSecurityGroupInput) (*CreateSecurityGroupOutput, error) {
	m.Advance(c.Now)
	tags, err := tagsFor("security-group", in.TagSpecifications)
	if err != nil {
		return nil, err
	}
	vpc, err := m.vpcForGroup(in.VPCID)
	if err != nil {
		return nil, err
	}
	if err := m.checkGroupName(vpc.VPCID, in); err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	group := m.putGroup(&SecurityGroup{
		GroupID: m.networkID("sg"), GroupName: in.GroupName, Description: in.Description, VPCID: vpc.VPCID, Tags: tags,
	})
	return &CreateSecurityGroupOutput{group.GroupID, group.SecurityGroupARN, tags}, nil
}

func (m *Model) vpcForGroup(id string) (*VPC, error) {
	if id != "" {
		return m.vpcOf(id)
	}
	for _, vpc := range m.vpcs.all() {
		if vpc.IsDefault {
			return vpc, nil
		}
	}
	return nil, refuse("VPCIdNotSpecified", "No default VPC for this user")
}

func (m *Model) checkGroupName(vpcID string, in *CreateSecurityGroupInput) error {
	for parameter, text := range map[string]string{"groupName": in.GroupName, "groupDescription": in.Description} {
		switch {
		case text == "":
			return missing(parameter)
		case len(text) > maxGroupNameLength || !groupText.MatchString(text):
			return invalidValue("Value (%s) for parameter %s is invalid. Character sets beyond ASCII are not supported.",
				text, parameter)
		}
	}
	switch {
	case in.GroupName == defaultGroupName:
		return refuse("InvalidGroup.Reserved", "The security group '%s' is reserved", in.GroupName)
	case len(in.GroupName) > 3 && in.GroupName[:3] == "sg-":
		return invalidValue("Invalid group name: a name cannot begin with 'sg-'")
	case slices.ContainsFunc(m.groups.all(), func(g *SecurityGroup) bool {
		return g.VPCID == vpcID && g.GroupName == in.GroupName
	}):
		return refuse("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", in.GroupName, vpcID)
	}
	return nil
}

// putGroup adds a security group with the rules that EC2 gives it (Amazon VPC user guide, "Security group rules").
func (m *Model) putGroup(group *SecurityGroup) *SecurityGroup {
	group.SecurityGroupARN, group.OwnerID = m.ARN("security-group", group.GroupID), m.account
	put(m, m.groups, group.GroupID, group)
	m.putRule(&SecurityGroupRule{GroupID: group.GroupID, IsEgress: true, IPProtocol: protocolAll, CIDRIPv4: anyIPv4})
	if vpc := m.vpcs.get(group.VPCID); len(vpc.IPv6CIDRBlockAssociations) > 0 {
		m.putRule(&SecurityGroupRule{GroupID: group.GroupID, IsEgress: true, IPProtocol: protocolAll, CIDRIPv6: anyIPv6})
	}
	if group.GroupName == defaultGroupName {
		m.putRule(&SecurityGroupRule{
			GroupID: group.GroupID, IPProtocol: protocolAll,
			ReferencedGroup: &ReferencedSecurityGroup{GroupID: group.GroupID, UserID: m.account},
		})
	}
	return group
}

// DeleteSecurityGroupInput is the request of DeleteSecurityGroup.
type DeleteSecurityGroupInput struct {
	GroupID string `query:"GroupId"`
	DryRun  bool   `query:"DryRun"`
}

// DeleteSecurityGroupOutput is its answer.
type DeleteSecurityGroupOutput struct {
	Return  bool   `json:"return"`
	GroupID string `json:"groupId"`
}

// DeleteSecurityGroup deletes a security group that no interface uses, and that no rule of another group names.
func (m *Model) DeleteSecurityGroup(c Call, in *DeleteSecurityGroupInput) (*DeleteSecurityGroupOutput, error) {
	m.Advance(c.Now)
	group, err := m.groupOf(in.GroupID)
	if err != nil {
		return nil, err
	}
	if group.GroupName == defaultGroupName {
		return nil, refuse("CannotDelete", `the specified group: "%s" name: "%s" cannot be deleted by a user`,
			in.GroupID, group.GroupName)
	}
	if m.groupIsUsed(in.GroupID) {
		return nil, refuse("DependencyViolation", "resource %s has a dependent object", in.GroupID)
	}
	if in.DryRun {
		return nil, dryRun()
	}
	m.removeGroup(in.GroupID)
	return &DeleteSecurityGroupOutput{true, in.GroupID}, nil
}

func (m *Model) groupIsUsed(id string) bool {
	return slices.ContainsFunc(m.interfaces.all(), func(n *NetworkInterface) bool {
		return slices.Contains(groupIDs(n.Groups), id)
	}) || slices.ContainsFunc(m.groupRules.all(), func(r *SecurityGroupRule) bool {
		return r.ReferencedGroup != nil && r.ReferencedGroup.GroupID == id && r.GroupID != id
	})
}

func (m *Model) removeGroup(id string) {
	for _, rule := range m.groupRules.indexed(indexKey(filterGroup, id)) {
		put(m, m.groupRules, rule.SecurityGroupRuleID, nil)
	}
	put(m, m.groups, id, nil)
}

// groupOf returns a security group that a request names.
func (m *Model) groupOf(id string) (*SecurityGroup, error) {
	if id == "" {
		return nil, missing("groupId")
	}
	group := m.groups.get(id)
	if group == nil {
		return nil, groupNotFound(id)
	}
	return group, nil
}

// DescribeSecurityGroupsInput is the request of DescribeSecurityGroups.
type DescribeSecurityGroupsInput struct {
	Page
	GroupIDs   []string `query:"GroupId"`
	GroupNames []string `query:"GroupName"`
}

// DescribeSecurityGroupsOutput is its answer.
type DescribeSecurityGroupsOutput struct {
	SecurityGroups []*SecurityGroup `json:"securityGroups" xml:"securityGroupInfo"`
	NextToken      string           `json:"nextToken,omitempty"`
}

// DescribeSecurityGroups lists security groups. Names find those of the default VPC.
func (m *Model) DescribeSecurityGroups(c Call, in *DescribeSecurityGroupsInput) (*DescribeSecurityGroupsOutput, error) {
	page := in.Page
	if len(in.GroupNames) > 0 {
		vpc, err := m.vpcForGroup("")
		if err != nil {
			return nil, err
		}
		page.Filters = append(slices.Clone(page.Filters), Filter{filterVPC, one(vpc.VPCID)},
			Filter{"group-name", in.GroupNames})
	}
	found, next, err := describe(m, c, m.groups, in.GroupIDs, page)
	if err != nil {
		return nil, err
	}
	if len(in.GroupNames) > len(found) {
		return nil, refuse("InvalidGroup.NotFound", "The security group '%s' does not exist in default VPC",
			in.GroupNames[0])
	}
	return &DescribeSecurityGroupsOutput{found, next}, nil
}

func (m *Model) groupKind() kind[SecurityGroup] {
	filters := map[string]func(*SecurityGroup) []string{
		"description": func(g *SecurityGroup) []string { return one(g.Description) },
		filterGroup:   func(g *SecurityGroup) []string { return one(g.GroupID) },
		"group-name":  func(g *SecurityGroup) []string { return one(g.GroupName) },
		"owner-id":    func(g *SecurityGroup) []string { return one(g.OwnerID) },
		filterVPC:     func(g *SecurityGroup) []string { return one(g.VPCID) },
	}
	for name, get := range permissionFilters() {
		filters["ip-permission."+name] = func(g *SecurityGroup) []string { return ofAll(g.IPPermissions, get) }
		filters["egress.ip-permission."+name] = func(g *SecurityGroup) []string { return ofAll(g.IPPermissionsEgress, get) }
	}
	return kind[SecurityGroup]{
		action:     "DescribeSecurityGroups",
		id:         func(g *SecurityGroup) string { return g.GroupID },
		tags:       func(g *SecurityGroup) Tags { return g.Tags },
		retag:      func(g *SecurityGroup, tags Tags) { g.Tags = tags },
		notFound:   groupNotFound,
		minResults: 5,
		maxResults: 1000,
		filters:    filters,
		present:    m.presentGroup,
	}
}

// presentGroup adds the rules as the reader sees them.
func (m *Model) presentGroup(group *SecurityGroup, l look) *SecurityGroup {
	complete := *group
	complete.IPPermissions, complete.IPPermissionsEgress = m.permissionsOf(group.GroupID, l)
	return &complete
}

func ofAll[E any](list []E, get func(E) []string) []string {
	var all []string
	for _, element := range list {
		all = append(all, get(element)...)
	}
	return all
}

// groupNotFound is the error of most actions for an unknown group.
func groupNotFound(id string) *Error {
	if !isWellFormed(id, "sg") {
		return refuse("InvalidGroupId.Malformed", "Invalid id: %q (expecting \"sg-...\")", id)
	}
	return refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
}

// securityGroupIDNotFound is the error of CreateNetworkInterface for it.
func securityGroupIDNotFound(id string) *Error {
	if !isWellFormed(id, "sg") {
		return refuse("InvalidSecurityGroupId.Malformed", "Invalid id: %q (expecting \"sg-...\")", id)
	}
	return refuse("InvalidSecurityGroupID.NotFound", "The securityGroup ID '%s' does not exist", id)
}
