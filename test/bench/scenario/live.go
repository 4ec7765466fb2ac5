// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

func live() []Scenario { return nil }
