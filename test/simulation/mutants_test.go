// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/multieni/multieni/test/simulation"
)

const root = "../.."

// TestMutantsApply fails when a mutant no longer fits the source.
func TestMutantsApply(t *testing.T) {
	for _, m := range simulation.Mutants() {
		if _, err := mutated(m); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

// TestMutants runs the suite against each mutant until it finds it, and prints the kill table. It is slow, and runs only
// when SIM_MUTANTS is set; SIM_MUTANTS=doc writes the table into docs/reliability.md as well.
func TestMutants(t *testing.T) {
	how := os.Getenv("SIM_MUTANTS")
	if how == "" {
		t.Skip("set SIM_MUTANTS to run it")
	}
	rows := []string{"| bug shape | found by | seeds to find it |", "|---|---|---|"}
	only := os.Getenv("SIM_MUTANT")
	for _, m := range simulation.Mutants() {
		if only != "" && !strings.Contains(m.Name, only) {
			continue
		}
		invariant, seeds := "—", m.Pending
		if m.Pending == "" {
			var err error
			if invariant, seeds, err = kill(t, m); err != nil {
				t.Errorf("%s: %v", m.Name, err)
				invariant, seeds = "SURVIVES", err.Error()
			}
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |", m.Name, invariant, seeds))
		t.Log(rows[len(rows)-1])
	}
	table := strings.Join(rows, "\n")
	fmt.Println(table)
	if how == "doc" {
		writeTable(t, table)
	}
}

// mutated returns the mutated files by name.
func mutated(m simulation.Mutant) (map[string]string, error) {
	files := map[string]string{}
	for _, edit := range m.Edits {
		text, done := files[edit.File]
		if !done {
			source, err := os.ReadFile(filepath.Join(root, edit.File))
			if err != nil {
				return nil, err
			}
			text = string(source)
		}
		if n := strings.Count(text, edit.Old); n != 1 {
			return nil, fmt.Errorf("%s has %d times the text\n%s", edit.File, n, edit.Old)
		}
		files[edit.File] = strings.Replace(text, edit.Old, edit.New, 1)
	}
	return files, nil
}

var (
	violation = regexp.MustCompile(`simulation_run_test\.go:\d+: (\w+):`)
	culprit   = regexp.MustCompile(`-seed=(\d+)`)
)

// kill builds the suite with the mutant in place of the source and runs it until it fails. A seed that fails without the
// mutant as well proves nothing, and is passed over.
func kill(t *testing.T, m simulation.Mutant) (invariant, seeds string, err error) {
	binary, err := build(t.TempDir(), m)
	if err != nil {
		return "", "", err
	}
	first, steps := number("SIM_FIRST", 1), number("SIM_STEPS", 500)
	last := first + number("SIM_SEEDS", defaultSeeds) - 1
	for at := first; at <= last; {
		run := exec.CommandContext(t.Context(), binary, "-test.run=^TestSimulation$", "-test.v", "-test.timeout=60m")
		run.Env = append(os.Environ(), fmt.Sprintf("SIM_FIRST=%d", at), fmt.Sprintf("SIM_SEEDS=%d", last-at+1), "SIM_FAILURES=1")
		out, failed := run.CombinedOutput()
		found, seed := violation.FindSubmatch(out), culprit.FindSubmatch(out)
		if failed == nil || found == nil || seed == nil {
			break
		}
		n, err := strconv.Atoi(string(seed[1]))
		if err != nil {
			return "", "", err
		}
		if simulation.Run(simulation.Options{Seed: uint64(n), Steps: steps}).Violation == nil {
			return string(found[1]), fmt.Sprint(n - first + 1), nil
		}
		t.Logf("seed %d fails without %q as well and does not count", n, m.Name)
		at = n + 1
	}
	return "", "", fmt.Errorf("survives %d seeds", last-first+1)
}

func build(dir string, m simulation.Mutant) (binary string, err error) {
	files, err := mutated(m)
	if err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range files {
		source, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		changed := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		overlay.Replace[source] = changed
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	config, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "simulation.test")
	out, err := exec.Command("go", "test", "-c", "-overlay", file, "-o", binary, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
}

// writeTable puts the table between the markers of the document.
func writeTable(t *testing.T, table string) {
	t.Helper()
	const begin, end = "<!-- kill table: make mutants -->\n", "<!-- end of kill table -->"
	name := filepath.Join(root, "docs", "reliability.md")
	document, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(document), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no markers for the kill table", name)
	}
	if err := os.WriteFile(name, []byte(before+begin+table+"\n"+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
