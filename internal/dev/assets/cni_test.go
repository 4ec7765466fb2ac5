// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets_test

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/dev/assets"
)

const cniGoMod = `module example.com/cni

go 1.26

require (
	github.com/containernetworking/plugins v1.9.1
	github.com/k8snetworkplumbingwg/whereabouts v0.9.2
	gopkg.in/k8snetworkplumbingwg/multus-cni.v4 v4.2.2
)

replace (
	github.com/containernetworking/plugins => ./plugins
	github.com/k8snetworkplumbingwg/whereabouts => ./whereabouts
	gopkg.in/k8snetworkplumbingwg/multus-cni.v4 => ./multus
)
`

// cniCheckout creates a checkout whose plugins only print their names.
func cniCheckout(t *testing.T) {
	t.Helper()
	module := filepath.Join(filepath.Dir(filepath.Dir(checkout(t))), "cni")
	write(t, filepath.Join(module, "go.mod"), cniGoMod)
	write(t, filepath.Join(module, "go.sum"), "")
	write(t, filepath.Join(module, "plugins", "go.mod"), "module github.com/containernetworking/plugins\n")
	for _, p := range []string{"ipam/host-local", "ipam/static", "main/bridge", "main/host-device", "main/ipvlan", "main/macvlan"} {
		write(t, filepath.Join(module, "plugins", "plugins", p, "main.go"), mainGo)
	}
	write(t, filepath.Join(module, "multus", "go.mod"), "module gopkg.in/k8snetworkplumbingwg/multus-cni.v4\n")
	write(t, filepath.Join(module, "multus", "cmd", "multus", "main.go"), mainGo)
	write(t, filepath.Join(module, "whereabouts", "go.mod"), "module github.com/k8snetworkplumbingwg/whereabouts\n")
	write(t, filepath.Join(module, "whereabouts", "cmd", "main.go"), mainGo)
}

func whereaboutsFolder(ctx context.Context, progress io.Writer) (string, error) {
	program, err := assets.Whereabouts(ctx, progress)
	return filepath.Dir(program), err
}

func TestCNIProgramsAreBuiltOnce(t *testing.T) {
	cniCheckout(t)
	if dir, err := assets.CachedCNIPlugins(t.Context()); !errors.Is(err, assets.ErrNotBuilt) {
		t.Fatalf("before a build the plugins are in %q with error %v, want %v", dir, err, assets.ErrNotBuilt)
	}
	for _, tc := range []struct {
		obtain   func(context.Context, io.Writer) (string, error)
		folder   string
		programs []string
	}{
		{assets.CNIPlugins, "plugins-v1.9.1-", []string{"bridge", "host-device", "host-local", "ipvlan", "macvlan", "static"}},
		{assets.Multus, "multus-cni.v4-v4.2.2-", []string{"multus"}},
		{whereaboutsFolder, "whereabouts-v0.9.2-", []string{"cmd"}},
	} {
		dir, err := tc.obtain(t.Context(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(dir); !strings.HasPrefix(name, tc.folder) {
			t.Errorf("folder %s does not begin with %s", name, tc.folder)
		}
		for _, program := range tc.programs {
			said, err := exec.CommandContext(t.Context(), filepath.Join(dir, program)).Output()
			if got, want := string(said), "I am "+program+"\n"; err != nil || got != want {
				t.Errorf("%s says %q, %v, want %q", program, got, err, want)
			}
		}
		first := modified(t, filepath.Join(dir, tc.programs[0]))
		if again, err := tc.obtain(t.Context(), io.Discard); err != nil || again != dir || modified(t, filepath.Join(dir, tc.programs[0])) != first {
			t.Errorf("the second call returned %s, %v, and built again: want %s as it was", again, err, dir)
		}
	}
	if _, err := assets.CachedCNIPlugins(t.Context()); err != nil {
		t.Errorf("after a build: %v", err)
	}
}

func TestCNIProgramsOutsideACheckout(t *testing.T) {
	t.Chdir(t.TempDir())
	if dir, err := assets.CNIPlugins(t.Context(), io.Discard); err == nil || errors.Is(err, assets.ErrNotBuilt) {
		t.Errorf("folder is %s, error %v, want one that says there is no source", dir, err)
	}
}
