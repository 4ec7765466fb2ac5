// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile

import "time"

// StaleCheckInterval is the least time between two reads of an instance for an agent that misses a link. An agent that
// repeats its report, by mistake or malice, must not use up the account's requests.
const StaleCheckInterval = 30 * time.Second

// StaleNodes are the nodes whose instance the controller must read from EC2 before it plans, because their agent misses
// a link. After a restart the first listing reads all instances.
type StaleNodes struct {
	nodes map[string]staleNode
}

type staleNode struct {
	// reads is the number of remaining reads.
	reads int
	// readAt is the time of the last read, zero before the first.
	readAt time.Time
}

// staleReads is how often the controller reads an instance after its agent missed a link. An agent can be faster than
// EC2's reads, so the first read may still show the interface as attached.
const staleReads = 2

// Add records that a node's instance must be read.
func (s *StaleNodes) Add(node string) {
	if s.nodes == nil {
		s.nodes = map[string]staleNode{}
	}
	s.nodes[node] = staleNode{reads: staleReads, readAt: s.nodes[node].readAt}
}

// Take reports whether the caller must read the node's instance now, and records the read. If another read is due
// later, it returns its time as requeueAt.
func (s *StaleNodes) Take(node string, now time.Time) (stale bool, requeueAt time.Time) {
	of, known := s.nodes[node]
	next := of.readAt.Add(StaleCheckInterval)
	tooRecent := !of.readAt.IsZero() && now.Before(next)
	switch {
	case !known || of.reads == 0 && tooRecent:
		return false, time.Time{}
	case of.reads == 0:
		delete(s.nodes, node)
		return false, time.Time{}
	case tooRecent:
		return false, next
	}
	s.nodes[node] = staleNode{reads: of.reads - 1, readAt: now}
	if of.reads > 1 {
		requeueAt = now.Add(StaleCheckInterval)
	}
	return true, requeueAt
}

// Forget drops a node that no longer exists.
func (s *StaleNodes) Forget(node string) { delete(s.nodes, node) }

// InstanceLocks are the instances that a reconciliation works on, with the name of its node. Two Nodes can name one
// instance. After a restart no reconciliation runs.
type InstanceLocks struct {
	nodes map[string]string
}

// TryLock locks an instance for a node, and reports whether no other node holds it.
func (l *InstanceLocks) TryLock(instanceID, node string) bool {
	if other, locked := l.nodes[instanceID]; locked && other != node {
		return false
	}
	if l.nodes == nil {
		l.nodes = map[string]string{}
	}
	l.nodes[instanceID] = node
	return true
}

// Unlock releases an instance.
func (l *InstanceLocks) Unlock(instanceID string) { delete(l.nodes, instanceID) }

// SkippedNodes are the reported reasons why Nodes get no interfaces. After a restart the controller reports each of
// them once more.
type SkippedNodes struct {
	reported map[string]map[Skip]bool
}

// Skip is the reason why a Node gets no interfaces of a NodeENI.
type Skip struct {
	NodeUID, NodeENIUID, Why string
}

// Report records a reason, and reports whether it is new for the node.
func (s *SkippedNodes) Report(node string, reason Skip) (isNew bool) {
	known := s.reported[node][reason]
	entry(&s.reported, node)[reason] = true
	return !known
}

// Forget drops the reasons of a node that is no longer skipped.
func (s *SkippedNodes) Forget(node string) { delete(s.reported, node) }
