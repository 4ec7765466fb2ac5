// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// Outcome is the predicted result of a plan for one instance.
type Outcome struct {
	// Calls are all calls to make, in a possible order.
	Calls []plan.Call
	// Evictions are the pods to evict before interfaces are removed.
	Evictions []Eviction
	// Interfaces is the final state of every interface.
	Interfaces []Interface
}

// Interface is the final state of an interface.
type Interface struct {
	plan.State
	// Drift is what only a replacement can correct.
	Drift []plan.Drift
	// Kept says why the interface stays as it is although it differs; its Reason is empty if nothing says so.
	Kept plan.Problem
}

// Eviction are the pods to evict from an interface before its removal.
type Eviction struct {
	Key         identity.Interface
	InterfaceID string
	// Pods are NAMESPACE/NAME.
	Pods []string
	Why  string
}

// String describes the eviction in one line.
func (e Eviction) String() string {
	return fmt.Sprintf("evict the pods %s, which use %s: %s", strings.Join(e.Pods, ", "), e.InterfaceID, e.Why)
}

// Of returns the part of the outcome that concerns NodeENIs, by name.
func (o Outcome) Of(nodeENIs []string) Outcome {
	isOther := func(i identity.Interface) bool { return !slices.Contains(nodeENIs, i.NodeENI) }
	return Outcome{
		Calls:      slices.DeleteFunc(slices.Clone(o.Calls), func(c plan.Call) bool { return isOther(c.Of()) }),
		Evictions:  slices.DeleteFunc(slices.Clone(o.Evictions), func(e Eviction) bool { return isOther(e.Key) }),
		Interfaces: slices.DeleteFunc(slices.Clone(o.Interfaces), func(i Interface) bool { return isOther(i.Key) }),
	}
}
