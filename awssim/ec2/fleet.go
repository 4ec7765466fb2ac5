// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
)

// CreateFleetInput is the request of CreateFleet. Only instant fleets are modelled: they launch once and answer with
// what came of it.
type CreateFleetInput struct {
	Type                        string                `query:"Type"`
	LaunchTemplateConfigs       []FleetTemplateConfig `query:"LaunchTemplateConfigs"`
	TargetCapacitySpecification TargetCapacity        `query:"TargetCapacitySpecification"`
	OnDemandOptions             *FleetAllocation      `query:"OnDemandOptions"`
	SpotOptions                 *FleetAllocation      `query:"SpotOptions"`
	TagSpecifications           []TagSpecification    `query:"TagSpecification"`
	ClientToken                 string                `query:"ClientToken"`
	DryRun                      bool                  `query:"DryRun"`
}

// FleetTemplateConfig is a launch template with what is tried in its place.
type FleetTemplateConfig struct {
	LaunchTemplateSpecification *LaunchTemplateSpecification `query:"LaunchTemplateSpecification"`
	Overrides                   []FleetOverrides             `query:"Overrides"`
}

// FleetOverrides replaces members of the launch template.
type FleetOverrides struct {
	InstanceType     string `query:"InstanceType" json:"instanceType,omitempty"`
	SubnetID         string `query:"SubnetId" json:"subnetId,omitempty"`
	AvailabilityZone string `query:"AvailabilityZone" json:"availabilityZone,omitempty"`
	ImageID          string `query:"ImageId" json:"imageId,omitempty"`
	Priority         string `query:"Priority" json:"priority,omitempty"`
}

// TargetCapacity is how many instances a fleet shall have.
type TargetCapacity struct {
	TotalTargetCapacity       *int   `query:"TotalTargetCapacity"`
	OnDemandTargetCapacity    *int   `query:"OnDemandTargetCapacity"`
	SpotTargetCapacity        *int   `query:"SpotTargetCapacity"`
	DefaultTargetCapacityType string `query:"DefaultTargetCapacityType"`
}

// FleetAllocation says which override is tried first. There are no prices and no capacities here: prioritized goes by
// priority, all other strategies by the order of the request.
type FleetAllocation struct {
	AllocationStrategy string `query:"AllocationStrategy"`
}

// CreateFleetOutput is its answer.
type CreateFleetOutput struct {
	FleetID   string          `json:"fleetId"`
	Instances []FleetInstance `json:"instances,omitempty" xml:"fleetInstanceSet"`
	Errors    []FleetError    `json:"errors,omitempty" xml:"errorSet"`
}

// FleetInstance is the instances from one override.
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

// CreateFleet launches instances from the first override that can, and tells of each that could not why.
func (m *Model) CreateFleet(c Call, in *CreateFleetInput) (*CreateFleetOutput, error) {
	m.Advance(c.Now)
	const action = "CreateFleet"
	request := *in
	request.ClientToken, request.DryRun = "", false
	known, err := m.replayUnlessForgotten(action, in.ClientToken, request)
	if err != nil {
		return nil, err
	}
	if known != nil {
		return m.fleets[known.ids[0]], nil
	}
	choices, tags, err := m.planFleet(in)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	out := &CreateFleetOutput{FleetID: m.id("fleet")}
	tags.instance["aws:ec2:fleet-id"] = out.FleetID
	m.fillFleet(in, choices, tags, out)
	m.fleets[out.FleetID] = out
	m.remember(action, in.ClientToken, request, []string{out.FleetID})
	return out, nil
}

// fleetTags are the tags for what a fleet makes.
type fleetTags struct{ instance, eni Tags }

// planFleet refuses what is wrong with a fleet as a whole, and returns what to try, in order.
func (m *Model) planFleet(in *CreateFleetInput) ([]FleetTemplateChoice, fleetTags, error) {
	var tags fleetTags
	capacity := in.TargetCapacitySpecification
	switch {
	case in.Type != "instant":
		return nil, tags, notModelled("fleets of type '" + cmp.Or(in.Type, "maintain") + "', only instant ones")
	case len(in.LaunchTemplateConfigs) == 0:
		return nil, tags, missing("LaunchTemplateConfigs")
	case capacity.TotalTargetCapacity == nil:
		return nil, tags, missing("TotalTargetCapacity")
	case *capacity.TotalTargetCapacity < 1:
		return nil, tags, invalidValue("TotalTargetCapacity is %d and must be at least 1", *capacity.TotalTargetCapacity)
	}
	ofFleet := func(s TagSpecification) bool { return s.ResourceType == "fleet" }
	var err error
	if tags.instance, tags.eni, err = launchTags(slices.DeleteFunc(slices.Clone(in.TagSpecifications), ofFleet)); err != nil {
		return nil, tags, err
	}
	var choices []FleetTemplateChoice
	for _, config := range in.LaunchTemplateConfigs {
		if config.LaunchTemplateSpecification == nil {
			return nil, tags, missing("LaunchTemplateSpecification")
		}
		version, err := m.versionOf(*config.LaunchTemplateSpecification)
		if err != nil {
			return nil, tags, err
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
	return m.inPriority(in, choices), tags, nil
}

// inPriority sorts by priority where the strategy asks for it; an override without one comes last.
func (m *Model) inPriority(in *CreateFleetInput, choices []FleetTemplateChoice) []FleetTemplateChoice {
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
	if options == nil || options.AllocationStrategy != "prioritized" && options.AllocationStrategy != "capacity-optimized-prioritized" {
		return choices
	}
	slices.SortStableFunc(choices, func(a, b FleetTemplateChoice) int { return cmp.Compare(priority(a), priority(b)) })
	return choices
}

func (in *CreateFleetInput) lifecycle() string {
	return cmp.Or(in.TargetCapacitySpecification.DefaultTargetCapacityType, "on-demand")
}

// fillFleet goes through the choices until the target is reached. A choice launches all that is missing, or nothing.
func (m *Model) fillFleet(in *CreateFleetInput, choices []FleetTemplateChoice, tags fleetTags, out *CreateFleetOutput) {
	missing := *in.TargetCapacitySpecification.TotalTargetCapacity
	for _, choice := range choices {
		instances, err := m.launchFor(fleetRequest(choice, missing, tags), in.by(tags))
		if refused, ok := errors.AsType[*Error](err); ok {
			out.Errors = append(out.Errors, FleetError{refused.Code, refused.Message, in.lifecycle(), choice})
			continue
		}
		out.Instances = append(out.Instances, FleetInstance{
			InstanceIDs:  each(instances, func(i *Instance) string { return i.InstanceID }),
			InstanceType: instances[0].InstanceType, Lifecycle: in.lifecycle(), LaunchTemplateAndOverrides: choice,
		})
		return
	}
}

func (in *CreateFleetInput) by(tags fleetTags) launchedBy {
	by := launchedBy{service: true, tags: tags.instance}
	if in.lifecycle() == "spot" {
		by.lifecycle = "spot"
	}
	return by
}

func fleetRequest(choice FleetTemplateChoice, count int, tags fleetTags) *RunInstancesInput {
	o := choice.Overrides
	request := &RunInstancesInput{
		LaunchTemplateData: LaunchTemplateData{InstanceType: o.InstanceType, ImageID: o.ImageID},
		LaunchTemplate:     &choice.LaunchTemplateSpecification, SubnetID: o.SubnetID, MinCount: &count, MaxCount: &count,
	}
	if o.AvailabilityZone != "" {
		request.Placement = &PlacementSpecification{AvailabilityZone: o.AvailabilityZone}
	}
	if len(tags.eni) > 0 {
		request.TagSpecifications = []TagSpecification{{ResourceType: "network-interface", Tags: listed(tags.eni)}}
	}
	return request
}

// listed is tags in the form of a request.
func listed(tags Tags) []Tag {
	var list []Tag
	for _, key := range tags.keys() {
		list = append(list, Tag{Key: key, Value: new(tags[key])})
	}
	return list
}
