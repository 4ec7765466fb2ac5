// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package needs ends tests on a machine that lacks what they need. On a workstation it skips them. With the environment
// variable CI set, as continuous integration does, it fails them: a suite that skips most of its tests proves nothing.
package needs

import (
	"os"
	"os/exec"
	"testing"
)

// Namespaces ends the test if there is an error: the reason why the machine can create no network namespaces.
func Namespaces(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		lacks(tb, "%v; as root: sudo -E env \"PATH=$PATH\" make test", err)
	}
}

// Programs ends the test if one of the programs is not installed.
func Programs(tb testing.TB, names ...string) {
	tb.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			lacks(tb, "%v: install it; .ci/run names the packages of Debian and Ubuntu", err)
		}
	}
}

func lacks(tb testing.TB, format string, arguments ...any) {
	tb.Helper()
	end := tb.Skipf
	if os.Getenv("CI") != "" {
		end = tb.Fatalf
	}
	end(format, arguments...)
}
