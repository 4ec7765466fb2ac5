// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volatile holds the state that the node controller keeps between reconciliations and stores nowhere. A restart
// loses all of it. Each type documents the effect of that loss; docs/restart.md has a table of them.
//
// The zero value of each type is ready for use. No type is safe for concurrent use: the controller has one mutex for
// all of them.
package volatile

// State is all volatile state of the node controller.
type State struct {
	Attempts      Attempts
	FullSubnets   FullSubnets
	Creates       InFlightCreates
	Replacements  Replacements
	StaleNodes    StaleNodes
	InstanceLocks InstanceLocks
	AttachLatency AttachLatency
	SkippedNodes  SkippedNodes
	// StatusWrites and LedgerWrites are the writes that wait for more changes.
	StatusWrites, LedgerWrites Deferrals
	// MissingReports are the NodeENIStates that can lack an earlier report about pods, by UID. After a restart the wait
	// for another report begins again.
	MissingReports Deferrals
}

// ForgetInstance drops the attempts for an instance without interfaces, and its permissions to replace.
func (s *State) ForgetInstance(instanceID string) {
	s.Attempts.Forget(instanceID)
	s.Replacements.Release(instanceID)
}
