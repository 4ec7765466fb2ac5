// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// The modules that dev/kubelet and dev/node require. Their versions are those of the programs.
const (
	kubeletPackage   = "github.com/multieni/multieni/dev/kubelet"
	containerdModule = "github.com/containerd/containerd/v2"
	runcPackage      = "github.com/opencontainers/runc"
)

func kubelet() tools {
	return tools{name: "kubelet", dev: "kubelet", module: kubernetesModule, packages: []string{kubeletPackage},
		sources: []string{"main.go"}}
}

// containerd is built without snapshotters that need libraries. The kubelet requests seccomp, at least for sandboxes.
func containerd() tools {
	t := tools{name: "containerd and runc", dev: "node", module: containerdModule, tags: "seccomp,no_btrfs,no_zfs"}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		t.packages = append(t.packages, containerdModule+"/cmd/"+program)
	}
	t.packages = append(t.packages, runcPackage)
	return t
}

// NodePrograms returns the folders of the programs that run pods on a node: kubelet, and containerd,
// containerd-shim-runc-v2, ctr and runc.
//
// It compiles them from dev/kubelet and dev/node of the checkout around the working directory, once per version, which
// takes at least ten minutes on two cores, and needs gcc, pkg-config and the headers of libseccomp. Further calls take
// milliseconds. Linux only.
func NodePrograms(ctx context.Context, progress io.Writer) (folders []string, err error) {
	if _, _, err := containerd().find(ctx); errors.Is(err, ErrNotBuilt) {
		if err := compilesRunc(ctx); err != nil {
			return nil, err
		}
	}
	for _, t := range []tools{containerd(), kubelet()} {
		dir, err := t.dir(ctx, progress)
		if err != nil {
			return nil, err
		}
		folders = append(folders, dir)
	}
	return folders, nil
}

// compilesRunc returns an error with the tools that the machine lacks for runc, the only program with C code.
func compilesRunc(ctx context.Context) error {
	for _, check := range [][]string{{"gcc", "--version"}, {"pkg-config", "--exists", "libseccomp"}} {
		if output, err := exec.CommandContext(ctx, check[0], check[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("runc compiles with gcc, pkg-config and libseccomp (apt-get install gcc pkg-config "+
				"libseccomp-dev): %s: %w: %s",
				check[0], err, output)
		}
	}
	return nil
}
