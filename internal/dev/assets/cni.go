// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"io"
	"path/filepath"
)

// The modules that dev/cni requires, whose packages are its tools.
const (
	pluginsModule = "github.com/containernetworking/plugins"
	multusModule  = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"

	whereaboutsModule = "github.com/k8snetworkplumbingwg/whereabouts"
)

// cniPlugins are the plugins of the CNI project that a pod network uses, or that a test uses instead.
func cniPlugins() tools {
	t := tools{name: "CNI plugins", dev: "cni", module: pluginsModule}
	for _, p := range []string{"ipam/host-local", "ipam/static", "main/bridge", "main/host-device", "main/ipvlan",
		"main/macvlan"} {
		t.packages = append(t.packages, pluginsModule+"/plugins/"+p)
	}
	return t
}

func multus() tools {
	return tools{name: "Multus", dev: "cni", module: multusModule, packages: []string{multusModule + "/cmd/multus"}}
}

func whereabouts() tools {
	return tools{name: "whereabouts", dev: "cni", module: whereaboutsModule,
		packages: []string{whereaboutsModule + "/cmd"}}
}

// CNIPlugins returns a folder with the CNI project's plugins: bridge, host-device, host-local, ipvlan, macvlan and
// static.
//
// It compiles them from dev/cni of the checkout around the working directory, once per version, which takes about a
// minute on two cores; further calls take milliseconds. Any number of processes may call it at once. Linux only.
func CNIPlugins(ctx context.Context, progress io.Writer) (string, error) {
	return cniPlugins().dir(ctx, progress)
}

// CachedCNIPlugins returns the folder of an earlier call of [CNIPlugins], or [ErrNotBuilt].
func CachedCNIPlugins(ctx context.Context) (string, error) {
	_, dir, err := cniPlugins().find(ctx)
	return dir, err
}

// Multus returns a folder with the program multus, the thin plugin. It takes some minutes the first time, and is
// otherwise like [CNIPlugins].
func Multus(ctx context.Context, progress io.Writer) (string, error) {
	return multus().dir(ctx, progress)
}

// Whereabouts returns the IPAM plugin whereabouts. Its file is named cmd, as its package is: runtimes need a link named
// whereabouts. It is otherwise like [Multus].
func Whereabouts(ctx context.Context, progress io.Writer) (program string, err error) {
	dir, err := whereabouts().dir(ctx, progress)
	return filepath.Join(dir, "cmd"), err
}
