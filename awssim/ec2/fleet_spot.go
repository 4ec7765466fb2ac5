// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"slices"
	"strings"
	"time"
)

// SpotFleetConfig is the configuration of a Spot Fleet request: a fleet of Spot Instances, from launch templates only.
type SpotFleetConfig struct {
	IAMFleetRole          string                `query:"IamFleetRole" json:"iamFleetRole"`
	Type                  string                `query:"Type" json:"type"`
	TargetCapacity        *int                  `query:"TargetCapacity" json:"targetCapacity"`
	AllocationStrategy    string                `query:"AllocationStrategy" json:"allocationStrategy,omitempty"`
	LaunchTemplateConfigs []FleetTemplateConfig `query:"LaunchTemplateConfigs" json:"launchTemplateConfigs"`
	TagSpecifications     []TagSpecification    `query:"TagSpecification" json:"-"`
	ClientToken           string                `query:"ClientToken" json:"clientToken,omitempty"`
	FulfilledCapacity     float64               `json:"fulfilledCapacity"`
}

// RequestSpotFleetInput is the request of RequestSpotFleet.
type RequestSpotFleetInput struct {
	SpotFleetRequestConfig *SpotFleetConfig `query:"SpotFleetRequestConfig"`
	DryRun                 bool             `query:"DryRun"`
}

// RequestSpotFleetOutput is its answer.
type RequestSpotFleetOutput struct {
	SpotFleetRequestID string `json:"spotFleetRequestId"`
}

// RequestSpotFleet creates a Spot Fleet request, which launches afterwards.
func (m *Model) RequestSpotFleet(c Call, in *RequestSpotFleetInput) (*RequestSpotFleetOutput, error) {
	m.Advance(c.Now)
	config := in.SpotFleetRequestConfig
	switch {
	case config == nil:
		return nil, missing("SpotFleetRequestConfig")
	case config.IAMFleetRole == "":
		return nil, missing("SpotFleetRequestConfig.IamFleetRole")
	}
	fleet, err := m.createFleet("RequestSpotFleet", prefixSpotFleet, &CreateFleetInput{
		Type: config.Type, LaunchTemplateConfigs: config.LaunchTemplateConfigs,
		TargetCapacitySpecification: TargetCapacity{TotalTargetCapacity: config.TargetCapacity,
			DefaultTargetCapacityType: "spot"},
		SpotOptions:       &FleetAllocation{spotWord(config.AllocationStrategy)},
		TagSpecifications: ofFleet(config.TagSpecifications),
		ClientToken:       config.ClientToken, DryRun: in.DryRun, role: config.IAMFleetRole,
	})
	if err != nil {
		return nil, err
	}
	return &RequestSpotFleetOutput{fleet.FleetID}, nil
}

// ofFleet returns the tags of a Spot Fleet request as those of a fleet.
func ofFleet(specs []TagSpecification) []TagSpecification {
	specs = slices.Clone(specs)
	for i := range specs {
		if specs[i].ResourceType == "spot-fleet-request" {
			specs[i].ResourceType = "fleet"
		}
	}
	return specs
}

// spotWord returns an allocation strategy in the spelling of CreateFleet: capacityOptimizedPrioritized is one word.
func spotWord(strategy string) string {
	if strategy == "capacityOptimizedPrioritized" {
		return "capacity-optimized-prioritized"
	}
	return strategy
}

// SpotFleetRequest is a Spot Fleet request.
type SpotFleetRequest struct {
	SpotFleetRequestID     string          `json:"spotFleetRequestId"`
	SpotFleetRequestState  string          `json:"spotFleetRequestState"`
	ActivityStatus         string          `json:"activityStatus"`
	CreateTime             time.Time       `json:"createTime"`
	SpotFleetRequestConfig SpotFleetConfig `json:"spotFleetRequestConfig"`
	Tags                   Tags            `json:"tags" xml:"tagSet"`
}

// spotRequest returns the fleet as a Spot Fleet request, which is cancelled and not deleted.
func (f *Fleet) spotRequest() *SpotFleetRequest {
	strategy := ""
	if f.internal.In.SpotOptions != nil {
		strategy = f.internal.In.SpotOptions.AllocationStrategy
	}
	return &SpotFleetRequest{
		SpotFleetRequestID: f.FleetID, SpotFleetRequestState: cancelled(f.FleetState), ActivityStatus: f.ActivityStatus,
		CreateTime: f.CreateTime, Tags: f.Tags,
		SpotFleetRequestConfig: SpotFleetConfig{
			IAMFleetRole: f.internal.IAMRole, Type: f.Type, TargetCapacity: f.TargetCapacitySpecification.TotalTargetCapacity,
			AllocationStrategy:    strategy,
			LaunchTemplateConfigs: f.LaunchTemplateConfigs, ClientToken: f.ClientToken, FulfilledCapacity: f.FulfilledCapacity,
		},
	}
}

func cancelled(state string) string { return strings.Replace(state, fleetDeleted, "cancelled", 1) }

// DescribeSpotFleetRequestsInput is the request of DescribeSpotFleetRequests.
type DescribeSpotFleetRequestsInput struct {
	SpotFleetRequestIDs []string `query:"SpotFleetRequestId"`
	MaxResults          *int     `query:"MaxResults"`
	NextToken           string   `query:"NextToken"`
	DryRun              bool     `query:"DryRun"`
}

// DescribeSpotFleetRequestsOutput is its answer.
type DescribeSpotFleetRequestsOutput struct {
	SpotFleetRequestConfigs []*SpotFleetRequest `json:"spotFleetRequestConfigs" xml:"spotFleetRequestConfigSet"`
	NextToken               string              `json:"nextToken,omitempty"`
}

// DescribeSpotFleetRequests lists Spot Fleet requests.
func (m *Model) DescribeSpotFleetRequests(
	c Call, in *DescribeSpotFleetRequestsInput,
) (*DescribeSpotFleetRequestsOutput, error) {
	fleets, next, err := describe(m, c, m.spotFleets, in.SpotFleetRequestIDs,
		Page{MaxResults: in.MaxResults, NextToken: in.NextToken, DryRun: in.DryRun})
	if err != nil {
		return nil, err
	}
	out := &DescribeSpotFleetRequestsOutput{NextToken: next}
	for _, f := range fleets {
		out.SpotFleetRequestConfigs = append(out.SpotFleetRequestConfigs, f.spotRequest())
	}
	return out, nil
}

func (m *Model) spotFleetKind() kind[Fleet] {
	k := m.fleetKind()
	k.action, k.filters = "DescribeSpotFleetRequests", nil
	k.notFound = func(id string) *Error {
		return refuse("InvalidSpotFleetRequestId.NotFound", "The Spot Fleet request ID '%s' does not exist", id)
	}
	return k
}

// CancelSpotFleetRequestsInput is the request of CancelSpotFleetRequests.
type CancelSpotFleetRequestsInput struct {
	SpotFleetRequestIDs []string `query:"SpotFleetRequestId"`
	TerminateInstances  *bool    `query:"TerminateInstances"`
	DryRun              bool     `query:"DryRun"`
}

// CancelSpotFleetRequestsOutput is its answer.
type CancelSpotFleetRequestsOutput struct {
	Successful   []SpotFleetCancellation `json:"successfulFleetRequests,omitempty" xml:"successfulFleetRequestSet"`
	Unsuccessful []SpotFleetRefusal      `json:"unsuccessfulFleetRequests,omitempty" xml:"unsuccessfulFleetRequestSet"`
}

// SpotFleetCancellation has the previous and the current state of a cancelled request.
type SpotFleetCancellation struct {
	SpotFleetRequestID            string `json:"spotFleetRequestId"`
	CurrentSpotFleetRequestState  string `json:"currentSpotFleetRequestState"`
	PreviousSpotFleetRequestState string `json:"previousSpotFleetRequestState"`
}

// SpotFleetRefusal is why a request is not cancelled.
type SpotFleetRefusal struct {
	SpotFleetRequestID string             `json:"spotFleetRequestId"`
	Error              FleetDeletionError `json:"error"`
}

// CancelSpotFleetRequests ends Spot Fleet requests, each independently, with their instances or without.
func (m *Model) CancelSpotFleetRequests(
	c Call, in *CancelSpotFleetRequestsInput,
) (*CancelSpotFleetRequestsOutput, error) {
	deleted, err := m.deleteFleets(c, &DeleteFleetsInput{FleetIDs: in.SpotFleetRequestIDs,
		TerminateInstances: in.TerminateInstances, DryRun: in.DryRun}, m.spotFleets)
	if err != nil {
		return nil, err
	}
	out := &CancelSpotFleetRequestsOutput{}
	for _, d := range deleted.Successful {
		out.Successful = append(out.Successful,
			SpotFleetCancellation{d.FleetID, cancelled(d.CurrentFleetState), cancelled(d.PreviousFleetState)})
	}
	for _, d := range deleted.Unsuccessful {
		d.Error.Code = strings.NewReplacer(
			"fleetId", "fleetRequestId", "fleetNotInDeletable", "fleetRequestNotInCancellable",
		).Replace(d.Error.Code)
		out.Unsuccessful = append(out.Unsuccessful, SpotFleetRefusal{d.FleetID, d.Error})
	}
	return out, nil
}
