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
)

// The modules that dev/cni requires, whose packages are its tools.
const (
	pluginsModule = "github.com/containernetworking/plugins"
	multusModule  = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"

	whereaboutsModule = "github.com/k8snetworkplumbingwg/whereabouts"
)

// tools are programs of dev/cni, which are built and cached together.
type tools struct {
	name     string // for people
	module   string // has all of them
	packages []string
}

// cniPlugins are those of the CNI project that a pod network uses, or that a test puts in their place.
func cniPlugins() tools {
	t := tools{name: "CNI plugins", module: pluginsModule}
	for _, p := range []string{"ipam/host-local", "ipam/static", "main/bridge", "main/host-device", "main/ipvlan", "main/macvlan"} {
		t.packages = append(t.packages, pluginsModule+"/plugins/"+p)
	}
	return t
}

func multus() tools {
	return tools{name: "Multus", module: multusModule, packages: []string{multusModule + "/cmd/multus"}}
}

func whereabouts() tools {
	return tools{name: "whereabouts", module: whereaboutsModule, packages: []string{whereaboutsModule + "/cmd"}}
}

// ErrNotBuilt means that the cache does not have the programs, and that nothing was built.
var ErrNotBuilt = errors.New("not built yet")

// CNIPlugins returns a folder with the CNI project's plugins: bridge, host-device, host-local, ipvlan, macvlan and static.
//
// It compiles them from dev/cni of the checkout around the working directory, once per version, which takes about a minute
// on two cores; further calls take milliseconds. Any number of processes may call it at once. Linux only.
func CNIPlugins(ctx context.Context, progress io.Writer) (string, error) {
	return cniPlugins().dir(ctx, progress)
}

// CachedCNIPlugins returns the folder of an earlier call of [CNIPlugins], or [ErrNotBuilt].
func CachedCNIPlugins(ctx context.Context) (string, error) {
	_, dir, err := cniPlugins().find(ctx)
	return dir, err
}

// Multus returns a folder with the program multus, the thin plugin. It takes some minutes the first time, and is like
// [CNIPlugins] in all else.
func Multus(ctx context.Context, progress io.Writer) (string, error) {
	return multus().dir(ctx, progress)
}

// Whereabouts returns the IPAM plugin whereabouts. Its file is named cmd, as its package is: runtimes need a link named
// whereabouts. It is like [Multus] in all else.
func Whereabouts(ctx context.Context, progress io.Writer) (program string, err error) {
	dir, err := whereabouts().dir(ctx, progress)
	return filepath.Join(dir, "cmd"), err
}

// find returns the module of the tools and their folder, with [ErrNotBuilt] if the folder lacks one of them.
func (t tools) find(ctx context.Context) (module, dir string, err error) {
	if module, err = findModule("cni"); err != nil {
		return "", "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", "", err
	}
	versions, err := requirements(ctx, module)
	if err != nil {
		return "", "", err
	}
	digest, err := digest(ctx, module, "go.mod", "go.sum")
	if err != nil {
		return "", "", err
	}
	dir = filepath.Join(cache, "cni", fmt.Sprintf("%s-%s-%s", path.Base(t.module), versions[t.module], digest[:12]))
	if !t.in(dir) {
		return module, dir, fmt.Errorf("%s %s: %w", t.name, versions[t.module], ErrNotBuilt)
	}
	return module, dir, nil
}

// in says whether all tools are in dir.
func (t tools) in(dir string) bool {
	return !slices.ContainsFunc(t.packages, func(p string) bool {
		_, err := os.Stat(filepath.Join(dir, path.Base(p)))
		return err != nil
	})
}

// dir finds the tools, or compiles them. A lock makes other processes wait.
func (t tools) dir(ctx context.Context, progress io.Writer) (string, error) {
	module, dir, err := t.find(ctx)
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
		c := compilation{module: module, packages: t.packages, ldflags: "-s -w", output: dir + string(filepath.Separator)}
		return c.compile(ctx, meter)
	})
	if err != nil {
		return "", fmt.Errorf("build %s in %s: %w", t.name, module, err)
	}
	return dir, nil
}
