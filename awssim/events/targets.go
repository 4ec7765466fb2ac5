// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/multieni/multieni/awssim/apierror"
)

// TargetEntry is a target in a request. awssim does not model other parameters.
type TargetEntry struct {
	ID  string `json:"Id"`
	ARN string `json:"Arn"`
}

// PutTargetsInput is the request of PutTargets.
type PutTargetsInput struct {
	Rule         string        `json:"Rule"`
	EventBusName string        `json:"EventBusName"`
	Targets      []TargetEntry `json:"Targets"`
}

// FailedTargets is the answer of PutTargets and RemoveTargets: the simulator's requests fail completely, or not at all.
type FailedTargets struct {
	FailedEntryCount int      `json:"FailedEntryCount"`
	FailedEntries    []string `json:"FailedEntries"`
}

// PutTargets adds targets to a rule, or replaces those of the same IDs. A target may be created later.
func (b *Bus) PutTargets(in *PutTargetsInput) (*FailedTargets, error) {
	rule, err := b.rule(in.Rule)
	if err != nil {
		return nil, err
	}
	targets := slices.Clone(rule.Targets)
	for _, entry := range in.Targets {
		if entry.ID == "" || !strings.HasPrefix(entry.ARN, "arn:") {
			return nil, apierror.New("ValidationException",
				"Parameter %s is not valid. Reason: a target needs Id and Arn.", entry.ARN)
		}
		targets = slices.DeleteFunc(targets, func(t Target) bool { return t.ID == entry.ID })
		targets = append(targets, Target(entry))
	}
	if len(targets) > maxTargets {
		return nil, tooManyTargets(rule.Name)
	}
	rule.Targets = targets
	return &FailedTargets{FailedEntries: []string{}}, nil
}

func tooManyTargets(rule string) error {
	return apierror.New("LimitExceededException",
		"The requested resource exceeds the maximum number allowed: rule %s can have %d targets.", rule, maxTargets)
}

// RemoveTargetsInput is the request of RemoveTargets.
type RemoveTargetsInput struct {
	Rule         string   `json:"Rule"`
	EventBusName string   `json:"EventBusName"`
	IDs          []string `json:"Ids"`
	Force        bool     `json:"Force"`
}

// RemoveTargets removes targets of a rule.
func (b *Bus) RemoveTargets(in *RemoveTargetsInput) (*FailedTargets, error) {
	rule, err := b.rule(in.Rule)
	if err != nil {
		return nil, err
	}
	rule.Targets = slices.DeleteFunc(slices.Clone(rule.Targets), func(t Target) bool {
		return slices.Contains(in.IDs, t.ID)
	})
	return &FailedTargets{FailedEntries: []string{}}, nil
}

// ListTargetsInput is the request of ListTargetsByRule.
type ListTargetsInput struct {
	Rule         string `json:"Rule"`
	EventBusName string `json:"EventBusName"`
}

// ListTargetsOutput is its answer.
type ListTargetsOutput struct {
	Targets []TargetEntry `json:"Targets"`
}

// ListTargetsByRule lists the targets of a rule.
func (b *Bus) ListTargetsByRule(in *ListTargetsInput) (*ListTargetsOutput, error) {
	rule, err := b.rule(in.Rule)
	if err != nil {
		return nil, err
	}
	out := &ListTargetsOutput{Targets: []TargetEntry{}}
	for _, t := range rule.Targets {
		out.Targets = append(out.Targets, TargetEntry(t))
	}
	return out, nil
}

// EventEntry is an event of a program. Its time is always that of the request.
type EventEntry struct {
	Source       string   `json:"Source"`
	DetailType   string   `json:"DetailType"`
	Detail       string   `json:"Detail"`
	Resources    []string `json:"Resources"`
	EventBusName string   `json:"EventBusName"`
}

// PutEventsInput is the request of PutEvents.
type PutEventsInput struct {
	Entries []EventEntry `json:"Entries"`
}

// PutEventsOutput is its answer.
type PutEventsOutput struct {
	FailedEntryCount int              `json:"FailedEntryCount"`
	Entries          []PutEventResult `json:"Entries"`
}

// PutEventResult is the result of an entry: its ID, or why it was refused.
type PutEventResult struct {
	EventID      string `json:"EventId,omitempty"`
	ErrorCode    string `json:"ErrorCode,omitempty"`
	ErrorMessage string `json:"ErrorMessage,omitempty"`
}

// maxEntries of one PutEvents.
const maxEntries = 10

// PutEvents sends events. It refuses those with a source of AWS, like EventBridge: [Bus.Put] is for them.
func (b *Bus) PutEvents(in *PutEventsInput) (*PutEventsOutput, error) {
	if len(in.Entries) < 1 || len(in.Entries) > maxEntries {
		return nil, apierror.New("ValidationException", "%d entries were given, and there must be from 1 to %d",
			len(in.Entries), maxEntries)
	}
	out := &PutEventsOutput{}
	for _, entry := range in.Entries {
		result := b.putEntry(entry)
		if result.ErrorCode != "" {
			out.FailedEntryCount++
		}
		out.Entries = append(out.Entries, result)
	}
	return out, nil
}

func (b *Bus) putEntry(entry EventEntry) PutEventResult {
	var detail map[string]any
	switch err := checkBus(entry.EventBusName); {
	case err != nil || entry.Source == "" || entry.DetailType == "":
		return PutEventResult{ErrorCode: "InvalidArgument",
			ErrorMessage: "Source, DetailType and the default bus are needed."}
	case strings.HasPrefix(entry.Source, "aws."):
		return PutEventResult{ErrorCode: "NotAuthorizedForSource", ErrorMessage: "Not authorized for the source."}
	case json.Unmarshal([]byte(entry.Detail), &detail) != nil:
		return PutEventResult{ErrorCode: "MalformedDetail", ErrorMessage: "Detail is malformed."}
	}
	return PutEventResult{EventID: b.Put(Event{entry.Source, entry.DetailType, entry.Resources, detail})}
}
