// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"net/netip"
	"slices"
)

// RouteTable is a route table of a VPC. No packet is routed by it.
type RouteTable struct {
	RouteTableID    string                  `json:"routeTableId"`
	VPCID           string                  `json:"vpcId"`
	OwnerID         string                  `json:"ownerId"`
	Routes          []Route                 `json:"routes" xml:"routeSet"`
	Associations    []RouteTableAssociation `json:"associations" xml:"associationSet"`
	PropagatingVGWs []struct{}              `json:"propagatingVgws" xml:"propagatingVgwSet"`
	Tags            Tags                    `json:"tags" xml:"tagSet"`
}

// isMain reports whether the table is for the subnets without an association.
func (t *RouteTable) isMain() bool {
	return slices.ContainsFunc(t.Associations, func(a RouteTableAssociation) bool { return a.Main })
}

// Route is one route: a range of destinations, and a target.
type Route struct {
	DestinationCIDRBlock     netip.Prefix `json:"destinationCidrBlock,omitzero"`
	DestinationIPv6CIDRBlock netip.Prefix `json:"destinationIpv6CidrBlock,omitzero"`
	GatewayID                string       `json:"gatewayId,omitempty"`
	NetworkInterfaceID       string       `json:"networkInterfaceId,omitempty"`
	InstanceID               string       `json:"instanceId,omitempty"`
	InstanceOwnerID          string       `json:"instanceOwnerId,omitempty"`
	State                    string       `json:"state"`
	Origin                   string       `json:"origin"`
}

func (r Route) destination() netip.Prefix {
	if r.DestinationCIDRBlock.IsValid() {
		return r.DestinationCIDRBlock
	}
	return r.DestinationIPv6CIDRBlock
}

// The target of routes within the VPC, and the values of a route's state and origin.
const (
	gatewayLocal      = "local"
	routeActive       = "active"
	routeBlackhole    = "blackhole"
	originNewTable    = "CreateRouteTable"
	originCreateRoute = "CreateRoute"
	associated        = "associated"
)

// RouteTableAssociation is the use of a route table for a subnet, or for all subnets without one.
type RouteTableAssociation struct {
	RouteTableAssociationID string           `json:"routeTableAssociationId"`
	RouteTableID            string           `json:"routeTableId"`
	SubnetID                string           `json:"subnetId,omitempty"`
	Main                    bool             `json:"main"`
	AssociationState        AssociationState `json:"associationState"`
}

// AssociationState is the state of an association.
type AssociationState struct {
	State string `json:"state"`
}

// CreateRouteTableInput is the request of CreateRouteTable.
type CreateRouteTableInput struct {
	VPCID             string             `query:"VpcId"`
	TagSpecifications []TagSpecification `query:"TagSpecification"`
	ClientToken       string             `query:"ClientToken"`
	DryRun            bool               `query:"DryRun"`
}

// CreateRouteTableOutput is its answer.
type CreateRouteTableOutput struct {
	RouteTable  *RouteTable `json:"routeTable"`
	ClientToken string      `json:"clientToken,omitempty"`
}

// CreateRouteTable creates a route table with the routes within the VPC. The same token and parameters return the same
// table.
func (m *Model) CreateRouteTable(c Call, in *CreateRouteTableInput) (*CreateRouteTableOutput, error) {
	m.Advance(c.Now)
	const action = "CreateRouteTable"
	tags, err := tagsFor("route-table", in.TagSpecifications)
	if err != nil {
		return nil, err
	}
	request := *in
	request.ClientToken, request.DryRun = "", false
	known, err := m.replay(action, in.ClientToken, request)
	if err != nil {
		return nil, err
	}
	if known != nil {
		return &CreateRouteTableOutput{m.routeTables.get(known.IDs[0]), in.ClientToken}, nil
	}
	vpc, err := m.vpcOf(in.VPCID)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	table := m.putRouteTable(vpc, tags, false)
	m.remember(action, in.ClientToken, request, []string{table.RouteTableID})
	return &CreateRouteTableOutput{table, in.ClientToken}, nil
}

// putRouteTable adds a route table to a VPC.
func (m *Model) putRouteTable(vpc *VPC, tags Tags, main bool) *RouteTable {
	table := &RouteTable{RouteTableID: m.networkID("rtb"), VPCID: vpc.VPCID, OwnerID: m.account, Tags: tags}
	local := Route{GatewayID: gatewayLocal, State: routeActive, Origin: originNewTable}
	local.DestinationCIDRBlock = vpc.CIDRBlock
	table.Routes = []Route{local}
	for _, a := range vpc.IPv6CIDRBlockAssociations {
		local.DestinationCIDRBlock, local.DestinationIPv6CIDRBlock = netip.Prefix{}, a.IPv6CIDRBlock
		table.Routes = append(table.Routes, local)
	}
	if main {
		table.Associations = []RouteTableAssociation{{
			RouteTableAssociationID: m.networkID("rtbassoc"), RouteTableID: table.RouteTableID, Main: true,
			AssociationState: AssociationState{associated},
		}}
	}
	put(m, m.routeTables, table.RouteTableID, table)
	return table
}

// putAssociations replaces the associations of a route table.
func (m *Model) putAssociations(table *RouteTable, associations []RouteTableAssociation) {
	changed := *table
	changed.Associations = associations
	put(m, m.routeTables, table.RouteTableID, &changed)
}

// associationOf returns the first association for which is is true, with its table; nil without one.
func (m *Model) associationOf(is func(RouteTableAssociation) bool) (*RouteTable, RouteTableAssociation) {
	for _, table := range m.routeTables.all() {
		if at := slices.IndexFunc(table.Associations, is); at >= 0 {
			return table, table.Associations[at]
		}
	}
	return nil, RouteTableAssociation{}
}

// routeTableOf returns a route table that a request names.
func (m *Model) routeTableOf(id string) (*RouteTable, error) {
	if id == "" {
		return nil, missing("routeTableId")
	}
	table := m.routeTables.get(id)
	if table == nil {
		return nil, routeTableNotFound(id)
	}
	return table, nil
}

func routeTableNotFound(id string) *Error {
	if !isWellFormed(id, "rtb") {
		return refuse("InvalidRouteTableId.Malformed", "Invalid id: %q (expecting \"rtb-...\")", id)
	}
	return refuse("InvalidRouteTableID.NotFound", "The routeTable ID '%s' does not exist", id)
}

// DeleteRouteTableInput is the request of DeleteRouteTable.
type DeleteRouteTableInput struct {
	RouteTableID string `query:"RouteTableId"`
	DryRun       bool   `query:"DryRun"`
}

// DeleteRouteTable deletes a route table without associations.
func (m *Model) DeleteRouteTable(c Call, in *DeleteRouteTableInput) (*Return, error) {
	m.Advance(c.Now)
	table, err := m.routeTableOf(in.RouteTableID)
	if err != nil {
		return nil, err
	}
	if len(table.Associations) > 0 {
		return nil, dependent("routeTable", in.RouteTableID)
	}
	if in.DryRun {
		return nil, dryRun()
	}
	put(m, m.routeTables, in.RouteTableID, nil)
	m.burn(in.RouteTableID)
	return &Return{true}, nil
}

// AssociateRouteTableInput is the request of AssociateRouteTable.
type AssociateRouteTableInput struct {
	RouteTableID string `query:"RouteTableId"`
	SubnetID     string `query:"SubnetId"`
	DryRun       bool   `query:"DryRun"`
}

// AssociateRouteTableOutput is its answer.
type AssociateRouteTableOutput struct {
	AssociationID    string           `json:"associationId"`
	AssociationState AssociationState `json:"associationState"`
}

// AssociateRouteTable makes a subnet use a route table in place of the main one.
func (m *Model) AssociateRouteTable(c Call, in *AssociateRouteTableInput) (*AssociateRouteTableOutput, error) {
	m.Advance(c.Now)
	table, err := m.routeTableOf(in.RouteTableID)
	if err != nil {
		return nil, err
	}
	subnet, err := m.subnetOf(in.SubnetID)
	if err != nil {
		return nil, err
	}
	used, a := m.associationOf(func(a RouteTableAssociation) bool { return a.SubnetID == in.SubnetID })
	switch {
	case subnet.VPCID != table.VPCID:
		return nil, foreignTable(in.RouteTableID, "subnet "+in.SubnetID)
	case used != nil && used.RouteTableID == in.RouteTableID:
		// EC2 returns the association that exists.
		return &AssociateRouteTableOutput{a.RouteTableAssociationID, a.AssociationState}, nil
	case used != nil:
		return nil, refuse("Resource.AlreadyAssociated",
			"the specified association for route table %s conflicts with an existing association", in.RouteTableID)
	case in.DryRun:
		return nil, dryRun()
	}
	a = RouteTableAssociation{
		RouteTableAssociationID: m.networkID("rtbassoc"), RouteTableID: in.RouteTableID, SubnetID: in.SubnetID,
		AssociationState: AssociationState{associated},
	}
	m.putAssociations(table, append(slices.Clone(table.Associations), a))
	return &AssociateRouteTableOutput{a.RouteTableAssociationID, a.AssociationState}, nil
}

func foreignTable(tableID, other string) *Error {
	return invalidValue("Route table %s and %s belong to different networks", tableID, other)
}

// DisassociateRouteTableInput is the request of DisassociateRouteTable.
type DisassociateRouteTableInput struct {
	AssociationID string `query:"AssociationId"`
	DryRun        bool   `query:"DryRun"`
}

// DisassociateRouteTable makes a subnet use the main route table again.
func (m *Model) DisassociateRouteTable(c Call, in *DisassociateRouteTableInput) (*Return, error) {
	m.Advance(c.Now)
	table, a, err := m.associationByID(in.AssociationID)
	switch {
	case err != nil:
		return nil, err
	case a.Main:
		return nil, invalidValue("cannot disassociate the main route table association %s", in.AssociationID)
	case in.DryRun:
		return nil, dryRun()
	}
	m.putAssociations(table, without(table.Associations, func(have RouteTableAssociation) bool { return have == a }))
	return &Return{true}, nil
}

func (m *Model) associationByID(id string) (*RouteTable, RouteTableAssociation, error) {
	if id == "" {
		return nil, RouteTableAssociation{}, missing("associationId")
	}
	table, a := m.associationOf(func(a RouteTableAssociation) bool { return a.RouteTableAssociationID == id })
	if table == nil {
		return nil, a, refuse("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
	}
	return table, a, nil
}

// ReplaceRouteTableAssociationInput is the request of ReplaceRouteTableAssociation.
type ReplaceRouteTableAssociationInput struct {
	AssociationID string `query:"AssociationId"`
	RouteTableID  string `query:"RouteTableId"`
	DryRun        bool   `query:"DryRun"`
}

// ReplaceRouteTableAssociationOutput is its answer.
type ReplaceRouteTableAssociationOutput struct {
	NewAssociationID string           `json:"newAssociationId"`
	AssociationState AssociationState `json:"associationState"`
}

// ReplaceRouteTableAssociation makes a subnet, or all subnets without an association, use another route table.
func (m *Model) ReplaceRouteTableAssociation(
	c Call, in *ReplaceRouteTableAssociationInput,
) (*ReplaceRouteTableAssociationOutput, error) {
	m.Advance(c.Now)
	before, a, err := m.associationByID(in.AssociationID)
	if err != nil {
		return nil, err
	}
	table, err := m.routeTableOf(in.RouteTableID)
	switch {
	case err != nil:
		return nil, err
	case table.VPCID != before.VPCID:
		return nil, foreignTable(in.RouteTableID, "association "+in.AssociationID)
	case in.DryRun:
		return nil, dryRun()
	}
	m.putAssociations(before, without(before.Associations, func(have RouteTableAssociation) bool { return have == a }))
	a.RouteTableAssociationID, a.RouteTableID = m.networkID("rtbassoc"), in.RouteTableID
	now := m.routeTables.get(in.RouteTableID)
	m.putAssociations(now, append(slices.Clone(now.Associations), a))
	return &ReplaceRouteTableAssociationOutput{a.RouteTableAssociationID, a.AssociationState}, nil
}

// DescribeRouteTablesInput is the request of DescribeRouteTables.
type DescribeRouteTablesInput struct {
	Page
	RouteTableIDs []string `query:"RouteTableId"`
}

// DescribeRouteTablesOutput is its answer.
type DescribeRouteTablesOutput struct {
	RouteTables []*RouteTable `json:"routeTables" xml:"routeTableSet"`
	NextToken   string        `json:"nextToken,omitempty"`
}

// DescribeRouteTables lists route tables.
func (m *Model) DescribeRouteTables(c Call, in *DescribeRouteTablesInput) (*DescribeRouteTablesOutput, error) {
	found, next, err := describe(m, c, m.routeTables, in.RouteTableIDs, in.Page)
	if err != nil {
		return nil, err
	}
	return &DescribeRouteTablesOutput{found, next}, nil
}

func (m *Model) routeTableKind() kind[RouteTable] {
	return kind[RouteTable]{
		action:     "DescribeRouteTables",
		id:         func(t *RouteTable) string { return t.RouteTableID },
		tags:       func(t *RouteTable) Tags { return t.Tags },
		retag:      func(t *RouteTable, tags Tags) { t.Tags = tags },
		notFound:   routeTableNotFound,
		minResults: 5,
		maxResults: 100,
		filters:    routeTableFilters(),
		present:    m.presentRoutes,
	}
}

func routeTableFilters() map[string]func(*RouteTable) []string {
	ofAssociations := func(get func(RouteTableAssociation) string) func(*RouteTable) []string {
		return func(t *RouteTable) []string { return each(t.Associations, get) }
	}
	ofRoutes := func(get func(Route) string) func(*RouteTable) []string {
		return func(t *RouteTable) []string { return each(t.Routes, get) }
	}
	return map[string]func(*RouteTable) []string{
		"association.main": func(t *RouteTable) []string { return truth(t.isMain()) },
		"association.route-table-association-id": ofAssociations(func(a RouteTableAssociation) string {
			return a.RouteTableAssociationID
		}),
		"association.route-table-id":        ofAssociations(func(a RouteTableAssociation) string { return a.RouteTableID }),
		"association.subnet-id":             ofAssociations(func(a RouteTableAssociation) string { return a.SubnetID }),
		"owner-id":                          func(t *RouteTable) []string { return one(t.OwnerID) },
		"route-table-id":                    func(t *RouteTable) []string { return one(t.RouteTableID) },
		"route.destination-cidr-block":      ofRoutes(func(r Route) string { return text(r.DestinationCIDRBlock) }),
		"route.destination-ipv6-cidr-block": ofRoutes(func(r Route) string { return text(r.DestinationIPv6CIDRBlock) }),
		"route.gateway-id":                  ofRoutes(func(r Route) string { return r.GatewayID }),
		"route.instance-id":                 ofRoutes(func(r Route) string { return r.InstanceID }),
		"route.origin":                      ofRoutes(func(r Route) string { return r.Origin }),
		"route.state":                       ofRoutes(func(r Route) string { return r.State }),
		filterVPC:                           func(t *RouteTable) []string { return one(t.VPCID) },
	}
}

// text returns a range as EC2 writes it; empty for none.
func text(cidr netip.Prefix) string {
	if !cidr.IsValid() {
		return ""
	}
	return cidr.String()
}
