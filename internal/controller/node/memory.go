// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"sync"
	"time"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/ownership"
	"github.com/multieni/multieni/plan"
)

// setbacks remembers the last failure of each member. Losing it costs a retry that comes too early, and nothing else.
type setbacks struct {
	mu   sync.Mutex
	last map[string]map[ownership.Key]plan.Setback
}

func (s *setbacks) of(instanceID string) map[ownership.Key]plan.Setback {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.last[instanceID])
}

func (s *setbacks) add(instanceID string, key ownership.Key, class eni.Class, message string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]map[ownership.Key]plan.Setback{}
	}
	if s.last[instanceID] == nil {
		s.last[instanceID] = map[ownership.Key]plan.Setback{}
	}
	s.last[instanceID][key] = s.last[instanceID][key].Next(class, message, at)
}

func (s *setbacks) clear(instanceID string, key ownership.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last[instanceID], key)
	if len(s.last[instanceID]) == 0 {
		delete(s.last, instanceID)
	}
}

// forget drops all that is remembered of an instance.
func (s *setbacks) forget(instanceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, instanceID)
}

// rollout lets one node of the cluster at a time replace interfaces. A node that fails to come back keeps its turn, so
// that a bad change stops at the first node.
type rollout struct {
	mu     sync.Mutex
	holder string
}

func (r *rollout) acquire(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder == "" {
		r.holder = node
	}
	return r.holder == node
}

func (r *rollout) release(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder == node {
		r.holder = ""
	}
}
