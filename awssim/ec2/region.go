// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"slices"
	"strings"

	"github.com/multieni/multieni/awssim/instancetypes"
)

// Region is a region that the account can use. A world has one.
type Region struct {
	RegionName  string `json:"regionName"`
	Endpoint    string `json:"endpoint" xml:"regionEndpoint"`
	OptInStatus string `json:"optInStatus"`
}

// DescribeRegionsInput is the request of DescribeRegions.
type DescribeRegionsInput struct {
	Filters     []Filter `query:"Filter"`
	RegionNames []string `query:"RegionName"`
	AllRegions  bool     `query:"AllRegions"`
	DryRun      bool     `query:"DryRun"`
}

// DescribeRegionsOutput is its answer.
type DescribeRegionsOutput struct {
	Regions []*Region `json:"regions" xml:"regionInfo"`
}

// optInNotRequired is the status of regions and zones that every account can use.
const optInNotRequired = "opt-in-not-required"

// DescribeRegions lists the only region of the world.
func (m *Model) DescribeRegions(c Call, in *DescribeRegionsInput) (*DescribeRegionsOutput, error) {
	m.Advance(c.Now)
	k := regionKind()
	if err := validateFilters(k, in.Filters); err != nil {
		return nil, err
	}
	for _, name := range in.RegionNames {
		if name != m.region {
			return nil, invalidValue("Invalid region provided: %s. The simulated account has the region %s only.", name,
				m.region)
		}
	}
	if in.DryRun {
		return nil, dryRun()
	}
	out := &DescribeRegionsOutput{}
	region := &Region{m.region, "ec2." + m.region + ".amazonaws.com", optInNotRequired}
	if matchesAll(k, region, in.Filters) {
		out.Regions = append(out.Regions, region)
	}
	return out, nil
}

func regionKind() kind[Region] {
	return kind[Region]{
		action: "DescribeRegions",
		filters: map[string]func(*Region) []string{
			"endpoint":      func(r *Region) []string { return one(r.Endpoint) },
			"opt-in-status": func(r *Region) []string { return one(r.OptInStatus) },
			"region-name":   func(r *Region) []string { return one(r.RegionName) },
		},
	}
}

// AccountAttribute is an attribute of the account.
type AccountAttribute struct {
	AttributeName   string                  `json:"attributeName"`
	AttributeValues []AccountAttributeValue `json:"attributeValues" xml:"attributeValueSet"`
}

// AccountAttributeValue is a value of an attribute of the account.
type AccountAttributeValue struct {
	AttributeValue string `json:"attributeValue"`
}

// DescribeAccountAttributesInput is the request of DescribeAccountAttributes.
type DescribeAccountAttributesInput struct {
	AttributeNames []string `query:"AttributeName"`
	DryRun         bool     `query:"DryRun"`
}

// DescribeAccountAttributesOutput is its answer.
type DescribeAccountAttributesOutput struct {
	AccountAttributes []AccountAttribute `json:"accountAttributes" xml:"accountAttributeSet"`
}

// DescribeAccountAttributes lists attributes of the account, with EC2's default quotas.
func (m *Model) DescribeAccountAttributes(
	c Call, in *DescribeAccountAttributesInput,
) (*DescribeAccountAttributesOutput, error) {
	m.Advance(c.Now)
	defaultVPC := "none"
	if vpc, err := m.vpcForGroup(""); err == nil {
		defaultVPC = vpc.VPCID
	}
	all := [][2]string{
		{"supported-platforms", "VPC"}, {"default-vpc", defaultVPC}, {"vpc-max-security-groups-per-interface", "5"},
		{"max-instances", "20"}, {"max-elastic-ips", "5"}, {"vpc-max-elastic-ips", "5"},
	}
	for _, name := range in.AttributeNames {
		if !slices.ContainsFunc(all, func(a [2]string) bool { return a[0] == name }) {
			return nil, invalidValue("Value (%s) for parameter attributeName is invalid.", name)
		}
	}
	if in.DryRun {
		return nil, dryRun()
	}
	out := &DescribeAccountAttributesOutput{}
	for _, a := range all {
		if len(in.AttributeNames) == 0 || slices.Contains(in.AttributeNames, a[0]) {
			out.AccountAttributes = append(out.AccountAttributes, AccountAttribute{a[0], []AccountAttributeValue{{a[1]}}})
		}
	}
	return out, nil
}

// InstanceTypeOffering is an instance type in a region or a zone. Here each type is offered everywhere.
type InstanceTypeOffering struct {
	InstanceType string `json:"instanceType"`
	LocationType string `json:"locationType"`
	Location     string `json:"location"`
}

// id orders offerings by type and place.
func (o *InstanceTypeOffering) id() string {
	return o.InstanceType + "\x00" + o.LocationType + "\x00" + o.Location
}

// DescribeInstanceTypeOfferingsInput is the request of DescribeInstanceTypeOfferings.
type DescribeInstanceTypeOfferingsInput struct {
	Page
	LocationType string `query:"LocationType"`
}

// DescribeInstanceTypeOfferingsOutput is its answer.
type DescribeInstanceTypeOfferingsOutput struct {
	InstanceTypeOfferings []*InstanceTypeOffering `json:"instanceTypeOfferings" xml:"instanceTypeOfferingSet"`
	NextToken             string                  `json:"nextToken,omitempty"`
}

// The kinds of places of offerings.
const (
	locationRegion = "region"
	locationZone   = "availability-zone"
	locationZoneID = "availability-zone-id"
)

// filterLocationType is the filter that the parameter LocationType sets; EC2's names have no such characters.
const filterLocationType = "(location-type)"

// maxOfferingsPerPage is the limit of MaxResults, and the length of a page without it.
const maxOfferingsPerPage = 1000

// DescribeInstanceTypeOfferings lists the places where instance types are offered.
func (m *Model) DescribeInstanceTypeOfferings(
	c Call, in *DescribeInstanceTypeOfferingsInput,
) (*DescribeInstanceTypeOfferingsOutput, error) {
	if m.offerings == nil {
		m.offerings = newTable(offeringKind())
		for _, o := range m.allOfferings() {
			m.offerings.put(o.id(), o, m.now(), m.now())
		}
	}
	page, place := in.Page, in.LocationType
	switch place {
	case "":
		place = locationRegion
	case locationRegion, locationZone, locationZoneID:
	default:
		return nil, invalidValue("Value (%s) for parameter locationType is invalid.", place)
	}
	page.Filters = append(slices.Clone(page.Filters), Filter{filterLocationType, one(place)})
	if page.MaxResults == nil {
		page.MaxResults = new(maxOfferingsPerPage)
	}
	found, next, err := describe(m, c, m.offerings, nil, page)
	if err != nil {
		return nil, err
	}
	return &DescribeInstanceTypeOfferingsOutput{found, next}, nil
}

func (m *Model) allOfferings() []*InstanceTypeOffering {
	var all []*InstanceTypeOffering
	for _, name := range instancetypes.Names() {
		all = append(all, &InstanceTypeOffering{name, locationRegion, m.region})
		for _, zone := range m.zones {
			all = append(all, &InstanceTypeOffering{name, locationZone, zone.ZoneName},
				&InstanceTypeOffering{name, locationZoneID, zone.ZoneID})
		}
	}
	slices.SortFunc(all, func(a, b *InstanceTypeOffering) int { return strings.Compare(a.id(), b.id()) })
	return all
}

func offeringKind() kind[InstanceTypeOffering] {
	return kind[InstanceTypeOffering]{
		action: "DescribeInstanceTypeOfferings", minResults: 5, maxResults: maxOfferingsPerPage,
		id: (*InstanceTypeOffering).id,
		filters: map[string]func(*InstanceTypeOffering) []string{
			"instance-type":    func(o *InstanceTypeOffering) []string { return one(o.InstanceType) },
			"location":         func(o *InstanceTypeOffering) []string { return one(o.Location) },
			filterLocationType: func(o *InstanceTypeOffering) []string { return one(o.LocationType) },
		},
		keys: func(o *InstanceTypeOffering) []string {
			return []string{indexKey("instance-type", o.InstanceType), indexKey(filterLocationType, o.LocationType)}
		},
		isIndexed: func(filter string) bool { return filter == "instance-type" || filter == filterLocationType },
	}
}
