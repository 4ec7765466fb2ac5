// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/cli"
	"github.com/multieni/multieni/test/size"
)

// COMPONENT in a container's environment selects a command, unless the arguments name one.
func TestArguments(t *testing.T) {
	cases := map[string]struct {
		component   string
		given, want []string
		fails       bool
	}{
		"neither":                     {},
		"a command":                   {given: []string{"agent", "--v=4"}, want: []string{"agent", "--v=4"}},
		"the controller":              {component: "eni-controller", want: []string{"controller"}},
		"the agent, with flags":       {component: "eni-manager", given: []string{"--v=4"}, want: []string{"agent", "--v=4"}},
		"a command beats a component": {component: "eni-manager", given: []string{"version"}, want: []string{"version"}},
		"a component nobody knows":    {component: "eni-janitor", fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("COMPONENT", c.component)
			got, err := cli.Arguments(c.given)
			if !slices.Equal(got, c.want) || (err != nil) != c.fails {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// The agent is a program in the same folder, which replaces this process and gets its arguments. If it does not exist,
// the error says so.
func TestAgentIsTheProgramBeside(t *testing.T) {
	size.NeedsAll(t, "it builds the program")
	dir := t.TempDir()
	program, agent := filepath.Join(dir, "multieni"), filepath.Join(dir, "eni-manager")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/multieni/multieni/cmd/multieni").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(environment string, args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), program, args...)
		command.Env = []string{environment}
		out, err := command.CombinedOutput()
		return string(out), err
	}
	if out, err := run("", "agent", "--help"); err == nil || !strings.Contains(out, agent) {
		t.Errorf("without the program: %v\n%s", err, out)
	}
	if err := os.WriteFile(agent, []byte("#!/bin/sh\necho \"got $*\"; exit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for environment, args := range map[string][]string{"A=b": {"agent", "--v=4", "--help"}, "COMPONENT=eni-manager": {"--v=4", "--help"}} {
		out, err := run(environment, args...)
		if exit := (*exec.ExitError)(nil); out != "got --v=4 --help\n" || !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Errorf("%s %v: %v, %q", environment, args, err, out)
		}
	}
}
