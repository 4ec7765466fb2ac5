// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
)

// The delays between two attempts to evict the pods of one interface. The second and each further successive refusal
// double the first delay, up to the last.
const (
	evictFirstDelay = 10 * time.Second
	evictLastDelay  = 2 * time.Minute
)

// Eviction is the eviction of the pods that have addresses of an interface, so that it can be removed.
type Eviction struct {
	Member      identity.Member
	InterfaceID string
	// Pods are the pods, as NAMESPACE/NAME.
	Pods []string
	Why  string
}

func (e Eviction) String() string {
	return fmt.Sprintf("evict the pods %s, which use %s: %s", strings.Join(e.Pods, ", "), e.InterfaceID, e.Why)
}

// EvictionAttempt is the last attempt to evict the pods of an interface.
type EvictionAttempt struct {
	At time.Time
	// Refusals is the number of successive attempts with a refusal of the API server, for example because of a
	// PodDisruptionBudget; Refusal says why it refused the last one.
	Refusals int
	Refusal  string
}

// Next returns the attempt that follows. An empty refusal means that the API server refused nothing.
func (a EvictionAttempt) Next(refusal string, at time.Time) EvictionAttempt {
	next := EvictionAttempt{At: at, Refusal: refusal}
	if refusal != "" {
		next.Refusals = a.Refusals + 1
	}
	return next
}

// retry returns the time of the next attempt.
func (a EvictionAttempt) retry() time.Time {
	if a.At.IsZero() {
		return a.At
	}
	wait := evictFirstDelay
	for n := 1; n < a.Refusals && wait < evictLastDelay; n++ {
		wait *= 2
	}
	return a.At.Add(min(wait, evictLastDelay))
}

// evict plans the eviction of the pods that use an interface that is being removed, and completes the member's reason.
// An interface that is being replaced already has the permission of its rollout; the others wait for theirs.
func (p *planner) evict(s step, network PodNetwork) step {
	if s.m.Settings == nil {
		s.evictCandidate = s.Owner
		if cmp.Or(p.plan.EvictCandidate, s.Owner) != s.Owner || !p.EvictAllowed {
			s.Why.Message += "; multieni evicts them (pods.onRemoval: Evict) after those of other interfaces"
			if p.EvictDenied != "" {
				s.Why.Message += ": " + p.EvictDenied
			}
			return s
		}
	}
	s.Why.Message += "; multieni evicts them (pods.onRemoval: Evict)"
	last := p.Evictions[s.m.Record.ID]
	if last.Refusal != "" {
		s.Why.Reason = EvictionRefused
		s.Why.Message += fmt.Sprintf(" and tries again at least every %s: %s", minutes(evictLastDelay), last.Refusal)
	}
	switch {
	case len(network.Pods) == 0:
	case p.now.Before(last.retry()):
		return s.requeue(last.retry())
	case p.Snapshot == nil:
		s.needsFreshRead = true // evict pods only for a detach that EC2's own state allows
	default:
		s.evictions = append(s.evictions, Eviction{s.m.Member.Member, s.m.Record.ID, network.Pods, s.m.Why.Message})
	}
	return s
}
