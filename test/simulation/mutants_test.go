// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"encoding/json"
	"fmt"
	"maps"
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

// TestMutants runs the suite against each mutant until it finds the mutant, and prints the kill table. It is slow, and
// runs only if SIM_MUTANTS is set; SIM_MUTANTS=doc also writes the table into docs/reliability.md. With SIM_FIRST set
// it begins at another seed, and writes nothing: the document lists what the first seeds find.
func TestMutants(t *testing.T) {
	how := os.Getenv("SIM_MUTANTS")
	if how == "" {
		t.Skip("set SIM_MUTANTS to run it, or call make mutants")
	}
	table := []string{"| bug shape | seen in | edits | found at seed | by |", "|---|---|---|---|---|"}
	only, first := os.Getenv("SIM_MUTANT"), number("SIM_FIRST", 1)
	for _, m := range simulation.Mutants() {
		if only != "" && !strings.Contains(m.Name, only) {
			continue
		}
		invariant, seed, err := kill(t, m, first, number("SIM_SEEDS", fullSeeds))
		row := fmt.Sprintf("| %s | %s | %d | %d | %s |", m.Name, m.Like, len(m.Edits), seed, invariant)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			row = fmt.Sprintf("| %s | %s | %d | – | SURVIVES |", m.Name, m.Like, len(m.Edits))
		}
		table = append(table, row)
		fmt.Println(row)
	}
	if how == "doc" && only == "" && first == 1 {
		writeTable(t, strings.Join(table, "\n"))
	}
}

// mutated returns the mutated files by name.
func mutated(m simulation.Mutant) (map[string]string, error) {
	changed := map[string]string{}
	for _, edit := range m.Edits {
		files, err := sources(edit.Package)
		if err != nil {
			return nil, err
		}
		for name := range files {
			if text, edited := changed[name]; edited {
				files[name] = text
			}
		}
		before := maps.Clone(files)
		if err := edit.Apply(files); err != nil {
			return nil, err
		}
		maps.DeleteFunc(files, func(name, text string) bool { return text == before[name] })
		maps.Copy(changed, files)
	}
	return changed, nil
}

// sources returns the files of a package by name, without tests.
func sources(folder string) (map[string]string, error) {
	files := map[string]string{}
	names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	for _, path := range names {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files[folder+"/"+filepath.Base(path)] = string(text)
	}
	return files, err
}

var found = regexp.MustCompile(`(?s)_test\.go:\d+: (\w+): .*?-seed=(\d+)`)

// kill builds the suite with the mutant in place of the source and runs it from the given seed on. It returns the first
// seed that finds the mutant, and the violated invariant. It skips a seed that fails without the mutant as well.
func kill(t *testing.T, m simulation.Mutant, first, seeds int) (invariant string, seed int, err error) {
	binary, err := build(t.TempDir(), m)
	if err != nil {
		return "", 0, err
	}
	test := "^TestSimulation$"
	if m.Below {
		test = "^TestPipeline$"
	}
	last := first + seeds - 1
	for at := first; at <= last; at = seed + 1 {
		run := exec.CommandContext(t.Context(), binary, "-test.run="+test, "-test.v", "-test.timeout=60m")
		run.Env = append(os.Environ(), fmt.Sprintf("SIM_FIRST=%d", at), fmt.Sprintf("SIM_SEEDS=%d", last-at+1), "SIM_FAILURES=1")
		out, failed := run.CombinedOutput()
		invariant, seed = earliest(out)
		if failed == nil {
			break
		}
		if seed == 0 {
			return "", 0, fmt.Errorf("the run broke: %w\n%s", failed, out)
		}
		if sound(t, m, seed) {
			return invariant, seed, nil
		}
		t.Logf("seed %d fails without %q as well and does not count", seed, m.Name)
	}
	return "", 0, fmt.Errorf("survives %d seeds from %d on", seeds, first)
}

// earliest returns the lowest seed among the reported failures. Seeds run in parallel, so it need not be reported
// first.
func earliest(out []byte) (invariant string, seed int) {
	for _, match := range found.FindAllSubmatch(out, -1) {
		if n, err := strconv.Atoi(string(match[2])); err == nil && (seed == 0 || n < seed) {
			invariant, seed = string(match[1]), n
		}
	}
	return invariant, seed
}

// sound reports whether the seed passes on the source as it is.
func sound(t *testing.T, m simulation.Mutant, seed int) bool {
	if m.Below {
		return pipe(t, uint64(seed)) == nil
	}
	return simulation.Run(simulation.Options{Seed: uint64(seed), Steps: number("SIM_STEPS", 500)}).Violation == nil
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
	out, err := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-overlay", file, "-o", binary, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
}

const tableBegins, tableEnds = "<!-- kill table: make mutants -->\n", "<!-- end of kill table -->"

var reliability = filepath.Join(root, "docs", "reliability.md")

// tableIn returns the kill table of the document, and the text before and after it.
func tableIn(t *testing.T) (before, table, after string) {
	t.Helper()
	document, err := os.ReadFile(reliability)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(document), tableBegins)
	table, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("%s has no markers for the kill table", reliability)
	}
	return before, table, after
}

func writeTable(t *testing.T, table string) {
	t.Helper()
	before, _, after := tableIn(t)
	if err := os.WriteFile(reliability, []byte(before+tableBegins+table+"\n"+tableEnds+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
