// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo tells a newcomer the story of multieni: it applies the examples one after the other with the ordinary
// kubectl, shows the interfaces arrive, and checks after each step that the simulated EC2 holds exactly what was
// declared, regardless of what the controller reports.
//
// In reading order:
//
//   - story.go: the story, chapter by chapter, as data
//   - chapter.go: the elements of a chapter; command.go: the commands in it
//   - demo.go: the beginning and the end; teller.go: the course of a chapter; chaos.go: when the controller dies
//   - moment.go: the state at one time; check.go: whether it is the expected state; summary.go: what it took
//   - table.go: a moment as a table; screen.go: the table on a terminal or in a file; palette.go: its colours
package demo
