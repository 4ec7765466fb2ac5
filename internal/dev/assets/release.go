// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
)

// A Release is a release of Kubernetes whose control plane dev/controlplane builds.
type Release struct {
	Minor   string // "1.32"
	Version string // "v1.32.13"
	modfile string
	parsed  *version.Version
}

// Releases returns the releases of the checkout around the working directory, the oldest first: those of the module
// files kubernetes-MINOR.mod of dev/controlplane, and that of its go.mod.
func Releases(ctx context.Context) ([]Release, error) {
	module, err := findModule("controlplane")
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(module, "kubernetes-*.mod"))
	if err != nil {
		return nil, err
	}
	var releases []Release
	for _, file := range append(files, filepath.Join(module, ownModfile)) {
		r := Release{modfile: filepath.Base(file)}
		versions, err := requirements(ctx, module, r.modfile)
		if err != nil {
			return nil, err
		}
		r.Version = versions[kubernetesModule]
		if r.parsed, err = version.ParseSemantic(r.Version); err != nil {
			return nil, fmt.Errorf("read the version of %s that %s requires: %w", kubernetesModule, file, err)
		}
		r.Minor = fmt.Sprintf("%d.%d", r.parsed.Major(), r.parsed.Minor())
		releases = append(releases, r)
	}
	slices.SortFunc(releases, func(a, b Release) int {
		switch {
		case a.parsed.LessThan(b.parsed):
			return -1
		case b.parsed.LessThan(a.parsed):
			return 1
		}
		return 0
	})
	return releases, nil
}

// Dir returns a folder that holds [APIServer], [Etcd] and [Kubectl] of the release, with the version of etcd that its
// modules require. It compiles them once, which takes about five minutes on two cores and 2 GB of disk meanwhile.
// It downloads none, and ignores [EnvAssets]. It is otherwise like the function [Dir].
func (r Release) Dir(ctx context.Context, progress io.Writer) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	w := ways{index: NoIndex, prebuilt: prebuiltDir(cache)}
	if w.src, w.noSource = findSource(ctx, r.modfile); w.noSource != nil {
		return "", w.noSource
	}
	w.built = filepath.Join(cache, "controlplane", w.src.key())
	if dir, ok := w.cached(); ok {
		return dir, nil
	}
	return w.obtain(ctx, progress)
}
