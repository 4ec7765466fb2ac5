// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// agentProgram is the name of the agent's program. It has no other code in it, because every node pays for its memory.
const agentProgram = "eni-manager"

func newAgent() *cobra.Command {
	return &cobra.Command{
		Use:   "agent",
		Short: "Run the agent of a node, which configures its interfaces",
		Long: `Run the agent of a node: the program eni-manager in the folder of this program. It gets
all arguments.`,
		Example:            "  multieni agent --help",
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return execProgram(agentProgram, args) },
	}
}

// execProgram replaces this process by the program in the same folder. It returns only if that fails.
func execProgram(program string, args []string) error {
	this, err := os.Executable()
	if err == nil {
		this, err = filepath.EvalSymlinks(this)
	}
	if err != nil {
		return fmt.Errorf("find the folder of this program: %w", err)
	}
	path := filepath.Join(filepath.Dir(this), program)
	if err := syscall.Exec(path, append([]string{path}, args...), os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w; it must be in the folder of multieni, where the image and make build have it, "+
			"and it runs on Linux only", path, err)
	}
	return nil
}
