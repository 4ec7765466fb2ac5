// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile

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

// entry returns the inner map of a key, and creates it if necessary.
func entry[K, L comparable, V any](all *map[K]map[L]V, key K) map[L]V {
	if *all == nil {
		*all = map[K]map[L]V{}
	}
	if (*all)[key] == nil {
		(*all)[key] = map[L]V{}
	}
	return (*all)[key]
}
