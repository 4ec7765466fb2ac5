// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

type t struct{}

func (t) init() {}

func init() { println("imported") }
