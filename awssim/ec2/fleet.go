// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"
)

// Types of fleets.
const (
	fleetInstant  = "instant"
	fleetRequest  = "request"
	fleetMaintain = "maintain"
)

// States of fleets, and how far they are. Filters write them with hyphens.
const (
	fleetSubmitted          = "submitted"
	fleetActive             = "active"
	fleetDeleted            = "deleted"
	fleetDeletedRunning     = "deleted_running"
	fleetDeletedTerminating = "deleted_terminating"

	fulfilled          = "fulfilled"
	pendingFulfillment = "pending_fulfillment"
	unfulfilled        = "error"
)

const (
	// fleetRetry is the time after which a fleet retries a failed launch; an estimate.
	fleetRetry = time.Minute
	// fleetShown is how long a deleted fleet stays visible; an estimate.
	fleetShown = 48 * time.Hour
)

// Fleet is an EC2 Fleet.
type Fleet struct {
	FleetID                     string                `json:"fleetId"`
	Type                        string                `json:"type"`
	FleetState                  string                `json:"fleetState"`
	ActivityStatus              string                `json:"activityStatus"`
	CreateTime                  time.Time             `json:"createTime"`
	ClientToken                 string                `json:"clientToken,omitempty"`
	LaunchTemplateConfigs       []FleetTemplateConfig `json:"launchTemplateConfigs"`
	TargetCapacitySpecification TargetCapacity        `json:"targetCapacitySpecification"`
	FulfilledCapacity           float64               `json:"fulfilledCapacity"`
	// Instances and Errors are those of an instant fleet.
	Instances []FleetInstance `json:"instances,omitempty" xml:"fleetInstanceSet"`
	Errors    []FleetError    `json:"errors,omitempty" xml:"errorSet"`
	Tags      Tags            `json:"tags" xml:"tagSet"`

	internal fleetInternals
}

// fleetInternals are what EC2 does not show of a fleet.
type fleetInternals struct {
	In       CreateFleetInput `json:"in"`
	IAMRole  string           `json:"iamRole,omitempty"` // of a Spot Fleet request
	Launches fleetTags        `json:"launches"`
	Launched []string         `json:"launched,omitempty"` // instances
}

func (m *Model) newFleet(in *CreateFleetInput) (*Fleet, error) {
	if _, err := m.fleetChoices(in); err != nil {
		return nil, err
	}
	tags, err := in.tags()
	if err != nil {
		return nil, err
	}
	return &Fleet{
		Type: in.kind(), FleetState: fleetSubmitted, ActivityStatus: pendingFulfillment, CreateTime: m.now(),
		ClientToken:           in.ClientToken,
		LaunchTemplateConfigs: in.LaunchTemplateConfigs, TargetCapacitySpecification: in.TargetCapacitySpecification,
		Tags: tags.Fleet, internal: fleetInternals{In: *in, IAMRole: in.role, Launches: tags},
	}, nil
}

// Prefixes of the IDs of fleets and of Spot Fleet requests.
const (
	prefixFleet     = "fleet"
	prefixSpotFleet = "sfr"
)

// fleetsLike returns the table of a fleet: Spot Fleet requests are modelled as fleets.
func (m *Model) fleetsLike(id string) *table[Fleet] {
	if strings.HasPrefix(id, prefixSpotFleet) {
		return m.spotFleets
	}
	return m.fleets
}

func (m *Model) fleet(id string) *Fleet { return m.fleetsLike(id).get(id) }

func (m *Model) changeFleet(id string, change func(*Fleet)) {
	changed := *m.fleet(id)
	change(&changed)
	put(m, m.fleetsLike(id), id, &changed)
}

// living returns the instances of a fleet that count towards its target.
func (m *Model) living(f *Fleet) []string {
	return slices.DeleteFunc(slices.Clone(f.internal.Launched), func(id string) bool {
		i := m.instances.get(id)
		return i == nil || i.State.Name == ShuttingDown || i.State.Name == Terminated
	})
}

// fulfil launches the instances that a fleet lacks of its target. A choice launches all of them, or none.
func (m *Model) fulfil(id string) {
	fleet := m.fleet(id)
	if fleet == nil || fleet.FleetState != fleetSubmitted && fleet.FleetState != fleetActive {
		return
	}
	lacking := *fleet.TargetCapacitySpecification.TotalTargetCapacity - len(m.living(fleet))
	made, refusals := m.launchFleet(fleet, lacking)
	lacks := lacking > 0 && len(made) == 0
	m.changeFleet(id, func(f *Fleet) {
		f.FleetState, f.ActivityStatus = fleetActive, fulfilled
		if f.Type == fleetInstant {
			f.Instances, f.Errors = made, refusals
		} else if lacks {
			f.ActivityStatus = unfulfilled
		}
		for _, some := range made {
			f.internal.Launched = slices.Concat(f.internal.Launched, some.InstanceIDs)
		}
	})
	if lacks && fleet.Type == fleetMaintain {
		m.events.fulfilled.After(fleetRetry, id)
	}
}

func (m *Model) launchFleet(fleet *Fleet, count int) (made []FleetInstance, refusals []FleetError) {
	if count <= 0 {
		return nil, nil
	}
	// A deleted launch template is not an error of one choice; an instant fleet was already refused for it.
	choices, _ := m.fleetChoices(&fleet.internal.In)
	by := launchedBy{service: true, tags: fleet.internal.Launches.Instance.with(fleet.mark())}
	if fleet.internal.In.lifecycle() == "spot" {
		by.lifecycle = "spot"
	}
	for _, choice := range choices {
		instances, err := m.launchFor(fleetLaunch(choice, count, fleet.internal.Launches), by)
		if refused, ok := errors.AsType[*Error](err); ok {
			refusals = append(refusals, FleetError{refused.Code, refused.Message, fleet.internal.In.lifecycle(), choice})
			continue
		}
		return []FleetInstance{{
			InstanceIDs:  each(instances, func(i *Instance) string { return i.InstanceID }),
			InstanceType: instances[0].InstanceType, Lifecycle: fleet.internal.In.lifecycle(),
			LaunchTemplateAndOverrides: choice,
		}}, refusals
	}
	return nil, refusals
}

// Tags of the instances of a fleet, and of a Spot Fleet request.
const (
	tagFleet     = "aws:ec2:fleet-id"
	tagSpotFleet = "aws:ec2spot:fleet-request-id"
)

// mark is the tag with which EC2 marks the instances of a fleet.
func (f *Fleet) mark() Tags {
	if strings.HasPrefix(f.FleetID, prefixSpotFleet) {
		return Tags{tagSpotFleet: f.FleetID}
	}
	return Tags{tagFleet: f.FleetID}
}

// followFleet updates a fleet after one of its instances has changed its state.
func (m *Model) followFleet(changed *Instance) {
	id := cmp.Or(changed.Tags[tagFleet], changed.Tags[tagSpotFleet])
	if id == "" || changed.State.Name != ShuttingDown && changed.State.Name != Terminated {
		return
	}
	m.events.changed.Soon(id)
}

// fleetChanged replaces instances of a fleet that ended, or ends a deleted fleet.
func (m *Model) fleetChanged(id string) {
	switch fleet := m.fleet(id); {
	case fleet == nil:
	case fleet.FleetState == fleetActive && fleet.Type == fleetMaintain:
		m.fulfil(id)
	case fleet.FleetState == fleetDeletedRunning, fleet.FleetState == fleetDeletedTerminating:
		m.endFleet(id)
	}
}

// endFleet sets a deleted fleet's state to deleted when the last of its instances is terminated.
func (m *Model) endFleet(id string) {
	if slices.ContainsFunc(m.fleet(id).internal.Launched, func(id string) bool {
		i := m.instances.get(id)
		return i != nil && i.State.Name != Terminated
	}) {
		return
	}
	m.changeFleet(id, func(f *Fleet) { f.FleetState = fleetDeleted })
	m.events.deleted.After(fleetShown, id)
}

// DeleteFleetsInput is the request of DeleteFleets.
type DeleteFleetsInput struct {
	FleetIDs           []string `query:"FleetId"`
	TerminateInstances *bool    `query:"TerminateInstances"`
	DryRun             bool     `query:"DryRun"`
}

// DeleteFleetsOutput is its answer.
type DeleteFleetsOutput struct {
	Successful   []FleetDeletion `json:"successfulFleetDeletions,omitempty" xml:"successfulFleetDeletionSet" wire:"always"`
	Unsuccessful []FleetRefusal  `json:"unsuccessfulFleetDeletions,omitempty" xml:"unsuccessfulFleetDeletionSet" wire:"always"`
}

// FleetDeletion has the previous and the current state of a deleted fleet.
type FleetDeletion struct {
	FleetID            string `json:"fleetId"`
	CurrentFleetState  string `json:"currentFleetState"`
	PreviousFleetState string `json:"previousFleetState"`
}

// FleetRefusal is why a fleet is not deleted.
type FleetRefusal struct {
	FleetID string             `json:"fleetId"`
	Error   FleetDeletionError `json:"error"`
}

// FleetDeletionError is an error of one fleet in a request about several.
type FleetDeletionError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// DeleteFleets ends fleets, each independently, with their instances or without.
func (m *Model) DeleteFleets(c Call, in *DeleteFleetsInput) (*DeleteFleetsOutput, error) {
	return m.deleteFleets(c, in, m.fleets)
}

func (m *Model) deleteFleets(c Call, in *DeleteFleetsInput, among *table[Fleet]) (*DeleteFleetsOutput, error) {
	m.Advance(c.Now)
	switch {
	case len(in.FleetIDs) == 0:
		return nil, missing("FleetId")
	case in.TerminateInstances == nil:
		return nil, missing("TerminateInstances")
	case in.DryRun:
		return nil, dryRun()
	}
	out := &DeleteFleetsOutput{}
	for _, id := range in.FleetIDs {
		if e := canDeleteFleet(among.get(id), id, *in.TerminateInstances); e != nil {
			out.Unsuccessful = append(out.Unsuccessful, FleetRefusal{id, *e})
			continue
		}
		before := m.fleet(id).FleetState
		m.deleteFleet(id, *in.TerminateInstances)
		out.Successful = append(out.Successful, FleetDeletion{id, m.fleet(id).FleetState, before})
	}
	return out, nil
}

func canDeleteFleet(fleet *Fleet, id string, terminate bool) *FleetDeletionError {
	switch {
	case fleet == nil:
		return &FleetDeletionError{"fleetIdDoesNotExist", "The fleet ID '" + id + "' does not exist"}
	case fleet.FleetState != fleetActive && fleet.FleetState != fleetSubmitted:
		return &FleetDeletionError{"fleetNotInDeletableState", "The fleet '" + id + "' is " + fleet.FleetState}
	case fleet.Type == fleetInstant && !terminate:
		return &FleetDeletionError{"unexpectedError", "The instances of an instant fleet are terminated with it"}
	}
	return nil
}

func (m *Model) deleteFleet(id string, terminate bool) {
	state := fleetDeletedRunning
	if terminate {
		state = fleetDeletedTerminating
	}
	m.changeFleet(id, func(f *Fleet) { f.FleetState = state })
	if terminate {
		for _, instance := range m.living(m.fleet(id)) {
			m.terminate(instance)
		}
	}
	m.endFleet(id)
}

// DescribeFleetsInput is the request of DescribeFleets.
type DescribeFleetsInput struct {
	Page
	FleetIDs []string `query:"FleetId"`
}

// DescribeFleetsOutput is its answer.
type DescribeFleetsOutput struct {
	Fleets    []*Fleet `json:"fleets" xml:"fleetSet"`
	NextToken string   `json:"nextToken,omitempty"`
}

// DescribeFleets lists fleets. It returns instant ones only by ID.
func (m *Model) DescribeFleets(c Call, in *DescribeFleetsInput) (*DescribeFleetsOutput, error) {
	page := in.Page
	if len(in.FleetIDs) == 0 {
		page.Filters = append(slices.Clone(page.Filters), Filter{Name: "type", Values: []string{fleetRequest, fleetMaintain}})
	}
	fleets, next, err := describe(m, c, m.fleets, in.FleetIDs, page)
	if err != nil {
		return nil, err
	}
	return &DescribeFleetsOutput{fleets, next}, nil
}

func (m *Model) fleetKind() kind[Fleet] {
	return kind[Fleet]{
		action:   "DescribeFleets",
		id:       func(f *Fleet) string { return f.FleetID },
		internal: func(f *Fleet) any { return &f.internal },
		notFound: func(id string) *Error {
			return refuse("InvalidFleetId.NotFound", "The fleet ID '%s' does not exist", id)
		},
		minResults: 1,
		maxResults: 1000,
		filters: map[string]func(*Fleet) []string{
			"activity-status": func(f *Fleet) []string { return one(hyphenated(f.ActivityStatus)) },
			"fleet-state":     func(f *Fleet) []string { return one(hyphenated(f.FleetState)) },
			"type":            func(f *Fleet) []string { return one(f.Type) },
		},
		present: func(f *Fleet, _ look) *Fleet { return m.presentFleet(f) },
	}
}

func (m *Model) presentFleet(f *Fleet) *Fleet {
	shown := *f
	shown.FulfilledCapacity = float64(len(m.living(f)))
	return &shown
}

func hyphenated(state string) string { return strings.ReplaceAll(state, "_", "-") }
