// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNotBuilt means that the cache does not have the programs, and that they were not built.
var ErrNotBuilt = errors.New("not built yet")

// tools are programs of the module in one folder of dev, or of modules that it requires. They are built and cached
// together.
type tools struct {
	name     string // for people
	dev      string // the folder
	module   string // whose version is theirs
	packages []string
	sources  []string // the files of the folder that are inputs of the build, with go.mod and go.sum
	tags     string   // of the build, separated by commas
}

// find returns the compilation of the tools and their folder, and [ErrNotBuilt] if the folder lacks one of them.
func (t tools) find(ctx context.Context) (c compilation, dir string, err error) {
	c = compilation{packages: t.packages, tags: t.tags}
	if c.module, err = findModule(t.dev); err != nil {
		return c, "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return c, "", err
	}
	versions, err := requirements(ctx, c.module, ownModfile)
	if err != nil {
		return c, "", err
	}
	digest, err := digest(ctx, c.module, append([]string{"go.mod", "go.sum"}, t.sources...)...)
	if err != nil {
		return c, "", err
	}
	version := versions[t.module]
	c.ldflags = versionFlags(version)
	dir = filepath.Join(cache, t.dev,
		fmt.Sprintf("%s-%s-%s", path.Base(strings.TrimSuffix(t.module, "/v2")), version, digest[:12]))
	if !t.in(dir) {
		return c, dir, fmt.Errorf("%s %s: %w", t.name, version, ErrNotBuilt)
	}
	return c, dir, nil
}

// in says whether all tools are in dir.
func (t tools) in(dir string) bool {
	return !slices.ContainsFunc(t.packages, func(p string) bool {
		_, err := os.Stat(filepath.Join(dir, path.Base(p)))
		return err != nil
	})
}

// dir returns the folder of the tools, and compiles them if necessary. A lock makes other processes wait.
func (t tools) dir(ctx context.Context, progress io.Writer) (string, error) {
	c, dir, err := t.find(ctx)
	if !errors.Is(err, ErrNotBuilt) {
		return dir, err
	}
	meter := newMeter(progress, t.name)
	defer meter.close()
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	meter.enter("waiting for another process that makes it")
	unlock, err := lock(ctx, filepath.Join(filepath.Dir(dir), "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if t.in(dir) { // another process was faster
		return dir, nil
	}
	err = buildInto(dir, func(dir string) error {
		c.output = dir + string(filepath.Separator)
		return c.compile(ctx, meter)
	})
	if err != nil {
		return "", fmt.Errorf("build %s in %s: %w", t.name, c.module, err)
	}
	return dir, nil
}
