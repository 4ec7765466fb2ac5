// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volatile holds the state that the controllers of instances and nodes keep between reconciliations and store
// nowhere. A restart loses all of it. Each type documents the effect of that loss; docs/restart.md has a table of them.
//
// The zero value of each type is ready for use. No type is safe for concurrent use: a controller has one mutex for all
// of its own.
package volatile

// State is all volatile state of the controller of instances.
type State struct {
	Attempts       Attempts
	FullSubnets    FullSubnets
	Creates        InFlightCreates
	StaleInstances StaleInstances
	Objects        Objects
}

// ForgetInstance drops what concerns an instance without objects.
func (s *State) ForgetInstance(instanceID string) {
	s.Attempts.Forget(instanceID)
	s.StaleInstances.Forget(instanceID)
}
