// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package testdata

import "github.com/multieni/multieni/awssim"

func simulate(world awssim.World) (*awssim.Simulator, error) {
	return awssim.New(awssim.Options{World: world})
}
