// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/multieni/multieni/test/bench/cli"
	"github.com/multieni/multieni/test/bench/report"
	"github.com/multieni/multieni/test/bench/scenario"
)

// inFences matches the blocks of commands of a document.
var inFences = regexp.MustCompile("(?s)```sh\n(.*?)```")

// The commands in the document exist: their flags parse, and their scenarios exist.
func TestDocumentedCommands(t *testing.T) {
	document, err := os.ReadFile("../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, block := range inFences.FindAllStringSubmatch(string(document), -1) {
		for line := range strings.Lines(block[1]) {
			args, is := arguments(strings.TrimSpace(line))
			if !is {
				continue
			}
			checked++
			command, rest, err := cli.New().Find(args)
			if err != nil {
				t.Fatal(err)
			}
			if err := command.ParseFlags(rest); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			if word, err := command.Flags().GetString("scenarios"); err == nil {
				if _, err := scenario.Choose(word); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
	}
	if checked < 4 {
		t.Errorf("the document has %d commands of the bench", checked)
	}
}

// quoted matches a word of a shell command, with its quotes.
var quoted = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)

// arguments returns the arguments of the bench in a line of the shell: those that make passes on, or those of a direct
// call.
func arguments(line string) (args []string, is bool) {
	if direct, found := strings.CutPrefix(line, "go run ./test/bench "); found {
		return words(direct), true
	}
	rest, found := strings.CutPrefix(line, "make bench")
	if !found {
		return nil, false
	}
	if variable := regexp.MustCompile(`\bBENCH=(\S+)`).FindStringSubmatch(rest); variable != nil {
		args = append(args, "--scenarios", variable[1])
	}
	if variable := regexp.MustCompile(`\bBENCHFLAGS="([^"]*)"`).FindStringSubmatch(rest); variable != nil {
		args = append(args, words(variable[1])...)
	}
	return args, true
}

func words(text string) []string {
	all := quoted.FindAllString(text, -1)
	for n := range all {
		all[n] = strings.Trim(all[n], `'"`)
	}
	return all
}

func TestScenariosThatThereAreNot(t *testing.T) {
	for _, word := range []string{"a1,zz", "a1:zz", "a1:-3"} {
		command := cli.New()
		command.SetArgs([]string{"--scenarios", word, "--dir", t.TempDir()})
		if err := command.Execute(); err == nil || !strings.Contains(err.Error(), word[3:]) {
			t.Errorf("%s: got %v", word, err)
		}
	}
}

// TestDocumentedFigures compares the tables of the document with the bench: every row exists in the bench, and each
// table names the one source of all its rows.
func TestDocumentedFigures(t *testing.T) {
	document, err := os.ReadFile("../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`^\| \*\*(\S+)\*\* .*, [0-9,]+ nodes \| `)
	for _, world := range []string{"timed calls", "instant calls"} {
		_, rest, _ := strings.Cut(string(document), "<!-- bench: "+world+" -->")
		table, _, _ := strings.Cut(rest, "<!-- end of bench: "+world+" -->")
		if n := strings.Count(table, world+", commit "); n != 1 || strings.Contains(table, "-dirty") {
			t.Errorf("%s: the table names %d sources", world, n)
		}
		var figures []scenario.Figure
		for line := range strings.Lines(table) {
			if found := named.FindStringSubmatch(line); found != nil {
				chosen, err := scenario.Choose(found[1])
				if err != nil {
					t.Fatal(err)
				}
				figures = chosen[0].Figures(chosen[0].Nodes)
			}
			cells := strings.Split(line, " | ")
			if len(figures) > 0 && len(cells) > 1 && !slices.ContainsFunc(figures, func(f scenario.Figure) bool { return f.What == cells[1] }) {
				t.Errorf("%s: the bench measures no %q", world, cells[1])
			}
		}
	}
}

// TestRunsAreCombined combines results of one source, and refuses those of another source or another world.
func TestRunsAreCombined(t *testing.T) {
	dir := t.TempDir()
	result := func(name, commit, id string, instant bool) string {
		content, err := json.Marshal(report.Report{Commit: commit, InstantCalls: instant, Results: []report.Result{{ID: id, Nodes: 5}}})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a1, d1 := result("a1", "c0ffee", "a1", false), result("d1", "c0ffee", "d1", false)
	cases := map[string]struct {
		files []string
		ok    bool
	}{
		"one source":     {[]string{a1, d1}, true},
		"another source": {[]string{a1, result("c", "decaf", "c", false)}, false},
		"another world":  {[]string{a1, result("b", "c0ffee", "b", true)}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			command := cli.New()
			command.SetOut(&out)
			command.SetArgs(append([]string{"combine"}, tc.files...))
			if err := command.Execute(); (err == nil) != tc.ok || tc.ok && strings.Count(out.String(), "commit c0ffee") != 1 {
				t.Errorf("error %v, tables:\n%s", err, out.String())
			}
		})
	}
}

// The README's figure is the newest measured one, from the world in which calls take time.
func TestReadmeNamesAMeasuredFigure(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	claim := regexp.MustCompile(`([\d,]+) nodes with two\s+interfaces each are ready (\d+) s after they join; the limits alone take (\d+) s`).FindSubmatch(readme)
	if claim == nil {
		t.Fatal("the README has no figure")
	}
	_, table, _ := strings.Cut(string(document), "<!-- bench: timed calls -->")
	table, _, _ = strings.Cut(table, "<!-- end of bench")
	row := fmt.Sprintf("**a1** all nodes at once, %s nodes | all nodes ready | %s s | %s s |", claim[1], claim[3], claim[2])
	if !strings.Contains(table, row) {
		t.Errorf("the table of timed calls has no row %q", row)
	}
}
