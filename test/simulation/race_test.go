// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package simulation_test

const raced = true
