// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"sync"

	"github.com/multieni/multieni/api/v1alpha1"
)

// PreviousLedgers records what the ledgers of nodes contained when this process first read them, and which entries are
// settled since. The controller writes a ledger before it creates anything, so the ledger is complete for its node. A
// ledger that is missing, or was lost since, proves nothing. The zero value is ready for use.
type PreviousLedgers struct {
	// mu guards open and read.
	mu sync.Mutex
	// open holds, by node, the UIDs of the NodeENIs that its ledger named and that are not settled. A node without a
	// ledger is not in open, but it is in read.
	open map[string]map[string]bool
	read map[string]bool
}

// Read records the ledger of a node, nil if it has none. Only the first one counts: this process wrote the later ones.
func (l *PreviousLedgers) Read(node string, state *v1alpha1.NodeENIState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.read[node] {
		return
	}
	if l.read == nil {
		l.read, l.open = map[string]bool{}, map[string]map[string]bool{}
	}
	l.read[node] = true
	if state == nil {
		return
	}
	l.open[node] = map[string]bool{}
	for _, uid := range OwnersInSpec(state.Spec) {
		l.open[node][uid] = true
	}
}

// Settled records that the entries of some NodeENIs in a node's ledger are settled.
func (l *PreviousLedgers) Settled(node string, nodeENIUIDs ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uid := range nodeENIUIDs {
		delete(l.open[node], uid)
	}
}

// AllAccountedFor reports whether ledgers cover everything that earlier processes can have created for a NodeENI on the
// nodes it selects: each node has a ledger, and every entry of the NodeENI is settled.
func (l *PreviousLedgers) AllAccountedFor(nodeENIUID string, selected []string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, open := range l.open {
		if open[nodeENIUID] {
			return false
		}
	}
	return !slices.ContainsFunc(selected, func(node string) bool { return l.open[node] == nil })
}

// OwnersInSpec returns the UIDs of the NodeENIs that a ledger names, without duplicates.
func OwnersInSpec(spec v1alpha1.NodeENIStateSpec) []string {
	var uids []string
	add := func(members []v1alpha1.Member) {
		for _, m := range members {
			uids = append(uids, string(m.NodeENIUID))
		}
	}
	add(spec.Members)
	for _, previous := range spec.PreviousInstances {
		add(previous.Members)
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}
