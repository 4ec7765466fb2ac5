// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller holds what the reconcilers share.
package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// InFlight counts who is at work for each NodeENI at this moment. Reconcilers of nodes enter before they read a NodeENI
// for the last time and leave after their last call for it, so that its finalizer never goes while a call that was
// decided on earlier is still to be made.
type InFlight struct {
	mu    sync.Mutex
	count map[types.UID]int
}

// Enter marks the start of work for NodeENIs, and returns what marks its end.
func (f *InFlight) Enter(uids []types.UID) (leave func()) {
	f.add(uids, 1)
	return func() { f.add(uids, -1) }
}

// Busy reports whether work for the NodeENI is under way.
func (f *InFlight) Busy(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count[uid] > 0
}

func (f *InFlight) add(uids []types.UID, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = map[types.UID]int{}
	}
	for _, uid := range uids {
		if f.count[uid] += n; f.count[uid] == 0 {
			delete(f.count, uid)
		}
	}
}
