// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"slices"
	"strconv"
)

// CreateFleetInput is the request of CreateFleet. An instant fleet launches once and answers with the result. Fleets of
// the other types launch afterwards, and one of type maintain replaces terminated instances.
type CreateFleetInput struct {
	Type                        string                `query:"Type"`
	LaunchTemplateConfigs       []FleetTemplateConfig `query:"LaunchTemplateConfigs"`
	TargetCapacitySpecification TargetCapacity        `query:"TargetCapacitySpecification"`
	OnDemandOptions             *FleetAllocation      `query:"OnDemandOptions"`
	SpotOptions                 *FleetAllocation      `query:"SpotOptions"`
	TagSpecifications           []TagSpecification    `query:"TagSpecification"`
	ClientToken                 string                `query:"ClientToken"`
	DryRun                      bool                  `query:"DryRun"`

	role string // of a Spot Fleet request
}

// FleetTemplateConfig is a launch template with its overrides.
type FleetTemplateConfig struct {
	LaunchTemplateSpecification *LaunchTemplateSpecification `query:"LaunchTemplateSpecification" json:"launchTemplateSpecification"`
	Overrides                   []FleetOverrides             `query:"Overrides" json:"overrides,omitempty"`
}

// FleetOverrides replaces members of the launch template.
type FleetOverrides struct {
	InstanceType     string `query:"InstanceType" json:"instanceType,omitempty"`
	SubnetID         string `query:"SubnetId" json:"subnetId,omitempty"`
	AvailabilityZone string `query:"AvailabilityZone" json:"availabilityZone,omitempty"`
	ImageID          string `query:"ImageId" json:"imageId,omitempty"`
	Priority         string `query:"Priority" json:"priority,omitempty"`
}

// TargetCapacity is the desired number of instances of a fleet.
type TargetCapacity struct {
	TotalTargetCapacity       *int   `query:"TotalTargetCapacity" json:"totalTargetCapacity"`
	OnDemandTargetCapacity    *int   `query:"OnDemandTargetCapacity" json:"onDemandTargetCapacity,omitempty"`
	SpotTargetCapacity        *int   `query:"SpotTargetCapacity" json:"spotTargetCapacity,omitempty"`
	DefaultTargetCapacityType string `query:"DefaultTargetCapacityType" json:"defaultTargetCapacityType,omitempty"`
}

// FleetAllocation says which override is tried first. Prices and capacities are not modelled: prioritized uses the
// priorities, all other strategies the order of the request.
type FleetAllocation struct {
	AllocationStrategy string `query:"AllocationStrategy"`
}

// CreateFleetOutput is its answer.
type CreateFleetOutput struct {
	FleetID   string          `json:"fleetId"`
	Instances []FleetInstance `json:"instances,omitempty" xml:"fleetInstanceSet" wire:"always"`
	Errors    []FleetError    `json:"errors,omitempty" xml:"errorSet" wire:"always"`
}

// FleetInstance has the instances from one override.
type FleetInstance struct {
	InstanceIDs                []string            `json:"instanceIds"`
	InstanceType               string              `json:"instanceType"`
	Lifecycle                  string              `json:"lifecycle"`
	LaunchTemplateAndOverrides FleetTemplateChoice `json:"launchTemplateAndOverrides"`
}

// FleetError is why an override launched nothing.
type FleetError struct {
	ErrorCode                  string              `json:"errorCode"`
	ErrorMessage               string              `json:"errorMessage"`
	Lifecycle                  string              `json:"lifecycle"`
	LaunchTemplateAndOverrides FleetTemplateChoice `json:"launchTemplateAndOverrides"`
}

// FleetTemplateChoice is a launch template version with the override that was tried.
type FleetTemplateChoice struct {
	LaunchTemplateSpecification LaunchTemplateSpecification `json:"launchTemplateSpecification"`
	Overrides                   FleetOverrides              `json:"overrides"`
}

// CreateFleet creates a fleet. An instant one launches instances from the first possible override, and returns an error
// for each override that is not possible.
func (m *Model) CreateFleet(c Call, in *CreateFleetInput) (*CreateFleetOutput, error) {
	m.Advance(c.Now)
	fleet, err := m.createFleet("CreateFleet", prefixFleet, in)
	if err != nil {
		return nil, err
	}
	return &CreateFleetOutput{FleetID: fleet.FleetID, Instances: fleet.Instances, Errors: fleet.Errors}, nil
}

// createFleet creates a fleet with an ID of the prefix, or returns the one that the same request created.
func (m *Model) createFleet(action, prefix string, in *CreateFleetInput) (*Fleet, error) {
	request := *in
	request.ClientToken, request.DryRun = "", false
	known, err := m.replayUnlessForgotten(action, in.ClientToken, request)
	if err != nil {
		return nil, err
	}
	if known != nil {
		return m.fleet(known.IDs[0]), nil
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	fleet, err := m.newFleet(in)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	id := m.id(prefix)
	fleet.FleetID = id
	put(m, m.fleetsLike(id), id, fleet)
	m.remember(action, in.ClientToken, request, []string{id})
	m.hide(action, id)
	if fleet.Type == fleetInstant {
		m.fulfil(id)
	} else {
		m.events.fulfilled.Soon(id)
	}
	return m.fleet(id), nil
}

// check returns the errors of a fleet as a whole.
func (in *CreateFleetInput) check() error {
	capacity, kind := in.TargetCapacitySpecification, in.kind()
	switch {
	case kind != fleetInstant && kind != fleetRequest && kind != fleetMaintain:
		return invalidValue("Invalid value '%s' for Type: a fleet is of type instant, request or maintain.", kind)
	case len(in.LaunchTemplateConfigs) == 0:
		return missing("LaunchTemplateConfigs")
	case capacity.TotalTargetCapacity == nil:
		return missing("TotalTargetCapacity")
	case *capacity.TotalTargetCapacity < 1 && kind != fleetMaintain, *capacity.TotalTargetCapacity < 0:
		return invalidValue("TotalTargetCapacity is %d and must be at least 1", *capacity.TotalTargetCapacity)
	}
	for _, config := range in.LaunchTemplateConfigs {
		switch {
		case config.LaunchTemplateSpecification == nil:
			return missing("LaunchTemplateSpecification")
		case config.LaunchTemplateSpecification.Version == "":
			return missing("LaunchTemplateSpecification.Version")
		}
	}
	return nil
}

func (in *CreateFleetInput) kind() string { return cmp.Or(in.Type, fleetMaintain) }

// fleetChoices returns the choices of a fleet, in order, with the present versions of its launch templates.
func (m *Model) fleetChoices(in *CreateFleetInput) ([]FleetTemplateChoice, error) {
	var choices []FleetTemplateChoice
	for _, config := range in.LaunchTemplateConfigs {
		version, err := m.versionOf(*config.LaunchTemplateSpecification)
		if err != nil {
			return nil, err
		}
		named := LaunchTemplateSpecification{
			TemplateName{LaunchTemplateID: version.LaunchTemplateID}, strconv.Itoa(version.VersionNumber),
		}
		overrides := config.Overrides
		if len(overrides) == 0 {
			overrides = []FleetOverrides{{}}
		}
		for _, o := range overrides {
			choices = append(choices, FleetTemplateChoice{named, o})
		}
	}
	return in.inPriority(choices), nil
}

// inPriority sorts by priority if the strategy requires it; an override without one is last.
func (in *CreateFleetInput) inPriority(choices []FleetTemplateChoice) []FleetTemplateChoice {
	priority := func(c FleetTemplateChoice) float64 {
		value, err := strconv.ParseFloat(c.Overrides.Priority, 64)
		if err != nil {
			return 1 << 30
		}
		return value
	}
	options := in.OnDemandOptions
	if in.lifecycle() == "spot" {
		options = in.SpotOptions
	}
	if options == nil || options.AllocationStrategy != "prioritized" &&
		options.AllocationStrategy != "capacity-optimized-prioritized" {
		return choices
	}
	slices.SortStableFunc(choices, func(a, b FleetTemplateChoice) int { return cmp.Compare(priority(a), priority(b)) })
	return choices
}

func (in *CreateFleetInput) lifecycle() string {
	return cmp.Or(in.TargetCapacitySpecification.DefaultTargetCapacityType, "on-demand")
}

// fleetTags are the tags for the resources that a fleet creates.
type fleetTags struct {
	Fleet    Tags `json:"fleet"`
	Instance Tags `json:"instance"`
	ENI      Tags `json:"eni"`
}

// tags reads the tags of a request. Instances of fleets that are not instant have those of the launch template.
func (in *CreateFleetInput) tags() (tags fleetTags, err error) {
	tags.Fleet = Tags{}
	var ofLaunch []TagSpecification
	for _, s := range in.TagSpecifications {
		if s.ResourceType != "fleet" {
			ofLaunch = append(ofLaunch, s)
			continue
		}
		more, err := readTags(s.Tags)
		if err != nil {
			return tags, err
		}
		tags.Fleet = tags.Fleet.with(more)
	}
	if len(ofLaunch) > 0 && in.kind() != fleetInstant {
		return tags, invalidValue("'%s' is not a valid taggable resource type for fleets of type %s.",
			ofLaunch[0].ResourceType, in.kind())
	}
	tags.Instance, tags.ENI, err = launchTags(ofLaunch)
	return tags, err
}

func fleetLaunch(choice FleetTemplateChoice, count int, tags fleetTags) *RunInstancesInput {
	o := choice.Overrides
	request := &RunInstancesInput{
		LaunchTemplateData: LaunchTemplateData{InstanceType: o.InstanceType, ImageID: o.ImageID},
		LaunchTemplate:     &choice.LaunchTemplateSpecification, SubnetID: o.SubnetID, MinCount: &count, MaxCount: &count,
	}
	if o.AvailabilityZone != "" {
		request.Placement = &PlacementSpecification{AvailabilityZone: o.AvailabilityZone}
	}
	if len(tags.ENI) > 0 {
		request.TagSpecifications = []TagSpecification{{ResourceType: "network-interface", Tags: listed(tags.ENI)}}
	}
	return request
}

// listed returns tags in the form of a request.
func listed(tags Tags) []Tag {
	var list []Tag
	for _, key := range tags.keys() {
		list = append(list, Tag{Key: key, Value: new(tags[key])})
	}
	return list
}
