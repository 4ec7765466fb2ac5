// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The programs in a folder of assets.
const (
	APIServer = "kube-apiserver"
	Etcd      = "etcd"
	Kubectl   = "kubectl"
)

// Environment variables that decide where the programs come from.
const (
	// EnvAssets names a folder that already has the programs. controller-runtime's envtest and setup-envtest use the same
	// variable.
	EnvAssets = "KUBEBUILDER_ASSETS"
	// EnvCache names the folder for the programs that multieni builds for itself. The default is "multieni" in the user's
	// cache folder.
	EnvCache = "MULTIENI_CACHE"
	// EnvIndex is the URL of the index of prebuilt programs, or [NoIndex]. The default is that of setup-envtest.
	EnvIndex = "MULTIENI_ENVTEST_INDEX"
	// NoIndex makes Dir compile the programs.
	NoIndex = "none"
)

// Dir returns a folder that holds [APIServer], [Etcd] and [Kubectl].
//
// If [EnvAssets] is set, it is that folder. Otherwise Dir uses the cache of an earlier call, or downloads the programs
// that [EnvIndex] lists in seconds. If the index cannot be reached within 5 s, Dir compiles the programs from the
// checkout around the working directory, which takes about six minutes on two cores and 600 MB of modules. Dir reports
// the progress of long steps; further calls take milliseconds and print nothing. Any number of processes may call Dir
// at once: one works, the others wait for it.
func Dir(ctx context.Context, progress io.Writer) (string, error) {
	if dir := os.Getenv(EnvAssets); dir != "" {
		return dir, checkPrograms(dir)
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	w := ways{index: os.Getenv(EnvIndex), prebuilt: prebuiltDir(cache)}
	if w.src, w.noSource = findSource(ctx, ownModfile); w.noSource == nil {
		w.built = filepath.Join(cache, "controlplane", w.src.key())
	}
	if dir, ok := w.cached(); ok {
		return dir, nil
	}
	return w.obtain(ctx, progress)
}

// ways are the ways to get the programs.
type ways struct {
	index    string // of prebuilt programs
	prebuilt string // folder

	src      source
	noSource error  // why the programs cannot be compiled
	built    string // folder; empty without source
}

// cached returns the existing folder, if any. Compiled programs have the exact version.
func (w ways) cached() (dir string, ok bool) {
	if w.noSource == nil && checkPrograms(w.built) == nil {
		return w.built, true
	}
	return w.prebuilt, w.index != NoIndex && checkPrograms(w.prebuilt) == nil
}

// obtain downloads or compiles the programs. A lock makes other processes wait.
func (w ways) obtain(ctx context.Context, progress io.Writer) (string, error) {
	meter := newMeter(progress, "Kubernetes control plane")
	defer meter.close()
	folder := filepath.Dir(w.prebuilt)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	meter.enter("waiting for another process that makes it")
	unlock, err := lock(ctx, filepath.Join(folder, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if dir, ok := w.cached(); ok { // another process was faster
		return dir, nil
	}
	unreachable := errors.New(EnvIndex + "=" + NoIndex)
	if w.index != NoIndex {
		meter.enter("downloading " + prebuiltVersion.String())
		if unreachable = fetch(ctx, w.index, w.prebuilt); unreachable == nil {
			fmt.Fprintf(progress, "Kubernetes control plane %s: downloaded, checksum verified.\n", prebuiltVersion)
			return w.prebuilt, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	if w.noSource != nil {
		return "", fmt.Errorf("find the programs of a Kubernetes control plane: %w; nor can they be downloaded: %w",
			w.noSource, unreachable)
	}
	if w.index != NoIndex {
		fmt.Fprintf(progress, "No Kubernetes control plane to download (%v): compiling it, once, for some minutes.\n",
			unreachable)
	}
	err = buildInto(w.built, func(dir string) error { return build(ctx, w.src, dir, meter) })
	if err != nil {
		return "", fmt.Errorf("build the Kubernetes control plane in %s: %w", w.src.dir, err)
	}
	return w.built, nil
}

// checkPrograms returns an error that names the first program dir lacks.
func checkPrograms(dir string) error {
	for _, name := range programs() {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%s is not in the folder of control plane programs: %w; unset %s to have them built",
				name, err, EnvAssets)
		}
	}
	return nil
}

func programs() []string { return []string{APIServer, Etcd, Kubectl} }

// cacheDir is the folder for all that multieni builds for itself.
func cacheDir() (string, error) {
	if dir := os.Getenv(EnvCache); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder: %w; set %s to one", err, EnvCache)
	}
	return filepath.Join(dir, "multieni"), nil
}
