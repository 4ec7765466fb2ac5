// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The programs that a folder of assets holds.
const (
	APIServer = "kube-apiserver"
	Etcd      = "etcd"
	Kubectl   = "kubectl"
)

// Environment variables that decide where the programs come from.
const (
	// EnvAssets names a folder that holds the programs already. It is the
	// variable that controller-runtime's envtest and setup-envtest use.
	EnvAssets = "KUBEBUILDER_ASSETS"
	// EnvCache names the folder for what multieni builds for itself. Without
	// it that is "multieni" in the user's cache folder.
	EnvCache = "MULTIENI_CACHE"
)

// Dir returns a folder that holds [APIServer], [Etcd] and [Kubectl].
//
// With [EnvAssets] set that is the folder it names. Without, the programs are
// built from the checkout around the working directory unless a build of the
// same version is in the cache. The first build costs some six minutes of two
// cores and 600 MB of modules, so it reports on progress; further calls take
// milliseconds and print nothing. Any number of processes may call Dir at once:
// one builds, the others wait for it.
func Dir(ctx context.Context, progress io.Writer) (string, error) {
	if dir := os.Getenv(EnvAssets); dir != "" {
		return dir, checkPrograms(dir)
	}
	src, err := findSource(ctx)
	if err != nil {
		return "", fmt.Errorf("find the programs of a Kubernetes control plane: %w", err)
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "controlplane", src.key())
	if checkPrograms(dir) == nil {
		return dir, nil
	}
	if err := buildOnce(ctx, src, dir, progress); err != nil {
		return "", fmt.Errorf("build the Kubernetes control plane in %s: %w", src.dir, err)
	}
	return dir, nil
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
