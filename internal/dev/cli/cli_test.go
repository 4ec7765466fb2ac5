// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/dev/cli"
)

// Invalid options are refused before anything starts.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no speed":         {"up", "--dir", "never", "--speed", "0"},
		"speed backwards":  {"demo", "--speed", "-1"},
		"no such world":    {"up", "--dir", "never", "--world", "no-such-file"},
		"no folder":        {"up"},
		"unknown argument": {"demo", "fast"},
		"unknown command":  {"dawn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := cli.New()
			root.SetArgs(args)
			if err := root.ExecuteContext(t.Context()); err == nil {
				t.Error("no error")
			}
		})
	}
}

// Up reports what is missing outside a checkout before it starts anything.
func TestUpOutsideACheckout(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"no controller":    {[]string{"--kubeconfig", "any"}, "not in a checkout of multieni"},
		"no control plane": {[]string{"--no-controller"}, "KUBEBUILDER_ASSETS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBEBUILDER_ASSETS", "")
			t.Setenv("MULTIENI_ENVTEST_INDEX", "none")
			t.Chdir(t.TempDir())
			root := cli.New()
			root.SetArgs(append([]string{"up", "--dir", "started"}, row.args...))
			if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("error is %v, want one with %q", err, row.want)
			}
			if files, err := filepath.Glob("started/*"); err != nil || len(files) > 0 {
				t.Errorf("it left %v, %v", files, err)
			}
		})
	}
}
