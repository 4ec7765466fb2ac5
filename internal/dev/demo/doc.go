// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo demonstrates multieni to a new user: it applies the examples one after the other with the ordinary
// kubectl, shows the new interfaces, and checks after each step that the simulated EC2 has exactly the declared
// interfaces, regardless of the controller's report.
//
// In reading order:
//
//   - script.go: the story, chapter by chapter, as data
//   - scenario.go: the elements of a chapter; command.go: the commands in it
//   - demo.go: the beginning and the end; runner.go: the course of a chapter; kill.go: when the controller is killed
//   - snapshot.go: the state at one time; check.go: whether it is the expected state; summary.go: the calls
//   - table.go: a state as a table; screen.go: the table on a terminal or in a file
package demo
