// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo tells a newcomer the story of multieni: it applies the examples one after the other with the ordinary
// kubectl, shows the interfaces arrive, and checks after each step that the simulated EC2 holds exactly what was
// declared, whatever the controller says of itself.
//
// In reading order:
//
//   - story.go: the story, chapter by chapter, as data
//   - chapter.go: what a chapter is made of; command.go: what can be typed in one
//   - demo.go: how it begins and ends; teller.go: how a chapter is told; chaos.go: when the controller dies
//   - moment.go: what is true at one time; check.go: whether it is what must be; summary.go: what it took
//   - table.go: a moment as a table; screen.go: the table on a terminal or in a file; palette.go: its colours
package demo
