// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package scenario_test

// nodePrograms are the programs that run on nodes. Only Linux has them; stories check for it with [linux].
func nodePrograms() map[string]func() { return nil }
