// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/invoke"

	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/internal/dev/child"
	"github.com/multieni/multieni/internal/host/podcni"
)

// Programs are folders of CNI programs.
type Programs struct{ folders []string }

// BuildPrograms builds the CNI programs of multieni, and those of the CNI project that its pod networks call, from the
// checkout that the working directory is in. The latter take about a minute on two cores, once per version.
func BuildPrograms(ctx context.Context, progress io.Writer) (*Programs, error) {
	root, err := child.Root()
	if err != nil {
		return nil, err
	}
	plugins, err := assets.CNIPlugins(ctx, progress)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "bin", "cni")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	program := filepath.Join(root, "bin", "multieni-cni")
	for _, command := range [][]string{
		{"go", "build", "-o", program, "./cmd/multieni-cni"},
		{program, "install", dir},
	} {
		c := exec.CommandContext(ctx, command[0], command[1:]...)
		c.Dir, c.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if output, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build multieni-cni: %w\n%s", err, output)
		}
	}
	return &Programs{[]string{dir, plugins}}, nil
}

// execution starts programs with additional environment variables.
type execution struct {
	invoke.Exec
	variables []string
}

// Execution starts CNI programs with the folder of pod networks of one node, since simulated nodes share one file
// system. Their standard error goes to the output.
func Execution(pods string, output io.Writer) invoke.Exec {
	return execution{
		&invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: output}}, []string{podcni.PodsVariable + "=" + pods},
	}
}

// ExecPlugin implements [invoke.Exec].
func (e execution) ExecPlugin(ctx context.Context, path string, stdin []byte, environment []string) ([]byte, error) {
	return e.Exec.ExecPlugin(ctx, path, stdin, append(environment, e.variables...))
}
