// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/dev/assets"
)

// older creates a checkout whose control plane has an older release besides its own, and returns both releases.
func older(t *testing.T) (old, own assets.Release) {
	t.Helper()
	module := filepath.Dir(checkout(t))
	modfile := strings.NewReplacer("v1.37.1", "v1.9.13", "v3.7.0", "v3.5.16").Replace(goMod)
	write(t, filepath.Join(module, "kubernetes-1.9.mod"), modfile)
	write(t, filepath.Join(module, "kubernetes-1.9.sum"), "")
	releases, err := assets.Releases(t.Context())
	if err != nil || len(releases) != 2 {
		t.Fatalf("releases are %v, %v, want two", releases, err)
	}
	return releases[0], releases[1]
}

func releaseDir(t *testing.T, release assets.Release) string {
	t.Helper()
	dir, err := release.Dir(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReleasesAreOrderedByVersion(t *testing.T) {
	old, own := older(t)
	if got := old.Version + " " + old.Minor + ", " + own.Version + " " + own.Minor; got != "v1.9.13 1.9, v1.37.1 1.37" {
		t.Errorf("releases are %s, want the older one first", got)
	}
}

func TestReleaseDirHoldsTheProgramsOfTheRelease(t *testing.T) {
	old, _ := older(t)
	t.Setenv(assets.EnvAssets, "/nowhere") // has those of another release
	dir := releaseDir(t, old)
	if name := filepath.Base(dir); !strings.HasPrefix(name, "v1.9.13-etcd3.5.16-") {
		t.Errorf("folder %s does not begin with the versions of the release", name)
	}
	if said, err := exec.CommandContext(t.Context(), filepath.Join(dir, assets.APIServer)).Output(); err != nil || string(said) != "I am kube-apiserver\n" {
		t.Errorf("the API server says %q, %v", said, err)
	}
}

// No other build shares the packages of an older release.
func TestReleaseDirKeepsNoCompiledPackages(t *testing.T) {
	old, _ := older(t)
	files, err := os.ReadDir(releaseDir(t, old))
	if err != nil || len(files) != 4 {
		t.Errorf("the folder has %v, %v, want the executable and its three names", files, err)
	}
}

func TestReleaseDirOfTheOwnReleaseIsDir(t *testing.T) {
	_, own := older(t)
	if got, want := releaseDir(t, own), dir(t); got != want {
		t.Errorf("folder is %s, want %s", got, want)
	}
}

func TestReleasesOutsideACheckout(t *testing.T) {
	t.Chdir(t.TempDir())
	if releases, err := assets.Releases(t.Context()); err == nil || !strings.Contains(err.Error(), "not in a checkout") {
		t.Errorf("got %v, %v", releases, err)
	}
}
