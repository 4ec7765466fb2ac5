// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podcni

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/multieni/multieni/internal/host/podlease"
)

// The names of the program, which are the types of plugins in a CNI configuration.
const (
	IPAMName   = "multieni-ipam"
	RoutesName = "multieni-routes"
)

// PodsVariable of the runtime's environment replaces the folder of a node. Tests run several nodes on one file system.
// A CNI configuration cannot set it: its author could make the program write, as root, to any folder.
const PodsVariable = "MULTIENI_PODS_DIR"

// Main runs the plugin of the name for one call of a runtime. The error has a code of CNI; the runtime reads it from
// standard output.
func Main(name, release string) *types.Error {
	about := name + " " + release
	files := files{pods: cmp.Or(os.Getenv(PodsVariable), podlease.Dir), about: about}
	switch name {
	case IPAMName:
		return skel.PluginMainFuncsWithError(ipam{files: files, now: time.Now}.functions(), version.All, about)
	case RoutesName:
		return skel.PluginMainFuncsWithError(routes{files}.functions(), version.All, about)
	}
	return types.NewError(types.ErrInvalidEnvironmentVariables,
		fmt.Sprintf("%s is neither %s nor %s: call this program by one of these names", name, IPAMName, RoutesName), "")
}

// Install puts a copy of this program into a folder under both names. At any time each name is the former program or
// the new one, and running programs are not affected.
func Install(folder string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	for _, name := range []string{IPAMName, RoutesName} {
		if err := install(filepath.Join(folder, name), program); err != nil {
			return fmt.Errorf("install %s in %s: %w", name, folder, err)
		}
	}
	return nil
}

func install(path string, program []byte) error {
	draft := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	defer func() { _ = os.Remove(draft) }()
	// A runtime runs no program in the folder whose name begins with a dot.
	if err := os.WriteFile(draft, program, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(draft, 0o755); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
