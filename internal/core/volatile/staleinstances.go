// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile

import "time"

// StaleCheckInterval is the least time between two reads of an instance for an agent that misses a link. An agent that
// repeats its report, by mistake or malice, must not use up the account's requests.
const StaleCheckInterval = 30 * time.Second

// StaleInstances are the instances that the controller must read from EC2 before it plans, because their agent misses a
// link. After a restart the first listing reads all instances.
type StaleInstances struct {
	instances map[string]staleInstance
}

type staleInstance struct {
	// reads is the number of remaining reads.
	reads int
	// readAt is the time of the last read, zero before the first.
	readAt time.Time
}

// staleReads is how often the controller reads an instance after its agent missed a link. An agent can be faster than
// EC2's reads, so the first read may still show the interface as attached.
const staleReads = 2

// Add records that an instance must be read.
func (s *StaleInstances) Add(instanceID string) {
	if s.instances == nil {
		s.instances = map[string]staleInstance{}
	}
	s.instances[instanceID] = staleInstance{reads: staleReads, readAt: s.instances[instanceID].readAt}
}

// Take reports whether the caller must read the instance now, and records the read. If another read is due
// later, it returns its time as requeueAt.
func (s *StaleInstances) Take(instanceID string, now time.Time) (stale bool, requeueAt time.Time) {
	of, known := s.instances[instanceID]
	next := of.readAt.Add(StaleCheckInterval)
	tooRecent := !of.readAt.IsZero() && now.Before(next)
	switch {
	case !known || of.reads == 0 && tooRecent:
		return false, time.Time{}
	case of.reads == 0:
		delete(s.instances, instanceID)
		return false, time.Time{}
	case tooRecent:
		return false, next
	}
	s.instances[instanceID] = staleInstance{reads: of.reads - 1, readAt: now}
	if of.reads > 1 {
		requeueAt = now.Add(StaleCheckInterval)
	}
	return true, requeueAt
}

// Forget drops an instance without objects.
func (s *StaleInstances) Forget(instanceID string) { delete(s.instances, instanceID) }
