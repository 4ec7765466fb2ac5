// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version says which version of multieni this is.
package version

import "runtime/debug"

// release is set by the linker when a release is built.
var release string

// String returns the release; without one the module version that `go install` recorded; else "devel".
func String() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
