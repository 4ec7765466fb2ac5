// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// The delays between two attempts to evict the pods of one interface. The second and each further successive refusal
// double the first delay, up to the last.
const (
	evictFirstDelay = 10 * time.Second
	evictLastDelay  = 2 * time.Minute
)

// Attempt is the last attempt to evict the pods of an interface.
type Attempt struct {
	At time.Time
	// Refusals is the number of successive attempts with a refusal of the API server, for example because of a
	// PodDisruptionBudget; Refusal says why it refused the last one.
	Refusals int
	Refusal  string
}

// Next returns the attempt that follows. An empty refusal means that the API server refused nothing.
func (a Attempt) Next(refusal string, at time.Time) Attempt {
	next := Attempt{At: at, Refusal: refusal}
	if refusal != "" {
		next.Refusals = a.Refusals + 1
	}
	return next
}

// retry returns the time of the next attempt.
func (a Attempt) retry() time.Time {
	if a.At.IsZero() {
		return a.At
	}
	wait := evictFirstDelay
	for n := 1; n < a.Refusals && wait < evictLastDelay; n++ {
		wait *= 2
	}
	return a.At.Add(min(wait, evictLastDelay))
}

// EvictCandidate returns the owner whose pods are evicted next for a removal without a replacement; empty if there is
// none. The eviction needs a permission. An interface that is being replaced already has the one of its rollout.
func EvictCandidate(p plan.Plan) identity.Owner {
	for _, e := range p.Evictions {
		if !e.Replaces {
			return e.Member.Owner
		}
	}
	return ""
}

// Evict returns the plan with the evictions to make now, and completes the reasons of their interfaces. The attempts
// are the last ones, by interface ID. Pods are evicted only for a detach that a fresh read of the instance allows.
func Evict(p plan.Plan, permission Permission, attempts map[string]Attempt, hasRead bool, now time.Time) plan.Plan {
	candidate := EvictCandidate(p)
	all := p.Evictions
	p.Evictions, p.Members = nil, slices.Clone(p.Members)
	for _, e := range all {
		why := whyOf(p.Members, e.InterfaceID)
		why.Message += "; multieni evicts them (pods.onRemoval: Evict)"
		if !e.Replaces && (e.Member.Owner != candidate || !permission.Granted) {
			why.Message += " after those of other interfaces"
			if permission.Denied != "" {
				why.Message += ": " + permission.Denied
			}
			continue
		}
		last := attempts[e.InterfaceID]
		if last.Refusal != "" {
			why.Reason = plan.EvictionRefused
			why.Message += fmt.Sprintf(" and tries again at least every %d minutes: %s", int(evictLastDelay.Minutes()),
				last.Refusal)
		}
		switch {
		case len(e.Pods) == 0:
		case now.Before(last.retry()):
			if p.RequeueAt.IsZero() || last.retry().Before(p.RequeueAt) {
				p.RequeueAt = last.retry()
			}
		case !hasRead:
			p.NeedsDescribe = true
		default:
			p.Evictions = append(p.Evictions, e)
		}
	}
	return p
}

// whyOf returns the reason of the member with an interface.
func whyOf(members []plan.Member, interfaceID string) *plan.Problem {
	n := slices.IndexFunc(members, func(m plan.Member) bool {
		return m.Interface != nil && m.Interface.ID == interfaceID
	})
	return &members[n].Why
}
