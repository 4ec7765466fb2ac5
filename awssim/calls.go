// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"maps"
	"slices"
	"time"
)

// Calls has the counts of calls so far.
type Calls struct {
	// Since is when counting began.
	Since time.Time `json:"since"`
	// Mutating and NonMutating are the sums over the actions of EC2, of both sorts.
	Mutating    Tally `json:"mutating"`
	NonMutating Tally `json:"nonMutating"`
	// Actions has an entry for each action that was called.
	Actions map[string]ActionCalls `json:"actions"`
}

// Tally is a number of calls.
type Tally struct {
	// Count is the number of all calls, regardless of the answer.
	Count int `json:"count"`
	// Throttled counts answers with RequestLimitExceeded, or the corresponding code of another service.
	Throttled int `json:"throttled"`
	// Failed counts answers with another error, and lost calls. A dry run is not a failure.
	Failed int `json:"failed"`
}

// ActionCalls has the counts of one action.
type ActionCalls struct {
	Tally
	DryRun  int            `json:"dryRun"`
	Errors  map[string]int `json:"errors,omitempty"` // by code
	FirstAt time.Time      `json:"firstAt"`
	LastAt  time.Time      `json:"lastAt"`
}

// RecentCall is one call in the ring of recent calls.
type RecentCall struct {
	Time      time.Time `json:"time"`
	Action    string    `json:"action"`
	RequestID string    `json:"requestId"`
	// Parameters is the request as it was sent, without Action and Version.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Code is empty for success.
	Code      string `json:"code,omitempty"`
	UserAgent string `json:"userAgent,omitempty"`
}

// Outcomes with their own counts. Those in parentheses are not codes of EC2.
const (
	codeDryRun      = "DryRunOperation"
	codeLostRequest = "(request lost)"
	codeLostReply   = "(reply lost)"
	codeWrongReply  = "(wrong reply)"
)

// recentCalls is the size of the ring of recent calls.
const recentCalls = 1000

// recorder counts calls.
type recorder struct {
	since   time.Time
	actions map[string]ActionCalls
	sorts   map[sort]Tally
	recent  []RecentCall
	next    int // where the ring is written
}

func newRecorder(now time.Time) *recorder {
	return &recorder{since: now, actions: map[string]ActionCalls{}, sorts: map[sort]Tally{}}
}

// savedCalls is a recorder as it is saved.
type savedCalls struct {
	Since  time.Time              `json:"since"`
	Counts map[string]ActionCalls `json:"counts"`
	Sorts  map[sort]Tally         `json:"sorts"`
	Recent []RecentCall           `json:"recent"` // oldest first
}

func (r *recorder) save() savedCalls {
	return savedCalls{Since: r.since, Counts: r.actions, Sorts: r.sorts, Recent: r.last()}
}

func loadRecorder(saved savedCalls) *recorder {
	r := newRecorder(saved.Since)
	maps.Copy(r.actions, saved.Counts)
	maps.Copy(r.sorts, saved.Sorts)
	r.recent = saved.Recent[max(0, len(saved.Recent)-recentCalls):]
	return r
}

// sort is the kind of action for the sums.
type sort int

const (
	nonMutating sort = iota
	mutating
	ofOtherService
)

func (s service) sort(o operation) sort {
	switch {
	case s.name != serviceEC2:
		return ofOtherService
	case o.isMutating:
		return mutating
	default:
		return nonMutating
	}
}

func (r *recorder) add(call RecentCall, of sort) {
	action := r.actions[call.Action]
	if action.FirstAt.IsZero() {
		action.FirstAt = call.Time
	}
	action.LastAt = call.Time
	action.Tally = action.with(call.Code)
	r.sorts[of] = r.sorts[of].with(call.Code)
	switch call.Code {
	case "":
	case codeDryRun:
		action.DryRun++
	default:
		if action.Errors == nil {
			action.Errors = map[string]int{}
		}
		action.Errors[call.Code]++
	}
	r.actions[call.Action] = action
	if len(r.recent) < recentCalls {
		r.recent = append(r.recent, call)
		return
	}
	r.recent[r.next] = call
	r.next = (r.next + 1) % recentCalls
}

func (t Tally) with(code string) Tally {
	t.Count++
	switch code {
	case "", codeDryRun:
	case codeThrottled, codeThrottledGroups, codeThrottledQueues, codeThrottledJSON:
		t.Throttled++
	default:
		t.Failed++
	}
	return t
}

// calls returns a copy.
func (r *recorder) calls() Calls {
	c := Calls{Since: r.since, Mutating: r.sorts[mutating], NonMutating: r.sorts[nonMutating],
		Actions: map[string]ActionCalls{}}
	for name, action := range r.actions {
		action.Errors = maps.Clone(action.Errors)
		c.Actions[name] = action
	}
	return c
}

// last returns the recent calls, oldest first.
func (r *recorder) last() []RecentCall {
	return slices.Concat(r.recent[r.next:], r.recent[:r.next])
}
