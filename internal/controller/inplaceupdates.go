// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller holds what the reconcilers share.
package controller

import (
	"cmp"
	"slices"
	"sync"

	"github.com/multieni/multieni/internal/core/plan"
)

// InPlaceUpdates holds the updates that node templates request for launch interfaces; the reconciler of instances plans
// them. The zero value and nil hold none. It is safe for concurrent use.
type InPlaceUpdates struct {
	// mu guards wanted.
	mu sync.Mutex
	// wanted holds the updates by instance and node template.
	wanted map[string]map[string][]plan.InPlaceUpdate
}

// Of returns the updates for an instance.
func (r *InPlaceUpdates) Of(instanceID string) []plan.InPlaceUpdate {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []plan.InPlaceUpdate
	for _, some := range r.wanted[instanceID] {
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b plan.InPlaceUpdate) int { return cmp.Compare(a.InterfaceID, b.InterfaceID) })
	return all
}

// Set replaces all updates that a node template requests, by instance, and returns the instances with an update.
func (r *InPlaceUpdates) Set(nodeTemplateUID string, byInstance map[string][]plan.InPlaceUpdate) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for instanceID, of := range r.wanted {
		if delete(of, nodeTemplateUID); len(of) == 0 {
			delete(r.wanted, instanceID)
		}
	}
	var concerned []string
	for instanceID, mends := range byInstance {
		if len(mends) == 0 {
			continue
		}
		if r.wanted == nil {
			r.wanted = map[string]map[string][]plan.InPlaceUpdate{}
		}
		if r.wanted[instanceID] == nil {
			r.wanted[instanceID] = map[string][]plan.InPlaceUpdate{}
		}
		r.wanted[instanceID][nodeTemplateUID] = mends
		concerned = append(concerned, instanceID)
	}
	slices.Sort(concerned)
	return concerned
}
