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

const (
	nodeGoMod = `module example.com/node

go 1.26

require (
	github.com/containerd/containerd/v2 v2.4.2
	github.com/opencontainers/runc v1.5.2
)

replace (
	github.com/containerd/containerd/v2 => ./containerd
	github.com/opencontainers/runc => ./runc
)
`
	kubeletGoMod = `module github.com/multieni/multieni/dev/kubelet

go 1.26

require k8s.io/kubernetes v1.37.1

replace k8s.io/kubernetes => ./kubernetes
`
)

// nodeCheckout creates a checkout whose programs of nodes only print their names. Programs that only exit replace the
// compilers of runc.
func nodeCheckout(t *testing.T, pkgConfigExit string) {
	t.Helper()
	dev := filepath.Dir(filepath.Dir(checkout(t)))
	write(t, filepath.Join(dev, "node", "go.mod"), nodeGoMod)
	write(t, filepath.Join(dev, "node", "go.sum"), "")
	write(t, filepath.Join(dev, "node", "containerd", "go.mod"), "module github.com/containerd/containerd/v2\n")
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		write(t, filepath.Join(dev, "node", "containerd", "cmd", program, "main.go"), mainGo)
	}
	write(t, filepath.Join(dev, "node", "runc", "go.mod"), "module github.com/opencontainers/runc\n")
	write(t, filepath.Join(dev, "node", "runc", "main.go"), mainGo)
	write(t, filepath.Join(dev, "kubelet", "go.mod"), kubeletGoMod)
	write(t, filepath.Join(dev, "kubelet", "go.sum"), "")
	write(t, filepath.Join(dev, "kubelet", "main.go"), mainGo)
	write(t, filepath.Join(dev, "kubelet", "kubernetes", "go.mod"), "module k8s.io/kubernetes\n")
	programs := t.TempDir()
	for name, exit := range map[string]string{"gcc": "0", "pkg-config": pkgConfigExit} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\nexit "+exit+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", programs+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

func TestNodePrograms(t *testing.T) {
	nodeCheckout(t, "0")
	folders, err := assets.NodePrograms(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		folder   string
		programs []string
	}{
		{"containerd-v2.4.2-", []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"}},
		{"kubernetes-v1.37.1-", []string{"kubelet"}},
	} {
		if name := filepath.Base(folders[i]); !strings.HasPrefix(name, want.folder) {
			t.Errorf("folder %s does not begin with %s", name, want.folder)
		}
		for _, program := range want.programs {
			said, err := exec.CommandContext(t.Context(), filepath.Join(folders[i], program)).Output()
			if got, want := string(said), "I am "+program+"\n"; err != nil || got != want {
				t.Errorf("%s says %q, %v, want %q", program, got, err, want)
			}
		}
	}
	first := modified(t, filepath.Join(folders[1], "kubelet"))
	again, err := assets.NodePrograms(t.Context(), io.Discard)
	if err != nil || !modified(t, filepath.Join(again[1], "kubelet")).Equal(first) {
		t.Errorf("the second call returned %v, %v, and built again", again, err)
	}
}

func TestNodeProgramsWithoutTheHeadersOfRunc(t *testing.T) {
	nodeCheckout(t, "1")
	if _, err := assets.NodePrograms(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "libseccomp-dev") {
		t.Errorf("error is %v, want one that names the package libseccomp-dev", err)
	}
}
