// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import "slices"

// InternetGateway connects a VPC with the internet.
type InternetGateway struct {
	InternetGatewayID string                      `json:"internetGatewayId"`
	OwnerID           string                      `json:"ownerId"`
	Attachments       []InternetGatewayAttachment `json:"attachments" xml:"attachmentSet"`
	Tags              Tags                        `json:"tags" xml:"tagSet"`
}

// InternetGatewayAttachment is the attachment of an internet gateway to a VPC. Its state is available.
type InternetGatewayAttachment struct {
	VPCID string `json:"vpcId"`
	State string `json:"state"`
}

func (g *InternetGateway) isAttachedTo(vpcID string) bool {
	return slices.ContainsFunc(g.Attachments, func(a InternetGatewayAttachment) bool { return a.VPCID == vpcID })
}

// CreateInternetGatewayInput is the request of CreateInternetGateway.
type CreateInternetGatewayInput struct {
	TagSpecifications []TagSpecification `query:"TagSpecification"`
	DryRun            bool               `query:"DryRun"`
}

// CreateInternetGatewayOutput is its answer.
type CreateInternetGatewayOutput struct {
	InternetGateway *InternetGateway `json:"internetGateway"`
}

// CreateInternetGateway creates an internet gateway without a VPC.
func (m *Model) CreateInternetGateway(
	c Call, in *CreateInternetGatewayInput,
) (*CreateInternetGatewayOutput, error) {
	m.Advance(c.Now)
	tags, err := tagsFor("internet-gateway", in.TagSpecifications)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	gateway := &InternetGateway{InternetGatewayID: m.networkID("igw"), OwnerID: m.account, Tags: tags}
	put(m, m.internetGateways, gateway.InternetGatewayID, gateway)
	return &CreateInternetGatewayOutput{gateway}, nil
}

// InternetGatewayInput is the request of AttachInternetGateway and DetachInternetGateway.
type InternetGatewayInput struct {
	InternetGatewayID string `query:"InternetGatewayId"`
	VPCID             string `query:"VpcId"`
	DryRun            bool   `query:"DryRun"`
}

// AttachInternetGateway connects a VPC with the internet.
func (m *Model) AttachInternetGateway(c Call, in *InternetGatewayInput) (*Return, error) {
	m.Advance(c.Now)
	gateway, err := m.gatewayAndVPC(in)
	switch {
	case err != nil:
		return nil, err
	case len(gateway.Attachments) > 0:
		return nil, refuse("Resource.AlreadyAssociated", "resource %s is already attached to network %s",
			in.InternetGatewayID, gateway.Attachments[0].VPCID)
	case slices.ContainsFunc(m.internetGateways.all(), func(g *InternetGateway) bool { return g.isAttachedTo(in.VPCID) }):
		return nil, invalidValue("Network %s already has an internet gateway attached", in.VPCID)
	case in.DryRun:
		return nil, dryRun()
	}
	m.putGatewayAttachments(gateway, []InternetGatewayAttachment{{VPCID: in.VPCID, State: StatusAvailable}})
	return &Return{true}, nil
}

// DetachInternetGateway ends the connection of a VPC, which must have no public addresses any more.
func (m *Model) DetachInternetGateway(c Call, in *InternetGatewayInput) (*Return, error) {
	m.Advance(c.Now)
	gateway, err := m.gatewayAndVPC(in)
	switch {
	case err != nil:
		return nil, err
	case !gateway.isAttachedTo(in.VPCID):
		return nil, refuse("Gateway.NotAttached", "resource %s is not attached to network %s", in.InternetGatewayID,
			in.VPCID)
	case slices.ContainsFunc(m.interfaces.all(), func(n *NetworkInterface) bool {
		return n.VPCID == in.VPCID && n.Association != nil
	}):
		return nil, refuse("DependencyViolation", "Network %s has some mapped public address(es). Please unmap those "+
			"public address(es) before detaching the gateway.", in.VPCID)
	case in.DryRun:
		return nil, dryRun()
	}
	m.putGatewayAttachments(gateway, nil)
	return &Return{true}, nil
}

func (m *Model) gatewayAndVPC(in *InternetGatewayInput) (*InternetGateway, error) {
	gateway, err := m.gatewayOf(in.InternetGatewayID)
	if err != nil {
		return nil, err
	}
	_, err = m.vpcOf(in.VPCID)
	return gateway, err
}

func (m *Model) putGatewayAttachments(gateway *InternetGateway, attachments []InternetGatewayAttachment) {
	changed := *gateway
	changed.Attachments = attachments
	put(m, m.internetGateways, gateway.InternetGatewayID, &changed)
}

// gatewayOf returns an internet gateway that a request names.
func (m *Model) gatewayOf(id string) (*InternetGateway, error) {
	if id == "" {
		return nil, missing("internetGatewayId")
	}
	gateway := m.internetGateways.get(id)
	if gateway == nil {
		return nil, internetGatewayNotFound(id)
	}
	return gateway, nil
}

func internetGatewayNotFound(id string) *Error {
	if !isWellFormed(id, "igw") {
		return refuse("InvalidInternetGatewayId.Malformed", "Invalid id: %q (expecting \"igw-...\")", id)
	}
	return refuse("InvalidInternetGatewayID.NotFound", "The internetGateway ID '%s' does not exist", id)
}

// DeleteInternetGatewayInput is the request of DeleteInternetGateway.
type DeleteInternetGatewayInput struct {
	InternetGatewayID string `query:"InternetGatewayId"`
	DryRun            bool   `query:"DryRun"`
}

// DeleteInternetGateway deletes an internet gateway without a VPC.
func (m *Model) DeleteInternetGateway(c Call, in *DeleteInternetGatewayInput) (*Return, error) {
	m.Advance(c.Now)
	gateway, err := m.gatewayOf(in.InternetGatewayID)
	switch {
	case err != nil:
		return nil, err
	case len(gateway.Attachments) > 0:
		return nil, dependent("internetGateway", in.InternetGatewayID)
	case in.DryRun:
		return nil, dryRun()
	}
	put(m, m.internetGateways, in.InternetGatewayID, nil)
	return &Return{true}, nil
}

// DescribeInternetGatewaysInput is the request of DescribeInternetGateways.
type DescribeInternetGatewaysInput struct {
	Page
	InternetGatewayIDs []string `query:"InternetGatewayId"`
}

// DescribeInternetGatewaysOutput is its answer.
type DescribeInternetGatewaysOutput struct {
	InternetGateways []*InternetGateway `json:"internetGateways" xml:"internetGatewaySet"`
	NextToken        string             `json:"nextToken,omitempty"`
}

// DescribeInternetGateways lists internet gateways.
func (m *Model) DescribeInternetGateways(
	c Call, in *DescribeInternetGatewaysInput,
) (*DescribeInternetGatewaysOutput, error) {
	found, next, err := describe(m, c, m.internetGateways, in.InternetGatewayIDs, in.Page)
	if err != nil {
		return nil, err
	}
	return &DescribeInternetGatewaysOutput{found, next}, nil
}

func internetGatewayKind() kind[InternetGateway] {
	return kind[InternetGateway]{
		action:     "DescribeInternetGateways",
		id:         func(g *InternetGateway) string { return g.InternetGatewayID },
		tags:       func(g *InternetGateway) Tags { return g.Tags },
		retag:      func(g *InternetGateway, tags Tags) { g.Tags = tags },
		notFound:   internetGatewayNotFound,
		minResults: 5,
		maxResults: 1000,
		filters: map[string]func(*InternetGateway) []string{
			"attachment.state": func(g *InternetGateway) []string {
				return each(g.Attachments, func(a InternetGatewayAttachment) string { return a.State })
			},
			"attachment.vpc-id": func(g *InternetGateway) []string {
				return each(g.Attachments, func(a InternetGatewayAttachment) string { return a.VPCID })
			},
			"internet-gateway-id": func(g *InternetGateway) []string { return one(g.InternetGatewayID) },
			"owner-id":            func(g *InternetGateway) []string { return one(g.OwnerID) },
		},
	}
}
