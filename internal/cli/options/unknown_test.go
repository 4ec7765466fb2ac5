// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package options_test

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/cli"
	"github.com/multieni/multieni/internal/cli/enimanager"
)

// A chart of a later release can pass a flag that the program does not have.
func TestAnUnknownFlagNamesTheReleaseAndTheNextStep(t *testing.T) {
	for name, c := range map[string]struct {
		program *cobra.Command
		args    []string
	}{
		"the controller": {cli.New(), []string{"controller", "--to-come=1"}},
		"its removal":    {cli.New(), []string{"drain", "--to-come=1"}},
		"the agent":      {enimanager.New(), []string{"--to-come=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.program.SetArgs(c.args)
			c.program.SetOut(io.Discard)
			c.program.SetErr(io.Discard)
			err := c.program.Execute()
			for _, want := range []string{"unknown flag: --to-come: this is ", "remove image.tag and image.digest", "extraArgs"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}
