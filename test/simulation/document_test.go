// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/multieni/multieni/test/simulation"
)

var (
	command  = regexp.MustCompile(`(?m)^    (.*go test .*)$`)
	mentions = regexp.MustCompile("`make ([a-z-]+)`")
	listed   = regexp.MustCompile(`(?m)^\| (I\d+) `)
)

// TestDocument runs the commands of docs/reliability.md, and compares its list of invariants with those that the step
// driver judges.
func TestDocument(t *testing.T) {
	document, err := os.ReadFile(reliability)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("invariants", func(t *testing.T) {
		var numbers []string
		for _, match := range listed.FindAllStringSubmatch(string(document), -1) {
			numbers = append(numbers, match[1])
		}
		if !slices.Equal(numbers, simulation.Invariants()) {
			t.Errorf("the document lists %v, judged are %v", numbers, simulation.Invariants())
		}
	})
	for _, match := range command.FindAllStringSubmatch(string(document), -1) {
		t.Run(match[1], func(t *testing.T) {
			// A few runs are enough to show that the command works.
			run(t, strings.Replace(match[1], "SIM_SEEDS=100", "SIM_SEEDS=2", 1))
		})
	}
	for _, match := range mentions.FindAllStringSubmatch(string(document), -1) {
		t.Run("make "+match[1], func(t *testing.T) { run(t, "make --dry-run "+match[1]) })
	}
}

// run runs a command as a user does: from the root of the repository.
func run(t *testing.T, line string) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "bash", "-c", line)
	shell.Dir = filepath.FromSlash(root)
	out, err := shell.CombinedOutput()
	if err != nil || strings.Contains(string(out), "no tests to run") {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
}
